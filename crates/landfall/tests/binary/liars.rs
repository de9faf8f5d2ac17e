//! Three nodes, the middle one a liar: what it says decides nothing, and it is named.
//!
//! The ledger's own books are asked, past all nodes: each payout is paid once, and was told
//! COMPLETED only once the block that paid it was final. A lie is told for as long as the test
//! lasts: to a relay that is left alone, and to one that loses answers and is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::liar::{Liar, Lie};
use crate::world::{Process, Relay, Simulator, get, request, text, wait_for};

const PAYOUTS: usize = 200;
/// The node that lies.
const MIDDLE: usize = 1;
/// The share of answers that are lost, by every node.
const LOST: f64 = 0.05;
const KILL_EVERY: Duration = Duration::from_secs(2);
/// Then it is left alive, to finish while the lie goes on.
const KILLS: usize = 4;
/// Lines of the relay's log that a failure shows.
const LAST_WORDS: usize = 30;
/// Blocks after which a block is final, by the ledger's rule.
const FINALITY_BLOCKS: u64 = 2;

struct World {
    simulator: Simulator,
    liar: Liar,
    relay: Relay,
    seen: Seen,
    _folder: tempfile::TempDir,
}

/// What `/health` told in all of the relay's lives.
#[derive(Default)]
struct Seen {
    /// Of alerts that a node contradicts the others.
    contradictions: BTreeSet<String>,
    caught: BTreeSet<String>,
}

fn world(lie: Lie, lost: f64) -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = ["--nodes", "3", "--keys", "3", "--block-ms", "150"];
    let mut simulator = Simulator::start(folder.path(), &ledger);
    // The others are registered by the relay: lies are told of that, too.
    let registered: Vec<String> = (0..PAYOUTS).step_by(2).map(receiver).collect();
    simulator.post("/sim/register", &json!({"account_ids": registered}));
    simulator.post("/sim/faults", &json!({"lose_answer": lost}));
    let middle = simulator.said["rpc_urls"][MIDDLE].as_str().expect("three nodes").to_owned();
    let liar = Liar::before(&middle, lie, lost);
    simulator.said["rpc_urls"][MIDDLE] = json!(liar.url);
    let mut relay = Relay::on(&simulator, folder.path());
    // Small batches make many attempts, so that each lie meets many of them.
    relay.set("LANDFALL_NEAR__BATCH_MAX", "5");
    relay.set("LANDFALL_NEAR__RPC_TIMEOUT_MS", "2000");
    relay.set("LANDFALL_ENGINE__FENCE_AFTER_MS", "3000");
    relay.set("LANDFALL_ENGINE__REBROADCAST_MS", "200");
    relay.set("LANDFALL_ENGINE__REBROADCAST_MAX_MS", "2000");
    relay.set("LANDFALL_ENGINE__SWEEP_MS", "200");
    relay.set("LANDFALL_LOG__LEVEL", "info");
    World { simulator, liar, relay, seen: Seen::default(), _folder: folder }
}

fn key(n: usize) -> String {
    format!("payout-{n:03}")
}

fn receiver(n: usize) -> String {
    format!("r{n}.near")
}

impl Drop for World {
    /// What the relay said last, for whoever reads of a failure.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.relay.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("{}", lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n"));
        }
    }
}

/// A payment on the ledger.
struct Payment {
    memo: String,
    block: u64,
}

impl World {
    fn start(&self) -> Process {
        let process = self.relay.serve_logged();
        self.relay.until_ready();
        process
    }

    /// In one request, again until it is answered: they wait in the relay's pools.
    fn hand_in(&self, numbers: Range<usize>) {
        let payout = |n: usize| {
            let (key, receiver) = (key(n), receiver(n));
            json!({"idempotency_key": key, "receiver_id": receiver, "amount": "10", "memo": key})
        };
        let payouts = json!(numbers.map(payout).collect::<Vec<Value>>()).to_string();
        let url = format!("{}/transfers", self.relay.url);
        wait_for("the payouts to be taken", || {
            request("POST", &url, &[], &payouts).filter(|(status, _)| *status == 200)
        });
    }

    /// What the ledger itself says, past every node.
    fn books(&self, page: &str) -> Value {
        get(&format!("{}/sim/{page}", self.simulator.url())).expect("the ledger")
    }

