//! The seam: [`Ledger`] and [`Rail`] for one EVM chain, executed by relayers.
//!
//! Attempts are free of each other: nonces on the chain are the relayers' business, and lanes
//! number what is handed over. There is a lane for each relayer; what it hands over goes to that
//! relayer while it is well, else to another, which is named in the stored bytes.
//! **Invariant:** an attempt is posted once, at its first broadcast, and never after.
//! **Invariant:** what a relayer says decides nothing: it tells which transactions to look for on
//! the chain, where a quorum decides.
//! Not here: what a look proves (`crate::look`), the search among a relayer's transactions
//! (`adopt`).

use std::sync::Arc;

use alloy_primitives::Address;
use alloy_sol_types::SolCall;
use async_trait::async_trait;
use landfall_core::attempt::{Certificate, CertificateKind, Landing, Outcome, Signed};
use landfall_core::claim::ClaimKey;
use landfall_core::clock::Clock;
use landfall_core::evm::{self, Call, Work};
use landfall_core::ledger::{
    Broadcast, Foreign, Later, Ledger, LedgerNonce, Look, Manner, Order, Progress, RailError,
    Reach, Refusal, Waiting,
};
use landfall_core::machine::AttemptStages;
use landfall_core::rail::{EndpointHealth, Funds, Pace, Rail, Remedies};
use landfall_core::{Attempt, BadField, LaneId, Nonce, Payload, Purpose, RailName};
use landfall_rpc::{Endpoints, unavailable};
use serde_json::json;

use super::adopt::{self, Found};
use super::client::Relayer;
use super::handover::{self, Handover, Requested};
use super::pursuit::{Pursued, Pursuits};
use super::relayers::{self, Relayers};
use super::sort::Taken;
use super::wire::Status;
use crate::encode::{Content, Draft};
use crate::executed::{self, Carried, RANGE_BLOCKS, Ticket, Used};
use crate::forward::{ForwardRequest, executeCall};
use crate::look::Read;
use crate::rail::{BadSettings, EvmRail, forward_request};
use crate::settings::{EvmSettings, QUEUES};

/// As on the chain, but free of each other, and never sent twice.
pub const HANDED_OVER: Manner = Manner {
    order: Order::Free,
    repeats: false,
    rebroadcast_ms: 2_000,
    // A pulse tells what the relayers say, which is no end.
    pulse_tells_finality: false,
    pulse_ms: 1_000,
    ..QUEUES
};

/// Calls on one chain, handed to relayers.
pub struct RelayerRail {
    /// What is known of the chain, and how it is asked. It has no keys.
    chain: EvmRail,
    relayers: Arc<Relayers>,
    pursuits: Pursuits,
    manner: Manner,
    /// In the order of the relayers' names, each with the relayer that it hands to.
    lanes: Vec<(LaneId, String)>,
}

fn prefix(chain_id: u64) -> String {
    format!("evm:{chain_id}:relayer:")
}

impl RelayerRail {
    /// MUST be called on a runtime: relayers are asked from time to time whether they are well.
    /// Of the settings the keys are not used.
    pub fn new(
        settings: EvmSettings,
        manner: Manner,
        endpoints: Endpoints,
        relayers: Arc<Relayers>,
        clock: Arc<dyn Clock>,
    ) -> Result<RelayerRail, BadSettings> {
        let mut names: Vec<&str> = relayers.names().collect();
        names.sort_unstable();
        let prefix = prefix(settings.chain_id);
        let lane = |name: &str| (LaneId::new(format!("{prefix}{name}")), name.to_owned());
        let lanes = names.into_iter().map(lane).collect();
        let settings = EvmSettings { keys: Vec::new(), ..settings };
        let chain = EvmRail::with_or_without_keys(settings, endpoints, clock.clone())?;
        tokio::spawn(relayers::watch(Arc::downgrade(&relayers), clock));
        let pursuits = Pursuits::default();
        Ok(RelayerRail { chain, relayers, pursuits, manner, lanes })
    }

    /// The number by which what a lane hands over is marked: no two lanes share one.
    fn mark(&self, lane: &LaneId, nonce: Nonce) -> Option<(u64, &str)> {
        let place = self.lanes.iter().position(|(id, _)| id == lane)?;
        let number = nonce.0.wrapping_mul(self.lanes.len() as u64).wrapping_add(place as u64);
        Some((number, &self.lanes[place].1))
    }

    fn relayer(&self, handover: &Handover) -> Result<&Relayer, RailError> {
        let name = &handover.relayer;
        self.relayers
            .get(name)
            .ok_or_else(|| unavailable(format!("relayer {name} is not configured any more")))
    }

