//! A small world around one store: the shortest way to say what a check needs.

use std::sync::Arc;

use landfall_core::attempt::{
    Attempt, BaseBlock, Fate, Landing, Outcome, Purpose, Sighting, Signed, VariantKind,
};
use landfall_core::claim::ClaimKey;
use landfall_core::internal::{self, Order};
use landfall_core::near::{self, Payout};
use landfall_core::store::{
    Accepted, AddVariant, Added, Applied, Leased, OpenAttempt, Opened, Settled, Settlement, Sight,
    Store,
};
use landfall_core::{
    AttemptId, Certificate, CertificateKind, Epoch, Event, LaneId, Move, NewTransfer, Nonce,
    Payload, RailName, State, Transfer, TransferId,
};

use crate::clock::Time;

pub const RAIL: RailName = RailName::Near;
pub const TENANT: &str = "acme";
/// Long enough that no lease runs out by itself while a check runs, even on a real clock.
pub const LEASE_MS: u64 = 60_000;
/// The ledger's nonce at which the checks' lanes start.
pub const LEDGER_NONCE: Nonce = Nonce(41);
/// Further than any due time in the checks, unless they mean it to be beyond.
pub const HORIZON_MS: u64 = 3_600_000;

/// One store and its clock.
#[derive(Clone)]
pub struct World {
    pub store: Arc<dyn Store>,
    pub time: Arc<dyn Time>,
}

/// A lane held under an epoch.
#[derive(Clone)]
pub struct Held {
    pub lane: LaneId,
    pub epoch: Epoch,
    /// The store's, when it was leased.
    pub incarnation: String,
}

pub fn state(state: near::State) -> State {
    State::Near(state)
}

pub fn claim_key(key: &str) -> ClaimKey {
    ClaimKey { space: "registered:testnet:token".into(), key: key.into() }
}

pub fn sunk() -> Fate {
    Fate::Sunk(Certificate {
        kind: CertificateKind::NoncePassed,
        summary: "a later nonce was used".into(),
        evidence: serde_json::json!({"height": 7}),
    })
}

pub fn landed(members: usize) -> Fate {
    let outcomes = vec![Outcome::Done; members];
    Fate::Landed(Landing { hash: None, block_height: 9, block_hash: "block".into(), outcomes })
}

/// Bytes that have a base and expire, under the hash.
pub fn signed(hash: impl Into<String>, last_byte: u8) -> Signed {
    Signed {
        bytes: vec![0, 1, 255, last_byte],
        hash: hash.into(),
        base: Some(BaseBlock { hash: "base".into(), height: 100 }),
        expires_height: Some(200),
    }
}

/// A member's move into an attempt.
pub fn boarding(transfer: &Transfer, now_ms: u64) -> Move {
    Move::of(transfer, now_ms)
        .fire(Event::AttemptStored)
        .and_then(|step| step.fire(Event::Enqueued))
        .expect("a transfer in the transfer queue can be carried")
        .due(None)
}

/// A member's move out of an attempt, by what happened to it.
pub fn leaving(transfer: &Transfer, attempt: &Attempt, event: Event, now_ms: u64) -> Move {
    let step = Move::of_member(transfer, attempt.id, now_ms);
    let step = step.fire(event).expect("legal for a carried transfer");
    let due_ms = (!step.state.is_final()).then_some(now_ms);
    step.due(due_ms)
}

impl World {
    pub fn now_ms(&self) -> u64 {
        self.time.now_ms()
    }

    fn begin(&self, key: &str, receiver: &str, events: &[Event]) -> NewTransfer {
        let payout = Payout {
            network: "testnet".into(),
            token: "token.near".into(),
            sender: "relay.near".into(),
            receiver_id: receiver.into(),
            amount: 340_282_366_920_938_463_463_374_607_431_768_211_455,
            memo: Some("thanks, \u{1f6a2}".into()),
        };
        let first = state(near::State::Received);
        let scope = (TENANT.to_owned(), key.to_owned());
        let print = payout.fingerprint();
        let now_ms = self.now_ms();
        let new = NewTransfer::begin(scope, print, Payload::Near(payout), first, events, now_ms);
        NewTransfer { due_ms: Some(now_ms), ..new.expect("a legal beginning") }
    }

    /// An order of a rail that has no attempts, in its first state, due now.
    pub fn order(&self, key: &str) -> NewTransfer {
        let order = Order {
            source: "funding".into(),
            target: "trading".into(),
            user_id: 4001,
            asset_id: 1,
            asset: "BTC".into(),
            decimals: 8,
            amount: u64::MAX,
            client_key: Some("the client's own".into()),
        };
        let first = State::Internal(internal::State::Init);
        let scope = (TENANT.to_owned(), key.to_owned());
        let (print, now_ms) = (order.fingerprint(), self.now_ms());
        let new = NewTransfer::begin(scope, print, Payload::Internal(order), first, &[], now_ms);
        NewTransfer { due_ms: Some(now_ms), ..new.expect("a legal beginning") }
    }

    /// A transfer in the registration queue, due now.
    pub fn fresh(&self, key: &str) -> NewTransfer {
        self.begin(key, "alice.near", &[Event::Enqueued])
    }

    /// The same, with claims that it must have.
    pub fn claiming(&self, key: &str, claims: &[&str]) -> NewTransfer {
        let claims = claims.iter().map(|claim| claim_key(claim)).collect();
        NewTransfer { claims, ..self.fresh(key) }
    }

    /// A transfer in the registration queue for another receiver: other parameters.
    pub fn fresh_to(&self, key: &str, receiver: &str) -> NewTransfer {
        self.begin(key, receiver, &[Event::Enqueued])
    }