    /// Every payment that took effect, final or not.
    fn payments(&self) -> Vec<Payment> {
        let payment = |one: &Value| Payment {
            memo: one["memo"].as_str().unwrap_or("(no memo)").to_owned(),
            block: one["block"].as_u64().expect("a height"),
        };
        self.books("transfers").as_array().expect("a list").iter().map(payment).collect()
    }

    /// One look at the relay: how many are COMPLETED. Each of them must be final on the ledger.
    fn watch(&mut self) -> usize {
        let url = format!("{}/transfers?status=COMPLETED&limit=500", self.relay.url);
        let Some(page) = get(&url) else { return 0 };
        let told = page["transfers"].as_array().expect("a list").clone();
        let payments = self.payments();
        let final_height = self.books("stats")["final_height"].as_u64().expect("a height");
        let is_final = |payment: &&Payment| payment.block <= final_height;
        let paid: BTreeSet<&str> =
            payments.iter().filter(is_final).map(|payment| payment.memo.as_str()).collect();
        for transfer in &told {
            let key = transfer["transfer_id"].as_str().expect("a key");
            assert!(paid.contains(key), "COMPLETED, and not final on the ledger: {transfer}");
        }
        self.note_health();
        told.len()
    }

    fn note_health(&mut self) {
        let Some(health) = get(&format!("{}/health", self.relay.url)) else { return };
        let texts = |alert: &Value| alert["message"].as_str().unwrap_or_default().to_owned();
        let alerts = health["alerts"].as_array().expect("a list").iter();
        let contradictions = alerts.filter(|alert| alert["kind"] == "node_contradicts");
        self.seen.contradictions.extend(contradictions.map(texts));
        let endpoints = health["rails"][0]["endpoints"].as_array().expect("a list").iter();
        let caught = endpoints.filter(|endpoint| endpoint["caught"]["times"].as_u64() > Some(0));
        let origins = caught.filter_map(|endpoint| endpoint["endpoint"].as_str());
        self.seen.caught.extend(origins.map(str::to_owned));
        assert_eq!(health["lanes"]["halted"], 0, "a lane is halted: {health}");
    }

    fn until_done(&mut self) {
        let begun = Instant::now();
        wait_for("every payout to be COMPLETED", || (self.watch() == PAYOUTS).then_some(()));
        println!("done after {:?}, told {} lies", begun.elapsed(), self.liar.told());
    }

    /// Killed every two seconds and started again, each time with more to pay. The last one lives.
    fn kill_again_and_again(&mut self) -> Process {
        let wave = PAYOUTS / (KILLS + 1);
        let mut unfinished = 0;
        for life in 0..KILLS {
            let process = self.start();
            let (first, handed_in) = (life * wave, (life + 1) * wave);
            self.hand_in(first..first + wave / 2);
            let begun = Instant::now();
            wait_for("the next kill", || {
                self.watch();
                (begun.elapsed() > KILL_EVERY).then_some(())
            });
            // However quick it was with the others.
            self.hand_in(first + wave / 2..handed_in);
            let done = self.watch();
            process.kill_9();
            unfinished += handed_in - done;
        }
        assert!(unfinished > 0, "it was never killed at work");
        let process = self.start();
        self.hand_in(KILLS * wave..PAYOUTS);
        process
    }

    fn assert_paid_once(&self) {
        let payments = self.payments();
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for payment in &payments {
            *times.entry(&payment.memo).or_default() += 1;
        }
        let wrong: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
        assert!(wrong.is_empty(), "paid more than once: {wrong:?}");
        assert_eq!(times.len(), PAYOUTS);
    }

    /// By the times that both have written down: the relay for the client, the ledger in its block.
    fn assert_completed_once_final(&self) {
        let url = format!("{}/transfers?limit=500", self.relay.url);
        let page = get(&url).expect("it lives");
        let mut completed = BTreeMap::new();
        for transfer in page["transfers"].as_array().expect("a list") {
            let at: jiff::Timestamp =
                transfer["completed_at"].as_str().expect("completed").parse().expect("a time");
            let key = transfer["transfer_id"].as_str().expect("a key").to_owned();
            completed.insert(key, at.as_millisecond());
        }
        let mut final_ms = BTreeMap::new();
        for payment in self.payments() {
            let deciding = payment.block + FINALITY_BLOCKS;
            let since_ms = *final_ms.entry(deciding).or_insert_with(|| self.block_ms(deciding));
            let told_ms = completed[&payment.memo];
            assert!(
                told_ms >= since_ms,
                "{} was told {}ms early",
                payment.memo,
                since_ms - told_ms
            );
        }
    }

