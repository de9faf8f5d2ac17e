//! Withdraws from a shield pool while relays are killed every second.
//!
//! Real processes: `landfall sim solana` with three nodes, of which one lies about everything and
//! all lose answers and transactions, while forks take blocks back; one `landfall serve` on SQLite,
//! or two on PostgreSQL with Redis; clients that do not give up. Whatever happens, every nullifier
//! is spent once, for its outputs.
//!
//! `LANDFALL_CHAOS_WITHDRAWS` makes it longer.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backends::Topology;
use crate::processes::{Killed, LANDFALL, Restarted, free_port, http, machine, pause};

const WITHDRAWS: usize = 200;
/// For each kill, once a second.
const WITHDRAWS_PER_KILL: usize = 20;
/// Requests under way at once.
const CLIENTS: usize = 8;
/// Blocks fast enough that what was dropped expires, and is signed anew, within the test.
const SLOT_MS: u64 = 50;
const SOL: u64 = 1_000_000_000;
/// How long everything may take to settle once the faults have stopped.
const SETTLE: Duration = Duration::from_secs(120);

fn withdraws() -> usize {
    let given = std::env::var("LANDFALL_CHAOS_WITHDRAWS").ok();
    given.map_or(WITHDRAWS, |text| text.parse().expect("LANDFALL_CHAOS_WITHDRAWS is a number"))
}

/// A running `landfall sim solana`.
struct Chain {
    _process: Killed,
    said: Value,
}

impl Chain {
    fn start(folder: &Path) -> Chain {
        let mut command = Command::new(LANDFALL);
        command.args(["sim", "solana", "--listen", "127.0.0.1:0", "--nodes", "3", "--payers", "4"]);
        command.args(["--slot-ms", &SLOT_MS.to_string(), "--limits", "off"]);
        command.arg("--keypairs").arg(folder.join("payers")).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the simulator starts");
        let stdout = child.stdout.take().expect("piped");
        let process = Killed(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("one line of JSON");
        Chain { _process: process, said: serde_json::from_str(&line).expect("one line of JSON") }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/sim/{path}", self.said["rpc_url"].as_str().expect("a URL"))
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = http().post(self.url(path)).json(&body).send().await.expect("/sim answers");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.json().await.unwrap_or_default()
    }

    async fn get(&self, path: &str) -> Value {
        http().get(self.url(path)).send().await.expect("/sim answers").json().await.expect("JSON")
    }

    /// A withdraw that the pool takes, each to somebody else.
    async fn request(&self, n: usize) -> Value {
        let mut account = [7_u8; 32];
        account[..8].copy_from_slice(&(n as u64).to_le_bytes());
        let outputs = json!([{ "recipient": base58(&account), "amount": SOL }]);
        self.post("requests", json!({ "outputs": outputs })).await
    }
}

/// As Solana writes 32 bytes.
fn base58(bytes: &[u8]) -> String {
    const DIGITS: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits: Vec<u8> = Vec::new();
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).map(|_| 0);
    let all = zeros.chain(digits.into_iter().rev());
    all.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

struct Town {
    folder: TempDir,
    chain: Chain,
    relays: Vec<Restarted>,
    ports: Vec<u16>,
    variables: Vec<(String, String)>,
}

impl Town {
    fn start(topology: Option<&Topology>) -> Town {
        let folder = tempfile::tempdir().expect("a folder");
        let chain = Chain::start(folder.path());
        let urls = chain.said["rpc_urls"].as_array().expect("URLs").iter();
        let urls: Vec<&str> = urls.filter_map(Value::as_str).collect();
        let common = [
            ("SOLANA_RPC_URL", urls.join(",")),
            ("RELAY_KEYPAIR_PATH", folder.path().join("payers").display().to_string()),
            ("LANDFALL_SOLANA__REBROADCAST_MS", "400".into()),
            ("LANDFALL_SOLANA__PULSE_MS", "100".into()),
            ("LANDFALL_SOLANA__RETRY_MS", "500".into()),
            ("LANDFALL_SOLANA__RPC_TIMEOUT_MS", "1000".into()),
            ("LANDFALL_SOLANA__BREAKER_OPEN_MS", "500".into()),
            ("LANDFALL_API__AUTH", "off".into()),
            ("LANDFALL_ENGINE__SWEEP_MS", "200".into()),
            ("LANDFALL_LOG__LEVEL", "info".into()),
        ];
        let variables: Vec<(String, String)> =
            common.map(|(name, text)| (name.to_owned(), text)).to_vec();
        let count = if topology.is_some() { 2 } else { 1 };
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let relay = |(number, port): (usize, &u16)| {
            let data = folder.path().join(format!("relay-{number}"));
            std::fs::create_dir_all(&data).expect("a folder");
            let more = topology.map(|topology| topology.variables(number)).unwrap_or_default();
            let variables: Vec<(String, String)> = variables.iter().cloned().chain(more).collect();
            let (log, port) = (data.join("log"), *port);
            Restarted::new(log, move |_| serve(&data, port, &variables))
        };
        let relays = ports.iter().enumerate().map(relay).collect();
        Town { folder, chain, relays, ports, variables }
    }

    fn logs(&self) -> String {
        let logs: Vec<String> = self.relays.iter().map(Restarted::log_tail).collect();
        logs.join("\n---\n")
    }

