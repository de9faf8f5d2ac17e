//! Payouts: accepted one at a time, carried in attempts of 100, settled as landed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use landfall_core::attempt::{Attempt, BaseBlock, Fate, Landing, Outcome, Purpose, Signed};
use landfall_core::near::{self, Payout};
use landfall_core::store::{Leased, OpenAttempt, Opened, Settled, Settlement, Store};
use landfall_core::{Event, LaneId, Move, NewTransfer, Nonce, Payload, RailName, State, Transfer};

use super::{Load, NOW_MS, Numbers, Pace, accept, print, together};

/// Members of an attempt, as a NEAR batch has them.
const MEMBERS: usize = 100;
/// Bytes of a signed NEAR batch of 100.
const SIGNED_BYTES: usize = 12_000;
/// Receivers whom the payouts are for.
const RECEIVERS: usize = 2_000;
/// Longer than any run: a lane is leased once.
const LEASE_MS: u64 = 3_600_000;

/// How fast payouts live.
#[derive(Debug, Clone, Copy)]
pub struct Payouts {
    pub accept: Pace,
    pub open: Pace,
    pub settle: Pace,
    pub lives_per_s: f64,
}

impl Payouts {
    pub fn print(&self, callers: usize) {
        print(format_args!("accept x{callers}"), self.accept);
        print("open of 100", self.open);
        print("settle of 100", self.settle);
        print("lifecycles", format_args!("{:>10.0}/s", self.lives_per_s));
    }
}

/// Callers accept; when all is accepted, the lanes open and settle attempts, all at once.
pub async fn payouts(store: Arc<dyn Store>, load: &Load) -> Payouts {
    let Load { name, callers, transfers, lanes } = load;
    let numbers = Numbers::below(*transfers);
    let caller = |_| take_in(store.clone(), name.clone(), numbers.clone());
    let (taken, accepting) = together((0..*callers).map(caller)).await;
    let (mut accepted, timed): (Vec<_>, Vec<_>) = taken.into_iter().flatten().unzip();
    // In the order in which a relay would take them up.
    accepted.sort_by_key(|transfer: &Transfer| transfer.id);
    let accept = Pace::new(timed, *transfers, accepting);

    let mut cargo: Vec<Vec<Vec<Transfer>>> = vec![Vec::new(); *lanes];
    for (number, batch) in accepted.chunks(MEMBERS).enumerate() {
        cargo[number % lanes].push(batch.to_vec());
    }
    let lane = |(number, batches)| carry(store.clone(), format!("{name}:key-{number}"), batches);
    let (carried, carrying) = together(cargo.into_iter().enumerate().map(lane)).await;
    let (opened, settled): (Vec<_>, Vec<_>) = carried.into_iter().flatten().unzip();
    let lives_per_s = *transfers as f64 / (accepting + carrying).as_secs_f64();
    let open = Pace::new(opened, *transfers, carrying);
    Payouts { accept, open, settle: Pace::new(settled, *transfers, carrying), lives_per_s }
}

async fn take_in(
    store: Arc<dyn Store>,
    name: String,
    numbers: Numbers,
) -> Vec<(Transfer, Duration)> {
    let mut taken = Vec::new();
    for number in numbers {
        let begun = Instant::now();
        let transfer = accept(store.as_ref(), new_payout(&name, number)).await;
        taken.push((transfer, begun.elapsed()));
    }
    taken
}

fn new_payout(name: &str, number: usize) -> NewTransfer {
    let payout = Payout {
        network: "testnet".into(),
        token: "token.near".into(),
        sender: "relay.near".into(),
        receiver_id: format!("receiver-{}.near", number % RECEIVERS),
        amount: number as u128 + 1,
        memo: None,
    };
    let scope = (String::new(), format!("{name}-{number}-0a1b2c3d4e5f"));
    let print = payout.fingerprint();
    let events = [Event::Enqueued, Event::Prepared, Event::Enqueued];
    let first = State::Near(near::State::Received);
    NewTransfer::begin(scope, print, Payload::Near(payout), first, &events, NOW_MS)
        .expect("a legal beginning")
}

/// How long each attempt took to be opened, and to be settled.
async fn carry(
    store: Arc<dyn Store>,
    lane: String,
    batches: Vec<Vec<Transfer>>,
) -> Vec<(Duration, Duration)> {
    let lane = LaneId::new(format!("near:testnet:relay.near:{lane}"));
    let leased = store.lease(&lane, RailName::Near, "bench", LEASE_MS).await.expect("lease");
    let Leased::Yours(held) = leased else { panic!("{leased:?}") };
    store.start_lane(&lane, held.epoch, Nonce(0)).await.expect("start");
    let incarnation = store.identity().await.expect("identity").incarnation;
    let mut timed = Vec::new();
    for (number, members) in batches.into_iter().enumerate() {
        let open = OpenAttempt {
            rail: RailName::Near,
            lane: lane.clone(),
            epoch: held.epoch,
            nonce: Nonce(number as u64 + 1),
            purpose: Purpose::Pay,
            signed: signed(number),
            moves: members.iter().map(boarding).collect(),
            marks: Vec::new(),
            incarnation: incarnation.clone(),
            now_ms: NOW_MS,
        };
        let begun = Instant::now();
        let opened = store.open_attempt(open).await.expect("open");
        let opening = begun.elapsed();
        let Opened::Stored(attempt) = opened else { panic!("{opened:?}") };
        let members = store.transfers(&attempt.members).await.expect("read");
        let settlement = landing(&attempt, &members);
        let begun = Instant::now();
        let done = store.settle(settlement).await.expect("settle");
        assert!(matches!(done, Settled::Done { moved, .. } if moved.len() == members.len()));
        timed.push((opening, begun.elapsed()));
    }
    timed
}

fn signed(number: usize) -> Signed {
    Signed {
        bytes: vec![number as u8; SIGNED_BYTES],
        hash: format!("{number:044}"),
        base: Some(BaseBlock { hash: format!("{number:044}"), height: 1 }),
        expires_height: Some(86_401),
    }
}

fn boarding(member: &Transfer) -> Move {
    let mut step = Move::of(member, NOW_MS)
        .fire(Event::AttemptStored)
        .and_then(|step| step.fire(Event::Enqueued))
        .expect("legal")
        .due(None);
    step.tx_hash = Some("7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2".into());
    step
}

fn landing(attempt: &Attempt, members: &[Transfer]) -> Settlement {
    let outcomes = vec![Outcome::Done; members.len()];
    let landing = Landing { hash: None, block_height: 7, block_hash: "block".into(), outcomes };
    let leave = |member| {
        let step = Move::of_member(member, attempt.id, NOW_MS);
        step.fire(Event::Landed).expect("legal")
    };
    Settlement {
        attempt: attempt.id,
        lane: attempt.lane.clone(),
        epoch: attempt.epoch,
        fate: Fate::Landed(landing),
        moves: members.iter().map(leave).collect(),
        now_ms: NOW_MS,
    }
}
