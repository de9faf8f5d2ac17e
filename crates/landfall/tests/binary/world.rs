//! A small world for tests of the binary: a simulated ledger, a relay on it, and a client.
//!
//! The client speaks plain HTTP over a socket of its own, so that nothing of the binary is used to
//! test the binary.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a test waits for what should take seconds, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often it asks meanwhile.
const ASK: Duration = Duration::from_millis(50);
/// How long a client waits for one answer.
const ANSWER: Duration = Duration::from_secs(40);

/// Names that would reach into a test from outside.
const OUTSIDE: [&str; 10] = [
    "DATABASE_URL",
    "REDIS_URL",
    "NEAR_RPC_URL",
    "NEAR_NETWORK",
    "FT_TOKEN_ADDRESS",
    "RELAY_ACCOUNT_ID",
    "RELAY_ACCESS_KEYS",
    "SERVER_PORT",
    "MAX_RETRIES",
    "MAX_VERIFICATION_RETRIES",
];

/// The binary, with nothing of the outside in its environment, in a folder of its own.
pub fn landfall(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_landfall"));
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("LANDFALL_")) {
        command.env_remove(name);
    }
    for name in OUTSIDE {
        command.env_remove(name);
    }
    command.current_dir(folder);
    command
}

/// A process that ends with its guard.
pub struct Process(Child);

impl Process {
    pub fn start(command: &mut Command) -> Process {
        Process(command.spawn().expect("the binary starts"))
    }

    /// Its next line on standard output.
    pub fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let stdout = self.0.stdout.take().expect("piped");
        BufReader::new(stdout).lines().map_while(Result::ok)
    }

    pub fn kill_9(mut self) {
        self.0.kill().expect("still there");
        self.0.wait().expect("gone");
    }

    /// Asks it to leave and returns its exit code.
    pub fn terminate(mut self) -> Option<i32> {
        self.signal("-TERM");
        self.0.wait().expect("gone").code()
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// As `kill` names signals.
    pub fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().expect("kill runs");
        assert!(sent.success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, perhaps.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until `ready` gives something.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(ASK);
    }
}

/// A port that stays free between two starts: below those that outgoing connections are given.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that start one after the other must not try the same ones.
    let first = 10_000 + (u64::from(std::process::id()) * 16 % 20_000) as u16;
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::SeqCst));
    ports.take_while(|port| *port < 32_000).find(free).expect("a free port")
}

/// One request on a connection of its own. None if there was no whole answer.
pub fn request(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, Value)> {
    ask(method, url, headers, body).map(|(status, _, body)| (status, body))
}

/// The same, with the head of the answer.
pub fn ask(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String, Value)> {
    let rest = url.strip_prefix("http://").expect("an http URL");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(ANSWER)).ok()?;
    let mut head = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str("Content-Type: application/json\r\n");
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let body = serde_json::from_str(body).unwrap_or(Value::String(body.to_owned()));
    Some((status, head.to_lowercase(), body))
}

pub fn get(url: &str) -> Option<Value> {
    request("GET", url, &[], "").filter(|(status, _)| *status == 200).map(|(_, body)| body)
}

/// A simulated NEAR in a process of its own.
pub struct Simulator {
    pub said: Value,
    _process: Process,
}

