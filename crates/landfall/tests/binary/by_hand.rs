//! What an operator decides by hand, as docs/operating.md tells: halted lanes, adrift attempts,
//! dead letters.

use std::path::Path;

use landfall_core::store::{Accepted, Store};
use landfall_core::{Event, Move, NewTransfer, Payload, RailName, State};
use landfall_lanes::SystemClock;
use landfall_store_sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use crate::world::{Process, Relay, Simulator, get, text, wait_for};

struct World {
    simulator: Simulator,
    relay: Relay,
    folder: tempfile::TempDir,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "1", "--block-ms", "50"]);
    let relay = Relay::on(&simulator, folder.path());
    World { simulator, relay, folder }
}

impl World {
    fn serve(&self) -> Process {
        let process = self.relay.serve();
        self.relay.until_ready();
        process
    }

    fn completed(&self, key: &str) {
        self.relay.completed(key);
    }

    fn json(&self, arguments: &[&str]) -> Value {
        self.relay.json(arguments)
    }

    /// Payout "one" is completed; "two" is in an attempt that the ledger took and lost, which is
    /// told as `landfall adrift list` does.
    fn one_paid_and_one_adrift(&self) -> (Process, Value) {
        let process = self.serve();
        self.relay.pay("one", "alice.near", 5);
        self.completed("one");
        self.simulator.post("/sim/faults", &json!({"forget": 1.0}));
        self.relay.pay("two", "alice.near", 6);
        let open = wait_for("an attempt", || {
            let open = self.json(&["adrift", "list", "--all", "--json"])[0].clone();
            open["id"].is_u64().then_some(open)
        });
        (process, open)
    }

    /// The lane's reason for standing still.
    fn until_halted(&self) -> String {
        wait_for("a halt", || {
            let lanes = self.json(&["lanes", "--json"]);
            lanes[0]["halted"]["reason"].as_str().map(str::to_owned)
        })
    }

    fn paid(&self, receiver: &str) -> usize {
        let paid = get(&format!("{}/sim/transfers", self.simulator.url())).expect("the ledger");
        let paid = paid["transfers"].as_array().or(paid.as_array()).expect("a list").clone();
        paid.iter().filter(|one| one.to_string().contains(receiver)).count()
    }

    /// The store of a relay that is stopped: its file, and its log if it has one.
    fn copy_store(&self, from: &str, to: &str) {
        let path = |name: &str, end: &str| self.folder.path().join(format!("{name}{end}"));
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(path(to, end));
            if path(from, end).exists() {
                std::fs::copy(path(from, end), path(to, end)).expect("a copy");
            }
        }
    }

    fn refused(&self, arguments: &[&str], code: i32, said: &str) {
        let output = self.relay.run(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{said:?} is not in {}", text(&output));
    }
}

#[test]
fn a_lane_halted_by_somebody_elses_nonce_goes_on_once_adopted() {
    let world = world();
    let process = world.serve();
    world.relay.pay("one", "alice.near", 5);
    world.completed("one");
    world.refused(&["lanes", "adopt", "--all", "--yes"], 3, "the relay must be stopped first");
    assert_eq!(process.terminate(), Some(0));
    world.simulator.post("/sim/foreign", &json!({"key": 0}));

    let process = world.serve();
    assert!(world.until_halted().contains("newest stored attempt"));
    assert_eq!(process.terminate(), Some(0));
    world.refused(&["lanes", "adopt", "--all"], 2, "add --yes");
    world.refused(&["lanes", "adopt", "near:other", "--yes"], 1, "no halted lane");
    let adopted = world.relay.run(&["lanes", "adopt", "--all", "--yes"]);
    assert!(adopted.status.success(), "{}", text(&adopted));
    assert!(text(&adopted).contains("unexplained"), "{}", text(&adopted));
    assert_eq!(world.json(&["lanes", "adopt", "--all", "--json"]), json!([]));

    let process = world.serve();
    world.relay.pay("two", "bob.near", 6);
    world.completed("two");
    assert_eq!(process.terminate(), Some(0));
}

/// The store goes back to before an attempt that was stored and not yet on the ledger.
#[test]
fn forgotten_attempts_are_fenced_off_before_a_lane_goes_on() {
    let world = world();
    let process = world.serve();
    world.relay.pay("one", "alice.near", 5);
    world.completed("one");
    assert_eq!(process.terminate(), Some(0));
    world.copy_store("store.db", "copy.db");

    let process = world.serve();
    world.simulator.post("/sim/faults", &json!({"forget": 1.0}));
    world.relay.pay("two", "alice.near", 6);
    let open = || world.json(&["adrift", "list", "--all", "--json"])[0]["nonce"].as_u64();
    let nonce = wait_for("an attempt", open);
    process.kill_9();
    world.simulator.post("/sim/faults", &json!({"forget": 0.0}));
    world.copy_store("copy.db", "store.db");

    let process = world.serve();
    assert!(world.until_halted().contains("behind"));
    assert_eq!(process.terminate(), Some(0));
    let adopted = world.json(&["lanes", "adopt", "--all", "--yes", "--json"]);
    assert_eq!(adopted[0]["facts"]["forgotten"][1], json!(nonce));
    assert_eq!(adopted[0]["ledger_nonce"], json!(nonce + 1_000), "a fence has landed above it");

    let process = world.serve();
    world.relay.pay("two", "alice.near", 6);
    world.completed("two");
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(world.paid("alice.near"), 2);
}

