//! What nodes together prove about an attempt.
//!
//! **Rule:** landed is what a quorum shows in the same block, each of them calling it final; in a
//! block at all is what a quorum shows in any. What fewer show is sent again until then: one node
//! that has swallowed it and tells of a block must not make everybody wait for its finality.
//! **Rule:** an attempt is dead only if something else has its nonce in a final block, by a quorum:
//! a chain takes each nonce of a signer once. What that was is known by its content: if it does
//! what the attempt was to do, the attempt landed, under a hash that was forgotten.

use std::collections::{HashMap, HashSet};

use alloy_primitives::{Address, B256};
use landfall_core::attempt::{
    Certificate, CertificateKind, Landing, Outcome, Shortage, Sighting, VariantKind,
};
use landfall_core::rail::RailError;
use landfall_core::rail::{Foreign, Look};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, Purpose};
use landfall_rpc::{AtBlock, Moment, Said, unavailable};
use parking_lot::Mutex;
use serde_json::json;

use crate::answer::Included;
use crate::broadcast::Refused;
use crate::encode::{self, Content};
use crate::node::{At, Nodes};
use crate::recent::{Ours, Recent, Testimony};
use crate::settings::{EvmSettings, Finality};

/// How far back the block is sought in which a nonce was used: a week of Ethereum's blocks.
const SOUGHT_BLOCKS: u64 = 50_400;

/// Transactions of which it is remembered who has refused them: a liar must not fill the memory.
const REFUSED_MAX: usize = 1_024;

/// Looks at attempts.
pub struct Looker {
    finality: Finality,
    pub recent: Recent,
    signers: HashSet<Address>,
    /// Who said of which transaction, by its hash, that it can never land, while others took it.
    refused: Mutex<HashMap<String, Vec<Refused>>>,
}

/// An attempt, read from its bytes.
pub struct Read {
    pub content: Content,
    pub hashes: Vec<B256>,
}

impl Read {
    /// Of bytes that `signer` has signed: what is stored is not doubted at every look.
    pub fn of(attempt: &Attempt, signer: Address) -> Result<Read, RailError> {
        let content = encode::content_by(&attempt.bytes, signer);
        let content = content.map_err(|error| RailError::Misconfigured(error.to_string()))?;
        let hashes = attempt.hashes().filter_map(|hash| hash.parse().ok()).collect();
        Ok(Read { content, hashes })
    }
}

/// What took a nonce, as one node has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Taker {
    transaction: Included,
    testimony: Testimony,
}

impl Looker {
    pub fn new(settings: &EvmSettings, nodes: usize) -> Looker {
        Looker {
            finality: settings.finality,
            recent: Recent::new(nodes, settings.finality, settings.manner.pulse_ms / 2),
            signers: settings.keys.iter().map(|key| key.address()).collect(),
            refused: Mutex::default(),
        }
    }

    /// Keeps in mind who calls impossible what another node took.
    pub(crate) fn note_refusals(&self, hash: &str, mut refusals: Vec<Refused>) {
        refusals.retain(Refused::is_certain);
        let mut refused = self.refused.lock();
        if !refusals.is_empty() && refused.len() < REFUSED_MAX {
            refused.insert(hash.to_owned(), refusals);
        }
    }

    /// Hears of new blocks, looking for these hashes.
    pub async fn refresh(&self, nodes: &Nodes, hashes: &HashSet<B256>) {
        self.recent.refresh(nodes, &Ours::new(&self.signers, hashes)).await;
    }

    pub async fn look(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        read: &Read,
        passed: bool,
    ) -> Result<Look, RailError> {
        self.refresh(nodes, &read.hashes.iter().copied().collect()).await;
        let mut said = self.recent.said(&read.hashes);
        let quorum = nodes.endpoints.quorum();
        // Only of what left after the nodes began to be followed is it known that nobody has it.
        let is_covered = self.recent.covers(attempt.opened_ms, quorum);
        if said.is_empty() && (passed || !is_covered) {
            said = match self.ask(nodes, &read.hashes).await {
                Err(error) if wound::is(Wound::ReceiptErrorIsReplaced) => {
                    return Ok(replaced(&error));
                }
                said => said?,
            };
        }
        Ok(self.weigh(nodes, attempt, read, &said).await)
    }

