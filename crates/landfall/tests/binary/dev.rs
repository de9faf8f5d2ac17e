//! `landfall dev`: what a newcomer sees.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::world::{Process, free_port, get, landfall, request, wait_for};

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

struct Dev {
    process: Process,
    curl: String,
    wait_url: String,
}

fn start(folder: &std::path::Path, port: u16) -> Dev {
    let mut command = landfall(folder);
    command.args(["dev", "--listen", &format!("127.0.0.1:{port}"), "--data", "data"]);
    let mut process = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut curl = None;
    for line in process.lines() {
        let line = line.trim();
        if line.starts_with("curl -i") {
            curl = Some(line.to_owned());
        } else if let Some(url) = line.strip_prefix("curl '") {
            let wait_url = url.trim_end_matches('\'').to_owned();
            return Dev { process, curl: curl.expect("printed before"), wait_url };
        }
    }
    panic!("dev printed no curl line");
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
    let answer = Command::new("sh").args(["-c", &first.curl]).output().expect("sh runs");
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    let transfer = get(&first.wait_url).expect("an answer");
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
    let again = get(&first.wait_url).expect("an answer");
    assert_eq!(events(&again), TRAIL);
    assert_eq!(second.process.terminate(), Some(0));
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
