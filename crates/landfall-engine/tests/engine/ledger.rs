//! A ledger of a few lines behind the rail seam: enough to be fooled by, with switches for what
//! the network does to messages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::attempt::{BaseBlock, Landing, Outcome, Shortage, Sighting, Signed};
use landfall_core::ledger::{
    Broadcast, Foreign, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Reach,
    Refusal, Waiting,
};
use landfall_core::rail::{Backoff, EndpointHealth, Funds, Pace, Rail};
use landfall_core::{
    Attempt, BadField, Certificate, CertificateKind, ClaimKey, LaneId, Nonce, Payload, Purpose,
    RailName,
};
use parking_lot::Mutex;

/// What happens to a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Net {
    /// Arrives, lands at once, is answered.
    Good,
    /// Arrives and lands; the answer is lost.
    LoseAnswer,
    /// Never arrives.
    LoseRequest,
    /// Refused for certain, though only the caller knows whether to believe it.
    Refuse,
}

#[derive(Default)]
pub struct State {
    pub nonces: BTreeMap<LaneId, u64>,
    /// Hash → landing.
    pub landed: BTreeMap<String, Landing>,
    pub registered: BTreeSet<String>,
    pub balance: u128,
    pub native: u128,
    /// Of lanes that have accounts of their own.
    pub own_funds: BTreeMap<LaneId, u128>,
    /// Every payment that took effect: (receiver, amount, hash).
    pub paid: Vec<(String, u128, String)>,
    /// How many times each account was registered by an attempt.
    pub registrations: BTreeMap<String, u32>,
    pub broadcasts: u32,
    pub height: u64,
    /// Receivers that unregister themselves when a payment is about to land, so many times.
    pub unregistering: BTreeMap<String, u32>,
    /// What becomes of registrations of a receiver and of payments to it, if they fail.
    pub unpreparable: BTreeMap<String, Outcome>,
    pub unpayable: BTreeMap<String, Outcome>,
    /// What becomes of all payments, if they fail.
    pub outage: Option<Outcome>,
    /// How many members each reverted attempt had, in order.
    pub reverted: Vec<usize>,
    /// Broadcasts that have not landed yet, and the most there were at once.
    pub in_flight: usize,
    pub in_flight_max: usize,
}

impl State {
    fn native_of(&self, lane: &LaneId) -> u128 {
        self.own_funds.get(lane).copied().unwrap_or(self.native)
    }
}

pub struct FakeRail {
    pub lanes: Vec<LaneId>,
    pub state: Arc<Mutex<State>>,
    pub net: Mutex<Net>,
    /// Blind to everything: every question fails.
    pub down: Mutex<bool>,
    /// Whether looks at attempts fail, and nothing else.
    pub blind: Mutex<bool>,
    /// What looks see next, one each, before they look at the ledger.
    pub sightings: Mutex<Vec<Sighting>>,
    /// Lanes whose keys are not on the account.
    pub keyless: Mutex<BTreeSet<LaneId>>,
    /// How long a broadcast takes to land.
    pub block_ms: Mutex<u64>,
    pub manner: Mutex<Manner>,
    pub pace: Pace,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Tx {
    lane: String,
    nonce: u64,
    purpose: String,
    actions: Vec<(String, u128)>,
}

impl FakeRail {
    pub fn new(lanes: usize) -> FakeRail {
        let lanes: Vec<_> =
            (0..lanes).map(|n| LaneId::new(format!("near:test:relay:k{n}"))).collect();
        let nonces = lanes.iter().map(|lane| (lane.clone(), 100)).collect();
        let state = State { nonces, balance: 1_000_000, native: 100, ..State::default() };
        FakeRail::on(lanes, Arc::new(Mutex::new(state)))
    }

    /// Another worker's way to the same ledger, with keys of its own.
    pub fn beside(&self, lanes: &[LaneId]) -> FakeRail {
        let mut state = self.state.lock();
        lanes.iter().for_each(|lane| _ = state.nonces.entry(lane.clone()).or_insert(100));
        FakeRail::on(lanes.to_vec(), self.state.clone())
    }

    /// The same, with so many charged failures of a payment.
    pub fn giving_up_after(mut self, failures: u32) -> FakeRail {
        self.pace.pay_retries = failures;
        self
    }

    /// The same, with a backoff of its own.
    pub fn waiting(mut self, backoff: Backoff) -> FakeRail {
        self.pace.backoff = Some(backoff);
        self
    }

    fn on(lanes: Vec<LaneId>, state: Arc<Mutex<State>>) -> FakeRail {
        FakeRail {
            lanes,
            state,
            net: Mutex::new(Net::Good),
            down: Mutex::new(false),
            blind: Mutex::new(false),
            sightings: Mutex::default(),
            keyless: Mutex::default(),
            block_ms: Mutex::new(0),
            manner: Mutex::new(Manner::OVERTAKES),
            pace: Pace::default(),
        }
    }

