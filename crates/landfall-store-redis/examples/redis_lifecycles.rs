//! How fast the store is: accept, carry in attempts of 100, settle; every answer after its fsync.
//!
//! `cargo run --release -p landfall-store-redis --example redis_lifecycles -- [transfers] [lanes]`
//! Starts a Redis of its own for each row: 64, 256 and 1024 callers that accept one transfer at a
//! time, with the append-only file synced always and every second. Lanes then open and settle
//! attempts, several at once. Ends with what a finished transfer costs in memory and on disk, and
//! with the server's own processor time for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use landfall_core::attempt::{Attempt, Fate, Landing, Outcome, Purpose, Signed};
use landfall_core::near::{self, Payout};
use landfall_core::store::{Accepted, Leased, OpenAttempt, Opened, Settled, Settlement, Store};
use landfall_core::{Event, LaneId, Move, NewTransfer, Nonce, Payload, RailName, State, Transfer};
use landfall_servers::{AppendFsync, Redis, RedisOptions as ServerOptions};
use landfall_store_redis::{RedisOptions, RedisStore};

/// Members of an attempt, as a NEAR batch has them.
const MEMBERS: usize = 100;
/// Bytes of a signed NEAR batch of 100.
const SIGNED_BYTES: usize = 12_000;

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Latencies of one kind of call.
#[derive(Default)]
struct Timed(Vec<Duration>);

impl Timed {
    fn at(&mut self, share: f64) -> Duration {
        self.0.sort_unstable();
        self.0[((self.0.len() - 1) as f64 * share) as usize]
    }
}

fn new_transfer(number: usize) -> NewTransfer {
    let now_ms = now_ms();
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
    store: Arc<RedisStore>,
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
        match store.accept(vec![new_transfer(number)]).await.expect("accept").remove(0) {
            Accepted::Created(transfer) => accepted.push(transfer),
            other => panic!("{other:?}"),
        }
        timed.push(start.elapsed());
    }
}

async fn carry(
    store: Arc<RedisStore>,
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
        let now_ms = now_ms();
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

/// What the server says of itself, as a number.
async fn said(url: &str, name: &str) -> f64 {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let info: String = redis::cmd("INFO").query_async(&mut connection).await.expect("INFO");
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|value| value.trim().parse().ok()).expect("a number of this name")
}

async fn processor(url: &str) -> f64 {
    said(url, "used_cpu_user").await + said(url, "used_cpu_sys").await
}

async fn row(fsync: AppendFsync, callers: usize, transfers: usize, keys: usize) {
    let server = ServerOptions { appendfsync: fsync, ..ServerOptions::default() };
    let server = Redis::start(server).expect("a server");
    let mut options = RedisOptions::new(server.url());
    options.accept_durability = vec!["everysec".into()];
    let store = Arc::new(RedisStore::open(options).await.expect("a new store"));
    let (memory, busy) = (said(server.url(), "used_memory").await, processor(server.url()).await);

    let begin = Instant::now();
    let next = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..callers)
        .map(|_| tokio::spawn(accept(store.clone(), next.clone(), transfers)))
        .collect();
    let (mut accepted, mut accepts) = (Vec::new(), Timed::default());
    for task in tasks {
        let (mine, took) = task.await.expect("no panic");
        accepted.extend(mine);
        accepts.0.extend(took);
    }
    let accepting = begin.elapsed();
    accepted.sort_by_key(|transfer| transfer.id);

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
    let (mut opens, mut settles) = (Timed::default(), Timed::default());
    for task in tasks {
        let (open, settle) = task.await.expect("no panic");
        opens.0.extend(open);
        settles.0.extend(settle);
    }
    let carrying = start.elapsed();
    let each = |total: f64| total / transfers as f64;
    let rate = |took: Duration| transfers as f64 / took.as_secs_f64();
    print_row([
        format!("{fsync:?}"),
        callers.to_string(),
        format!("{:.0}", rate(accepting)),
        format!("{:.1?}", accepts.at(0.5)),
        format!("{:.1?}", accepts.at(0.99)),
        format!("{:.0}", rate(carrying)),
        format!("{:.1?}", opens.at(0.5)),
        format!("{:.1?}", settles.at(0.5)),
        format!("{:.0}", rate(accepting + carrying)),
        format!("{:.0}", each(processor(server.url()).await - busy) * 1e6),
        format!("{:.0}", each(said(server.url(), "used_memory").await - memory)),
        format!("{:.0}", each(said(server.url(), "aof_current_size").await)),
    ]);
}

fn print_row<T: std::fmt::Display>(cells: [T; 12]) {
    println!("{}", cells.map(|cell| format!("{cell:>13}")).concat());
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let transfers: usize = arguments.next().unwrap_or(60_000);
    let keys: usize = arguments.next().unwrap_or(8);
    print_row([
        "fsync",
        "callers",
        "accepts/s",
        "p50",
        "p99",
        "carried/s",
        "open p50",
        "settle p50",
        "lifecycles/s",
        "server cpu us",
        "memory bytes",
        "log bytes",
    ]);
    for fsync in [AppendFsync::Always, AppendFsync::EverySec] {
        for callers in [64, 256, 1024] {
            row(fsync, callers, transfers, keys).await;
        }
    }
}