    fn audit(&self, topology: Option<&Topology>) -> Value {
        let more = topology.map(|topology| topology.variables(0)).unwrap_or_default();
        let mut command = Command::new(LANDFALL);
        command.args(["audit", "solana", "--json"]).current_dir(self.folder.path().join("relay-0"));
        command.envs(self.variables.iter().cloned()).envs(more);
        let audit = command.output().expect("the audit runs");
        let said = String::from_utf8_lossy(&audit.stdout);
        let complaint = String::from_utf8_lossy(&audit.stderr);
        assert!(audit.status.success(), "audit: {said}\n{complaint}");
        serde_json::from_slice(&audit.stdout).expect("JSON")
    }
}

fn serve(data: &Path, port: u16, variables: &[(String, String)]) -> Command {
    let mut command = Command::new(LANDFALL);
    command.arg("serve").current_dir(data).envs(variables.iter().cloned());
    command.env("LANDFALL_API__LISTEN", format!("127.0.0.1:{port}"));
    command
}

/// What was asked for, by nullifier: its request and its body.
type Asked = BTreeMap<String, (String, Value)>;

/// Sends the same withdraw with the same key until it is acknowledged.
async fn submit(ports: &[u16], n: usize, body: &Value) -> String {
    for port in ports.iter().cycle().skip(n) {
        let request = http().post(format!("http://127.0.0.1:{port}/withdraw")).json(body);
        match request.header("Idempotency-Key", format!("withdraw-{n}")).send().await {
            Ok(answer) if answer.status().is_success() => {
                if let Ok(taken) = answer.json::<Value>().await {
                    return taken["request_id"].as_str().expect("an id").to_owned();
                }
            }
            Ok(answer) if answer.status() != 503 => {
                panic!("{n}: {} {}", answer.status(), answer.text().await.unwrap_or_default())
            }
            _ => pause(Duration::from_millis(50)).await,
        }
    }
    unreachable!("they are asked for ever")
}

async fn submit_all(town: &Town) -> Asked {
    let next = Arc::new(AtomicUsize::new(0));
    let client = |_| async {
        let mut asked = Asked::new();
        loop {
            let n = next.fetch_add(1, Ordering::SeqCst);
            if n >= withdraws() {
                return asked;
            }
            let body = town.chain.request(n).await;
            let id = submit(&town.ports, n, &body).await;
            let nullifier = body["public_inputs"]["nf"].as_str().expect("hex").to_owned();
            asked.insert(nullifier, (id, body));
            pause(Duration::from_millis(20)).await;
        }
    };
    let all = futures::future::join_all((0..CLIENTS).map(client)).await;
    all.into_iter().flatten().collect()
}

async fn status(ports: &[u16], id: &str) -> Option<Value> {
    for port in ports {
        let answer = http().get(format!("http://127.0.0.1:{port}/status/{id}")).send().await;
        if let Ok(answer) = answer
            && answer.status().is_success()
        {
            return answer.json().await.ok();
        }
    }
    None
}

async fn storm(relays: &mut [Restarted]) {
    relays.iter_mut().for_each(Restarted::start);
    for kill in 0..withdraws() / WITHDRAWS_PER_KILL {
        pause(Duration::from_secs(1)).await;
        let number = kill % relays.len();
        let victim = &mut relays[number];
        victim.kill();
        victim.start();
    }
}

async fn every_nullifier_is_spent_once(topology: Option<Topology>) {
    let mut town = Town::start(topology.as_ref());
    let faults = json!({
        "lose_request": 0.05, "lose_answer": 0.05, "server_error": 0.02, "drop": 0.05,
        "skip": 0.05, "fork": 0.01,
    });
    town.chain.post("faults", faults).await;
    town.chain.post("faults", json!({ "node": 2, "lie": 1.0 })).await;
    let mut relays = std::mem::take(&mut town.relays);
    let (asked, ()) = tokio::join!(submit_all(&town), storm(&mut relays));
    town.relays = relays;
    let calm = json!({
        "lose_request": 0.0, "lose_answer": 0.0, "server_error": 0.0, "drop": 0.0, "fork": 0.0,
        "lie": 0.0,
    });
    town.chain.post("faults", calm).await;
    assert_eq!(asked.len(), withdraws());

    let begun = Instant::now();
    for (id, _) in asked.values() {
        loop {
            let seen = status(&town.ports, id).await.unwrap_or_default();
            if seen["status"] == "completed" {
                break;
            }
            let is_late = begun.elapsed() >= SETTLE || seen["status"] == "failed";
            assert!(!is_late, "{seen:#}\n{}", town.logs());
            pause(Duration::from_millis(100)).await;
        }
    }
    let spent = town.chain.get("spent").await;
    let mut spent: BTreeMap<String, Vec<Value>> =
        spent.as_array().expect("a list").iter().fold(BTreeMap::new(), |mut all, one| {
            let nullifier = one["nullifier"].as_str().expect("hex").to_owned();
            all.entry(nullifier).or_default().push(one.clone());
            all
        });
    for (nullifier, (id, body)) in &asked {
        let times = spent.remove(nullifier).unwrap_or_default();
        assert_eq!(times.len(), 1, "{id}: {times:#?}");
        assert_eq!(times[0]["outputs"], body["outputs"], "{id}");
        assert_eq!(times[0]["final"], true, "{id}");
    }
    assert!(spent.is_empty(), "spent what nobody asked for: {spent:#?}");
    let audited = town.audit(topology.as_ref());
    assert_eq!(audited["completed"], asked.len(), "{audited:#}");
    println!(
        "{} withdraws settled {:?} after the storm; {} attempts sunk",
        asked.len(),
        begun.elapsed(),
        audited["sunk"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_every_second_with_a_lying_node_every_nullifier_is_spent_once() {
    let _alone = machine().await;
    every_nullifier_is_spent_once(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_relays_on_postgres_and_redis_spend_every_nullifier_once() {
    let _alone = machine().await;
    every_nullifier_is_spent_once(Some(Topology::postgres_and_redis())).await;
}