impl Simulator {
    pub fn start(folder: &Path, arguments: &[&str]) -> Simulator {
        let mut command = landfall(folder);
        command.args(["sim", "near", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let line = process.lines().next().expect("the simulator announces itself");
        let said = serde_json::from_str(&line).expect("one line of JSON");
        Simulator { said, _process: process }
    }

    pub fn url(&self) -> &str {
        self.said["rpc_url"].as_str().expect("rpc_url")
    }

    pub fn post(&self, path: &str, body: &Value) {
        let url = format!("{}{path}", self.url());
        let answer = request("POST", &url, &[], &body.to_string());
        assert!(matches!(answer, Some((200, _))), "{path} {body}: {answer:?}");
    }

    /// How often each memo was paid.
    pub fn paid(&self) -> BTreeMap<String, usize> {
        let paid = get(&format!("{}/sim/transfers", self.url())).expect("the ledger");
        let mut times = BTreeMap::new();
        for one in paid.as_array().expect("a list") {
            *times.entry(one["memo"].as_str().unwrap_or("(no memo)").to_owned()).or_default() += 1;
        }
        times
    }
}

/// How to run `serve`, `check` and `audit` on a simulator.
pub struct Relay {
    pub folder: PathBuf,
    pub url: String,
    pub variables: Vec<(String, String)>,
}

impl Relay {
    pub fn on(simulator: &Simulator, folder: &Path) -> Relay {
        let said = &simulator.said;
        let text = |name: &str| said[name].as_str().expect("a text").to_owned();
        let urls: Vec<&str> =
            said["rpc_urls"].as_array().expect("urls").iter().filter_map(Value::as_str).collect();
        let port = free_port();
        let variables = [
            ("NEAR_RPC_URL", urls.join(",")),
            ("FT_TOKEN_ADDRESS", text("token")),
            ("RELAY_ACCOUNT_ID", text("relay_account")),
            ("RELAY_ACCESS_KEYS", said["access_keys"].to_string()),
            ("SERVER_PORT", port.to_string()),
            ("LANDFALL_API__AUTH", "off".into()),
            ("LANDFALL_STORE__URL", "sqlite:store.db".into()),
            ("LANDFALL_LOG__LEVEL", "error".into()),
        ];
        Relay {
            folder: folder.to_owned(),
            url: format!("http://127.0.0.1:{port}"),
            variables: variables.map(|(name, text)| (name.to_owned(), text)).to_vec(),
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = landfall(&self.folder);
        command.args(arguments).envs(self.variables.iter().cloned());
        command
    }

    /// One of several on a server's store, in a folder of its own. Leases are short.
    pub fn shared(simulator: &Simulator, folder: &Path, name: &str, store: &str) -> Relay {
        let home = folder.join(name);
        std::fs::create_dir_all(&home).expect("a folder");
        let mut relay = Relay::on(simulator, &home);
        relay.set("LANDFALL_INSTANCE__NAME", name);
        relay.set("LANDFALL_STORE__URL", store);
        relay.set("LANDFALL_STORE__TIMEOUT_MS", "2000");
        relay.set("LANDFALL_ENGINE__LEASE_MS", "2000");
        relay.set("LANDFALL_ENGINE__RENEW_MS", "500");
        relay.set("LANDFALL_ENGINE__SWEEP_MS", "200");
        relay
    }

    pub fn set(&mut self, name: &str, text: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), text.to_owned()));
    }

    pub fn serve(&self) -> Process {
        Process::start(&mut self.command(&["serve"]))
    }

    /// Serves, with its log in a file.
    pub fn serve_logged(&self) -> Process {
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        Process::start(self.command(&["serve"]).stderr(log.expect("a log file")))
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    pub fn until_ready(&self) {
        wait_for("the relay", || get(&format!("{}/ready", self.url)));
    }

    /// What a command prints with `--json`.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    pub fn completed(&self, key: &str) {
        let url = format!("{}/transfer/{key}?wait=30s", self.url);
        wait_for(key, || get(&url).filter(|transfer| transfer["status"] == "COMPLETED"));
    }

    /// Hands in a payout as a client should: again, with the same key, until there is an answer.
    pub fn pay(&self, key: &str, receiver: &str, amount: u128) {
        let body =
            json!({"receiver_id": receiver, "amount": amount.to_string(), "memo": key}).to_string();
        let url = format!("{}/transfer", self.url);
        wait_for("a payout to be taken", || {
            match request("POST", &url, &[("X-Idempotency-Key", key)], &body) {
                Some((200 | 201, answer)) => Some(answer),
                Some((503, _)) | None => None,
                Some(other) => panic!("{key}: {other:?}"),
            }
        });
    }
}

/// The text of both streams, for messages.
pub fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
