//! Calls to a counter by relayers that take and do not answer, lose, and take twice.
//!
//! The relayers' own book and the chain are asked, past the relay: no request is ever posted a
//! second time but by an operator's word, and what nobody can know is adrift, not failed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::counter::{Counter, numbered, once, simulator};
use crate::world::{Process, Relay, get, request, text, wait_for};

const CALLS: usize = 150;
/// How long the relay waits for an answer that never comes.
const TIMEOUT_MS: u64 = 500;

struct World {
    counter: Counter,
    /// Where the faults of all relayers are set, and their book is shown.
    relayer: String,
    relay: Relay,
    /// The number of each call, by the id that it was answered with.
    calls: BTreeMap<String, usize>,
    _relayers: Process,
    _folder: tempfile::TempDir,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let counter = Counter::start(folder.path(), &["--block-ms", "100", "--signers", "2"]);
    let key = |index: usize| counter.said["signers"][index].as_str().expect("a key");
    let arguments = ["evm-relayer", "--rpc", counter.url(), "--key", key(0), "--key", key(1)];
    let (_relayers, announced) = simulator(folder.path(), &arguments);
    let relayer = |one: &Value| {
        let (url, id, api_key) = (&one["url"], &one["id"], &announced["api_key"]);
        json!({"url": url, "id": id, "api_key": api_key, "timeout_ms": TIMEOUT_MS})
    };
    let relayers = announced["relayers"].as_array().expect("two").iter().map(relayer);
    let mut relay = counter.relay(&[counter.url()], folder.path());
    relay.set("LANDFALL_EVM__EXECUTOR", "openzeppelin");
    relay.set("LANDFALL_EVM__RELAYERS", &json!(relayers.collect::<Vec<Value>>()).to_string());
    let relayer = announced["relayers"][0]["url"].as_str().expect("a URL").to_owned();
    World { counter, relayer, relay, calls: BTreeMap::new(), _relayers, _folder: folder }
}

impl World {
    fn serve(&self) -> Process {
        let process = self.relay.serve();
        self.relay.until_ready();
        process
    }

    fn faults(&self, faults: Value) {
        let url = format!("{}/sim/faults", self.relayer);
        let (status, said) = request("POST", &url, &[], &faults.to_string()).expect("it answers");
        assert_eq!(status, 200, "{said}");
    }

    fn hand_in(&mut self, number: usize) {
        let id = self.counter.hand_in(&self.relay, number);
        self.calls.insert(id, number);
    }

    fn book(&self) -> Value {
        get(&format!("{}/sim/transactions", self.relayer)).expect("the book")
    }

    /// How often each call is in the relayers' book.
    fn taken(&self) -> BTreeMap<usize, usize> {
        numbered(self.book()["transactions"].as_array().expect("a list"))
    }

    /// The numbers of the calls in this state, as the store has it.
    fn in_state(&self, state: &str) -> Vec<usize> {
        let asked = ["transfers", "list", "--state", state, "--limit", "1000", "--json"];
        let list = self.relay.json(&asked);
        let mut numbers: Vec<usize> = list
            .as_array()
            .expect("a list")
            .iter()
            .map(|one| self.number(&one["transfer_id"]))
            .collect();
        numbers.sort_unstable();
        numbers
    }

    fn number(&self, id: &Value) -> usize {
        self.calls[id.as_str().expect("an id")]
    }

    /// Waits until all are done but these, which stay as they are.
    fn until_only_adrift(&self, adrift: impl Fn() -> Vec<usize>) -> Vec<usize> {
        wait_for("all to be done that can be known", || {
            let (open, adrift) = (self.in_state("submitted"), adrift());
            let done = self.in_state("success").len();
            (open == adrift && done + open.len() == self.calls.len()).then_some(open)
        })
    }

