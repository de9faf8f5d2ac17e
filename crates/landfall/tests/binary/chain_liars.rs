//! Three nodes of an EVM chain, the middle one a liar: what it says decides nothing, and it is
//! named.
//!
//! The chain's own books are asked, past all nodes: each call is made once, and was told success
//! only once it was final. The relay is killed once at work, while the lie goes on.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::chain_liar::{Liar, Lie};
use crate::counter::{Counter, once};
use crate::world::{Process, Relay, get, text, wait_for};

const CALLS: usize = 60;
/// The node that lies.
const MIDDLE: usize = 1;
/// Lines of the relay's log that a failure shows.
const LAST_WORDS: usize = 30;

struct World {
    counter: Counter,
    liar: Liar,
    relay: Relay,
    ids: Vec<String>,
    /// Of alerts that a node contradicts the others, in all of the relay's lives.
    contradictions: BTreeSet<String>,
    caught: BTreeSet<String>,
    _folder: tempfile::TempDir,
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

fn world(lie: Lie) -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let chain = ["--nodes", "3", "--signers", "6", "--block-ms", "150"];
    let counter = Counter::start(folder.path(), &chain);
    let node = |index: usize| counter.said["rpc_urls"][index].as_str().expect("three nodes");
    let liar = Liar::before(node(MIDDLE), lie);
    let mut relay = counter.relay(&[node(0), &liar.url, node(2)], folder.path());
    relay.set("LANDFALL_EVM__SIGNERS", &counter.said["signers"].to_string());
    relay.set("LANDFALL_EVM__RPC_TIMEOUT_MS", "2000");
    relay.set("LANDFALL_EVM__REPLACE_AFTER_MS", "2000");
    relay.set("LANDFALL_ENGINE__REBROADCAST_MS", "200");
    relay.set("LANDFALL_ENGINE__REBROADCAST_MAX_MS", "1000");
    let (ids, contradictions, caught) = Default::default();
    World { counter, liar, relay, ids, contradictions, caught, _folder: folder }
}

impl World {
    fn start(&self) -> Process {
        let process = self.relay.serve_logged();
        self.relay.until_ready();
        process
    }

    fn hand_in(&mut self, numbers: std::ops::Range<usize>) {
        for number in numbers {
            let id = self.counter.hand_in(&self.relay, number);
            self.ids.push(id);
        }
    }

    /// One look at the relay: how many are a success. Each of them must be final on the chain.
    fn watch(&mut self) -> usize {
        let url = format!("{}/api/v1/relay/transactions?state=success&limit=500", self.relay.url);
        let Some(page) = get(&url) else { return 0 };
        let told = page["transfers"].as_array().expect("a list").clone();
        let newest = self.counter.ask("eth_getBlockByNumber", json!(["finalized", false]));
        let newest = number(&newest["number"]);
        let landed: BTreeSet<String> = self
            .counter
            .transactions()
            .iter()
            .filter(|one| one["status"] == 1 && one["block"].as_u64() <= newest)
            .filter_map(|one| one["hash"].as_str().map(str::to_owned))
            .collect();
        for call in &told {
            let hash = call["hash"].as_str().expect("a hash");
            assert!(landed.contains(hash), "success, and not final on the chain: {call}");
        }
        self.note_health();
        told.len()
    }

    fn note_health(&mut self) {
        let Some(health) = get(&format!("{}/health", self.relay.url)) else { return };
        let texts = |alert: &Value| alert["message"].as_str().unwrap_or_default().to_owned();
        let alerts = health["alerts"].as_array().expect("a list").iter();
        let contradictions = alerts.filter(|alert| alert["kind"] == "node_contradicts");
        self.contradictions.extend(contradictions.map(texts));
        let endpoints = health["rails"][0]["endpoints"].as_array().expect("a list").iter();
        let caught = endpoints.filter(|endpoint| endpoint["caught"]["times"].as_u64() > Some(0));
        let origins = caught.filter_map(|endpoint| endpoint["endpoint"].as_str());
        self.caught.extend(origins.map(str::to_owned));
        assert_eq!(health["lanes"]["halted"], 0, "a lane is halted: {health}");
    }

