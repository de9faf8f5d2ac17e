//! What nodes show of an attempt: landed, dead, or neither.
//!
//! **Invariant:** landed is what a quorum says of the same final slot; sunk is a quorum's testimony
//! ([`crate::testimony`]), and every sighting refuted: by a quorum that shows the final block of
//! its slot without it, or that the slot is beyond every block that could still hold it.
//! Blocks are named by their slots: of each slot one block at most is final.

use futures::future::join_all;
use landfall_core::attempt::{Landing, Outcome, Shortage, Sighting};
use landfall_core::guard::{self, Guard};
use landfall_core::rail::{Look, RailError};
use landfall_core::{Attempt, Certificate, CertificateKind, Purpose};
use landfall_rpc::{Said, reached, unavailable};
use serde_json::Value;
use solana_address::Address;

use crate::answer::{Status, Surety};
use crate::encode;
use crate::node::Nodes;
use crate::recent::Recent;
use crate::shield::{self, Accounts, Word};
use crate::spender;
use crate::testimony::{self, Signed, Testimony, Verdict};
use crate::trouble::{self, Trouble};

/// How long what was heard of a transaction answers a look, in milliseconds: a few pulses.
const HEARD_MS: u64 = 1_500;

/// Looks for one pool's attempts.
pub struct Looker {
    pub recent: Recent,
    program: Address,
}

/// What one node testifies, or why it does not, with whether it refutes each sighting.
struct Witness {
    said: Testimony,
    refutes: Vec<bool>,
}

impl Looker {
    pub fn new(program: Address) -> Looker {
        Looker { recent: Recent::default(), program }
    }

    /// What is known of it without searching history, unless nobody was asked about it lately.
    pub async fn look(&self, nodes: &Nodes, attempt: &Attempt) -> Result<Look, RailError> {
        let quorum = nodes.endpoints.quorum();
        let since_ms = nodes.clock.monotonic_ms().saturating_sub(HEARD_MS);
        let said = match self.recent.said(&attempt.hash, quorum, since_ms) {
            Some(said) => said,
            None => ask(nodes, &attempt.hash).await?,
        };
        self.weigh(nodes, attempt, said).await
    }

    async fn weigh(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        said: Vec<Said<Status>>,
    ) -> Result<Look, RailError> {
        let quorum = nodes.endpoints.quorum();
        let is_final = |one: &&Said<Status>| one.fact.surety == Surety::Finalized;
        let same = |one: &Said<Status>, other: &Said<Status>| {
            (one.fact.slot, &one.fact.error) == (other.fact.slot, &other.fact.error)
        };
        let finals: Vec<&Said<Status>> = said.iter().filter(is_final).collect();
        let agreed =
            |one: &&Said<Status>| finals.iter().filter(|other| same(one, other)).count() >= quorum;
        if let Some(landed) = finals.iter().copied().find(|one| agreed(one)) {
            catch_who_differs(nodes, &finals, landed);
            return self.landed(nodes, attempt, landed.fact.slot, &landed.fact.error).await;
        }
        if !finals.is_empty() {
            guard::met(Guard::SuccessNotShared);
        }
        Ok(seen(nodes, attempt, &said))
    }

    /// The fate of an attempt that is in a final block.
    async fn landed(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        slot: u64,
        error: &Value,
    ) -> Result<Look, RailError> {
        let outcomes = match attempt.purpose {
            Purpose::Fence => Vec::new(),
            _ => vec![self.outcome(nodes, attempt, error).await?],
        };
        let block_hash = slot_name(slot);
        Ok(Look::Landed(Landing { hash: None, block_height: slot, block_hash, outcomes }))
    }

