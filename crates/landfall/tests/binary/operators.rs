//! What operators do: check, look, audit, stop; and what they are told when something is wrong.

use serde_json::{Value, json};

use crate::world::{Relay, Simulator, get, landfall, request, text, wait_for};

struct Running {
    simulator: Simulator,
    relay: Relay,
    folder: tempfile::TempDir,
}

fn running() -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "2", "--block-ms", "50"]);
    let relay = Relay::on(&simulator, folder.path());
    Running { simulator, relay, folder }
}

#[test]
fn the_store_can_be_read_and_audited_after_the_relay_has_left() {
    let world = running();
    let relay = &world.relay;
    assert!(relay.run(&["check"]).status.success(), "{}", text(&relay.run(&["check"])));
    let process = relay.serve();
    relay.until_ready();
    relay.pay("one", "alice.near", 5);
    relay.pay("two", "bob.near", 6);
    for key in ["one", "two"] {
        let url = format!("{}/transfer/{key}?wait=30s", relay.url);
        wait_for(key, || get(&url).filter(|transfer| transfer["status"] == "COMPLETED"));
    }
    assert_eq!(process.terminate(), Some(0), "a shutdown in order");

    let one = relay.json(&["transfers", "get", "one", "--json"]);
    assert_eq!((&one["status"], &one["amount"]), (&json!("COMPLETED"), &json!("5")));
    assert_eq!(one["events"].as_array().map(Vec::len), Some(7));
    let list = relay.json(&["transfers", "list", "--state", "completed", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(2));
    let lanes = relay.json(&["lanes", "--json"]);
    assert_eq!(lanes.as_array().map(Vec::len), Some(2));
    assert_eq!(relay.run(&["transfers", "get", "three"]).status.code(), Some(1));
    assert!(text(&relay.run(&["transfers", "watch", "one"])).contains("COMPLETED"));

    let audit = relay.json(&["audit", "--json"]);
    assert_eq!((&audit["ok"], &audit["completed"]), (&json!(true), &json!(2)));
}

#[test]
fn an_audit_finds_a_payment_that_nobody_asked_for() {
    let world = running();
    let relay = &world.relay;
    let process = relay.serve();
    relay.until_ready();
    relay.pay("one", "alice.near", 5);
    let url = format!("{}/transfer/one?wait=30s", relay.url);
    wait_for("one", || get(&url).filter(|transfer| transfer["status"] == "COMPLETED"));
    assert_eq!(process.terminate(), Some(0));
    world.simulator.post("/sim/foreign", &json!({"key": 0}));
    let audit = relay.run(&["audit"]);
    assert_eq!(audit.status.code(), Some(1), "{}", text(&audit));
    assert!(text(&audit).contains("unknown_transaction"), "{}", text(&audit));
}

#[test]
fn two_relays_never_share_a_data_folder() {
    let world = running();
    let process = world.relay.serve();
    world.relay.until_ready();
    let second = world.relay.command(&["serve", "--listen", "127.0.0.1:0"]).output();
    let second = second.expect("the binary runs");
    assert_eq!(second.status.code(), Some(3));
    assert!(text(&second).contains("another landfall"), "{}", text(&second));
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn serve_wants_api_keys_and_lets_in_whoever_has_one() {
    let mut world = running();
    world.relay.variables.retain(|(name, _)| name != "LANDFALL_API__AUTH");
    let refused = world.relay.run(&["serve"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("api.keys is missing"), "{}", text(&refused));

    let keys = r#"[{"key":"0123456789abcdef0123","tenant":"acme"}]"#;
    world.relay.variables.push(("LANDFALL_API__KEYS".into(), keys.into()));
    let _process = world.relay.serve();
    world.relay.until_ready();
    let url = format!("{}/transfer", world.relay.url);
    let body = r#"{"receiver_id":"alice.near","amount":"1"}"#;
    let post = |headers: &[(&str, &str)]| request("POST", &url, headers, body).map(|(s, _)| s);
    let idempotency = ("Idempotency-Key", "one");
    assert_eq!(post(&[idempotency]), Some(401));
    let right = ("X-API-Key", "0123456789abcdef0123");
    assert_eq!(post(&[idempotency, right]), Some(201));
}

#[test]
fn check_names_what_cannot_be_reached() {
    let mut world = running();
    for (name, text) in &mut world.relay.variables {
        if name == "NEAR_RPC_URL" {
            *text = "http://127.0.0.1:1".into();
        }
    }
    let check = world.relay.run(&["check"]);
    assert_eq!(check.status.code(), Some(1));
    assert!(text(&check).contains("FAIL  NEAR"), "{}", text(&check));
    assert!(!world.folder.path().join("store.db").exists(), "a check makes nothing");
}

#[test]
fn check_says_whether_a_node_is_believed_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    for (nodes, quorum, said) in [
        ("1", 1, "NOTE  NEAR nodes    this node is believed alone"),
        ("3", 2, "ok    NEAR nodes    2 of 3 must agree"),
    ] {
        let simulator = Simulator::start(folder.path(), &["--nodes", nodes, "--block-ms", "50"]);
        let relay = Relay::on(&simulator, folder.path());
        let check = relay.run(&["check"]);
        assert!(check.status.success() && text(&check).contains(said), "{}", text(&check));
        let findings = relay.json(&["check", "--json"]);
        let of_nodes = |one: &&Value| one["check"] == "NEAR nodes";
        let found = findings.as_array().expect("a list").iter().find(of_nodes).expect("said");
        assert_eq!((&found["ok"], &found["quorum"]), (&json!(true), &json!(quorum)), "{found}");
    }
}

#[test]
fn a_configuration_with_mistakes_is_refused_with_all_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("landfall.toml"), "[near]\nbatch_max = 0\nlingr_ms = 1\n")
        .expect("a file");
    let refused = landfall(folder.path()).arg("serve").output().expect("the binary runs");
    assert_eq!(refused.status.code(), Some(2));
    let said = text(&refused);
    for part in [
        "landfall.toml:2: near.batch_max is 0, out of range",
        "landfall.toml:3: near.lingr_ms is no setting; did you mean near.linger_ms?",
        "near.rpc_urls is missing",
        "api.keys is missing",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_missing_store_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = landfall(folder.path()).args(["transfers", "list"]).output().expect("runs");
    assert_eq!(list.status.code(), Some(1));
    assert!(text(&list).contains("there is no store at landfall-data/landfall.db"));
    assert!(!folder.path().join("landfall-data").exists(), "reading makes nothing");
}
