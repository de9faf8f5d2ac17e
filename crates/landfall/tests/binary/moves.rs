//! Transfers between services end to end over HTTP, and what operators see of them.

use serde_json::{Value, json};

use crate::town::{HELD, Town, USER, stub};
use crate::world::{get, text, wait_for};

/// 1.5 BTC.
const MOVED: u64 = 150_000_000;

#[test]
fn funding_to_trading_is_committed_and_the_frozen_part_is_gone() {
    let town = Town::new();
    let relay = town.serve();
    let (_, _, req_id) = town.moves("funding", "trading", "1.5");
    let shown = town.until(&req_id, "committed");
    assert_eq!((&shown["amount"], &shown["asset"]), (&json!("1.5"), &json!("BTC")));
    assert_eq!(town.funding.held(), (HELD - MOVED, 0));
    assert_eq!(town.trading.held(), (HELD + MOVED, 0));
    let audit = town.audit();
    assert_eq!((&audit["committed"], &audit["unfinished"]), (&json!(1), &json!(0)));
    assert_eq!(relay.terminate(), Some(0));
}

/// Two services behind one host: each has figures of its own.
#[test]
fn metrics_tell_a_dead_service_from_a_living_one_at_the_same_address() {
    let mut town = Town::new();
    let (host, forever) = (town.funding.url.clone(), json!("forever"));
    // The same host, at paths that it does not serve.
    town.configure((&host, forever.clone()), (&format!("{host}/nowhere"), forever));
    let _relay = town.serve();
    town.moves("funding", "trading", "1.5");
    let open = |name: &str, open: u8| {
        let labels = format!("rail=\"internal\",name=\"{name}\",endpoint=\"{host}\"");
        format!("landfall_breaker_open{{{labels}}} {open}")
    };
    let seen = wait_for("the breaker of trading to open", || {
        let metrics = get(&format!("{}/metrics", town.url))?.as_str()?.to_owned();
        metrics.contains(&open("trading", 1)).then_some(metrics)
    });
    assert!(seen.contains(&open("funding", 0)), "{seen}");
}

#[test]
fn trading_to_funding_is_committed() {
    let town = Town::new();
    let _relay = town.serve();
    let (_, _, req_id) = town.moves("trading", "funding", "1.50");
    town.until(&req_id, "committed");
    assert_eq!(town.funding.held(), (HELD + MOVED, 0));
    assert_eq!(town.trading.held(), (HELD - MOVED, 0));
    assert_eq!(town.audit()["committed"], 1);
}

#[test]
fn a_refused_withdraw_is_failed_and_nothing_moves() {
    let town = Town::new();
    let _relay = town.serve();
    let (_, _, req_id) = town.moves("funding", "trading", "10.00000001");
    let shown = town.until(&req_id, "failed");
    assert_eq!(shown["error"]["message"], "insufficient funds");
    assert_eq!((town.funding.held(), town.trading.held()), ((HELD, 0), (HELD, 0)));
    assert_eq!(town.audit()["failed"], 1);
}

#[test]
fn a_refused_deposit_is_rolled_back_and_the_funds_are_restored() {
    let town = Town::new();
    let _relay = town.serve();
    town.trading.block(true);
    let (_, _, req_id) = town.moves("funding", "trading", "1.5");
    let shown = town.until(&req_id, "rolled_back");
    assert_eq!(shown["error"]["message"], "account frozen");
    assert_eq!((town.funding.held(), town.trading.held()), ((HELD, 0), (HELD, 0)));
    assert_eq!(town.audit()["rolled_back"], 1);
    town.trading.block(false);
    town.funding.block(true);
    let (_, _, req_id) = town.moves("trading", "funding", "1.5");
    town.until(&req_id, "rolled_back");
    assert_eq!((town.funding.held(), town.trading.held()), ((HELD, 0), (HELD, 0)));
}

#[test]
fn the_answer_of_a_transfer_that_is_final_in_time_says_so() {
    let town = Town::new();
    let _relay = town.serve();
    // The first request warms the relay up; one of a few more is then answered in time.
    let answered = wait_for("an answer in time", || {
        let (status, message, _) = town.moves("funding", "trading", "0.1");
        (status == "committed").then_some(message)
    });
    assert_eq!(answered, "0.1 BTC moved from funding to trading");
}