    /// What each node says of these hashes, asked for each. That nobody has it is said by a quorum;
    /// silence is no absence.
    async fn ask(&self, nodes: &Nodes, hashes: &[B256]) -> Result<Vec<Said<Testimony>>, RailError> {
        let ask = async |endpoint| {
            for hash in hashes {
                if let Some(receipt) = nodes.receipt_on(endpoint, *hash).await? {
                    let last = self.final_on(nodes, endpoint).await?;
                    let is_final = receipt.block_number.to::<u64>() <= last;
                    return Ok(Some(Testimony::of(&receipt, is_final)));
                }
            }
            Ok(None)
        };
        let said = nodes.ask_quorum(ask).await;
        let (heard, quorum) = (said.len(), nodes.endpoints.quorum());
        if heard < quorum {
            return Err(unavailable(format!("{heard} of {quorum} nodes answer")));
        }
        let shown =
            |one: Said<Option<Testimony>>| Some(Said { endpoint: one.endpoint, fact: one.fact? });
        Ok(said.into_iter().filter_map(shown).collect())
    }

    /// The newest block that the node calls final.
    pub(crate) async fn final_on(&self, nodes: &Nodes, endpoint: usize) -> Result<u64, RailError> {
        let at = match self.finality {
            Finality::Finalized => At::Finalized,
            Finality::Safe => At::Safe,
            Finality::Blocks(_) => At::Latest,
        };
        let number: u64 = nodes.header_on(endpoint, at).await?.number.to();
        match self.finality {
            Finality::Finalized | Finality::Safe => Ok(number),
            Finality::Blocks(depth) => {
                let last = number.saturating_add(1).checked_sub(depth);
                last.ok_or_else(|| unavailable("no block is final yet"))
            }
        }
    }

    /// What they prove together.
    async fn weigh(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        read: &Read,
        said: &[Said<Testimony>],
    ) -> Look {
        let quorum = match wound::is(Wound::OneNodesSuccess) {
            true => 1,
            false => nodes.endpoints.quorum(),
        };
        if let Some(landed) = settled(said, quorum) {
            self.catch_who_differs(nodes, said, landed);
            return self.landed(nodes, attempt, read, landed).await;
        }
        let now_ms = nodes.clock.now_ms();
        let sighting = |one: &Said<Testimony>| Sighting {
            endpoint: nodes.endpoints.origin(one.endpoint).to_owned(),
            block_hash: one.fact.block_hash.to_string(),
            block_height: Some(one.fact.number),
            was_final: one.fact.is_final,
            at_ms: now_ms,
        };
        match said.first() {
            Some(one) if said.len() >= quorum => {
                let why = format!("in block {}, which is not final yet", one.fact.number);
                Look::Adrift { why, sightings: said.iter().map(sighting).collect() }
            }
            Some(one) => {
                let why = format!("in block {}, as too few nodes say", one.fact.number);
                Look::Adrift { why, sightings: Vec::new() }
            }
            None => Look::Adrift { why: "in no block yet".to_owned(), sightings: Vec::new() },
        }
    }

    fn catch_who_differs(&self, nodes: &Nodes, said: &[Said<Testimony>], landed: &Testimony) {
        let differs = |one: &&Said<Testimony>| one.fact.is_final && !same(&one.fact, landed);
        let tell = |told: &Testimony| {
            let what = if told.done { "done" } else { "reverted" };
            format!("{}: {what} in final block {}", told.hash, told.block_hash)
        };
        for other in said.iter().filter(differs) {
            nodes.endpoints.catch(other.endpoint, tell(&other.fact), tell(landed));
        }
        let hash = landed.hash.to_string();
        for endpoint in self.recent.deniers(landed) {
            let denies = format!("{hash}: not in final block {}", landed.block_hash);
            nodes.endpoints.catch(endpoint, denies, tell(landed));
        }
        for Refused { endpoint, reason, .. } in
            self.refused.lock().remove(&hash).unwrap_or_default()
        {
            nodes.endpoints.catch(endpoint, format!("{hash}: {reason}"), tell(landed));
        }
    }