    fn land(&self, hash: &str, bytes: &[u8]) {
        let tx: Tx = serde_json::from_slice(bytes).unwrap();
        let mut state = self.state.lock();
        let state = &mut *state;
        let own_funds = state.own_funds.get(&LaneId::new(&tx.lane));
        let used = state.nonces.get_mut(&LaneId::new(&tx.lane)).unwrap();
        if tx.nonce <= *used || own_funds == Some(&0) || state.native == 0 {
            return;
        }
        *used = tx.nonce;
        state.height += 1;
        let outcomes = match tx.purpose.as_str() {
            "prepare" if tx.actions.iter().any(|one| state.unpreparable.contains_key(&one.0)) => {
                let fails = |(receiver, _): &(String, u128)| state.unpreparable.get(receiver);
                let index = tx.actions.iter().position(|one| fails(one).is_some()).unwrap();
                let mut outcomes = vec![Outcome::Sibling; tx.actions.len()];
                outcomes[index] = fails(&tx.actions[index]).unwrap().clone();
                outcomes
            }
            "prepare" => {
                for (receiver, _) in &tx.actions {
                    state.registered.insert(receiver.clone());
                    *state.registrations.entry(receiver.clone()).or_default() += 1;
                }
                vec![Outcome::Done; tx.actions.len()]
            }
            _ => pay(state, &tx, hash),
        };
        if outcomes.iter().any(|outcome| *outcome != Outcome::Done) {
            state.reverted.push(outcomes.len());
        }
        let landing = Landing {
            hash: None,
            block_height: state.height,
            block_hash: format!("b{}", state.height),
            outcomes,
        };
        state.landed.insert(hash.to_owned(), landing);
    }

    /// Lands these bytes whatever the network does to others.
    pub fn land_only(&self, attempt: &Attempt) {
        self.land(&attempt.hash, &attempt.bytes);
    }

    fn ask(&self) -> Result<(), RailError> {
        match *self.down.lock() {
            true => Err(RailError::Unavailable("down".into())),
            false => Ok(()),
        }
    }
}

/// Atomic: one failing action reverts all.
fn pay(state: &mut State, tx: &Tx, hash: &str) -> Vec<Outcome> {
    for (receiver, left) in &mut state.unregistering {
        if *left > 0 && tx.actions.iter().any(|(action, _)| action == receiver) {
            *left -= 1;
            state.registered.remove(receiver);
        }
    }
    let mut balance = state.balance;
    for (index, (receiver, amount)) in tx.actions.iter().enumerate() {
        let fault = if !state.registered.contains(receiver) {
            Outcome::Unprepared { message: "not registered".into() }
        } else if *amount > balance {
            let message = "not enough tokens".into();
            Outcome::RelayFault { shortage: Shortage::Tokens, message }
        } else if let Some(fault) = state.unpayable.get(receiver).or(state.outage.as_ref()) {
            fault.clone()
        } else if receiver.starts_with("poison") {
            Outcome::OwnFault { message: "hates money".into() }
        } else {
            balance -= amount;
            continue;
        };
        let mut outcomes = vec![Outcome::Sibling; tx.actions.len()];
        outcomes[index] = fault;
        return outcomes;
    }
    state.balance = balance;
    for (receiver, amount) in &tx.actions {
        state.paid.push((receiver.clone(), *amount, hash.to_owned()));
    }
    vec![Outcome::Done; tx.actions.len()]
}

#[async_trait]
impl Ledger for FakeRail {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.lanes.clone()
    }

    fn owns(&self, _: &LaneId) -> bool {
        true
    }

    fn manner(&self) -> Manner {
        *self.manner.lock()
    }

