//! The processes of a chaos test, each ended with the test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};

pub const LANDFALL: &str = env!("CARGO_BIN_EXE_landfall");
const PATIENCE: Duration = Duration::from_secs(2);

/// Real time passes: chaos is about processes, and those have no paused clock.
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

pub fn http() -> reqwest::Client {
    reqwest::Client::builder().timeout(PATIENCE).build().expect("a client")
}

/// The machine, for one test at a time: how far a relay gets between two kills is what is tried.
pub async fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::const_new(());
    MACHINE.lock().await
}

/// A port that stays free between two starts: below those that outgoing connections are given,
/// or a client that knocks while nobody listens could be given it, and keep the relay out.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that start one after the other must not try the same ones.
    let first = 10_000 + (u64::from(std::process::id()) * 16 % 20_000) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::SeqCst));
    ports.take_while(|port| *port < 32_000).find(free).expect("a free port")
}

pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that is started and killed again and again, and writes one log.
pub struct Restarted {
    /// Made anew for each start, from its number.
    command: Box<dyn Fn(u64) -> Command + Send>,
    log: PathBuf,
    starts: u64,
    process: Option<Killed>,
}

impl Restarted {
    pub fn new(log: PathBuf, command: impl Fn(u64) -> Command + Send + 'static) -> Restarted {
        Restarted { command: Box::new(command), log, starts: 0, process: None }
    }

