//! What people read and type: mistakes, colours, completions, tables on a narrow terminal.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::dev;
use crate::town::Town;
use crate::world::{Relay, Simulator, free_port, get, landfall, request, text};

/// What begins every colour.
const ESCAPE: char = '\x1b';

fn run(folder: &Path, arguments: &[&str]) -> Output {
    landfall(folder).args(arguments).output().expect("the binary runs")
}

/// Runs it as `command` says, on a terminal of so many columns; what the terminal shows.
fn on_a_terminal(command: &Command, columns: usize) -> String {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.to_string_lossy());
    let words: Vec<String> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(quoted).collect();
    let line = format!("stty cols {columns} rows 24; {}", words.join(" "));
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]);
    if let Some(folder) = command.get_current_dir() {
        script.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    text(&script.output().expect("script runs"))
}

/// Root may read everything, unless that is taken away.
fn without_privilege(command: &Command) -> Command {
    let user = Command::new("id").arg("-u").output().expect("id runs");
    if user.stdout.trim_ascii() != b"0" {
        let mut same = Command::new(command.get_program());
        same.args(command.get_args());
        return same;
    }
    let mut lesser = Command::new("setpriv");
    lesser.args(["--bounding-set", "-dac_override,-dac_read_search"]);
    lesser.arg(command.get_program()).args(command.get_args());
    lesser
}

#[test]
fn a_count_of_nothing_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    for words in [
        ["torture", "--seeds", "0"].as_slice(),
        &["torture", "--minutes", "0"],
        &["transfers", "list", "--limit", "0"],
    ] {
        let refused = run(folder.path(), words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", text(&refused));
        assert!(text(&refused).contains("0 is not in 1.."), "{}", text(&refused));
    }
}

#[test]
fn check_tells_mistakes_as_json_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[near]\nbatch_max = 0\nlingr_ms = 1\n";
    std::fs::write(folder.path().join("landfall.toml"), file).expect("a file");
    let refused = run(folder.path(), &["check", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!((&found[0]["check"], &found[0]["ok"]), (&json!("configuration"), &json!(false)));
    let mistakes = found[0]["mistakes"].as_array().expect("a list");
    let of_batch = json!({
        "place": "landfall.toml:2",
        "setting": "near.batch_max",
        "message": "is 0, out of range",
        "remedy": "give a number from 1 to 100",
    });
    assert!(mistakes.contains(&of_batch), "{found}");
    assert!(mistakes.iter().any(|one| one["place"] == "landfall.toml:3"), "{found}");
}

#[test]
fn a_folder_that_may_not_be_read_is_not_a_missing_store() {
    let folder = tempfile::tempdir().expect("a folder");
    let locked = folder.path().join("locked");
    std::fs::create_dir(&locked).expect("a folder");
    std::fs::write(locked.join("landfall.db"), "").expect("a file");
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o000)).expect("locked");
    let mut list = landfall(folder.path());
    list.args(["transfers", "list", "--data"]).arg(&locked);
    let refused = without_privilege(&list).output().expect("the binary runs");
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o700)).expect("unlocked");
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused));
    assert!(text(&refused).contains("cannot be reached (Permission denied"), "{}", text(&refused));
    assert!(!text(&refused).contains("there is no store"), "{}", text(&refused));
}

#[test]
fn a_log_that_goes_to_a_file_has_no_colours() {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--block-ms", "50"]);
    let mut relay = Relay::on(&simulator, folder.path());
    relay.set("LANDFALL_LOG__FORMAT", "pretty");
    relay.set("LANDFALL_LOG__LEVEL", "info");
    let process = relay.serve_logged();
    relay.until_ready();
    assert_eq!(process.terminate(), Some(0));
    let log = relay.log();
    assert!(log.contains("left in order"), "{log}");
    assert!(!log.contains(ESCAPE), "{log:?}");
}

