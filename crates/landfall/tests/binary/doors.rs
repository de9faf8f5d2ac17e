//! The doors of a running relay: slow clients, crowds, and a stop among them.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use landfall_servers::Postgres;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};
use serde_json::{Value, json};

use crate::forwarder::Forwarder;
use crate::world::{Process, Relay, Simulator, free_port, get, request, wait_for};

/// Far below the grace of a stop, and far above what leaving takes on a machine that is busy.
pub const AT_ONCE: Duration = Duration::from_secs(10);

struct World {
    simulator: Simulator,
    _folder: tempfile::TempDir,
    relay: Relay,
}

fn world() -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "2", "--block-ms", "100"]);
    let relay = Relay::on(&simulator, folder.path());
    World { simulator, _folder: folder, relay }
}

/// A connection on which so much was sent and no more.
fn half_sent(relay: &Relay, bytes: &str) -> TcpStream {
    half_sent_to(&relay.url, bytes)
}

pub fn half_sent_to(url: &str, bytes: &str) -> TcpStream {
    let address = url.strip_prefix("http://").expect("an http URL");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(40))).expect("a timeout");
    stream.write_all(bytes.as_bytes()).expect("sent");
    stream
}

/// All that comes back until the other side closes.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    // A connection that is reset is closed too.
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

const HALF_A_BODY: &str = "POST /transfer HTTP/1.1\r\nHost: relay\r\nX-Idempotency-Key: half\r\n\
     Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"receiver_id\"";

#[test]
fn no_half_sent_request_holds_up_a_stop() {
    let world = world();
    let process = world.relay.serve();
    world.relay.until_ready();
    let _silent = half_sent(&world.relay, "");
    let _head = half_sent(&world.relay, "POST /t");
    let _body = half_sent(&world.relay, HALF_A_BODY);
    // They were accepted before this one, so the relay has them.
    get(&format!("{}/ready", world.relay.url)).expect("ready");
    let begun = Instant::now();
    assert_eq!(process.terminate(), Some(0));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

#[test]
fn a_whole_request_is_answered_though_the_relay_is_told_to_stop() {
    let world = world();
    let process = world.relay.serve();
    world.relay.until_ready();
    world.simulator.post("/sim/faults", &json!({"down": true}));
    world.relay.pay("waiting", "alice.near", 1);
    let ask = "GET /transfer/waiting?wait=30s HTTP/1.1\r\nHost: relay\r\n\r\n";
    let mut waiting = half_sent(&world.relay, ask);
    get(&format!("{}/ready", world.relay.url)).expect("ready");
    let begun = Instant::now();
    process.signal("-TERM");
    let answer = rest(&mut waiting);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(process.terminate(), Some(0));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
}

/// The same command under a shell's terms.
pub fn after(terms: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{terms} && exec \"$0\" \"$@\"")]);
    shell.arg(command.get_program()).args(command.get_args()).env_clear();
    shell.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(command.get_current_dir().expect("a folder"));
    shell
}

/// Serves under a shell's terms.
fn serve_after(relay: &Relay, terms: &str) -> Process {
    Process::start(&mut after(terms, &relay.command(&["serve"])))
}