/// The fence passes it, and is stored: so it is proven dead, and whom it was to pay is paid.
#[test]
fn what_was_open_when_a_lane_was_adopted_is_decided_without_another_word() {
    let world = world();
    let (process, open) = world.one_paid_and_one_adrift();
    let nonce = open["nonce"].as_u64().expect("a nonce");
    let lane = open["lane"].as_str().expect("a lane").to_owned();
    process.kill_9();
    world.simulator.post("/sim/faults", &json!({"forget": 0.0}));
    // As far as this instance knows, the store has forgotten what came after.
    let marks = world.folder.path().join("landfall-data/high-water");
    let mut text = std::fs::read_to_string(&marks).expect("its marks");
    text.push_str(&format!("\nlane 1 {} {lane} ;", nonce + 3));
    std::fs::write(&marks, text).expect("written");

    let adopted = world.json(&["lanes", "adopt", "--all", "--yes", "--json"]);
    assert_eq!(adopted[0]["facts"]["forgotten"], json!([nonce + 1, nonce + 3]));
    let process = world.serve();
    world.completed("two");
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(world.paid("alice.near"), 2);
    let trail = world.json(&["transfers", "get", "two", "--json"]).to_string();
    assert!(trail.contains("nonce_passed"), "{trail}");
    assert!(world.relay.run(&["audit"]).status.success(), "the fence is one of ours");
}

#[test]
fn an_operators_word_is_taken_only_if_the_ledger_does_not_contradict_it() {
    an_operators_word(Process::kill_9);
}

/// As docs/operating.md tells: an orderly stop gives the lanes back, to nobody.
#[test]
fn an_operators_word_is_taken_after_an_orderly_stop() {
    an_operators_word(|process| assert_eq!(process.terminate(), Some(0)));
}

fn an_operators_word(stop: fn(Process)) {
    let world = world();
    let (process, open) = world.one_paid_and_one_adrift();
    let id = open["id"].to_string();
    let word = |fate| ["adrift", "decide", &id, fate, "--evidence", "nobody has it"];
    world.refused(&word("sunk"), 3, "the relay must be stopped first");
    stop(process);
    world.simulator.post("/sim/faults", &json!({"forget": 0.0}));

    world.refused(&word("sunk"), 1, "it may still land");
    world.simulator.post("/sim/foreign", &json!({"key": 0}));
    let decided = world.relay.run(&word("sunk"));
    assert!(decided.status.success(), "{}", text(&decided));
    world.refused(&word("landed"), 1, "decided already");
    world.refused(&["adrift", "decide", "999", "sunk", "--evidence", "x"], 1, "no attempt 999");
    let two = world.json(&["transfers", "get", "two", "--json"]);
    assert!(two["events"].to_string().contains("nobody has it"), "{two}");

    let process = world.serve();
    world.completed("two");
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(world.paid("alice.near"), 2);
    assert!(world.relay.run(&["adrift", "list"]).status.success());
}