    /// Killed with half of it on its way, and started again with the rest.
    fn run(&mut self) -> Process {
        let process = self.start();
        self.hand_in(0..CALLS / 2);
        wait_for("something to be done", || (self.watch() > 0).then_some(()));
        process.kill_9();
        let process = self.start();
        self.hand_in(CALLS / 2..CALLS);
        let begun = std::time::Instant::now();
        wait_for("every call to succeed", || (self.watch() == CALLS).then_some(()));
        println!("done {:?} after the kill, told {} lies", begun.elapsed(), self.liar.told());
        process
    }

    /// What the liar still holds back can do nothing any more.
    fn until_nothing_is_held_back(&self) {
        wait_for("the liar to pass on what it holds", || (self.liar.holds() == 0).then_some(()));
        let head = || number(&self.counter.ask("eth_blockNumber", json!([])));
        let passed_on = head();
        wait_for("two more blocks", || (head() > passed_on.map(|head| head + 2)).then_some(()));
    }

    /// By `/health` and by an alert.
    fn until_named(&mut self) {
        wait_for("the liar to be named", || {
            self.note_health();
            let named = self.contradictions.iter().any(|message| message.contains(&self.liar.url));
            (named && self.caught.contains(&self.liar.url)).then_some(())
        });
    }
}

fn number(quantity: &Value) -> Option<u64> {
    u64::from_str_radix(quantity.as_str()?.strip_prefix("0x")?, 16).ok()
}

/// Everything is done once, the audit is clean, and nobody but the liar is called one.
fn is_exact(lie: Lie, is_named: bool) -> World {
    let mut world = world(lie);
    let process = world.run();
    if is_named {
        world.until_named();
    }
    world.until_nothing_is_held_back();
    assert_eq!(world.counter.times(), once(0..CALLS));
    assert_eq!(world.counter.count(), CALLS);
    assert!(world.liar.told() > 0, "nobody asked the liar");
    let honest = |url: &String| *url != world.liar.url;
    assert!(!world.caught.iter().any(honest), "{:?}", world.caught);
    let audit = world.relay.run(&["audit", "evm"]);
    assert!(audit.status.success(), "{}", text(&audit));
    assert_eq!(process.terminate(), Some(0));
    world
}

#[test]
fn a_node_that_tells_of_calls_never_made_completes_nothing() {
    is_exact(Lie::Success, true);
}

#[test]
fn a_node_that_tells_of_reverts_that_never_were_fails_nothing() {
    is_exact(Lie::Revert, true);
}

#[test]
fn a_node_that_hides_what_is_in_blocks_makes_nobody_call_twice() {
    is_exact(Lie::Absence, true);
}

#[test]
fn a_node_that_tells_of_nonces_never_used_halts_no_lane_of_a_chain() {
    is_exact(Lie::NoncesMore, true);
}

#[test]
fn a_node_that_denies_nonces_that_are_used_makes_nobody_use_them_again() {
    is_exact(Lie::NoncesNone, true);
}

/// What the next block costs is a guess that honest nodes make differently: nobody is named.
#[test]
fn a_node_that_tells_of_fees_that_nobody_asks_makes_nobody_pay_them() {
    let world = is_exact(Lie::Fees, false);
    let dearest = world.counter.transactions().into_iter().map(|one| {
        let hash = one["hash"].clone();
        number(&world.counter.ask("eth_getTransactionByHash", json!([hash]))["maxFeePerGas"])
    });
    // The relay's own cap is 500 gwei.
    assert!(dearest.max().flatten() < Some(100_000_000_000), "what the liar said was offered");
}

#[test]
fn a_node_that_refuses_bytes_and_passes_them_on_later_makes_nobody_call_twice() {
    is_exact(Lie::Refusal, true);
}

/// Who can pay what at the newest block honest nodes may see differently: nobody is named.
#[test]
fn a_node_that_calls_every_signer_poor_stops_nothing() {
    is_exact(Lie::Poverty, false);
}

#[test]
fn a_node_that_tells_of_heights_never_reached_stops_no_chain() {
    is_exact(Lie::Heights, true);
}