    async fn broadcast(&self, attempt: &Attempt, _: u32) -> Broadcast {
        {
            let mut state = self.state.lock();
            state.broadcasts += 1;
            state.in_flight += 1;
            state.in_flight_max = state.in_flight_max.max(state.in_flight);
        }
        let block_ms = *self.block_ms.lock();
        tokio::time::sleep(std::time::Duration::from_millis(block_ms)).await;
        self.state.lock().in_flight -= 1;
        let unsure = |shortage| Broadcast::Unsure { cause: "lost".into(), shortage };
        if self.ask().is_err() {
            return unsure(None);
        }
        let net = *self.net.lock();
        match net {
            Net::LoseRequest => return unsure(None),
            Net::Refuse => {
                let reason = "bad signature".to_owned();
                return Broadcast::Refused(Refusal { reason, relays_fault: true });
            }
            Net::Good | Net::LoseAnswer => self.land(&attempt.hash, &attempt.bytes),
        }
        if self.state.lock().native_of(&attempt.lane) == 0 {
            return unsure(Some(Shortage::Native));
        }
        match net {
            Net::LoseAnswer => unsure(None),
            _ => Broadcast::Sent(
                self.state.lock().landed.get(&attempt.hash).cloned().map(Look::Landed),
            ),
        }
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        self.ask()?;
        if *self.blind.lock() {
            return Err(RailError::Unavailable("the nodes contradict each other".into()));
        }
        if let Some(sighting) = self.sightings.lock().pop() {
            return Ok(Look::Adrift { why: "seen".into(), sightings: vec![sighting] });
        }
        let state = self.state.lock();
        if let Some(landing) = state.landed.get(&attempt.hash) {
            return Ok(Look::Landed(landing.clone()));
        }
        Ok(Look::Adrift { why: "unknown".into(), sightings: Vec::new() })
    }

    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        self.ask()?;
        let state = self.state.lock();
        if let Some(landing) = state.landed.get(&attempt.hash) {
            return Ok(Look::Landed(landing.clone()));
        }
        let used = state.nonces[&attempt.lane];
        if used < attempt.nonce.0 {
            return Ok(Look::Adrift { why: "unknown".into(), sightings: Vec::new() });
        }
        Ok(match later.iter().find(|later| later.landed_height.is_some()) {
            Some(later) => Look::Sunk(Certificate {
                kind: CertificateKind::NoncePassed,
                summary: format!("passed by {}", later.hash),
                evidence: serde_json::Value::Null,
            }),
            None if later.is_empty() => Look::Foreign(Foreign {
                reason: format!("nonce {used} is not ours"),
                certificate: None,
            }),
            None => Look::Adrift { why: "a later one is open".into(), sightings: Vec::new() },
        })
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        self.ask()?;
        if self.keyless.lock().contains(lane) {
            return Err(RailError::Misconfigured("the key is not on the account".into()));
        }
        let state = self.state.lock();
        Ok(Some(LedgerNonce { nonce: Nonce(state.nonces[lane]), final_height: state.height }))
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        self.ask()?;
        let state = self.state.lock();
        let of = |lane: &LaneId| {
            let nonce = Nonce(state.nonces[lane]);
            (lane.clone(), LedgerNonce { nonce, final_height: state.height })
        };
        Ok(self.lanes.iter().map(of).collect())
    }

    async fn pulse(&self, _: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        let progress = |(lane, ledger): (LaneId, LedgerNonce)| Progress {
            lane,
            reach: Reach::UpTo(ledger.nonce),
            is_final: false,
        };
        Ok(self.nonces().await?.into_iter().map(progress).collect())
    }
}

#[async_trait]
impl Rail for FakeRail {
    fn stages(&self) -> landfall_core::AttemptStages {
        landfall_core::near::STAGES
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        match payload.receiver().starts_with("banned") {
            true => Err(BadField::new("receiver_id", "is not paid here")),
            false => Ok(()),
        }
    }

    fn preparation(&self, payload: &Payload) -> Option<ClaimKey> {
        Some(ClaimKey { space: "registered".into(), key: payload.receiver().into_owned() })
    }

    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>> {
        let look = |payload: &&Payload| {
            self.ask()?;
            Ok(self.state.lock().registered.contains(payload.receiver().as_ref()))
        };
        payloads.iter().map(look).collect()
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn fit(&self, _: Purpose, payloads: &[&Payload]) -> usize {
        payloads.len().min(100)
    }

    async fn sign(
        &self,
        purpose: Purpose,
        payloads: &[&Payload],
        lane: &LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError> {
        let is_foreign = |payload: &&Payload| payload.receiver().starts_with("elsewhere");
        if purpose == Purpose::Pay && payloads.iter().any(is_foreign) {
            return Err(RailError::Misconfigured("of another token".into()));
        }
        let is_anothers = |payload: &&Payload| payload.near().unwrap().sender != "relay";
        if payloads.iter().any(is_anothers) {
            return Err(RailError::Misconfigured("of another account".into()));
        }
        let actions = payloads
            .iter()
            .map(|payload| (payload.receiver().into_owned(), payload.amount()))
            .collect();
        let tx = Tx {
            lane: lane.to_string(),
            nonce: nonce.0,
            purpose: purpose.as_str().to_owned(),
            actions,
        };
        Ok(Signed {
            bytes: serde_json::to_vec(&tx).unwrap(),
            hash: format!("{lane}#{nonce}"),
            base: Some(BaseBlock { hash: "b0".into(), height: 0 }),
            expires_height: Some(1_000),
        })
    }

    fn shares_funds(&self) -> bool {
        self.state.lock().own_funds.is_empty()
    }

    async fn funds(&self, lane: Option<&LaneId>) -> Result<Funds, RailError> {
        self.ask()?;
        let state = self.state.lock();
        let native = lane.map_or(state.native, |lane| state.native_of(lane));
        Ok(Funds { tokens: state.balance, native, native_floor: 1 })
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        Vec::new()
    }

    async fn check(&self) -> Result<String, RailError> {
        Ok("fine".into())
    }
}