#[test]
fn an_audit_finds_a_request_that_nobody_asked_for_and_names_it() {
    let town = Town::new();
    let relay = town.serve();
    let req_id = "00000000-0000-0000-0000-000000000042";
    let body = json!({"req_id": req_id, "user_id": USER, "asset_id": 1, "amount": 5});
    town.trading.post("/deposit", body);
    assert_eq!(relay.terminate(), Some(0));
    let audit = town.run(&["audit", "internal"]);
    assert_eq!(audit.status.code(), Some(1), "{}", text(&audit));
    let said = text(&audit);
    assert!(said.contains("foreign_request") && said.contains(req_id), "{said}");
    let audit = town.run(&["audit", "--json"]);
    let audit: Value = serde_json::from_slice(&audit.stdout).expect("JSON");
    assert_eq!((&audit["ok"], &audit["rail"]), (&json!(false), &json!("internal")));
    assert_eq!(town.run(&["audit", "near"]).status.code(), Some(2), "near is not configured");
}

#[test]
fn what_a_service_has_forgotten_is_listed_and_decided_by_an_operator() {
    let mut town = Town::new();
    // No answer to the withdrawal, and a query that knows nothing: past the window nobody can tell.
    let url = stub("200 OK", r#"{"status":"unknown"}"#);
    let trading = town.trading.url.clone();
    // Of 35 seconds the last 30 are left out, for clocks and for what is late.
    town.configure((&url, json!(35)), (&trading, json!("forever")));
    let relay = town.serve();
    let (status, _, req_id) = town.moves("funding", "trading", "1.5");
    assert_eq!(status, "pending");
    let shown = format!("{}/api/v1/transfer/{req_id}", town.url);
    let adrift = |shown: &Value| shown["adrift"].is_string();
    wait_for("a transfer adrift", || get(&shown).filter(adrift));
    let list = town.run(&["adrift", "list", "--json"]);
    let list: Value = serde_json::from_slice(&list.stdout).expect("JSON");
    assert_eq!((&list[0]["req_id"], &list[0]["state"]), (&json!(req_id), &json!("source_pending")));
    assert!(text(&town.run(&["adrift", "list"])).contains(&req_id));

    let word = ["adrift", "decide", &req_id, "sunk", "--evidence", "their statement has no debit"];
    assert_eq!(town.run(&word).status.code(), Some(3), "the relay must be stopped first");
    assert_eq!(relay.terminate(), Some(0));
    let early = town.run(&word);
    assert_eq!(early.status.code(), Some(1), "a call may still be late: {}", text(&early));
    let decide = || Some(town.run(&word)).filter(|decided| decided.status.success());
    let decided = wait_for("the end of the window", decide);
    assert!(text(&decided).contains("is failed"), "{}", text(&decided));
    assert_eq!(town.run(&word).status.code(), Some(1), "it is not adrift any more");
    let unknown = "00000000-0000-0000-0000-000000000042";
    let word = ["adrift", "decide", unknown, "sunk", "--evidence", "x"];
    assert_eq!(town.run(&word).status.code(), Some(1));

    let got = town.run(&["transfers", "get", &req_id, "--json"]);
    let got: Value = serde_json::from_slice(&got.stdout).expect("JSON");
    assert_eq!((&got["status"], &got["rail"]), (&json!("failed"), &json!("internal")));
    assert!(got["events"].to_string().contains("their statement has no debit"), "{got}");
    let list = town.run(&["transfers", "list", "--state", "failed", "--json"]);
    assert!(text(&list).contains(&req_id), "{}", text(&list));
    // A service that keeps no statement leaves the audit unproven, and is named.
    let audit = town.run(&["audit", "internal"]);
    assert_eq!(audit.status.code(), Some(3), "{}", text(&audit));
}

#[test]
fn a_service_without_a_statement_is_named_by_the_audit() {
    let mut town = Town::new();
    let url = stub("404 Not Found", "{}");
    let relay = town.serve();
    let (_, _, req_id) = town.moves("funding", "trading", "1.5");
    town.until(&req_id, "committed");
    assert_eq!(relay.terminate(), Some(0));
    let trading = town.trading.url.clone();
    town.configure((&url, json!("forever")), (&trading, json!("forever")));
    let audit = town.run(&["audit", "internal"]);
    assert_eq!(audit.status.code(), Some(3), "{}", text(&audit));
    assert!(text(&audit).contains("funding does not"), "{}", text(&audit));
}
