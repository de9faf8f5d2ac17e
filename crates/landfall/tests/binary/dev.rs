//! `landfall dev`: what a newcomer sees.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::world::{Process, free_port, get, landfall, request, text, wait_for};

/// The trail of a payout to somebody new.
const TRAIL: [&str; 7] = [
    "RECEIVED",
    "QUEUED_REGISTRATION",
    "REGISTERED",
    "QUEUED_TRANSFER",
    "SUBMITTED",
    "QUEUED_VERIFICATION",
    "COMPLETED",
];

pub struct Dev {
    pub process: Process,
    /// What it printed, line by line.
    banner: Vec<String>,
}

impl Dev {
    /// The first printed line that begins so.
    fn line(&self, start: &str) -> &str {
        let found = self.banner.iter().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start:?} in {:#?}", self.banner))
    }

    fn wait_url(&self) -> String {
        self.line("curl '").trim_start_matches("curl '").trim_end_matches('\'').to_owned()
    }

    /// The simulated ledger.
    fn ledger(&self) -> String {
        let line = self.line("NEAR ");
        line.split_whitespace().nth(1).expect("its address").to_owned()
    }
}

pub fn start(folder: &Path, port: u16) -> Dev {
    let mut command = landfall(folder);
    command.args(["dev", "--listen", &format!("127.0.0.1:{port}"), "--data", "data"]);
    let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut banner = Vec::new();
    for line in process.lines() {
        banner.push(line.trim().to_owned());
        // Its last line.
        if line.contains(" audit --data ") {
            return Dev { process, banner };
        }
    }
    panic!("not all of it was printed: {banner:#?}");
}

/// A line as it was printed, by a shell, in the folder that it was printed in.
fn by_shell(folder: &Path, line: &str) -> Output {
    // The surroundings of the binary, whatever the line runs.
    let surroundings = landfall(folder);
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(folder);
    for (name, _) in surroundings.get_envs() {
        shell.env_remove(name);
    }
    shell.output().expect("sh runs")
}

fn events(transfer: &Value) -> Vec<&str> {
    let events = transfer["events"].as_array().expect("events").iter();
    events.filter_map(|event| event["event"].as_str()).collect()
}

#[test]
fn the_printed_line_pays_and_a_second_start_goes_on_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let first = start(folder.path(), port);
    // As printed: by a shell.
    let answer = by_shell(folder.path(), first.line("curl -i"));
    assert!(answer.stdout.starts_with(b"HTTP/1.1 201"), "{}", text(&answer));
    let wait_url = first.wait_url();
    let transfer = get(&wait_url).expect("an answer");
    assert_eq!(transfer["status"], "COMPLETED");
    assert_eq!(events(&transfer), TRAIL);

    let url = format!("http://127.0.0.1:{port}/transfer");
    let body = r#"{"receiver_id":"bob.near","amount":"7"}"#;
    let accepted = request("POST", &url, &[("X-Idempotency-Key", "before-the-kill")], body);
    assert!(matches!(accepted, Some((201, _))), "{accepted:?}");
    first.process.kill_9();

    let second = start(folder.path(), port);
    let transfer = wait_for("the payout of the first start", || {
        let transfer = get(&format!("{url}/before-the-kill?wait=5s"))?;
        (transfer["status"] == "COMPLETED").then_some(transfer)
    });
    assert_eq!(transfer["amount"], "7");
    let again = get(&wait_url).expect("an answer");
    assert_eq!(events(&again), TRAIL);
    assert_eq!(second.process.terminate(), Some(0));
}