    /// The fate of an attempt of which one of the hashes landed.
    async fn landed(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        read: &Read,
        landed: &Testimony,
    ) -> Look {
        let hash = landed.hash.to_string();
        let cancels = attempt
            .variants
            .iter()
            .any(|variant| variant.kind == VariantKind::Cancels && variant.signed.hash == hash);
        if cancels {
            return Look::Sunk(Certificate {
                kind: CertificateKind::Cancelled,
                summary: format!(
                    "cancelled: {hash}, which does nothing, took its nonce in final block {}",
                    landed.number
                ),
                evidence: json!({
                    "nonce": read.content.nonce, "taken_by": hash, "block": landed.number,
                    "block_hash": landed.block_hash.to_string(),
                }),
            });
        }
        let outcomes = match (attempt.purpose, landed.done) {
            (Purpose::Fence, _) => Vec::new(),
            (_, true) => vec![Outcome::Done],
            (_, false) => {
                let message = self.why(nodes, read, landed).await;
                // Somebody else may have executed a user's request first: the next preflight tells.
                vec![match crate::forward::is_execution(&read.content.input) {
                    true => Outcome::RelayFault { shortage: Shortage::Contract, message },
                    false => Outcome::OwnFault { message },
                }]
            }
        };
        Look::Landed(Landing {
            hash: Some(hash).filter(|hash| *hash != attempt.hash),
            block_height: landed.number,
            block_hash: landed.block_hash.to_string(),
            outcomes,
        })
    }

    /// Why it was reverted, as any node tells: words for people, which decide nothing.
    async fn why(&self, nodes: &Nodes, read: &Read, landed: &Testimony) -> String {
        let Content { from, to, value, input, .. } = &read.content;
        let (Some(to), Some(before)) = (*to, landed.number.checked_sub(1)) else {
            return "reverted".to_owned();
        };
        for endpoint in nodes.introduced() {
            let at = At::Number(before);
            if let Ok(Err(why)) = nodes.call_on(endpoint, (*from, to, *value), input, at).await {
                return why;
            }
        }
        "reverted; no node says why".to_owned()
    }

    /// How many transactions of the account are in final blocks, as a quorum has it.
    pub async fn count(&self, nodes: &Nodes, account: Address) -> Result<AtBlock<u64>, RailError> {
        let ask = async |endpoint, at: Moment| {
            let height = match at {
                Moment::Final => self.final_on(nodes, endpoint).await?,
                Moment::Height(height) => height,
            };
            let value = nodes.count_on(endpoint, account, At::Number(height)).await?;
            Ok(AtBlock { height, value })
        };
        nodes.agreed(&format!("the transactions of {account}"), ask).await
    }

    pub async fn inquest(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        read: &Read,
    ) -> Result<Look, RailError> {
        let Content { from, nonce, .. } = read.content;
        let used = self.count(nodes, from).await?;
        if used.value <= nonce {
            let why =
                format!("nonce {nonce} of {from} is not used up to final block {}", used.height);
            return Ok(Look::Adrift { why, sightings: Vec::new() });
        }
        let said = self.ask(nodes, &read.hashes).await?;
        if settled(&said, nodes.endpoints.quorum()).is_some() {
            return Ok(self.weigh(nodes, attempt, read, &said).await);
        }
        // Whoever shows it in a block all the same is refuted by what a quorum shows in its place.
        let what = format!("what used nonce {nonce} of {from}");
        let ask = async |endpoint| self.taker(nodes, endpoint, (from, nonce), used.height).await;
        match nodes.constant(&what, ask).await {
            Ok(taker) => Ok(self.judge(nodes, attempt, read, &taker).await),
            Err(_) if !said.is_empty() => Ok(self.weigh(nodes, attempt, read, &said).await),
            Err(error) => Err(error),
        }
    }

