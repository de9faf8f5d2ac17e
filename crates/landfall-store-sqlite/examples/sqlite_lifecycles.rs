//! How fast the store is: accept, carry in attempts of 100, settle; every answer after its fsync.
//!
//! `cargo run --release -p landfall-store-sqlite --example sqlite_lifecycles -- [callers]
//! [transfers] [lanes]`
//! Callers accept one transfer at a time. Lanes then open and settle attempts, several at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use landfall_core::attempt::{Attempt, Fate, Landing, Outcome, Purpose, Signed};
use landfall_core::near::{self, Payout};
use landfall_core::store::{Accepted, Leased, OpenAttempt, Opened, Settled, Settlement, Store};
use landfall_core::{
    Clock, Event, LaneId, Move, NewTransfer, Nonce, Payload, RailName, State, Transfer,
};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};

/// Members of an attempt, as a NEAR batch has them.
const MEMBERS: usize = 100;
/// Bytes of a signed NEAR batch of 100.
const SIGNED_BYTES: usize = 12_000;

struct Wall;

#[async_trait]
impl Clock for Wall {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Latencies of one kind of call.
#[derive(Default)]
struct Timed(Vec<Duration>);

impl Timed {
    fn print(mut self, what: &str, transfers: usize, took: Duration) {
        self.0.sort_unstable();
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share) as usize];
        let rate = transfers as f64 / took.as_secs_f64();
        println!("{what:<14}{rate:>10.0}/s   p50 {:>9.3?}   p99 {:>9.3?}", at(0.5), at(0.99));
    }
}

fn new_transfer(number: usize, now_ms: u64) -> NewTransfer {
    let payout = Payout {
        network: "testnet".into(),
        token: "token.near".into(),
        sender: "relay.near".into(),
        receiver_id: format!("receiver-{}.near", number % 2_000),
        amount: number as u128 + 1,
        memo: None,
    };
    let scope = (String::new(), format!("payout-{number}-0a1b2c3d4e5f"));
    let print = payout.fingerprint();
    let events = [Event::Enqueued, Event::Prepared, Event::Enqueued];
    let first = State::Near(near::State::Received);
    let new = NewTransfer::begin(scope, print, Payload::Near(payout), first, &events, now_ms);
    NewTransfer { due_ms: Some(now_ms + 1_000), ..new.expect("a legal beginning") }
}

async fn accept(
    store: Arc<SqliteStore>,
    next: Arc<AtomicUsize>,
    transfers: usize,
) -> (Vec<Transfer>, Vec<Duration>) {
    let (mut accepted, mut timed) = (Vec::new(), Vec::new());
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= transfers {
            return (accepted, timed);
        }
        let start = Instant::now();
        let new = new_transfer(number, Wall.now_ms());
        match store.accept(vec![new]).await.expect("accept").remove(0) {
            Accepted::Created(transfer) => accepted.push(transfer),
            other => panic!("{other:?}"),
        }
        timed.push(start.elapsed());
    }
}

async fn carry(
    store: Arc<SqliteStore>,
    lane: usize,
    batches: Vec<Vec<Transfer>>,
) -> (Vec<Duration>, Vec<Duration>) {
    let lane = LaneId::new(format!("near:testnet:relay.near:key-{lane}"));
    let leased = store.lease(&lane, RailName::Near, "bench", 600_000).await.expect("lease");
    let Leased::Yours(held) = leased else { panic!("{leased:?}") };
    store.start_lane(&lane, held.epoch, Nonce(0)).await.expect("start");
    let incarnation = store.identity().await.expect("identity").incarnation;
    let (mut opened, mut settled) = (Vec::new(), Vec::new());
    for (number, members) in batches.into_iter().enumerate() {
        let now_ms = Wall.now_ms();
        let open = OpenAttempt {
            rail: RailName::Near,
            lane: lane.clone(),
            epoch: held.epoch,
            nonce: Nonce(number as u64 + 1),
            purpose: Purpose::Pay,
            signed: signed(number),
            moves: members.iter().map(|member| boarding(member, now_ms)).collect(),
            marks: Vec::new(),
            incarnation: incarnation.clone(),
            now_ms,
        };
        let start = Instant::now();
        let Opened::Stored(attempt) = store.open_attempt(open).await.expect("open") else {
            panic!("not stored")
        };
        opened.push(start.elapsed());
        let members = store.transfers(&attempt.members).await.expect("read");
        let settlement = landing(&attempt, &members, now_ms);
        let start = Instant::now();
        let done = store.settle(settlement).await.expect("settle");
        assert!(matches!(done, Settled::Done { moved, .. } if moved.len() == members.len()));
        settled.push(start.elapsed());
    }
    (opened, settled)
}

