//! Transfers between services while relays and both services are killed every second.
//!
//! Real processes: two `landfall sim services` that lose answers and refuse some deposits, of each
//! of which one service is used; one `landfall serve` on SQLite, or three on a database server that
//! is itself killed twice; clients that do not give up; and an auditor who looks all the time.
//! Whatever happens, no unit is ever created or lost.
//!
//! `LANDFALL_CHAOS_TRANSFERS` makes it longer: `cargo xtask soak internal`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::watch;

use crate::backends::Topology;
use crate::processes::{LANDFALL, Restarted, free_port, http, machine, pause};

const TRANSFERS: usize = 5_000;
/// With several relays on a database server: these runs are about whom a transfer belongs to.
const SHARED_TRANSFERS: usize = 2_000;
const USERS: usize = 200;
/// Requests under way at once.
const CLIENTS: usize = 48;
/// Every so many transfers ask for more than anybody has.
const TOO_MUCH_EVERY: usize = 50;
/// What each user holds of each asset at each service, in smallest units.
const HELD: u64 = 1_000_000_000;
const ASSETS: [(u32, &str); 2] = [(1, "BTC"), (2, "USDT")];
const SERVICES: [&str; 2] = ["funding", "trading"];
/// How long the killing lasts, by the number of transfers: 50 seconds for 5,000.
const TRANSFERS_PER_KILL: usize = 100;
const RELAYS: usize = 3;
/// How often a database server is killed: a third and two thirds through.
const STORE_KILLS: usize = 2;
/// How long everything may take to settle once the faults have stopped. A transfer whose worker is
/// killed as soon as the sweeper has found it is found again half a minute later.
const SETTLE: Duration = Duration::from_secs(120);

/// The transfers of a run.
fn transfers_or(usual: usize) -> usize {
    let given = std::env::var("LANDFALL_CHAOS_TRANSFERS").ok();
    given.map_or(usual, |text| text.parse().expect("LANDFALL_CHAOS_TRANSFERS is a number"))
}

fn asks_too_much(n: usize) -> bool {
    n.is_multiple_of(TOO_MUCH_EVERY)
}

/// The `n`th request: both ways, both assets, all users.
fn body(n: usize) -> Value {
    let way = (n / USERS) % 2;
    let amount = match asks_too_much(n) {
        true => "1000000".to_owned(),
        false => format!("0.{:06}", 1 + n % 977),
    };
    json!({
        "from": SERVICES[way],
        "to": SERVICES[1 - way],
        "user_id": 1 + n % USERS,
        "asset": ASSETS[(n / USERS / 2) % 2].1,
        "amount": amount,
    })
}

struct Town {
    folder: TempDir,
    transfers: usize,
    relays: Vec<Restarted>,
    services: [Restarted; 2],
    ports: [u16; 2],
    /// Of each relay.
    surroundings: Vec<Surroundings>,
    /// None on SQLite.
    topology: Option<Topology>,
}

/// What a command of the relay needs.
#[derive(Clone)]
struct Surroundings {
    folder: PathBuf,
    port: u16,
    variables: Vec<(String, String)>,
}

impl Surroundings {
    fn new(folder: &Path, ports: [u16; 2], more: Vec<(String, String)>) -> Surroundings {
        let service = |index: usize| {
            let (name, port) = (SERVICES[index], ports[index]);
            json!({"name": name, "url": format!("http://127.0.0.1:{port}/{name}"),
                "freezes": index == 0, "dedupe_window_s": "forever", "timeout_ms": 1_000})
        };
        let asset = |(id, symbol): (u32, &str)| json!({"id": id, "symbol": symbol, "decimals": 6});
        let port = free_port();
        let variables = [
            ("LANDFALL_INTERNAL__SERVICES", json!([service(0), service(1)]).to_string()),
            ("LANDFALL_INTERNAL__ASSETS", json!(ASSETS.map(asset)).to_string()),
            ("LANDFALL_INTERNAL__PROCESS_NOW_MS", "200".into()),
            ("LANDFALL_API__LISTEN", format!("127.0.0.1:{port}")),
            ("LANDFALL_API__AUTH", "off".into()),
            ("LANDFALL_ENGINE__SWEEP_MS", "200".into()),
            ("LANDFALL_ENGINE__RETRY_MS", "50".into()),
            ("LANDFALL_ENGINE__RETRY_MAX_MS", "1000".into()),
            ("LANDFALL_LOG__LEVEL", "warn,landfall_engine::active_rail=off".into()),
        ];
        let variables = variables.map(|(name, text)| (name.to_owned(), text));
        let variables = variables.into_iter().chain(more).collect();
        std::fs::create_dir_all(folder).expect("a folder");
        Surroundings { folder: folder.to_owned(), port, variables }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(LANDFALL);
        command.args(arguments).current_dir(&self.folder).envs(self.variables.iter().cloned());
        command
    }
}