    /// What the transaction that has the attempt's nonce, in a final block, means for it.
    async fn judge(&self, nodes: &Nodes, attempt: &Attempt, read: &Read, taker: &Taker) -> Look {
        let Included { hash, to, value, input, .. } = &taker.transaction;
        let ours = &read.content;
        let does_the_same = *to == ours.to && *value == ours.value && *input == ours.input;
        if read.hashes.contains(hash) || does_the_same {
            return self.landed(nodes, attempt, read, &taker.testimony).await;
        }
        let reason = format!(
            "nonce {} of {} was used by {hash} in block {}, which does something else",
            ours.nonce, ours.from, taker.testimony.number
        );
        Look::Foreign(Foreign {
            certificate: Some(Certificate {
                kind: CertificateKind::Displaced,
                summary: reason.clone(),
                evidence: json!({
                    "nonce": ours.nonce, "taken_by": hash.to_string(),
                    "block": taker.testimony.number,
                    "block_hash": taker.testimony.block_hash.to_string(),
                    "to": to.map(|to| to.to_string()), "value": value.to_string(),
                    "input": input.to_string(),
                }),
            }),
            reason,
        })
    }

    /// What has the nonce in the node's chain, up to a block that a quorum calls final.
    async fn taker(
        &self,
        nodes: &Nodes,
        endpoint: usize,
        (account, nonce): (Address, u64),
        last: u64,
    ) -> Result<Taker, RailError> {
        let used_by = async |number: u64| {
            let count = nodes.count_on(endpoint, account, At::Number(number)).await;
            Ok::<bool, RailError>(count? > nonce)
        };
        let (mut after, mut before) = (last, last);
        let mut step = 1;
        loop {
            before = before.saturating_sub(step);
            if !used_by(before).await? {
                break;
            }
            if before == 0 || last - before > SOUGHT_BLOCKS {
                return Err(unavailable(format!("nonce {nonce} of {account} was used long ago")));
            }
            (after, step) = (before, step * 2);
        }
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            match used_by(middle).await? {
                true => after = middle,
                false => before = middle,
            }
        }
        let block = nodes.full_block_on(endpoint, after).await?;
        let is_it = |one: &Included| one.from == account && one.nonce.to::<u64>() == nonce;
        let transaction = block.transactions.into_iter().find(is_it);
        let Some(transaction) = transaction else {
            return Err(unavailable(format!("block {after} does not hold nonce {nonce}")));
        };
        let receipt = nodes.receipt_on(endpoint, transaction.hash).await?;
        let receipt = receipt.ok_or_else(|| unavailable("a transaction without a receipt"))?;
        Ok(Taker { transaction, testimony: Testimony::of(&receipt, true) })
    }
}

/// The mistake of a wounded build.
fn replaced(error: &RailError) -> Look {
    let (kind, summary) = (CertificateKind::Displaced, format!("replaced: {error}"));
    Look::Sunk(Certificate { kind, summary, evidence: json!({}) })
}

/// What a quorum says of the same final block.
pub(crate) fn settled(said: &[Said<Testimony>], quorum: usize) -> Option<&Testimony> {
    let is_final = |told: &&Testimony| told.is_final || wound::is(Wound::MinedIsSuccess);
    let finals = || said.iter().map(|one| &one.fact).filter(is_final);
    let agreeing = |fact: &Testimony| finals().filter(|other| same(other, fact)).count();
    finals().find(|fact| agreeing(fact) >= quorum)
}

/// The same of the same block. Gas may be told by one node and not by another.
fn same(one: &Testimony, other: &Testimony) -> bool {
    (one.hash, one.block_hash, one.number, one.done)
        == (other.hash, other.block_hash, other.number, other.done)
}