    pub fn start(&mut self) {
        self.starts += 1;
        let log = File::options().create(true).append(true).open(&self.log).expect("a log file");
        let mut command = (self.command)(self.starts);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        self.process = Some(Killed(child.expect("the process starts")));
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

fn tail(log: &Path) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// A running `landfall sim near`.
#[derive(Clone)]
pub struct Sim {
    _process: Arc<Killed>,
    announcement: Value,
    http: reqwest::Client,
}

impl Sim {
    pub async fn start(nodes: usize, keys: usize, block_ms: u64) -> Sim {
        let mut child = Command::new(LANDFALL)
            .args(["sim", "near", "--listen", "127.0.0.1:0", "--chunk-gas", "on"])
            .args(["--nodes", &nodes.to_string(), "--keys", &keys.to_string()])
            .args(["--block-ms", &block_ms.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the simulator starts");
        let stdout = child.stdout.take().expect("piped");
        let process = Arc::new(Killed(child));
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("one line of JSON");
        let announcement = serde_json::from_str(&line).expect("one line of JSON");
        Sim { _process: process, announcement, http: http() }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.announcement["rpc_url"].as_str().expect("a URL"))
    }

    pub async fn post(&self, path: &str, body: Value) {
        let answer = self.http.post(self.url(path)).json(&body).send().await.expect("/sim answers");
        assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(self.url(path)).send().await.expect("/sim answers");
        answer.json().await.expect("JSON")
    }
}

/// A `landfall serve` that is started and killed again and again on the same data.
pub struct Relay {
    folder: TempDir,
    port: u16,
    sim: Value,
    /// Beside those that every relay has: where its store is, what it is called.
    variables: Vec<(String, String)>,
    process: Option<Killed>,
}

impl Relay {
    pub fn new(sim: &Sim) -> Relay {
        Relay::with(sim, Vec::new())
    }

    pub fn with(sim: &Sim, variables: Vec<(String, String)>) -> Relay {
        let port = free_port();
        let folder = tempfile::tempdir().expect("a folder");
        Relay { folder, port, sim: sim.announcement.clone(), variables, process: None }
    }

    pub fn command(&self, name: &str) -> Command {
        let urls: Vec<&str> =
            self.sim["rpc_urls"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let mut command = Command::new(LANDFALL);
        command
            .arg(name)
            .current_dir(self.folder.path())
            .env("NEAR_RPC_URL", urls.join(","))
            .env("NEAR_NETWORK", "simnet")
            .env("FT_TOKEN_ADDRESS", self.sim["token"].as_str().unwrap())
            .env("RELAY_ACCOUNT_ID", self.sim["relay_account"].as_str().unwrap())
            .env("RELAY_ACCESS_KEYS", self.sim["access_keys"].to_string())
            .env("LANDFALL_API__LISTEN", format!("127.0.0.1:{}", self.port))
            .env("LANDFALL_API__AUTH", "off")
            .env("LANDFALL_NEAR__RPC_TIMEOUT_MS", "1000")
            .env("LANDFALL_NEAR__BREAKER_OPEN_MS", "500")
            .env("LANDFALL_ENGINE__FENCE_AFTER_MS", "5000")
            .env("LANDFALL_ENGINE__REBROADCAST_MS", "200")
            .env("LANDFALL_ENGINE__REBROADCAST_MAX_MS", "2000")
            .env("LANDFALL_ENGINE__SWEEP_MS", "200")
            .env("LANDFALL_LOG__LEVEL", "info")
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"));
        let log = log.expect("a log file");
        let child = self.command("serve").stderr(log).stdout(Stdio::null()).spawn();
        self.process = Some(Killed(child.expect("the relay starts")));
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn log_tail(&self) -> String {
        tail(&self.folder.path().join("log"))
    }

    pub fn assert_audit_is_clean(&self) {
        let audit = self.command("audit").output().expect("the audit runs");
        assert!(
            audit.status.success(),
            "audit: {}\n{}",
            String::from_utf8_lossy(&audit.stdout),
            String::from_utf8_lossy(&audit.stderr)
        );
    }
}

/// A client that does not give up.
#[derive(Clone)]
pub struct Client {
    bases: Vec<String>,
    turn: Arc<AtomicUsize>,
    http: reqwest::Client,
}

impl Client {
    pub fn new(relay: &Relay) -> Client {
        Client::of(std::slice::from_ref(relay))
    }

    /// A client of several, each asked in turn.
    pub fn of(relays: &[Relay]) -> Client {
        Client::at(relays.iter().map(|relay| relay.port))
    }

    pub fn at(ports: impl Iterator<Item = u16>) -> Client {
        let bases = ports.map(|port| format!("http://127.0.0.1:{port}"));
        Client { bases: bases.collect(), turn: Arc::default(), http: http() }
    }

    fn base(&self) -> &str {
        &self.bases[self.turn.fetch_add(1, Ordering::Relaxed) % self.bases.len()]
    }

    /// Sends the same payout with the same key until it is acknowledged.
    pub async fn submit_until_taken(&self, key: String, receiver: String) {
        let body = json!({"receiver_id": receiver, "amount": "10", "memo": key});
        self.post_until_taken("/transfer", &key, &body).await;
    }

    /// The same of a call on a chain. Gives its id.
    pub async fn call_until_taken(&self, key: &str, body: &Value) -> String {
        let taken = self.post_until_taken("/api/v1/relay/direct", key, body).await;
        taken["transactionId"].as_str().expect("an id").to_owned()
    }

    async fn post_until_taken(&self, path: &str, key: &str, body: &Value) -> Value {
        loop {
            let request = self.http.post(format!("{}{path}", self.base()));
            let answer = request.header("Idempotency-Key", key).json(body).send().await;
            match answer {
                Ok(answer) if answer.status().is_success() => {
                    // Cut off in its middle, perhaps: then it is asked again.
                    if let Ok(taken) = answer.json().await {
                        return taken;
                    }
                }
                Ok(answer) if answer.status() != 503 => {
                    panic!("{key}: {} {}", answer.status(), answer.text().await.unwrap_or_default())
                }
                _ => pause(Duration::from_millis(50)).await,
            }
        }
    }

    /// What one of them answers; none if it is dead.
    #[cfg(feature = "sqs")]
    pub async fn get(&self, path: &str) -> Option<Value> {
        let answer = self.http.get(format!("{}{path}", self.base())).send().await.ok()?;
        answer.json().await.ok()
    }

    /// How many are COMPLETED, asked until the relay answers.
    pub async fn completed_eventually(&self) -> usize {
        self.in_state_eventually("COMPLETED").await
    }

    /// How many are in this state, asked until a relay answers.
    pub async fn in_state_eventually(&self, state: &str) -> usize {
        loop {
            if let Some(count) = self.in_state_at_once(state).await {
                return count;
            }
            pause(Duration::from_millis(50)).await;
        }
    }

    /// The same, if a relay and its store answer now.
    pub async fn in_state_at_once(&self, state: &str) -> Option<usize> {
        let answer = self.http.get(format!("{}/metrics", self.base())).send().await.ok()?;
        let text = answer.text().await.ok()?;
        let state = format!("\"{state}\"");
        let mut lines = text.lines().filter(|line| line.starts_with("landfall_transfers{"));
        let line = lines.find(|line| line.contains(&state));
        let count = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
        // None is in it yet, if any other state is told.
        count.or_else(|| text.contains("landfall_transfers{").then_some(0))
    }

    /// The payouts that are not COMPLETED, as the API shows them.
    pub async fn not_completed(&self) -> Vec<Value> {
        let mut open = Vec::new();
        for n in 0..super::payouts() {
            let url = format!("{}/transfer/{}", self.base(), super::key(n));
            let shown: Value = match self.http.get(url).send().await {
                Ok(answer) => answer.json().await.unwrap_or_default(),
                Err(error) => json!({"error": error.to_string()}),
            };
            if shown["status"] != "COMPLETED" && open.len() < 3 {
                open.push(shown);
            }
        }
        open
    }
}