#[test]
fn more_half_open_connections_than_descriptors_end_nothing() {
    let world = world();
    let process = serve_after(&world.relay, "ulimit -n 256");
    world.relay.until_ready();
    let crowd: Vec<TcpStream> = (0..300).map(|_| half_sent(&world.relay, "POST /t")).collect();
    let begun = Instant::now();
    world.relay.pay("among-a-crowd", "alice.near", 1);
    assert!(begun.elapsed() < AT_ONCE, "newcomers are let in: {:?}", begun.elapsed());
    world.relay.completed("among-a-crowd");
    drop(crowd);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn whoever_is_slow_is_shown_out() {
    let mut world = world();
    world.relay.set("LANDFALL_API__HEAD_TIMEOUT_MS", "300");
    world.relay.set("LANDFALL_API__BODY_TIMEOUT_MS", "300");
    world.relay.set("LANDFALL_API__IDLE_TIMEOUT_MS", "600");
    let process = world.relay.serve();
    world.relay.until_ready();
    for nothing_or_half in ["", "POST /t"] {
        assert_eq!(rest(&mut half_sent(&world.relay, nothing_or_half)), "");
    }
    let answer = rest(&mut half_sent(&world.relay, HALF_A_BODY));
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.ends_with("{\"error\":\"body: did not arrive within 300 ms\"}"), "{answer}");
    let idle = rest(&mut half_sent(&world.relay, "GET /ready HTTP/1.1\r\nHost: relay\r\n\r\n"));
    assert!(idle.starts_with("HTTP/1.1 200 "), "{idle}");
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn what_is_no_http_is_told_so_in_json() {
    let world = world();
    let process = world.relay.serve();
    world.relay.until_ready();
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let check = |bytes: &str, status: u16, said: &str| {
        let answer = rest(&mut half_sent(&world.relay, bytes));
        let sent = &bytes[..bytes.len().min(60)];
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{sent:?}: {answer}");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
        assert!(head.contains("content-type: application/json"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head} {body}");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert!(body["error"].as_str().expect("an error").contains(said), "{body}");
    };
    check("this is no HTTP\r\n\r\n", 400, "not HTTP/1.1");
    check("GET / HTTP/1.1\r\nBad Header\r\n\r\n", 400, "not HTTP/1.1");
    check(&format!("GET / HTTP/1.1\r\n{many}\r\n"), 431, "headers");
    let long = "a".repeat(70_000);
    check(&format!("GET /{long} HTTP/1.1\r\n\r\n"), 431, "too large");
    check(&format!("GET / HTTP/1.1\r\nX: {long}\r\n\r\n"), 431, "too large");
    assert!(request("GET", &format!("{}/ready", world.relay.url), &[], "").is_some());
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_full_house_lets_newcomers_in_by_showing_out_who_waits() {
    let mut world = world();
    world.relay.set("LANDFALL_API__CONNECTIONS_MAX", "8");
    let process = world.relay.serve();
    world.relay.until_ready();
    let mut first = half_sent(&world.relay, "POST /t");
    let _others: Vec<TcpStream> = (0..8).map(|_| half_sent(&world.relay, "POST /t")).collect();
    wait_for("an answer", || get(&format!("{}/ready", world.relay.url)));
    assert_eq!(rest(&mut first), "", "who has waited for longest goes first");
    assert_eq!(process.terminate(), Some(0));
}

/// As many at once, each on a connection of its own, and every one is answered. Their status codes.
fn all_at_once(relay: &Relay, count: usize, path: &str) -> Vec<String> {
    let ask = format!("GET {path} HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n");
    let mut streams: Vec<TcpStream> = (0..count).map(|_| half_sent(relay, &ask)).collect();
    let status = |stream: &mut TcpStream| {
        let answer = rest(stream);
        assert!(answer.starts_with("HTTP/1.1 "), "{path} is not answered");
        answer.chars().skip(9).take(3).collect()
    };
    streams.iter_mut().map(status).collect()
}

#[test]
fn a_thousand_who_ask_how_it_is_cost_the_store_nothing() {
    let mut world = world();
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let between = Forwarder::to(postgres.port());
    let store = postgres.url().replace(&postgres.port().to_string(), &between.port.to_string());
    world.relay.set("LANDFALL_STORE__URL", &store);
    // Whoever asks a store that stalls waits for so long.
    world.relay.set("LANDFALL_STORE__TIMEOUT_MS", "60000");
    let process = world.relay.serve();
    world.relay.until_ready();
    for number in 0..20 {
        world.relay.pay(&format!("before-{number}"), "alice.near", 1);
    }
    assert!(all_at_once(&world.relay, 1_000, "/health").iter().all(|status| status == "200"));
    between.hold();
    let begun = Instant::now();
    for path in ["/live", "/health", "/ready"] {
        let answers = all_at_once(&world.relay, 1_000, path);
        assert!(answers.iter().all(|status| status == "200" || status == "503"), "{answers:?}");
    }
    assert!(begun.elapsed() < 2 * AT_ONCE, "{:?}", begun.elapsed());
    between.release();
    for number in 0..20 {
        world.relay.completed(&format!("before-{number}"));
    }
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn metrics_have_a_key_or_a_listener_of_their_own() {
    let mut world = world();
    let port = free_port();
    let keys = r#"[{"key": "an operator of acme", "scopes": ["operate"]}, "a client of acme"]"#;
    world.relay.set("LANDFALL_API__AUTH", "keys");
    world.relay.set("LANDFALL_API__KEYS", keys);
    world.relay.set("LANDFALL_API__METRICS_LISTEN", &format!("127.0.0.1:{port}"));
    let process = world.relay.serve();
    world.relay.until_ready();
    let url = format!("{}/metrics", world.relay.url);
    let with = |key: &str| request("GET", &url, &[("X-API-Key", key)], "").expect("an answer").0;
    assert_eq!(request("GET", &url, &[], "").expect("an answer").0, 401);
    assert_eq!((with("a client of acme"), with("an operator of acme")), (403, 200));
    let (status, metrics) =
        request("GET", &format!("http://127.0.0.1:{port}/metrics"), &[], "").expect("an answer");
    assert!(status == 200 && metrics.as_str().expect("text").contains("landfall_alerts"));
    let health = wait_for("health", || {
        get(&format!("{}/health", world.relay.url)).filter(|health| health["status"] == "healthy")
    });
    assert_eq!(health["rails"], Value::Null);
    assert_eq!(process.terminate(), Some(0));
}

/// As many sockets as a crowd of clients needs.
fn many_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).expect("the soft limit can be raised");
}

/// On a store of which others finish the transfers: nobody here hears of it.
#[test]
fn five_thousand_who_wait_hold_up_nobody_and_all_hear_of_the_end() {
    many_descriptors();
    let world = world();
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let relay = |name| Relay::shared(&world.simulator, world._folder.path(), name, postgres.url());
    let (taker, mut worker) = (relay("taker"), relay("worker"));
    // It notices soon that the ledger is back.
    worker.set("LANDFALL_NEAR__BREAKER_OPEN_MS", "200");
    worker.set("LANDFALL_NEAR__BREAKER_OPEN_MAX_MS", "200");
    worker.set("LANDFALL_ENGINE__RETRY_MAX_MS", "500");
    let taking = Process::start(&mut taker.command(&["serve", "--role", "api"]));
    let working = Process::start(&mut worker.command(&["serve", "--role", "worker"]));
    taker.until_ready();
    worker.until_ready();
    world.simulator.post("/sim/faults", &json!({"down": true}));
    taker.pay("awaited", "alice.near", 1);
    let ask = "GET /transfer/awaited?wait=60s HTTP/1.1\r\nHost: relay\r\n\
               Connection: close\r\n\r\n";
    let mut waiting: Vec<TcpStream> = (0..5_000).map(|_| half_sent(&taker, ask)).collect();
    let begun = Instant::now();
    for number in 0..20 {
        taker.pay(&format!("beside-{number}"), "alice.near", 1);
    }
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    world.simulator.post("/sim/faults", &json!({"down": false}));
    for stream in &mut waiting {
        let answer = rest(stream);
        assert!(answer.contains("\"status\":\"COMPLETED\""), "{answer}");
    }
    for number in 0..20 {
        taker.completed(&format!("beside-{number}"));
    }
    assert_eq!((taking.terminate(), working.terminate()), (Some(0), Some(0)));
}

/// How large files may become that a running relay writes: a disk that is full, or not any more.
fn limit_files(process: &Process, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    let id = Pid::from_raw(process.id() as i32);
    prlimit(id, Resource::Fsize, limit).expect("the limit is ours to set");
}

/// A write that does not fit fails, instead of ending the process.
const TOLD_OF_FULL_DISKS: &str = "trap '' XFSZ";

fn status_of(relay: &Relay, path: &str) -> Option<u16> {
    request("GET", &format!("{}{path}", relay.url), &[], "").map(|(status, _)| status)
}

#[test]
fn a_full_disk_is_noticed_before_anybody_pays_and_so_is_its_end() {
    let world = world();
    let process = serve_after(&world.relay, TOLD_OF_FULL_DISKS);
    world.relay.until_ready();
    limit_files(&process, Some(1));
    wait_for("the full disk to be noticed", || {
        let is_noticed = |path| status_of(&world.relay, path) == Some(503);
        (is_noticed("/ready") && is_noticed("/health")).then_some(())
    });
    assert_eq!(status_of(&world.relay, "/live"), Some(200));
    limit_files(&process, None);
    world.relay.until_ready();
    world.relay.pay("after", "alice.near", 1);
    world.relay.completed("after");
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn marks_that_cannot_be_written_are_an_alert_that_ends_when_they_can() {
    let mut world = world();
    let postgres = Postgres::start().expect("PostgreSQL starts");
    world.relay.set("LANDFALL_STORE__URL", postgres.url());
    let process = serve_after(&world.relay, TOLD_OF_FULL_DISKS);
    world.relay.until_ready();
    let alerts = |wanted: bool| {
        let health = get(&format!("{}/health", world.relay.url))?;
        let alerts = health["alerts"].as_array()?;
        let stands = alerts.iter().any(|alert| alert["kind"] == "high_water");
        (stands == wanted).then_some(())
    };
    limit_files(&process, Some(1));
    world.relay.pay("marked", "alice.near", 1);
    wait_for("the alert", || alerts(true));
    limit_files(&process, None);
    world.relay.completed("marked");
    world.relay.pay("later", "alice.near", 1);
    world.relay.completed("later");
    wait_for("the end of the alert", || alerts(false));
    assert_eq!(process.terminate(), Some(0));
}

/// Clients that give up and come back while a database stalls must not fill the relay's memory.
#[test]
fn a_long_line_before_a_store_that_stalls_is_cut_at_the_door() {
    let mut world = world();
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let between = Forwarder::to(postgres.port());
    let store = postgres.url().replace(&postgres.port().to_string(), &between.port.to_string());
    world.relay.set("LANDFALL_STORE__URL", &store);
    world.relay.set("LANDFALL_STORE__TIMEOUT_MS", "60000");
    let process = world.relay.serve();
    world.relay.until_ready();
    between.hold();
    let url = format!("{}/transfer", world.relay.url);
    let many = |round: usize| {
        let payout = |number| {
            json!({"idempotency_key": format!("{round}-{number}"), "receiver_id": "alice.near",
                   "amount": "1"})
        };
        Value::from((0..1_000).map(payout).collect::<Vec<_>>()).to_string()
    };
    let begun = Instant::now();
    for round in 0..3 {
        // Twelve clients at once, who all give up.
        let body = many(round);
        let url = format!("{url}s");
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| impatient(&url, &body));
            }
        });
    }
    let one = json!({"receiver_id": "alice.near", "amount": "1"}).to_string();
    let (status, head) = impatient(&url, &one).expect("an answer at once");
    assert!(status == 503 && head.contains("retry-after: "), "{head}");
    assert!(begun.elapsed() < 4 * AT_ONCE, "{:?}", begun.elapsed());
    between.release();
    world.relay.pay("afterwards", "alice.near", 1);
    world.relay.completed("afterwards");
    assert_eq!(process.terminate(), Some(0));
}