    /// What a landed transaction has done for its withdraw. Before it is called its own fault the
    /// nullifier is looked at: somebody else may have paid the very same.
    async fn outcome(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        error: &Value,
    ) -> Result<Outcome, RailError> {
        let Some(trouble) = trouble::read(error) else { return Ok(Outcome::Done) };
        let spent = async || {
            let nullifier = self.nullifier(attempt)?;
            spender::is_spent(nodes, &self.program, &nullifier).await
        };
        let overtaken =
            || Outcome::Overtaken { message: "its nullifier was spent before".to_owned() };
        Ok(match trouble {
            Trouble::Spent => overtaken(),
            Trouble::Own(message) => match spent().await? {
                true => overtaken(),
                false => Outcome::OwnFault { message },
            },
            Trouble::Root => match spent().await? {
                true => overtaken(),
                false => Outcome::Unexplained { message: "the pool did not know its root".into() },
            },
            Trouble::Short => Outcome::RelayFault {
                shortage: Shortage::Native,
                message: "the fee payer could not pay for it".to_owned(),
            },
            Trouble::Relays(message) => {
                Outcome::RelayFault { shortage: Shortage::Contract, message }
            }
            Trouble::Passing(message) => Outcome::Unexplained { message },
            Trouble::Known => Outcome::Unexplained { message: error.to_string() },
        })
    }

    /// The nullifier that an attempt spends.
    fn nullifier(&self, attempt: &Attempt) -> Result<Word, RailError> {
        let spends = encode::spends(&attempt.bytes, &self.program);
        let strange = || RailError::Misconfigured(format!("{} spends nothing", attempt.hash));
        let spend = spends.ok().and_then(|spends| spends.into_iter().next());
        spend.map(|spend| spend.nullifier).ok_or_else(strange)
    }

    /// Everything that can be told of it, once a final block is past its expiry.
    pub async fn inquest(&self, nodes: &Nodes, attempt: &Attempt) -> Result<Look, RailError> {
        let (Some(base), Some(last_valid_height)) = (&attempt.base, attempt.expires_height) else {
            return Err(RailError::Misconfigured(format!("{} has no expiry", attempt.hash)));
        };
        let height = self.final_height(nodes).await?;
        if height <= last_valid_height {
            let why = format!("good until block {last_valid_height}, and block {height} is final");
            return Ok(Look::Adrift { why, sightings: Vec::new() });
        }
        let signed = Signed { last_valid_height, base_slot: base.height };
        let witnesses = self.witnesses(nodes, attempt, &signed).await?;
        let quorum = nodes.endpoints.quorum();
        let said: Vec<Testimony> = witnesses.iter().map(|(_, one)| one.said.clone()).collect();
        let verdict = testimony::judge(&signed, &said, quorum);
        if let Verdict::Landed { slot, error } = &verdict {
            return self.landed(nodes, attempt, *slot, error).await;
        }
        let sighted = sighted(attempt, &said);
        let is_refuted = |place: usize| {
            let refuting =
                witnesses.iter().filter(|(_, one)| one.refutes.get(place) == Some(&true));
            refuting.count() >= quorum
        };
        let upheld = (0..sighted.len()).filter(|place| !is_refuted(*place)).count();
        if upheld > 0 {
            guard::met(Guard::SightingVeto);
            let seen: Vec<Said<Status>> = statuses_of(&witnesses);
            return Ok(match seen_anew(nodes, attempt, &seen) {
                Some(look) => look,
                None => Look::Adrift {
                    why: format!("{upheld} sightings of it are not refuted"),
                    sightings: Vec::new(),
                },
            });
        }
        // Whoever still shows it in a block that does not hold it is refuted.
        let honest: Vec<Testimony> = said.into_iter().filter(|one| one.status.is_none()).collect();
        if honest.len() < witnesses.len() {
            guard::met(Guard::SightingRefuted);
        }
        Ok(decided(attempt, testimony::judge(&signed, &honest, quorum)))
    }

    /// The highest final block that a quorum has reached.
    async fn final_height(&self, nodes: &Nodes) -> Result<u64, RailError> {
        let quorum = nodes.endpoints.quorum();
        let since_ms = nodes.clock.monotonic_ms().saturating_sub(HEARD_MS);
        if let Some(height) = self.recent.final_height(quorum, since_ms) {
            return Ok(height);
        }
        let said = nodes.ask_quorum(|endpoint| nodes.final_height_on(endpoint)).await;
        let height = reached(said.iter().map(|one| one.fact), quorum);
        height.ok_or_else(|| unavailable("no quorum tells its final block"))
    }