fn service(folder: PathBuf, index: usize, port: u16, start: u64) -> Command {
    let mut command = Command::new(LANDFALL);
    command.args(["sim", "services", "--listen", &format!("127.0.0.1:{port}")]);
    command.arg("--data").arg(folder.join(SERVICES[index]));
    // Other dice on every start.
    command.args(["--seed", &(2 * start + index as u64).to_string()]);
    command.args(["--lose-answer", "0.05", "--refuse-deposit", "0.01"]);
    command
}

impl Town {
    async fn start(transfers: usize, topology: Option<Topology>) -> Town {
        let folder = tempfile::tempdir().expect("a folder");
        let ports = [free_port(), free_port()];
        let log = |name: &str| folder.path().join(format!("{name}.log"));
        let services = [0, 1].map(|index| {
            let (home, port) = (folder.path().to_owned(), ports[index]);
            let command = move |start| service(home.clone(), index, port, start);
            Restarted::new(log(SERVICES[index]), command)
        });
        let surroundings: Vec<Surroundings> = match &topology {
            None => vec![Surroundings::new(folder.path(), ports, Vec::new())],
            Some(topology) => (0..RELAYS)
                .map(|number| {
                    let home = folder.path().join(number.to_string());
                    Surroundings::new(&home, ports, topology.variables(number))
                })
                .collect(),
        };
        let relays = surroundings.iter().map(|surroundings| {
            let serve = surroundings.clone();
            let log = surroundings.folder.join("relay.log");
            Restarted::new(log, move |_| serve.command(&["serve"]))
        });
        let relays = relays.collect();
        let mut town = Town { folder, transfers, relays, services, ports, surroundings, topology };
        town.services.iter_mut().for_each(Restarted::start);
        town.relays.iter_mut().for_each(Restarted::start);
        for index in [0, 1] {
            until_answered(&town.service_url(index, "/health")).await;
        }
        for surroundings in &town.surroundings {
            until_answered(&format!("http://127.0.0.1:{}/ready", surroundings.port)).await;
        }
        town
    }

    fn service_url(&self, index: usize, path: &str) -> String {
        format!("http://127.0.0.1:{}/{}{path}", self.ports[index], SERVICES[index])
    }

    async fn fund(&self) {
        let http = http();
        for index in [0, 1] {
            let url = self.service_url(index, "/fund");
            let funds = (1..=USERS).flat_map(|user| ASSETS.map(|(asset, _)| (user, asset)));
            let posts = funds.map(|(user, asset)| {
                let reference = format!("opening {user} {asset}");
                let body = json!({"ref": reference, "user_id": user, "asset_id": asset,
                    "amount": HELD});
                let request = http.post(&url).json(&body);
                async move {
                    let answer = request.send().await.expect("the service answers");
                    assert!(answer.status().is_success(), "{}", answer.status());
                }
            });
            futures::future::join_all(posts).await;
        }
    }

    /// kill -9 of at least one of the services and a relay, and a new start at once. Of several
    /// relays one is killed every time, each in turn.
    fn kill_some(&mut self, turn: usize, dice: &mut StdRng) {
        let several = self.relays.len() > 1;
        let chosen: u8 = dice.random_range(1..8) | if several { 4 } else { 0 };
        let relay = turn % self.relays.len();
        let [first, second] = &mut self.services;
        let killable = [first, second, &mut self.relays[relay]];
        for (index, process) in killable.into_iter().enumerate() {
            if chosen & (1 << index) != 0 {
                process.kill();
                process.start();
            }
        }
    }