    /// What gas the call takes in the relayer's name.
    async fn gas(&self, relayer: &Relayer, call: &Call, draft: &Draft) -> Result<u64, RailError> {
        let given = match &call.work {
            Work::Direct(direct) => direct.gas,
            Work::Gasless(_) => None,
        };
        match (relayer.address().await?, given) {
            (Some(from), _) => self.chain.gas(from, call, draft).await,
            (None, Some(gas)) => Ok(gas),
            (None, None) => Err(RailError::Misconfigured(format!(
                "{} does not tell from which address it signs, so that no gas can be estimated: \
                 configure it",
                relayer.name()
            ))),
        }
    }

    async fn requested(&self, call: &Call) -> Result<Option<Requested>, RailError> {
        let Work::Gasless(request) = &call.work else { return Ok(None) };
        let (asked, _) = forward_request(request);
        let forwarder = crate::rail::address(request.forwarder);
        let Some(ticket) = Ticket::of(forwarder, &asked) else { return Ok(None) };
        let now = self.chain.looker.count(&self.chain.nodes, asked.from).await?;
        Ok(Some(Requested { ticket, since: now.height.saturating_sub(RANGE_BLOCKS) }))
    }

    /// What the relayer has of it, asked for or searched for; or why that is not known.
    async fn pursued(
        &self,
        attempt: &Attempt,
        handover: &Handover,
    ) -> Result<Result<Pursued, String>, RailError> {
        let relayer = self.relayer(handover)?;
        if let Some(known) = self.pursuits.get(&attempt.hash) {
            // A relayer that is down, or has forgotten it, has told us enough before.
            let told = relayer.transaction(&known.told.id).await.ok().flatten();
            return Ok(Ok(match told {
                Some(told) => self.pursuits.learn(&attempt.hash, told),
                None => known,
            }));
        }
        let listing = relayer.list(adopt::since_ms(attempt.opened_ms)).await?;
        Ok(match adopt::ours(handover, attempt.opened_ms, listing) {
            Found::Ours(told) => {
                tracing::info!(attempt = %attempt.id, id = told.id, "found at its relayer");
                Ok(self.pursuits.learn(&attempt.hash, *told))
            }
            Found::Not(why) => Err(why),
        })
    }

    /// The fate of a user's request, as the forwarder tells it; none if it was not executed yet.
    async fn executed(
        &self,
        attempt: &Attempt,
        handover: &Handover,
    ) -> Result<Option<Look>, RailError> {
        let Some(Requested { ticket, since }) = &handover.request else { return Ok(None) };
        let Some(request) = request_in(handover, ticket) else { return Ok(None) };
        let (looker, nodes) = (&self.chain.looker, &self.chain.nodes);
        let used = executed::seek(looker, nodes, (ticket, &request), *since).await?;
        Ok(used.map(|(used, carried)| judged(attempt, ticket, used, carried)))
    }

    fn read(handover: &Handover, pursued: &Pursued) -> Read {
        let Handover { to, value, data, .. } = handover;
        let content = Content {
            from: pursued.told.from.unwrap_or_default(),
            nonce: pursued.told.nonce.unwrap_or_default(),
            to: Some(*to),
            value: *value,
            input: data.clone(),
        };
        Read { content, hashes: pursued.hashes.clone() }
    }

    /// What is decided needs not be pursued any more.
    fn ended(&self, attempt: &Attempt, look: Look) -> Look {
        if matches!(look, Look::Landed(_) | Look::Sunk(_)) {
            self.pursuits.forget(&attempt.hash);
        }
        look
    }
}

/// The user's request in the data that the forwarder is called with.
fn request_in(handover: &Handover, ticket: &Ticket) -> Option<ForwardRequest> {
    let given = executeCall::abi_decode(&handover.data).ok()?.request;
    Some(ForwardRequest {
        from: given.from,
        to: given.to,
        value: given.value,
        gas: given.gas,
        nonce: alloy_primitives::U256::from(ticket.nonce),
        deadline: given.deadline,
        data: given.data,
    })
}