#[test]
fn the_printed_commands_work_while_it_runs_and_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = start(folder.path(), free_port());
    for curl in dev.banner.iter().filter(|line| line.starts_with("curl")) {
        let answer = by_shell(folder.path(), curl);
        assert!(answer.status.success(), "{curl}: {}", text(&answer));
    }
    let program = env!("CARGO_BIN_EXE_landfall");
    let commands: Vec<&String> =
        dev.banner.iter().filter(|line| line.starts_with(program)).collect();
    assert_eq!(commands.len(), 4, "{:#?}", dev.banner);
    // Lines to be copied are whole; those to be read fit a terminal.
    let is_read = |line: &&String| !line.starts_with("curl") && !line.starts_with(program);
    assert!(dev.banner.iter().filter(is_read).all(|line| line.chars().count() <= 78));
    let all_work = || {
        for command in &commands {
            let done = by_shell(folder.path(), command);
            assert!(done.status.success(), "{command}: {}", text(&done));
        }
        let audit = landfall(folder.path()).args(["audit", "--data", "data", "--json"]).output();
        let audit: Value = serde_json::from_slice(&audit.expect("runs").stdout).expect("JSON");
        assert_eq!(audit["near"]["completed"], 1, "{audit}");
        assert_eq!(audit["internal"]["committed"], 1, "{audit}");
    };
    wait_for("both to be done", || {
        let list = landfall(folder.path()).args(["transfers", "list", "--data", "data"]).output();
        let list = text(&list.expect("runs"));
        (list.contains("COMPLETED") && list.contains("committed")).then_some(())
    });
    all_work();
    assert_eq!(dev.process.terminate(), Some(0));
    all_work();
}

#[test]
fn halted_lanes_of_dev_are_adopted_as_in_production() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}");
    let run = |arguments: &[&str]| {
        let mut command = landfall(folder.path());
        command.args(arguments).args(["--data", "data"]).output().expect("the binary runs")
    };
    let pay = |key: &str| {
        let body = r#"{"receiver_id":"bob.near","amount":"7"}"#;
        let headers = [("X-Idempotency-Key", key)];
        wait_for(key, || request("POST", &format!("{url}/transfer"), &headers, body));
        let paid = format!("{url}/transfer/{key}?wait=5s");
        wait_for(key, || get(&paid).filter(|transfer| transfer["status"] == "COMPLETED"));
    };
    let dev = start(folder.path(), port);
    pay("one");
    let answer = request("POST", &format!("{}/sim/foreign", dev.ledger()), &[], r#"{"key": 0}"#);
    assert!(matches!(answer, Some((200, _))), "{answer:?}");
    let adopt = run(&["lanes", "adopt", "--all", "--yes"]);
    assert_eq!(adopt.status.code(), Some(3), "{}", text(&adopt));
    assert!(text(&adopt).contains("the relay must be stopped first"), "{}", text(&adopt));
    assert_eq!(dev.process.terminate(), Some(0));

    let dev = start(folder.path(), port);
    wait_for("a halt", || text(&run(&["lanes"])).contains("halted").then_some(()));
    assert_eq!(dev.process.terminate(), Some(0));
    let adopt = run(&["lanes", "adopt", "--all", "--yes"]);
    assert!(adopt.status.success(), "{}", text(&adopt));

    let dev = start(folder.path(), port);
    pay("two");
    assert_eq!(dev.process.terminate(), Some(0));
}

/// A trial never reaches a real network, whatever lies about.
#[test]
fn a_command_on_devs_folder_reads_no_configuration_but_devs() {
    let folder = tempfile::tempdir().expect("a folder");
    let dev = start(folder.path(), free_port());
    assert_eq!(dev.process.terminate(), Some(0));
    let file = "[store]\nurl = \"postgres://nowhere.invalid/x\"\n[near]\nbatch_max = 0\n";
    std::fs::write(folder.path().join("landfall.toml"), file).expect("a file");
    for words in [["transfers", "list"].as_slice(), &["check"], &["audit"]] {
        let mut command = landfall(folder.path());
        command.args(words).args(["--data", "data"]);
        command.env("NEAR_RPC_URL", "http://nowhere.invalid");
        let done = command.output().expect("the binary runs");
        assert!(done.status.success(), "{words:?}: {}", text(&done));
    }
}

#[test]
fn dev_listens_on_loopback_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = landfall(folder.path())
        .args(["dev", "--listen", "0.0.0.0:0", "--data", "data"])
        .output()
        .expect("the binary runs");
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("loopback"));
}