#[test]
fn shells_are_told_the_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let told = run(folder.path(), &["completions", shell]);
        assert!(told.status.success(), "{}", text(&told));
        let script = text(&told);
        assert!(script.contains("torture") && script.contains("adrift"), "{shell}: {script}");
    }
    let script = folder.path().join("landfall.bash");
    let told = run(folder.path(), &["completions", "bash"]);
    std::fs::write(&script, &told.stdout).expect("a file");
    let asked = "source landfall.bash; COMP_WORDS=(landfall tor); COMP_CWORD=1; \
                 _landfall landfall tor landfall; echo ${COMPREPLY[@]}";
    let bash = Command::new("bash").args(["-c", asked]).current_dir(folder.path()).output();
    let bash = bash.expect("bash runs");
    assert_eq!(text(&bash).trim(), "torture");
    assert_eq!(run(folder.path(), &["completions", "tcsh"]).status.code(), Some(2));
}

#[test]
fn audit_names_the_rails_that_it_did_not_audit() {
    let town = Town::new();
    let process = town.serve();
    let (_, _, req_id) = town.moves("funding", "trading", "1.5");
    town.until(&req_id, "committed");
    assert_eq!(process.terminate(), Some(0));
    let simulator = Simulator::start(town.folder.path(), &["--block-ms", "50"]);
    let mut relay = Relay::on(&simulator, town.folder.path());
    relay.set("LANDFALL_STORE__URL", "sqlite:landfall-data/landfall.db");

    let audit = relay.run(&["audit"]);
    assert_eq!(audit.status.code(), Some(3), "{}", text(&audit));
    let said = "the rail internal is not configured here: its transfer was not audited";
    assert!(text(&audit).contains(said), "{}", text(&audit));
    let audit = relay.run(&["audit", "--json"]);
    assert_eq!(audit.status.code(), Some(3), "{}", text(&audit));
    let report: Value = serde_json::from_slice(&audit.stdout).expect("JSON");
    assert_eq!((&report["ok"], &report["not_audited"]), (&json!(false), &json!(["internal"])));

    // Who names a rail has asked for no other.
    let named = relay.run(&["audit", "near"]);
    assert!(named.status.success(), "{}", text(&named));
}

/// The client's own key finds its transfer, on whichever rail it was sent.
#[test]
fn a_transfer_is_found_by_the_clients_key_on_every_rail() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let dev = dev::start(folder.path(), port);
    let url = format!("http://127.0.0.1:{port}");
    let send = |path: &str, key: &str, body: Value| {
        let headers = [("Idempotency-Key", key)];
        let answer = request("POST", &format!("{url}{path}"), &headers, &body.to_string());
        let Some((200..=202, answer)) = answer else { panic!("{answer:?}") };
        answer
    };
    let order = json!({"from": "funding", "to": "trading", "user_id": 4001, "asset": "BTC",
        "amount": "1.5"});
    let moved = send("/api/v1/transfer", "move-1", order.clone());
    let req_id = moved["req_id"].as_str().expect("an id");
    get(&format!("{url}/api/v1/transfer/{req_id}?wait=30s")).expect("an answer");
    send("/api/v1/transfer", "both", order);
    send("/transfer", "both", json!({"receiver_id": "alice.near", "amount": "1"}));
    assert_eq!(dev.process.terminate(), Some(0));

    let shown = |words: &[&str]| {
        let words = [["transfers", "get"].as_slice(), words, &["--data", "data"]].concat();
        let found = run(folder.path(), &words);
        assert!(found.status.success(), "{}", text(&found));
        text(&found)
    };
    let by_key = shown(&["move-1"]);
    assert!(by_key.starts_with("move-1  committed") && by_key.contains(req_id), "{by_key}");
    assert_eq!(shown(&[req_id]), by_key);
    let both = shown(&["both"]);
    assert!(both.contains("1.5 BTC of user 4001") && both.contains("alice.near"), "{both}");
    let one = shown(&["both", "--rail", "near"]);
    assert!(!one.contains("BTC") && one.contains("alice.near"), "{one}");
    let several = run(folder.path(), &["transfers", "watch", "both", "--data", "data"]);
    assert_eq!(several.status.code(), Some(2), "{}", text(&several));
    assert!(text(&several).contains("name one by --rail"), "{}", text(&several));
    let followed = ["transfers", "watch", "move-1", "--data", "data"];
    assert!(text(&run(folder.path(), &followed)).contains("committed"));
}