/// What the use of a user's nonce, in a final block, means for the request that was handed over.
fn judged(attempt: &Attempt, ticket: &Ticket, used: Used, carried: Carried) -> Look {
    let Used { success, transaction, block_number, block_hash } = used;
    let outcome = match (carried, success) {
        (Carried::Ours, true) => Outcome::Done,
        (Carried::Ours, false) => {
            Outcome::OwnFault { message: "the call that the user asked for failed".to_owned() }
        }
        (Carried::Unclear, _) => {
            let why = format!("{transaction} used the user's nonce, with what cannot be told");
            return adrift(why);
        }
        (Carried::Another, _) => {
            return Look::Sunk(Certificate {
                kind: CertificateKind::Displaced,
                summary: format!(
                    "nonce {} of {} was used for another request, by {transaction} in final block \
                     {block_number}",
                    ticket.nonce, ticket.signer
                ),
                evidence: json!({
                    "forwarder": ticket.forwarder, "signer": ticket.signer,
                    "nonce": ticket.nonce, "taken_by": transaction, "block": block_number,
                    "block_hash": block_hash,
                }),
            });
        }
    };
    let outcomes = attempt.members.iter().map(|_| outcome.clone()).collect();
    let (block_hash, hash) = (block_hash.to_string(), Some(transaction.to_string()));
    Look::Landed(Landing { hash, block_height: block_number, block_hash, outcomes })
}

/// What it means that something else has the nonce that the relayer signed it under. A relayer
/// that is still at work on it may sign it anew, and one that has signed it under two nonces may
/// have sent both.
fn displaced(foreign: Foreign, pursued: &Pursued) -> Look {
    let words = &pursued.told.words;
    let is_over = pursued.told.status == Status::GivenUp && !pursued.renumbered;
    match foreign.certificate {
        Some(mut certificate) if is_over => {
            certificate.summary = format!("{}; its relayer says: {words}", certificate.summary);
            if let Some(evidence) = certificate.evidence.as_object_mut() {
                evidence.insert("relayer_says".to_owned(), json!(words));
            }
            Look::Sunk(certificate)
        }
        _ => adrift(format!("{}; its relayer says: {words}", foreign.reason)),
    }
}

fn adrift(why: String) -> Look {
    Look::Adrift { why, sightings: Vec::new() }
}

fn unreadable(error: handover::Unreadable) -> RailError {
    RailError::Misconfigured(error.to_string())
}

#[async_trait]
impl Ledger for RelayerRail {
    fn name(&self) -> RailName {
        RailName::Evm
    }

    fn manner(&self) -> Manner {
        self.manner
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.lanes.iter().map(|(lane, _)| lane.clone()).collect()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        lane.as_str().starts_with(&prefix(self.chain.settings.chain_id))
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        let unsure = |cause: String| Broadcast::Unsure { cause, shortage: None };
        if round > 0 || self.pursuits.get(&attempt.hash).is_some() {
            return unsure("it was handed over before".to_owned());
        }
        let handover = match Handover::read(&attempt.bytes) {
            Ok(handover) => handover,
            Err(error) => return unsure(error.to_string()),
        };
        let relayer = match self.relayer(&handover) {
            Ok(relayer) => relayer,
            Err(error) => return unsure(error.to_string()),
        };
        match relayer.submit(&handover).await {
            Taken::Yes(told) => {
                self.pursuits.learn(&attempt.hash, *told);
                Broadcast::Sent(None)
            }
            Taken::No { reason, relays_fault } => {
                Broadcast::Refused(Refusal { reason, relays_fault })
            }
            Taken::Unsure(cause) => unsure(cause),
        }
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        let handover = Handover::read(&attempt.bytes).map_err(unreadable)?;
        if let Some(told) = self.executed(attempt, &handover).await? {
            return Ok(self.ended(attempt, told));
        }
        let pursued = match self.pursued(attempt, &handover).await? {
            Ok(pursued) => pursued,
            Err(why) => return Ok(adrift(why)),
        };
        if pursued.hashes.is_empty() {
            let words = &pursued.told.words;
            return Ok(adrift(format!("its relayer has signed nothing yet, and says: {words}")));
        }
        let read = RelayerRail::read(&handover, &pursued);
        // Blocks that were heard of before the hash was may hold it: nodes are asked for it.
        let look = self.chain.looker.look(&self.chain.nodes, attempt, &read, true).await?;
        Ok(self.ended(attempt, look))
    }

    async fn inquest(&self, attempt: &Attempt, _: &[Later]) -> Result<Look, RailError> {
        let handover = Handover::read(&attempt.bytes).map_err(unreadable)?;
        let Some(pursued) = self.pursuits.get(&attempt.hash) else {
            return Ok(adrift("nobody knows under which hash it may land".to_owned()));
        };
        if pursued.told.from.is_none() || pursued.told.nonce.is_none() || pursued.renumbered {
            let words = &pursued.told.words;
            return Ok(adrift(format!("under no nonce that is known; its relayer says: {words}")));
        }
        let read = RelayerRail::read(&handover, &pursued);
        let look = self.chain.looker.inquest(&self.chain.nodes, attempt, &read).await?;
        let look = match look {
            Look::Foreign(foreign) => displaced(foreign, &pursued),
            look => look,
        };
        Ok(self.ended(attempt, look))
    }