fn signed(number: usize) -> Signed {
    Signed {
        bytes: vec![number as u8; SIGNED_BYTES],
        hash: format!("{number:044}"),
        base_block: format!("{number:044}"),
        base_height: 1,
        expires_height: 86_401,
    }
}

fn boarding(member: &Transfer, now_ms: u64) -> Move {
    let mut step = Move::of(member, now_ms)
        .fire(Event::AttemptStored)
        .and_then(|step| step.fire(Event::Enqueued))
        .expect("legal")
        .due(None);
    step.tx_hash = Some("7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2V7Gk2".into());
    step
}

fn landing(attempt: &Attempt, members: &[Transfer], now_ms: u64) -> Settlement {
    let outcomes = vec![Outcome::Done; members.len()];
    let leave = |member| {
        let step = Move::of_member(member, attempt.id, now_ms);
        step.fire(Event::Landed).expect("legal")
    };
    Settlement {
        attempt: attempt.id,
        lane: attempt.lane.clone(),
        epoch: attempt.epoch,
        fate: Fate::Landed(Landing { block_height: 7, block_hash: "block".into(), outcomes }),
        moves: members.iter().map(leave).collect(),
        now_ms,
    }
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let callers: usize = arguments.next().unwrap_or(1024);
    let transfers: usize = arguments.next().unwrap_or(60_000);
    let keys: usize = arguments.next().unwrap_or(8);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let store = SqliteStore::open(path, Arc::new(Wall), SqliteOptions::default());
    let store = Arc::new(store.expect("a new store"));

    let begin = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..callers)
        .map(|_| tokio::spawn(accept(store.clone(), next.clone(), transfers)))
        .collect();
    let (mut accepted, mut timed) = (Vec::new(), Timed::default());
    for task in tasks {
        let (mine, took) = task.await.expect("no panic");
        accepted.extend(mine);
        timed.0.extend(took);
    }
    let accepting = begin.elapsed();
    accepted.sort_by_key(|transfer| transfer.id);
    timed.print(&format!("accept x{callers}"), transfers, accepting);

    let mut lanes: Vec<Vec<Vec<Transfer>>> = vec![Vec::new(); keys];
    for (number, batch) in accepted.chunks(MEMBERS).enumerate() {
        lanes[number % keys].push(batch.to_vec());
    }
    let start = Instant::now();
    let tasks: Vec<_> = lanes
        .into_iter()
        .enumerate()
        .map(|(lane, batches)| tokio::spawn(carry(store.clone(), lane, batches)))
        .collect();
    let (mut opened, mut settled) = (Timed::default(), Timed::default());
    for task in tasks {
        let (open, settle) = task.await.expect("no panic");
        opened.0.extend(open);
        settled.0.extend(settle);
    }
    let carrying = start.elapsed();
    opened.print("open of 100", transfers, carrying);
    settled.print("settle of 100", transfers, carrying);
    let rate = transfers as f64 / (accepting + carrying).as_secs_f64();
    println!("{:<14}{rate:>10.0}/s", "lifecycles");
}
