//! Two relays on one store; the one that holds the lane is stopped with SIGSTOP for longer than its
//! lease, having signed what it has not yet stored.
//!
//! What it says to the store goes through a forwarder, which is held first: so whatever it signs
//! then is on its way to the store when it is stopped, and arrives when the lane is another's.

use std::time::{Duration, Instant};

use landfall_servers::{Postgres, Redis, RedisOptions, Server};
use serde_json::{Value, json};

use crate::forwarder::Forwarder;
use crate::world::{Process, Relay, Simulator, get, request, text, wait_for};

/// Payouts for each pause: more than are paid until the forwarder is held.
const PAYOUTS: usize = 200;
/// Paid before the forwarder is held: the first relay is in full swing.
const SWING: usize = 30;
/// A pause may find the relay in the middle of another commit. Ten in a row do not.
const PAUSES: usize = 10;
/// Blocks without a payout after which everything on its way has landed.
const QUIET: Duration = Duration::from_millis(1_000);
/// How long the refusal of what was held may take.
const REFUSED_WITHIN: Duration = Duration::from_secs(15);

struct Pair {
    simulator: Simulator,
    forwarder: Forwarder,
    first: Relay,
    second: Relay,
    _folder: tempfile::TempDir,
}

fn pair(store: &Server) -> Pair {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "1", "--block-ms", "200"]);
    let forwarder = Forwarder::to(store.port());
    let held = store.url().replace(&store.port().to_string(), &forwarder.port.to_string());
    let mut first = Relay::shared(&simulator, folder.path(), "first", &held);
    let mut second = Relay::shared(&simulator, folder.path(), "second", store.url());
    // It does not give up what is held meanwhile.
    first.set("LANDFALL_STORE__TIMEOUT_MS", "100000");
    first.set("LANDFALL_LOG__LEVEL", "warn,landfall_lanes=info");
    for relay in [&mut first, &mut second] {
        relay.set("LANDFALL_NEAR__BATCH_MAX", "10");
        // Longer than it takes to see that nothing lands any more.
        relay.set("LANDFALL_ENGINE__LEASE_MS", "5000");
    }
    Pair { simulator, forwarder, first, second, _folder: folder }
}

impl Pair {
    /// So many payouts in one request: they wait in the pool of whoever holds the lane.
    fn hand_in(&self, from: usize) {
        let payout = |n: usize| {
            let (key, receiver) = (key(n), format!("r{}.near", n % PAYOUTS));
            json!({"idempotency_key": key, "receiver_id": receiver, "amount": "1", "memo": key})
        };
        let payouts: Vec<Value> = (from..from + PAYOUTS).map(payout).collect();
        let url = format!("{}/transfers", self.second.url);
        let answer = request("POST", &url, &[], &json!(payouts).to_string());
        assert!(matches!(answer, Some((200, _))), "{answer:?}");
    }

    fn until_holder(&self, name: &str) {
        wait_for(name, || {
            let lanes = self.second.json(&["lanes", "--json"]);
            (lanes[0]["holder"] == name).then_some(())
        });
    }

    fn landed(&self) -> usize {
        self.simulator.paid().values().sum()
    }

    /// Waits until nothing lands any more: the first relay waits for its store.
    fn until_quiet(&self) {
        let (mut landed, mut since) = (self.landed(), Instant::now());
        wait_for("the first relay to wait for its store", || {
            let now = self.landed();
            if now != landed {
                (landed, since) = (now, Instant::now());
            }
            (since.elapsed() > QUIET).then_some(())
        });
    }

    /// Stops the first relay while what it signed is held, until the lane is the second's and at
    /// work. Whether its attempt was refused then.
    fn pause(&self, process: &Process, handed_in: usize) -> bool {
        let refusals = self.refusals();
        wait_for("full swing", || (self.landed() >= handed_in - PAYOUTS + SWING).then_some(()));
        self.forwarder.hold();
        self.until_quiet();
        process.signal("-STOP");
        self.until_holder("second");
        let before = self.landed();
        wait_for("the second relay to pay", || {
            let landed = self.landed();
            (landed > before || landed == handed_in).then_some(())
        });
        process.signal("-CONT");
        self.forwarder.release();
        let begun = Instant::now();
        wait_for("a refusal", || {
            let refused = self.refusals() > refusals;
            (refused || begun.elapsed() > REFUSED_WITHIN).then_some(refused)
        })
    }

    fn refusals(&self) -> usize {
        let log = self.first.log();
        let is_refusal = |line: &&str| line.contains("the store refuses what was signed");
        log.lines().filter(is_refusal).filter(|line| line.contains("is over")).count()
    }
}

fn key(n: usize) -> String {
    format!("payout-{n}")
}

#[test]
fn an_instance_that_slept_through_its_lease_while_signing_is_refused_by_its_epoch_on_postgres() {
    is_refused_by_its_epoch(pair(&Postgres::start().expect("PostgreSQL starts")));
}

#[test]
fn an_instance_that_slept_through_its_lease_while_signing_is_refused_by_its_epoch_on_redis() {
    is_refused_by_its_epoch(pair(&Redis::start(RedisOptions::default()).expect("Redis starts")));
}

fn is_refused_by_its_epoch(pair: Pair) {
    let receivers: Vec<Value> = (0..PAYOUTS).map(|n| json!(format!("r{n}.near"))).collect();
    pair.simulator.post("/sim/register", &json!({"account_ids": receivers}));
    let first = pair.first.serve_logged();
    pair.first.until_ready();
    pair.until_holder("first");
    let mut handed_in = 0;
    let mut second;
    loop {
        second = pair.second.serve_logged();
        pair.second.until_ready();
        pair.hand_in(handed_in);
        handed_in += PAYOUTS;
        if pair.pause(&first, handed_in) {
            break;
        }
        assert!(handed_in < PAUSES * PAYOUTS, "no attempt was refused:\n{}", pair.first.log());
        // Gives the lane back.
        assert_eq!(second.terminate(), Some(0));
        pair.until_holder("first");
    }
    for n in 0..handed_in {
        pair.second.completed(&key(n));
    }
    let paid = pair.simulator.paid();
    assert_eq!(paid.len(), handed_in);
    assert!(paid.values().all(|times| *times == 1), "{paid:?}");
    let health = get(&format!("{}/health", pair.first.url)).expect("it lives on");
    assert_eq!(health["lanes"]["halted"], 0, "{health}");
    let audit = pair.second.run(&["audit"]);
    assert!(audit.status.success(), "{}", text(&audit));
    assert_eq!(first.terminate(), Some(0));
    assert_eq!(second.terminate(), Some(0));
    println!("refused at pause {}", handed_in / PAYOUTS);
}