#[test]
fn help_and_what_check_finds_are_cut_between_words() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = dev::start(folder.path(), free_port());
    let words = [["--help"].as_slice(), &["ledger", "--help"], &["check", "--data", "data"]];
    for words in words {
        let mut command = landfall(folder.path());
        let seen = on_a_terminal(command.args(words).env("NO_COLOR", "1"), 80);
        assert!(seen.lines().all(|row| row.chars().count() <= 80), "{words:?}:\n{seen}");
    }
    assert_eq!(dev.process.terminate(), Some(0));
}

#[test]
fn a_clients_words_cannot_turn_what_a_terminal_shows() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let dev = dev::start(folder.path(), port);
    let payout = json!({"receiver_id": "alice.near", "amount": "1", "memo": "for \u{202e}ecila"});
    let url = format!("http://127.0.0.1:{port}/transfer");
    let answer = request("POST", &url, &[("Idempotency-Key", "k")], &payout.to_string());
    assert!(matches!(answer, Some((201, _))), "{answer:?}");
    assert_eq!(dev.process.terminate(), Some(0));
    let mut get = landfall(folder.path());
    get.args(["transfers", "get", "k", "--data", "data"]);
    let seen = on_a_terminal(&get, 80);
    assert!(seen.contains("for \\u202eecila") && !seen.contains('\u{202e}'), "{seen}");
}

#[test]
fn a_list_fits_the_terminal_and_is_whole_in_a_pipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let dev = dev::start(folder.path(), port);
    let url = format!("http://127.0.0.1:{port}");
    let (key, receiver) = ("k".repeat(100), "ab".repeat(32));
    let payout = json!({"receiver_id": receiver, "amount": "1000000000000000000000000"});
    let headers = [("Idempotency-Key", key.as_str())];
    let answer = request("POST", &format!("{url}/transfer"), &headers, &payout.to_string());
    assert!(matches!(answer, Some((201, _))), "{answer:?}");
    let order = json!({"from": "funding", "to": "trading", "user_id": 4001, "asset": "BTC",
        "amount": "1.5"});
    let answer = request("POST", &format!("{url}/api/v1/transfer"), &[], &order.to_string());
    assert!(matches!(answer, Some((200 | 202, _))), "{answer:?}");
    assert_eq!(dev.process.terminate(), Some(0));

    let mut list = landfall(folder.path());
    list.args(["transfers", "list", "--data", "data"]).env("NO_COLOR", "1");
    for columns in [70, 80, 132, 400] {
        let seen = on_a_terminal(&list, columns);
        let rows: Vec<&str> = seen.lines().collect();
        assert_eq!(rows.len(), 3, "{seen}");
        assert!(rows.iter().all(|row| row.chars().count() <= columns), "{columns}:\n{seen}");
        // An amount is never cut: half of it would be another amount.
        for part in ["1.5 ", "BTC", " 1000000000000000000000000 ", "STATUS"] {
            assert!(seen.contains(part), "{part:?} on {columns}:\n{seen}");
        }
    }
    let mut lanes = landfall(folder.path());
    lanes.args(["lanes", "--data", "data"]).env("NO_COLOR", "1");
    let seen = on_a_terminal(&lanes, 80);
    assert!(seen.lines().all(|row| row.chars().count() <= 80) && seen.contains("free"), "{seen}");
    assert!(
        text(&lanes.output().expect("the binary runs")).contains("near:simnet:relay.sim.near:")
    );
    let seen = on_a_terminal(&list, 400);
    assert!(seen.contains("internal") && seen.contains(&key), "{seen}");
    let piped = text(&list.output().expect("the binary runs"));
    assert!(piped.contains(&key) && piped.contains(&receiver), "{piped}");
}
