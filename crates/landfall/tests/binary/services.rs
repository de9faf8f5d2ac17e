//! The account services as processes: what they announce, how they leave, what survives them.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use landfall_servers::{MariaDb, Postgres};
use serde_json::{Value, json};

use crate::doors::{AT_ONCE, after, half_sent_to};
use crate::world::{Process, get, landfall, request};

fn deposit(number: u8, amount: u64) -> String {
    let req_id = format!("00000000-0000-0000-0000-0000000000{number:02}");
    json!({ "req_id": req_id, "user_id": 4001, "asset_id": 1, "amount": amount }).to_string()
}

fn held(url: &str) -> Value {
    get(&format!("{url}/accounts/4001")).expect("an answer")["accounts"][0]["available"].clone()
}

/// Starts it and returns its first line.
fn start(command: &mut Command) -> (Process, String) {
    let mut process = Process::start(command.stdout(Stdio::piped()));
    let line = process.lines().next().expect("it announces itself");
    (process, line)
}

fn ledger(folder: &Path) -> (Process, String) {
    ledger_after(folder, "true")
}

/// The same under a shell's terms.
fn ledger_after(folder: &Path, terms: &str) -> (Process, String) {
    let mut command = landfall(folder);
    command.args(["ledger", "--name", "savings", "--kind", "direct", "--data", "accounts"]);
    command.args(["--listen", "127.0.0.1:0"]);
    let (process, line) = start(&mut after(terms, &command));
    let url = line.strip_prefix("account service savings (direct) at ").expect("its line");
    (process, url.to_owned())
}

#[test]
fn a_ledger_says_where_it_listens_and_keeps_what_it_answered_through_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let (process, url) = ledger(folder.path());
    let contract = json!({ "name": "savings", "freezes": false, "dedupe_window_s": null });
    assert_eq!(get(&format!("{url}/contract")), Some(contract));
    let body = deposit(1, 5);
    let done = Some((200, json!({ "success": true })));
    assert_eq!(request("POST", &format!("{url}/deposit"), &[], &body), done);
    process.kill_9();
    let (process, url) = ledger(folder.path());
    assert_eq!(held(&url), 5);
    assert_eq!(request("POST", &format!("{url}/deposit"), &[], &body), done);
    assert_eq!(held(&url), 5);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn slow_clients_keep_nobody_from_a_ledger_and_hold_up_no_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let (process, url) = ledger_after(folder.path(), "ulimit -n 256");
    let crowd: Vec<TcpStream> = (0..300).map(|_| half_sent_to(&url, "POST /d")).collect();
    let done = Some((200, json!({ "success": true })));
    assert_eq!(request("POST", &format!("{url}/deposit"), &[], &deposit(1, 5)), done);
    let begun = Instant::now();
    assert_eq!(process.terminate(), Some(0));
    assert!(begun.elapsed() < AT_ONCE / 2, "{:?}", begun.elapsed());
    drop(crowd);
}

/// Two processes serve one book; what one was told the other knows.
fn two_ledgers_share_a_book_on(store: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let serve = |name: &str| {
        let mut command = landfall(folder.path());
        command.args(["ledger", "--name", name, "--kind", "direct", "--listen", "127.0.0.1:0"]);
        start(command.env("LANDFALL_LEDGER_STORE", store))
    };
    let url = |line: &str| line.split(' ').next_back().expect("an address").to_owned();
    let ((one, of_one), (other, of_other)) = (serve("savings"), serve("savings"));
    let done = Some((200, json!({ "success": true })));
    let deposited = |url: &str| request("POST", &format!("{url}/deposit"), &[], &deposit(1, 5));
    assert_eq!(deposited(&url(&of_one)), done);
    one.kill_9();
    assert_eq!(deposited(&url(&of_other)), done);
    assert_eq!(held(&url(&of_other)), 5);
    let (stranger, line) = serve("trading");
    let unknown = Some(json!({ "known": false }));
    assert_eq!(get(&format!("{}/users/4001", url(&line))), unknown);
    assert_eq!((other.terminate(), stranger.terminate()), (Some(0), Some(0)));
}

#[test]
fn ledgers_share_a_book_on_postgres() {
    two_ledgers_share_a_book_on(Postgres::start().expect("PostgreSQL starts").url());
}

#[test]
fn ledgers_share_a_book_on_mysql() {
    two_ledgers_share_a_book_on(MariaDb::start().expect("MariaDB starts").url());
}

#[test]
fn a_ledger_says_what_can_keep_accounts_and_never_shows_the_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let ended = |arguments: &[&str]| {
        let output = landfall(folder.path()).arg("ledger").args(arguments).output();
        let output = output.expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = ended(&["--store", "redis://:hush@127.0.0.1"]);
    assert!(code == Some(2) && said.contains("postgres://HOST/DATABASE or"), "{said}");
    assert!(!said.contains("hush"), "{said}");
    assert_eq!(ended(&[]).0, Some(2));
    assert_eq!(ended(&["--data", "x", "--store", "postgres://127.0.0.1/x"]).0, Some(2));
}

#[test]
fn a_ledger_refuses_a_bad_name_and_the_book_of_another_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (process, _) = ledger(folder.path());
    assert_eq!(process.terminate(), Some(0));
    let ended = |arguments: &[&str]| {
        let output = landfall(folder.path()).args(arguments).output().expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let other = ["ledger", "--name", "savings", "--kind", "freeze", "--data", "accounts"];
    let (code, said) = ended(&other);
    assert_eq!(code, Some(3));
    assert!(said.contains("is the book of savings (direct), not of savings (freeze)"), "{said}");
    assert_eq!(ended(&["ledger", "--name", "../x", "--data", "accounts"]).0, Some(2));
    let (code, said) = ended(&["sim", "services", "--data", "x", "--late", "2"]);
    assert!(code == Some(2) && said.contains("late: must be between 0 and 1"), "{said}");
}

#[test]
fn simulated_services_announce_both_and_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let services = || {
        let mut command = landfall(folder.path());
        command.args(["sim", "services", "--listen", "127.0.0.1:0", "--data", "sim"]);
        let (process, line) = start(command.args(["--refuse-deposit", "1"]));
        (process, serde_json::from_str::<Value>(&line).expect("one line of JSON"))
    };
    let url =
        |said: &Value, name: &str| said["services"][name].as_str().expect("a service").to_owned();
    let (process, said) = services();
    let trading = url(&said, "trading");
    let refused = Some((200, json!({ "error": "declined by the service" })));
    assert_eq!(request("POST", &format!("{trading}/deposit"), &[], &deposit(1, 5)), refused);
    let sim = trading.replace("/trading", "/sim/faults");
    let patch = request("POST", &sim, &[], r#"{"refuse_deposit":0}"#);
    assert!(matches!(patch, Some((200, _))), "{patch:?}");
    let done = Some((200, json!({ "success": true })));
    assert_eq!(request("POST", &format!("{trading}/deposit"), &[], &deposit(2, 7)), done);
    process.kill_9();
    let (process, said) = services();
    let trading = url(&said, "trading");
    assert_eq!(request("POST", &format!("{trading}/deposit"), &[], &deposit(1, 5)), refused);
    assert_eq!(held(&trading), 7);
    let funding = get(&format!("{}/contract", url(&said, "funding"))).expect("an answer");
    assert_eq!((&funding["name"], &funding["freezes"]), (&json!("funding"), &json!(true)));
    assert_eq!(process.terminate(), Some(0));
}
