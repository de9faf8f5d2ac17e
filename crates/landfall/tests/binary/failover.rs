//! A PostgreSQL pair as docs/operating.md has it: the standby is synchronous, relays are given both
//! addresses and take whichever accepts writes.
//!
//! What a client was told is on both, so a promotion forgets nothing: no lane halts, nobody is paid
//! twice, nobody is left unpaid. The replica that was behind is in `went_back`.

use std::process::Command;
use std::time::Instant;

use landfall_servers::Postgres;
use serde_json::{Value, json};

use crate::world::{Relay, Simulator, request, text, wait_for};

/// Payouts: before the primary is killed, while nobody answers, after.
const STRETCHES: [(&str, usize); 3] = [("before", 60), ("amidst", 20), ("after", 20)];

fn psql(server: &Postgres, command: &str) -> String {
    let arguments = ["-v", "ON_ERROR_STOP=1", "-qtAc", command, server.url()];
    let said = Command::new("psql").args(arguments).output().expect("psql runs");
    assert!(said.status.success(), "{command}: {}", text(&said));
    text(&said).trim().to_owned()
}

/// A primary that tells nobody of a commit before its standby has it, too.
fn pair() -> (Postgres, Postgres) {
    let primary = Postgres::start().expect("PostgreSQL starts");
    let standby = primary.replica().expect("a standby");
    psql(&primary, "ALTER SYSTEM SET synchronous_standby_names = '*'");
    psql(&primary, "SELECT pg_reload_conf()");
    wait_for("the standby to be synchronous", || {
        let state = psql(&primary, "SELECT sync_state FROM pg_stat_replication");
        (state == "sync").then_some(())
    });
    (primary, standby)
}

#[test]
fn a_synchronous_standby_that_is_promoted_takes_over_without_a_halt() {
    let (primary, standby) = pair();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url = format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write");
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "4", "--block-ms", "100"]);
    let relays = ["one", "two"].map(|name| Relay::shared(&simulator, folder.path(), name, &url));
    let processes = relays.each_ref().map(|relay| {
        let process = relay.serve_logged();
        relay.until_ready();
        process
    });
    let key = |name: &str, index: usize| format!("{name}-{index}");
    let pay = |name: &str, index: usize| {
        // Whichever is asked; the first to answer pays.
        relays[index % 2].pay(&key(name, index), &format!("r{index}.near"), 5);
    };
    std::thread::scope(|scope| {
        let [before, amidst, after] = STRETCHES;
        (0..before.1).for_each(|index| pay(before.0, index));
        primary.kill().expect("killed");
        // These clients repeat themselves until somebody answers again.
        scope.spawn(move || (0..amidst.1).for_each(|index| pay(amidst.0, index)));
        psql(&standby, "SELECT pg_promote()");
        let promoted = Instant::now();
        (0..after.1).for_each(|index| pay(after.0, index));
        relays[0].completed(&key(after.0, 0));
        eprintln!("paying again {:.1} s after the promotion", promoted.elapsed().as_secs_f64());
    });
    for (name, count) in STRETCHES {
        (0..count).for_each(|index| relays[0].completed(&key(name, index)));
    }
    let lanes = relays[0].json(&["lanes", "--json"]);
    let is_halted = |lane: &Value| !lane["halted"].is_null();
    assert!(!lanes.as_array().expect("lanes").iter().any(is_halted), "{lanes}");
    let paid = simulator.paid();
    assert_eq!(paid.len(), STRETCHES.iter().map(|(_, count)| count).sum::<usize>());
    assert!(paid.values().all(|times| *times == 1), "{}", json!(paid));
    let audit = relays[1].run(&["audit"]);
    assert!(audit.status.success(), "{}", text(&audit));
    for process in processes {
        assert_eq!(process.terminate(), Some(0));
    }
}

/// What a failover manager must not let happen: the old primary is one again, and is found first.
#[test]
fn an_old_primary_that_comes_back_as_one_halts_whoever_connects_to_it() {
    let (primary, standby) = pair();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let url = format!("postgres://postgres@{hosts}/postgres?target_session_attrs=read-write");
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "2", "--block-ms", "100"]);
    let relay = |name: &str| Relay::shared(&simulator, folder.path(), name, &url);
    let one = relay("one");
    let process = one.serve_logged();
    one.until_ready();
    one.pay("before", "alice.near", 5);
    one.completed("before");
    primary.kill().expect("killed");
    psql(&standby, "SELECT pg_promote()");
    one.pay("after", "alice.near", 5);
    one.completed("after");
    assert_eq!(process.terminate(), Some(0));

    primary.restart().expect("it starts again");
    psql(&primary, "ALTER SYSTEM RESET synchronous_standby_names");
    psql(&primary, "SELECT pg_reload_conf()");
    // A stranger remembers nothing: the ledger tells it. The other remembers a later store.
    for relay in [relay("stranger"), one] {
        let process = relay.serve_logged();
        wait_for("the lanes to be halted", || {
            let (_, health) = request("GET", &format!("{}/health", relay.url), &[], "")?;
            let alerts = health["alerts"].as_array()?.clone();
            alerts.into_iter().find(|alert| alert["kind"] == "lane_halted")
        });
        // A client has not heard of "after" there, and asks again.
        relay.pay("after", "alice.near", 5);
        let lanes = relay.json(&["lanes", "--json"]);
        let is_halted = |lane: &Value| lane["halted"]["reason"].is_string();
        assert!(lanes.as_array().expect("lanes").iter().all(is_halted), "{lanes}");
        assert_eq!(process.terminate(), Some(0));
    }
    assert_eq!(json!(simulator.paid()), json!({"before": 1, "after": 1}));
}