    /// A transfer in the transfer queue, due now.
    pub fn ready(&self, key: &str) -> NewTransfer {
        self.begin(key, "alice.near", &[Event::Enqueued, Event::Prepared, Event::Enqueued])
    }

    pub async fn accept(&self, new: NewTransfer) -> Transfer {
        match self.store.accept(vec![new]).await.expect("accept").remove(0) {
            Accepted::Created(transfer) => transfer,
            other => panic!("not created: {other:?}"),
        }
    }

    pub async fn accept_ready(&self, keys: &[&str]) -> Vec<Transfer> {
        let batch = keys.iter().map(|key| self.ready(key)).collect();
        let answers = self.store.accept(batch).await.expect("accept");
        answers
            .into_iter()
            .map(|answer| match answer {
                Accepted::Created(transfer) => transfer,
                other => panic!("not created: {other:?}"),
            })
            .collect()
    }

    pub async fn get(&self, id: TransferId) -> Transfer {
        self.store.transfers(&[id]).await.expect("read").remove(0)
    }

    pub async fn apply(&self, step: Move) -> Applied {
        self.store.apply(vec![step]).await.expect("apply").moves[0]
    }

    /// The names in the audit trail, oldest first.
    pub async fn trail(&self, id: TransferId) -> Vec<&'static str> {
        let entries = self.store.trail(id).await.expect("trail");
        entries.into_iter().map(|entry| entry.event.name()).collect()
    }

    pub async fn lease(&self, lane: &LaneId, holder: &str) -> Held {
        match self.store.lease(lane, RAIL, holder, LEASE_MS).await.expect("lease") {
            Leased::Yours(leased) => {
                let incarnation = self.store.identity().await.expect("identity").incarnation;
                Held { lane: lane.clone(), epoch: leased.epoch, incarnation }
            }
            busy => panic!("not leased: {busy:?}"),
        }
    }

    /// A lane held by `one` and started at the ledger's nonce.
    pub async fn started(&self, name: &str) -> Held {
        let held = self.lease(&LaneId::new(name), "one").await;
        let started = self.store.start_lane(&held.lane, held.epoch, LEDGER_NONCE).await;
        assert_eq!(started, Ok(true));
        held
    }

    /// An attempt of these members at the lane's `offset`-th nonce, not yet stored.
    pub fn opening(&self, held: &Held, offset: u64, members: &[Transfer]) -> OpenAttempt {
        let now_ms = self.now_ms();
        OpenAttempt {
            rail: RAIL,
            lane: held.lane.clone(),
            epoch: held.epoch,
            nonce: Nonce(LEDGER_NONCE.0 + 1 + offset),
            purpose: if members.is_empty() { Purpose::Fence } else { Purpose::Pay },
            signed: signed(format!("hash-{offset}"), offset as u8),
            moves: members.iter().map(|member| boarding(member, now_ms)).collect(),
            marks: Vec::new(),
            incarnation: held.incarnation.clone(),
            now_ms,
        }
    }

    /// A payment without members: its nonce must be the next, unlike a fence's.
    pub fn pay_nobody(&self, held: &Held, offset: u64) -> OpenAttempt {
        OpenAttempt { purpose: Purpose::Pay, ..self.opening(held, offset, &[]) }
    }

    pub async fn open(&self, held: &Held, offset: u64, members: &[Transfer]) -> Attempt {
        match self.store.open_attempt(self.opening(held, offset, members)).await.expect("open") {
            Opened::Stored(attempt) => *attempt,
            other => panic!("not stored: {other:?}"),
        }
    }

    /// Other bytes for the attempt, not yet stored.
    pub fn variant(&self, held: &Held, attempt: &Attempt, number: u32) -> AddVariant {
        let hash = format!("{}-variant-{number}", attempt.hash);
        AddVariant {
            attempt: attempt.id,
            lane: held.lane.clone(),
            epoch: held.epoch,
            number,
            kind: VariantKind::Replaces,
            signed: signed(hash, 100 + number as u8),
            marks: Vec::new(),
            incarnation: held.incarnation.clone(),
            now_ms: self.now_ms(),
        }
    }

    /// Adds a variant and gives the attempt as it is then.
    pub async fn vary(&self, held: &Held, attempt: &Attempt, number: u32) -> Attempt {
        let added = self.store.add_variant(self.variant(held, attempt, number)).await;
        assert!(matches!(added, Ok(Added::Stored(_))), "{added:?}");
        self.attempt(attempt.id).await
    }

    pub async fn attempt(&self, id: AttemptId) -> Attempt {
        self.store.attempt(id).await.expect("read").expect("a stored attempt")
    }

    /// Says what was seen of an attempt; false if nobody wants to know.
    pub async fn sight(&self, held: &Held, id: AttemptId, seen: Sighting) -> bool {
        let (lane, sightings) = (held.lane.clone(), vec![seen]);
        let sight = Sight { attempt: id, lane, epoch: held.epoch, sightings, moves: Vec::new() };
        self.store.sight(sight).await.expect("sight")
    }

    /// The settlement of an attempt by which the same happens to every member.
    pub async fn settlement(&self, held: &Held, attempt: &Attempt, event: Event) -> Settlement {
        let members = self.store.transfers(&attempt.members).await.expect("read");
        let now_ms = self.now_ms();
        let fate = if event == Event::Landed { landed(members.len()) } else { sunk() };
        Settlement {
            attempt: attempt.id,
            lane: held.lane.clone(),
            epoch: held.epoch,
            fate,
            moves: members.iter().map(|member| leaving(member, attempt, event, now_ms)).collect(),
            now_ms,
        }
    }

    pub async fn settle(&self, settlement: Settlement) -> Settled {
        self.store.settle(settlement).await.expect("settle")
    }
}