/// One try of a client that gives up soon. None if it did.
fn impatient(url: &str, body: &str) -> Option<(u16, String)> {
    let rest = url.strip_prefix("http://").expect("an http URL");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(3))).ok()?;
    let head = format!(
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         X-Idempotency-Key: impatient\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8_lossy(&answer).to_lowercase();
    Some((answer.split(' ').nth(1)?.parse().ok()?, answer))
}

/// The bits that others than the owner have, of a folder and all in it.
fn open_to_others(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(path) = folders.pop() {
        let metadata = std::fs::metadata(&path).expect("it is there");
        if metadata.permissions().mode() & 0o077 != 0 {
            found.push(path.display().to_string());
        }
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a folder");
            folders.extend(entries.map(|entry| entry.expect("an entry").path()));
        }
    }
    found
}

#[test]
fn what_a_relay_keeps_is_for_its_owner_alone_and_check_tells_of_keys_that_are_not() {
    let mut world = world();
    world.relay.set("LANDFALL_STORE__URL", "sqlite:landfall-data/store.db");
    let process = world.relay.serve();
    world.relay.until_ready();
    world.relay.pay("kept", "alice.near", 1);
    world.relay.completed("kept");
    let data = world.relay.folder.join("landfall-data");
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    assert_eq!(process.terminate(), Some(0));

    let keys = world.relay.folder.join("keys");
    let found = |(name, _): &(String, String)| name == "RELAY_ACCESS_KEYS";
    let text = world.relay.variables.iter().find(|one| found(one)).expect("keys").1.clone();
    world.relay.variables.retain(|one| !found(one));
    std::fs::write(&keys, text).expect("written");
    world.relay.set("LANDFALL_NEAR__ACCESS_KEYS_FILE", "keys");
    let notes = |mode| {
        std::fs::set_permissions(&keys, Permissions::from_mode(mode)).expect("ours");
        let told = world.relay.json(&["check", "--json"]);
        let secrets = told.as_array().expect("a list").iter().find(|one| one["check"] == "secrets");
        secrets.map(|one| one["open_to_others"].clone())
    };
    assert_eq!((notes(0o600), notes(0o644)), (None, Some(json!(["keys"]))));
}