    /// An operator reads the book and decides every attempt that is open. The relay is stopped.
    fn decide_by_the_book(&self) {
        let (taken, list) =
            (self.taken(), self.relay.json(&["transfers", "list", "--limit", "1000", "--json"]));
        let number = |member: &Value| {
            let one = list.as_array().expect("a list").iter().find(|one| one["id"] == *member);
            self.number(&one.expect("a transfer")["transfer_id"])
        };
        for attempt in
            self.relay.json(&["adrift", "list", "--all", "--json"]).as_array().expect("a list")
        {
            let id = attempt["id"].to_string();
            let fate = match taken.contains_key(&number(&attempt["members"][0])) {
                true => "landed",
                false => "sunk",
            };
            let word = ["adrift", "decide", &id, fate, "--unchecked", "--evidence", "their book"];
            let decided = self.relay.run(&word);
            assert!(decided.status.success(), "{}", text(&decided));
        }
    }
}

/// Killed at work as well: what was stored and perhaps posted is not posted again.
#[test]
fn relayers_that_do_not_answer_are_asked_once_for_each_call_and_an_operator_ends_the_rest() {
    let mut world = world();
    world.faults(json!({"hang": 0.15, "lose_answer": 0.1, "lose_post": 0.05}));
    let mut process = world.serve();
    for number in 0..CALLS {
        world.hand_in(number);
        if number % (CALLS / 3) == CALLS / 4 {
            process.kill_9();
            process = world.serve();
        }
    }
    let missing = |world: &World| {
        let taken = world.taken();
        (0..CALLS).filter(|number| !taken.contains_key(number)).collect::<Vec<usize>>()
    };
    let adrift = world.until_only_adrift(|| missing(&world));
    assert!(!adrift.is_empty(), "nothing was lost");
    assert!(world.taken().values().all(|times| *times == 1), "{:?}", world.taken());
    assert!(world.in_state("failed").is_empty());
    println!("{} adrift after {} POSTs", adrift.len(), world.book()["posts"]);

    world.faults(json!({"hang": 0.0, "lose_answer": 0.0, "lose_post": 0.0}));
    assert_eq!(process.terminate(), Some(0));
    world.decide_by_the_book();
    let process = world.serve();
    world.until_only_adrift(Vec::new);
    assert_eq!(world.counter.times(), once(0..CALLS));
    assert_eq!(world.counter.count(), CALLS);
    let audit = world.relay.run(&["audit", "evm"]);
    assert!(audit.status.success(), "{}", text(&audit));
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn what_a_relayer_takes_twice_was_posted_once_and_is_adrift_unless_it_has_answered() {
    let mut world = world();
    world.faults(json!({"hang": 0.2, "duplicate": 0.2}));
    let process = world.serve();
    for number in 0..CALLS {
        world.hand_in(number);
    }
    // Of what it has taken twice, some were answered; the others nobody can tell apart.
    wait_for("each to be taken", || (world.taken().len() == CALLS).then_some(()));
    let settled = wait_for("all to be done that can be known", || {
        let taken = world.taken();
        let is_twice = |number: &usize| taken[number] == 2;
        let (open, done) = (world.in_state("submitted"), world.in_state("success"));
        let are_all = open.len() + done.len() == CALLS;
        (are_all && open.iter().all(is_twice)).then_some(open)
    });
    assert!(!settled.is_empty(), "nothing was ambiguous");
    assert_eq!(world.book()["posts"], CALLS, "each was posted once");
    let taken = world.taken();
    assert_eq!(world.counter.times(), taken, "all that was taken was done");
    assert_eq!(process.terminate(), Some(0));

    world.decide_by_the_book();
    let process = world.serve();
    world.until_only_adrift(Vec::new);
    assert_eq!(world.book()["posts"], CALLS, "and never again");
    assert_eq!(
        (world.counter.times(), world.counter.count()),
        (taken.clone(), taken.values().sum())
    );
    assert_eq!(process.terminate(), Some(0));
}