    fn logs(&self) -> String {
        let logs: Vec<String> = self.relays.iter().map(Restarted::log_tail).collect();
        logs.join("\n---\n")
    }

    async fn end_faults(&self) {
        for index in [0, 1] {
            until_answered(&self.service_url(index, "/health")).await;
            let url = format!("http://127.0.0.1:{}/sim/faults", self.ports[index]);
            let none = json!({"lose_answer": 0.0, "refuse_deposit": 0.0});
            let answer = http().post(url).json(&none).send().await.expect("/sim answers");
            assert!(answer.status().is_success(), "{}", answer.status());
        }
    }

    /// What all users hold together of each asset, at both services.
    async fn held(&self) -> BTreeMap<u64, u64> {
        let mut held = BTreeMap::new();
        for index in [0, 1] {
            let mut after = 0;
            loop {
                let path = format!("/balances?after={after}&limit=1000");
                let answer = http().get(self.service_url(index, &path)).send().await;
                let page: Value = answer.expect("an answer").json().await.expect("JSON");
                let page = page["balances"].as_array().expect("accounts").clone();
                let Some(last) = page.last() else { break };
                after = last["number"].as_u64().expect("a number");
                for account in &page {
                    assert_eq!(account["frozen"], 0, "{account}");
                    let of = |name: &str| account[name].as_u64().expect("a number");
                    *held.entry(of("asset_id")).or_default() += of("available");
                }
            }
        }
        held
    }
}

async fn until_answered(url: &str) {
    let begun = Instant::now();
    let http = http();
    while !http.get(url).send().await.is_ok_and(|answer| answer.status().is_success()) {
        assert!(begun.elapsed() < SETTLE, "{url} does not answer");
        pause(Duration::from_millis(50)).await;
    }
}

/// Asks for every transfer, each until it is answered by one of the relays.
async fn submit_all(ports: Vec<u16>, transfers: usize, next: Arc<AtomicUsize>) {
    let url = |port: &u16| format!("http://127.0.0.1:{port}/api/v1/transfer");
    let urls: Vec<String> = ports.iter().map(url).collect();
    let client = |_| async {
        let http = http();
        loop {
            let n = next.fetch_add(1, Ordering::SeqCst);
            if n >= transfers {
                return;
            }
            submit(&http, &urls, n).await;
        }
    };
    futures::future::join_all((0..CLIENTS).map(client)).await;
}

async fn submit(http: &reqwest::Client, urls: &[String], n: usize) {
    for url in urls.iter().cycle().skip(n % urls.len()) {
        let key = format!("move-{n}");
        let request = http.post(url).header("Idempotency-Key", &key).json(&body(n));
        match request.send().await {
            Ok(answer) if answer.status().is_success() => return,
            Ok(answer) if answer.status() != 503 => {
                panic!("{key}: {} {}", answer.status(), answer.text().await.unwrap_or_default())
            }
            _ => pause(Duration::from_millis(50)).await,
        }
    }
}

/// What the auditor saw.
#[derive(Debug, Default)]
struct Samples {
    taken: usize,
    in_flight_seen: bool,
    last: Value,
}

/// Looks all the time until told to end; the first difference is the end of it.
async fn audit_always(surroundings: Surroundings, end: watch::Receiver<bool>) -> Samples {
    let mut samples = Samples::default();
    while !*end.borrow() {
        if let Some(seen) = audit(surroundings.clone()).await {
            samples.taken += 1;
            samples.in_flight_seen |= seen["in_flight"] != 0;
            samples.last = seen;
        }
        pause(Duration::from_millis(500)).await;
    }
    samples
}