/// Halted lanes, and an attempt on one of them, of a ledger that only another configuration knows.
#[test]
fn lanes_and_attempts_are_left_alone_where_their_ledger_is_not_configured() {
    let mut world = world();
    let (process, open) = world.one_paid_and_one_adrift();
    let id = open["id"].to_string();
    assert_eq!(process.terminate(), Some(0));
    world.simulator.post("/sim/foreign", &json!({"key": 0}));
    let process = world.serve();
    world.until_halted();
    assert_eq!(process.terminate(), Some(0));
    let word = ["adrift", "decide", &id, "sunk", "--evidence", "x"];

    world.relay.set("LANDFALL_NEAR__NETWORK", "othernet");
    let said = "is not on the ledger that is configured here (othernet)";
    world.refused(&["lanes", "adopt", "--all", "--yes"], 3, said);
    world.refused(&word, 3, "is no lane of othernet");

    let of_near = ["NEAR_", "LANDFALL_NEAR__", "FT_", "RELAY_"];
    let is_of_near = |name: &str| of_near.iter().any(|prefix| name.starts_with(prefix));
    world.relay.variables.retain(|(name, _)| !is_of_near(name));
    let service = |name: &str| {
        json!({"name": name, "url": "http://127.0.0.1:1", "freezes": false,
            "dedupe_window_s": "forever"})
    };
    let services = json!([service("funding"), service("trading")]).to_string();
    world.relay.set("LANDFALL_INTERNAL__SERVICES", &services);
    world.relay.set("LANDFALL_INTERNAL__ASSETS", r#"[{"id":1,"symbol":"BTC","decimals":8}]"#);
    let said = "is not on the ledger that is configured here (none)";
    world.refused(&["lanes", "adopt", "--all", "--yes"], 3, said);
    world.refused(&word, 2, "the rail near is not configured");
    assert!(!world.until_halted().is_empty(), "nothing was changed");
}

#[test]
fn an_attempt_decided_as_landed_completes_its_members() {
    let world = world();
    let (process, open) = world.one_paid_and_one_adrift();
    let id = open["id"].to_string();
    process.kill_9();
    let word = ["adrift", "decide", &id, "landed", "--unchecked", "--evidence", "their ledger"];
    let decided = world.relay.run(&word);
    assert!(decided.status.success(), "{}", text(&decided));
    let two = world.json(&["transfers", "get", "two", "--json"]);
    assert_eq!(two["status"], "COMPLETED");
    assert!(two["events"].to_string().contains("their ledger"), "{two}");
}

#[test]
fn torture_holds_and_says_what_it_did() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut torture = crate::world::landfall(folder.path());
    let done = torture.args(["torture", "--seed", "42", "--seeds", "3", "--trace"]).output();
    let done = done.expect("the binary runs");
    assert!(done.status.success(), "{}", text(&done));
    assert!(text(&done).contains("SIMULATED HOURS") && text(&done).contains("held"));
    for seed in 42..45 {
        assert!(folder.path().join(format!("torture-{seed}.trace")).exists());
    }
    let few = crate::world::landfall(folder.path())
        .args(["torture", "--seed", "42", "--transfers", "1", "--moves", "0", "--all-guards"])
        .output()
        .expect("the binary runs");
    assert_eq!(few.status.code(), Some(4), "one payout meets few guards: {}", text(&few));
    assert!(text(&few).contains("never met"), "{}", text(&few));
    let wrong = crate::world::landfall(folder.path())
        .args(["torture", "--without", "gravity"])
        .output()
        .expect("the binary runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong).contains("\"gravity\" is no fault"), "{}", text(&wrong));
}

/// Adds a dead letter to the store of a relay that is stopped: what "one" pays, under another key
/// and with the memo of "again". Returns its number.
async fn bury(path: &Path) -> String {
    let clock = std::sync::Arc::new(SystemClock::default());
    let store = SqliteStore::open(path, clock, SqliteOptions::default()).expect("a store");
    let one = store.by_key(RailName::Near, "", "one").await.expect("a read").expect("paid");
    let Payload::Near(mut payout) = one.payload else { panic!("{:?}", one.payload) };
    payout.memo = Some("again".into());
    let payload = Payload::Near(payout);
    let (first, events) = (State::all(RailName::Near)[0], [Event::Enqueued]);
    let (scope, now_ms) = ((String::new(), "dead".to_owned()), one.updated_ms + 1);
    let print = payload.fingerprint();
    let new = NewTransfer::begin(scope, print, payload, first, &events, now_ms);
    let taken = store.accept(vec![new.expect("legal")]).await.expect("a commit").pop();
    let Some(Accepted::Created(transfer)) = taken else { panic!("{taken:?}") };
    let step = Move::of(&transfer, now_ms + 1).fire(Event::GaveUp).expect("legal");
    store.apply(vec![step]).await.expect("a commit");
    transfer.id.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_paid_once_it_is_replayed() {
    let world = world();
    let process = world.serve();
    world.relay.pay("one", "alice.near", 5);
    world.completed("one");
    assert_eq!(process.terminate(), Some(0));
    let id = bury(&world.folder.path().join("store.db")).await;

    let process = world.serve();
    world.relay.pay("again", "alice.near", 5);
    world.completed("again");
    let replay = ["dead", "replay", &id, "--reason", "it was our fault"];
    world.refused(&replay, 3, &format!("POST /dead/{id}/replay"));
    assert_eq!(process.terminate(), Some(0));

    let dead = world.json(&["dead", "list", "--json"]);
    assert_eq!((&dead[0]["id"].to_string(), dead.as_array().expect("a list").len()), (&id, 1));
    let shown = world.relay.run(&["dead", "show", &id]);
    assert!(text(&shown).contains("its client is told FAILED since"), "{}", text(&shown));
    assert!(text(&shown).contains("asked for again: transfer"), "{}", text(&shown));
    world.refused(&replay, 1, "add --anyway");
    world.refused(&["dead", "show", "1"], 1, "there is no dead letter 1");
    world.refused(&["dead", "replay", "1", "--reason", "x"], 1, "is COMPLETED: only what failed");
    let replayed = world.relay.run(&[&replay[..], &["--anyway"]].concat());
    assert!(replayed.status.success(), "{}", text(&replayed));
    assert_eq!(world.json(&["dead", "list", "--json"]), json!([]));

    let process = world.serve();
    world.completed("dead");
    assert_eq!(world.paid("alice.near"), 3);
    assert_eq!(process.terminate(), Some(0));
}