    /// When a block was made.
    fn block_ms(&self, height: u64) -> i64 {
        let block = json!({"jsonrpc": "2.0", "id": 1, "method": "block",
            "params": {"block_id": height}});
        let (_, answer) =
            request("POST", self.simulator.url(), &[], &block.to_string()).expect("an honest node");
        let ns = answer["result"]["header"]["timestamp"].as_u64().expect("a time");
        i64::try_from(ns / 1_000_000).expect("a time")
    }

    /// The liar, and nobody else.
    fn assert_named(&self) {
        let (seen, liar) = (&self.seen, &self.liar.url);
        assert!(self.liar.told() > 0, "nobody asked the liar");
        let names_it = |message: &String| message.contains(liar);
        assert!(seen.contradictions.iter().any(names_it), "{liar} in {:?}", seen.contradictions);
        assert_eq!(seen.caught, BTreeSet::from([liar.clone()]));
    }

    fn times_caught(&self) -> u64 {
        let (_, metrics) =
            request("GET", &format!("{}/metrics", self.relay.url), &[], "").expect("it lives");
        let endpoint = format!("endpoint=\"{}\"", self.liar.url);
        let samples = metrics.as_str().expect("text").lines();
        let counted = samples.filter(|line| line.starts_with("landfall_rpc_caught{"));
        let of_liar = counted.filter(|line| line.contains(&endpoint));
        of_liar.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Whatever the liar still holds back is on the ledger, and final.
    fn until_nothing_is_held_back(&self) {
        wait_for("the liar to pass on what it holds", || (self.liar.holds() == 0).then_some(()));
        let passed_on = self.books("stats")["height"].as_u64().expect("a height");
        wait_for("that to be final", || {
            let stats = self.books("stats");
            let is_final = stats["final_height"].as_u64() > Some(passed_on + FINALITY_BLOCKS);
            (is_final && stats["pool"] == 0).then_some(())
        });
    }

    fn check(&mut self) {
        self.until_nothing_is_held_back();
        // What is asked from here on is asked of the ledger itself.
        self.simulator.post("/sim/faults", &json!({"lose_answer": 0.0}));
        self.assert_paid_once();
        self.assert_completed_once_final();
        let lanes = self.relay.json(&["lanes", "--json"]);
        let halted = |lane: &&Value| !lane["halted"].is_null();
        assert_eq!(lanes.as_array().expect("a list").iter().find(halted), None);
        self.assert_named();
    }
}

fn left_alone(lie: Lie) {
    let mut world = world(lie, 0.0);
    let process = world.start();
    world.hand_in(0..PAYOUTS);
    world.until_done();
    world.check();
    assert!(world.times_caught() > 0, "no metric counts how often it was caught");
    let audit = world.relay.run(&["audit"]);
    assert!(audit.status.success(), "{}", text(&audit));
    assert_eq!(process.terminate(), Some(0));
}

fn on_a_bad_day(lie: Lie) {
    let mut world = world(lie, LOST);
    let process = world.kill_again_and_again();
    world.until_done();
    world.check();
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_node_that_refuses_what_it_passes_on_later_makes_nobody_pay_twice() {
    left_alone(Lie::Refusal);
}

#[test]
fn a_node_that_refuses_what_it_passes_on_later_makes_nobody_pay_twice_on_a_bad_day() {
    on_a_bad_day(Lie::Refusal);
}

#[test]
fn a_node_that_tells_of_payments_never_made_completes_nothing() {
    left_alone(Lie::Success);
}

#[test]
fn a_node_that_tells_of_payments_never_made_completes_nothing_on_a_bad_day() {
    on_a_bad_day(Lie::Success);
}

#[test]
fn a_node_that_tells_of_nonces_never_used_halts_no_lane() {
    left_alone(Lie::Nonces);
}

#[test]
fn a_node_that_tells_of_nonces_never_used_halts_no_lane_on_a_bad_day() {
    on_a_bad_day(Lie::Nonces);
}

#[test]
fn a_node_that_tells_of_heights_never_reached_stops_nothing() {
    left_alone(Lie::Heights);
}

#[test]
fn a_node_that_tells_of_heights_never_reached_stops_nothing_on_a_bad_day() {
    on_a_bad_day(Lie::Heights);
}