    /// Asks everybody who can be reached: whoever may object must be heard.
    async fn witnesses(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        signed: &Signed,
    ) -> Result<Vec<(usize, Witness)>, RailError> {
        nodes.introduce_all().await;
        let nullifier = self.nullifier(attempt)?;
        let said = nodes.introduced().into_iter().map(async |endpoint| {
            let said = self.testimony_on(nodes, endpoint, attempt, &nullifier).await;
            said.map(|said| (endpoint, said))
        });
        let said: Vec<(usize, Testimony)> =
            join_all(said).await.into_iter().filter_map(Result::ok).collect();
        let all: Vec<Testimony> = said.iter().map(|(_, said)| said.clone()).collect();
        let slots = sighted(attempt, &all);
        let each = said.into_iter().map(async |(endpoint, said)| {
            let refutes = slots
                .iter()
                .map(|slot| refutes_on(nodes, endpoint, (&said, signed), *slot, &attempt.hash));
            let refutes = join_all(refutes).await;
            (endpoint, Witness { said, refutes })
        });
        Ok(join_all(each).await)
    }

    /// In this order, each answer after the one before.
    async fn testimony_on(
        &self,
        nodes: &Nodes,
        endpoint: usize,
        attempt: &Attempt,
        nullifier: &Word,
    ) -> Result<Testimony, RailError> {
        let final_height = nodes.final_height_on(endpoint).await?;
        let final_slot = nodes.final_slot_on(endpoint).await?;
        let signatures = [attempt.hash.clone()];
        let statuses = nodes.statuses_on(endpoint, &signatures, true).await?;
        let first_slot = nodes.first_slot_on(endpoint).await?;
        let shard = Accounts::of(&self.program).nullifier_shard;
        let spent = match nodes.account_on(endpoint, &shard, "finalized").await {
            Ok((slot, data)) => shield::is_spent(&data, nullifier).map(|spent| (slot, spent)),
            Err(_) => None,
        };
        Ok(Testimony {
            node: nodes.endpoints.origin(endpoint).to_owned(),
            final_height,
            final_slot,
            status_slot: statuses.slot,
            status: statuses.each.into_iter().next().flatten(),
            first_slot,
            spent,
        })
    }
}

/// What nodes know of a transaction, with history searched.
async fn ask(nodes: &Nodes, signature: &str) -> Result<Vec<Said<Status>>, RailError> {
    let signatures = [signature.to_owned()];
    let ask = async |endpoint| {
        let statuses = nodes.statuses_on(endpoint, &signatures, true).await?;
        Ok(statuses.each.into_iter().next().flatten())
    };
    let said = nodes.ask_quorum(ask).await;
    if said.is_empty() {
        return Err(unavailable("no node answers"));
    }
    let known = |one: Said<Option<Status>>| Some(Said { endpoint: one.endpoint, fact: one.fact? });
    Ok(said.into_iter().filter_map(known).collect())
}

/// What an attempt looks like that some have seen in a block and no quorum calls final. What a
/// quorum has seen is in a block; what fewer have seen is only noted, once, for its veto.
fn seen(nodes: &Nodes, attempt: &Attempt, said: &[Said<Status>]) -> Look {
    let confirmed: Vec<Said<Status>> =
        said.iter().filter(|one| one.fact.surety >= Surety::Confirmed).cloned().collect();
    let why = match confirmed.first() {
        Some(one) => format!("in slot {}, which is not final yet", one.fact.slot),
        None => "in no block yet".to_owned(),
    };
    match confirmed.len() >= nodes.endpoints.quorum() {
        true => Look::Adrift { why, sightings: sightings(nodes, &confirmed) },
        false => seen_anew(nodes, attempt, &confirmed)
            .unwrap_or(Look::Adrift { why, sightings: Vec::new() }),
    }
}