    /// Lanes number what is handed over; the chain knows nothing of it.
    async fn nonce(&self, _: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        Ok(None)
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        Ok(Vec::new())
    }

    /// What the relayers say is in a block: one list of each, while anything is waited for.
    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        let is_open = |one: &&Waiting| !one.included;
        let pursued = |one: &Waiting| {
            let name = one.hashes.first()?;
            Some((one.lane.clone(), one.nonce, name.clone(), self.pursuits.get(name)?))
        };
        let open: Vec<_> = waiting.iter().filter(is_open).filter_map(pursued).collect();
        let mut progress = Vec::new();
        for name in self.relayers.names() {
            let Some(relayer) = self.relayers.get(name) else { continue };
            let created = open.iter().filter_map(|(.., pursued)| pursued.told.created_ms);
            let Some(oldest_ms) = created.min() else { break };
            let Ok(listing) = relayer.list(oldest_ms).await else { continue };
            for told in listing.told {
                let ours = open.iter().find(|(.., pursued)| pursued.told.id == told.id);
                let Some((lane, nonce, name, _)) = ours else { continue };
                if self.pursuits.learn(name, told).told.status == Status::InBlock {
                    let reach = Reach::Only(*nonce);
                    progress.push(Progress { lane: lane.clone(), reach, is_final: false });
                }
            }
        }
        Ok(progress)
    }
}

#[async_trait]
impl Rail for RelayerRail {
    fn stages(&self) -> AttemptStages {
        evm::STAGES
    }

    fn takes(&self, payload: &Payload) -> bool {
        self.chain.takes(payload)
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        self.chain.screen(payload).await
    }

    fn preparation(&self, payload: &Payload) -> Option<ClaimKey> {
        self.chain.preparation(payload)
    }

    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>> {
        self.chain.prepared(payloads).await
    }

    fn pace(&self) -> Pace {
        self.chain.pace()
    }

    fn fit(&self, purpose: Purpose, payloads: &[&Payload]) -> usize {
        self.chain.fit(purpose, payloads)
    }

    /// Nothing is signed here: what is to be posted is written down.
    async fn sign(
        &self,
        purpose: Purpose,
        payloads: &[&Payload],
        lane: &LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError> {
        if purpose != Purpose::Pay {
            return Err(RailError::Misconfigured("only calls can be handed over".to_owned()));
        }
        let (number, name) = self
            .mark(lane, nonce)
            .ok_or_else(|| RailError::Misconfigured(format!("no relayer for lane {lane}")))?;
        let call = self.chain.call(payloads)?;
        let relayer = self.relayers.choose(name);
        let relayer = relayer.ok_or_else(|| unavailable("no relayer is well"))?;
        let draft = self.chain.draft(call);
        let gas = self.gas(relayer, call, &draft).await?;
        let Draft { to, value, input: data, .. } = draft;
        let handover = Handover {
            relayer: relayer.name().to_owned(),
            to,
            value,
            data,
            gas: handover::marked(gas, number),
            speed: call.speed,
            request: self.requested(call).await?,
        };
        let (bytes, hash) = handover.stored();
        Ok(Signed { bytes, hash, base: None, expires_height: None })
    }

    fn shares_funds(&self) -> bool {
        false
    }

    /// The relayers' own business.
    async fn funds(&self, _: Option<&LaneId>) -> Result<Funds, RailError> {
        Ok(Funds { tokens: u128::MAX, native: u128::MAX, native_floor: 0 })
    }

    fn remedies(&self) -> Remedies {
        Remedies {
            refused: "the relayers refuse what they are handed: check their keys, limits and state",
            ..Remedies::default()
        }
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        [self.chain.endpoints(), self.relayers.health()].concat()
    }

    async fn check(&self) -> Result<String, RailError> {
        for checked in self.relayers.check().await {
            checked?;
        }
        let mut addresses: Vec<Option<Address>> = Vec::new();
        for name in self.relayers.names() {
            let Some(relayer) = self.relayers.get(name) else { continue };
            addresses.push(relayer.address().await?);
        }
        let told = addresses.iter().flatten().count();
        let chain = self.chain.check().await?;
        Ok(format!("{chain}; relayers {}, of which {told} tell their address", addresses.len()))
    }
}

#[cfg(test)]
mod tests;