/// One look; none if a service was down for too long to be read.
async fn audit(surroundings: Surroundings) -> Option<Value> {
    let run = move || surroundings.command(&["audit", "internal", "--json"]).output();
    let output = tokio::task::spawn_blocking(run).await.expect("no panic").expect("it runs");
    let Output { status, stdout, stderr } = output;
    match status.code() {
        Some(0) => Some(serde_json::from_slice(&stdout).expect("JSON")),
        Some(3) => None,
        code => panic!(
            "the audit ended with {code:?}: {}\n{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        ),
    }
}

/// Kills until everything is handed in, or for as long as the storm lasts; the store meanwhile.
async fn storm(town: &mut Town, next: &AtomicUsize) -> usize {
    let seed = std::process::id().into();
    println!("dice {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let (mut kills, mut store_kills) = (0, 0);
    let store_kills_wanted = if town.topology.is_some() { STORE_KILLS } else { 0 };
    loop {
        let handed_in = next.load(Ordering::SeqCst);
        let is_over = kills >= town.transfers / TRANSFERS_PER_KILL || handed_in >= town.transfers;
        if is_over && store_kills >= store_kills_wanted {
            return kills;
        }
        pause(Duration::from_secs(1)).await;
        town.kill_some(kills, &mut dice);
        kills += 1;
        let next_at = town.transfers * (store_kills + 1) / (STORE_KILLS + 1);
        if store_kills < store_kills_wanted
            && (is_over || handed_in >= next_at)
            && let Some(topology) = &town.topology
        {
            topology.kill_store().await;
            store_kills += 1;
        }
    }
}

/// Audits until nothing is unfinished, and returns the last look.
async fn until_settled(town: &Town) -> Value {
    let begun = Instant::now();
    loop {
        let seen = audit(town.surroundings[0].clone()).await.unwrap_or_default();
        if seen["unfinished"] == 0 && seen["transfers"] == town.transfers {
            return seen;
        }
        assert!(begun.elapsed() < SETTLE, "not settled: {seen:#}\n{}", town.logs());
        pause(Duration::from_millis(500)).await;
    }
}

async fn conserves(mut town: Town) {
    town.fund().await;
    let transfers = town.transfers;
    let next = Arc::new(AtomicUsize::new(0));
    let (end, ending) = watch::channel(false);
    let auditing = tokio::spawn(audit_always(town.surroundings[0].clone(), ending));
    let ports = town.surroundings.iter().map(|surroundings| surroundings.port).collect();
    let submitting = tokio::spawn(submit_all(ports, transfers, next.clone()));

    let kills = storm(&mut town, &next).await;
    town.end_faults().await;
    submitting.await.expect("every transfer was answered");
    end.send(true).expect("the auditor is there");
    let samples = auditing.await.expect("conservation held at every sample");
    assert!(samples.taken >= 3 && samples.in_flight_seen, "{samples:?}");
    let settled = until_settled(&town).await;

    let too_much = (0..transfers).filter(|n| asks_too_much(*n)).count();
    assert_eq!(settled["failed"], too_much, "{settled:#}");
    let count = |name: &str| settled[name].as_u64().expect("a number") as usize;
    assert!(count("rolled_back") > 0, "{settled:#}");
    assert_eq!(count("committed") + count("rolled_back"), transfers - too_much);
    let funded = HELD * USERS as u64 * 2;
    assert_eq!(town.held().await, BTreeMap::from([(1, funded), (2, funded)]));
    println!(
        "{kills} times killed, {} samples; {} committed, {} rolled back, {too_much} failed in {}",
        samples.taken,
        count("committed"),
        count("rolled_back"),
        town.folder.path().display(),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_relay_and_services_killed_every_second_no_unit_is_created_or_lost() {
    let _alone = machine().await;
    conserves(Town::start(transfers_or(TRANSFERS), None).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_three_relays_on_a_killed_postgres_no_unit_is_created_or_lost() {
    let _alone = machine().await;
    conserves(Town::start(transfers_or(SHARED_TRANSFERS), Some(Topology::postgres())).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_three_relays_on_a_killed_redis_no_unit_is_created_or_lost() {
    let _alone = machine().await;
    conserves(Town::start(transfers_or(SHARED_TRANSFERS), Some(Topology::redis())).await).await;
}