/// The sightings that are not stored yet, if there are such.
fn seen_anew(nodes: &Nodes, attempt: &Attempt, said: &[Said<Status>]) -> Option<Look> {
    let mut sightings = sightings(nodes, said);
    sightings.retain(|sighting| !attempt.has_heard(sighting));
    let why = "a node has seen it".to_owned();
    (!sightings.is_empty()).then_some(Look::Adrift { why, sightings })
}

fn sightings(nodes: &Nodes, said: &[Said<Status>]) -> Vec<Sighting> {
    let at_ms = nodes.clock.now_ms();
    let sighting = |one: &Said<Status>| Sighting {
        endpoint: nodes.endpoints.origin(one.endpoint).to_owned(),
        block_hash: slot_name(one.fact.slot),
        block_height: Some(one.fact.slot),
        was_final: one.fact.surety == Surety::Finalized,
        at_ms,
    };
    said.iter().map(sighting).collect()
}

fn slot_name(slot: u64) -> String {
    format!("slot {slot}")
}

/// The slots in which it was seen, now or before, each once.
fn sighted(attempt: &Attempt, said: &[Testimony]) -> Vec<u64> {
    let stored = attempt.sightings.iter().filter_map(|sighting| sighting.block_height);
    let now = said.iter().filter_map(|one| one.status.as_ref().map(|status| status.slot));
    let mut slots: Vec<u64> = stored.chain(now).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

fn statuses_of(witnesses: &[(usize, Witness)]) -> Vec<Said<Status>> {
    let status = |(endpoint, one): &(usize, Witness)| {
        Some(Said { endpoint: *endpoint, fact: one.said.status.clone()? })
    };
    witnesses.iter().filter_map(status).collect()
}

/// Whether a node shows that the block of a slot, if it has one, does not hold the transaction.
async fn refutes_on(
    nodes: &Nodes,
    endpoint: usize,
    (said, signed): (&Testimony, &Signed),
    slot: u64,
    signature: &str,
) -> bool {
    if said.status.is_some() || said.final_height <= signed.last_valid_height {
        return false;
    }
    // Every block after the final one is higher than any that may hold it.
    if slot > said.final_slot || slot < signed.base_slot {
        return true;
    }
    if slot < said.first_slot {
        return false;
    }
    nodes.holds_on(endpoint, slot, signature).await == Ok(false)
}

fn decided(attempt: &Attempt, verdict: Verdict) -> Look {
    let expired = |evidence: Value, what: &str| {
        guard::met(Guard::Expired);
        Look::Sunk(Certificate {
            kind: CertificateKind::Expired,
            summary: format!("its blockhash expired, and no node has {}{what}", attempt.hash),
            evidence,
        })
    };
    match verdict {
        Verdict::Sunk { evidence } => expired(evidence, ""),
        Verdict::Spent { evidence } => expired(evidence, "; its nullifier is spent by another"),
        Verdict::Adrift { why, .. } => {
            guard::met(Guard::TooFewWitnesses);
            Look::Adrift { why, sightings: Vec::new() }
        }
        // Those who call it final were asked before.
        Verdict::Landed { .. } => {
            Look::Adrift { why: "seen by those who were refuted".to_owned(), sightings: Vec::new() }
        }
    }
}

fn catch_who_differs(nodes: &Nodes, finals: &[&Said<Status>], landed: &Said<Status>) {
    let tell = |status: &Status| {
        let what = if status.error.is_null() { "done" } else { "failed" };
        format!("{what} in final slot {}", status.slot)
    };
    let differs = |one: &&&Said<Status>| {
        (one.fact.slot, &one.fact.error) != (landed.fact.slot, &landed.fact.error)
    };
    for other in finals.iter().filter(differs) {
        nodes.endpoints.catch(other.endpoint, tell(&other.fact), tell(&landed.fact));
    }
}
