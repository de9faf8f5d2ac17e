//! Stores that went back under a running relay: a restored backup, a lost second, a replica that
//! was behind.
//!
//! Each forgets two payouts: one that is on the ledger, one that may still come to be. The lanes
//! halt with an alert, nothing is paid twice, and after `landfall lanes adopt` payments go on.

use std::path::{Path, PathBuf};
use std::process::Command;

use landfall_servers::{AppendFsync, Postgres, Redis, RedisOptions};
use serde_json::{Value, json};

use crate::forwarder::Forwarder;
use crate::world::{Process, Relay, Simulator, get, request, text, wait_for};

struct World {
    simulator: Simulator,
    relay: Relay,
    _folder: tempfile::TempDir,
}

fn world(store: &str) -> World {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "2", "--block-ms", "100"]);
    let relay = Relay::shared(&simulator, folder.path(), "relay", store);
    World { simulator, relay, _folder: folder }
}

impl World {
    fn serve(&self) -> Process {
        let process = self.relay.serve_logged();
        self.relay.until_ready();
        process
    }

    fn pay(&self, key: &str) {
        self.relay.pay(key, "alice.near", 5);
        self.relay.completed(key);
    }

    /// What the store is going to forget: a payout that lands, and one of unknown fate.
    fn pay_what_will_be_forgotten(&self) {
        self.pay("landed");
        self.simulator.post("/sim/faults", &json!({"forget": 1.0}));
        self.relay.pay("adrift", "alice.near", 5);
        wait_for("an attempt", || {
            let open = self.relay.json(&["adrift", "list", "--all", "--json"]);
            open.as_array().is_some_and(|open| !open.is_empty()).then_some(())
        });
    }

    /// `/health`, `/metrics`, the log and `landfall lanes` all say so.
    fn until_halted(&self) {
        let alerted = wait_for("an alert", || {
            let (_, health) = request("GET", &format!("{}/health", self.relay.url), &[], "")?;
            let alerts = health["alerts"].as_array()?.clone();
            alerts.into_iter().find(|alert| alert["kind"] == "lane_halted")
        });
        assert!(alerted["message"].as_str().is_some_and(|why| !why.is_empty()), "{alerted}");
        let lanes = wait_for("both lanes to be halted", || {
            let lanes = self.relay.json(&["lanes", "--json"]);
            let is_halted = |lane: &Value| lane["halted"]["reason"].is_string();
            lanes.as_array().is_some_and(|lanes| lanes.iter().all(is_halted)).then_some(lanes)
        });
        assert_eq!(lanes.as_array().map(Vec::len), Some(2));
        let metrics = format!("{}/metrics", self.relay.url);
        wait_for("the metric", || {
            let metrics = get(&metrics)?.as_str()?.to_owned();
            let line = metrics.lines().find(|line| line.starts_with("landfall_halted_lanes"))?;
            line.ends_with(" 2").then_some(())
        });
        assert!(self.relay.log().contains("lane halted"), "{}", self.relay.log());
    }

    /// The rest of the story, from the moment at which the store has forgotten.
    fn halts_and_goes_on_once_adopted(&self, process: Process) {
        // A client may try; nothing is signed.
        self.relay.pay("later", "bob.near", 5);
        self.until_halted();
        self.simulator.post("/sim/faults", &json!({"forget": 0.0}));
        assert_eq!(process.terminate(), Some(0));
        // A restart alone changes nothing, and says so again.
        let process = self.serve();
        self.until_halted();
        assert_eq!(process.terminate(), Some(0));
        let paid = self.simulator.paid();
        assert_eq!(json!(paid), json!({"before": 1, "landed": 1}), "nothing was signed");

        let adopted = self.relay.run(&["lanes", "adopt", "--all", "--yes"]);
        assert!(adopted.status.success(), "{}", text(&adopted));
        assert!(text(&adopted).contains("may still land"), "{}", text(&adopted));
        let process = self.serve();
        self.relay.completed("later");
        // Forgotten, fenced off, and handed in again by its client.
        self.pay("adrift");
        assert_eq!(process.terminate(), Some(0));
        let paid = self.simulator.paid();
        assert_eq!(json!(paid), json!({"adrift": 1, "before": 1, "landed": 1, "later": 1}));
        // What is on the ledger and in no store is named for ever.
        let audit = self.relay.run(&["audit"]);
        assert_eq!(audit.status.code(), Some(1), "{}", text(&audit));
        assert!(text(&audit).contains("unknown_transaction"), "{}", text(&audit));
    }
}

fn run(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().expect("it runs");
    assert!(done.status.success(), "{program} {arguments:?}: {}", text(&done));
}

/// A copy of a server's folder, taken and put back while the server stands still.
struct Backup(tempfile::TempDir);

impl Backup {
    fn of(server: &Postgres) -> Backup {
        let backup = Backup(tempfile::tempdir().expect("a folder"));
        server.kill().expect("stopped");
        copy_folder(&server.folder(), &backup.0.path().join("data"));
        server.restart().expect("it starts again");
        backup
    }

    fn restore(&self, server: &Postgres) {
        server.kill().expect("stopped");
        std::fs::remove_dir_all(server.folder()).expect("removed");
        copy_folder(&self.0.path().join("data"), &server.folder());
        server.restart().expect("it starts again");
    }
}

/// With its owner: the server runs as somebody else, perhaps.
fn copy_folder(from: &Path, to: &Path) {
    run("cp", &["-a", &from.display().to_string(), &to.display().to_string()]);
}

fn psql(server: &Postgres, command: &str) {
    run("psql", &["-v", "ON_ERROR_STOP=1", "-c", command, server.url()]);
}

#[test]
fn a_postgres_restored_from_a_backup_halts_the_lanes_until_they_are_adopted() {
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let world = world(postgres.url());
    let process = world.serve();
    world.pay("before");
    let backup = Backup::of(&postgres);
    world.pay_what_will_be_forgotten();
    backup.restore(&postgres);
    world.halts_and_goes_on_once_adopted(process);
}

/// The part of the append-only file that grows.
fn growing_log(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder.join("appendonlydir")).expect("a folder");
    let mut files = files.map(|file| file.expect("a file").path());
    files.find(|file| file.to_string_lossy().ends_with(".incr.aof")).expect("a log")
}

#[test]
fn a_redis_that_lost_its_last_second_halts_the_lanes_until_they_are_adopted() {
    let options = RedisOptions { appendfsync: AppendFsync::EverySec, ..RedisOptions::default() };
    let redis = Redis::start(options).expect("Redis starts");
    let mut world = world(redis.url());
    let refused = world.relay.run(&["serve"]);
    assert!(text(&refused).contains("everysec"), "{}", text(&refused));
    world.relay.set("LANDFALL_STORE__ACCEPT_DURABILITY", "everysec");
    let process = world.serve();
    world.pay("before");
    let log = growing_log(&redis.folder());
    let written = std::fs::metadata(&log).expect("a log").len();
    world.pay_what_will_be_forgotten();
    redis.kill().expect("killed");
    let file = std::fs::File::options().write(true).open(&log).expect("a log");
    file.set_len(written).expect("cut off");
    redis.restart().expect("it starts again");
    world.halts_and_goes_on_once_adopted(process);
}

#[test]
fn a_promoted_replica_that_was_behind_halts_the_lanes_until_they_are_adopted() {
    let primary = Postgres::start().expect("PostgreSQL starts");
    let forwarder = Forwarder::to(primary.port());
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", forwarder.port);
    let world = world(&url);
    let process = world.serve();
    world.pay("before");
    let replica = primary.replica().expect("a replica");
    // It hears of nothing more.
    psql(&replica, "ALTER SYSTEM SET primary_conninfo = ''");
    psql(&replica, "SELECT pg_reload_conf()");
    wait_for("the replica to be cut off", || {
        let asked = "SELECT 1 / (count(*) = 0)::int FROM pg_stat_wal_receiver";
        let mut command = Command::new("psql");
        let said = command.args(["-c", asked, replica.url()]).output().expect("it runs");
        said.status.success().then_some(())
    });
    world.pay_what_will_be_forgotten();
    primary.kill().expect("killed");
    psql(&replica, "SELECT pg_promote()");
    forwarder.redirect(replica.port());
    world.halts_and_goes_on_once_adopted(process);
}

/// What is forgotten is the one instance's; adopted is with the folder of the other, which may not
/// know of it.
#[test]
fn two_instances_on_a_restored_postgres_pay_nobody_twice_and_go_on_once_one_adopted() {
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let world = world(postgres.url());
    let folder = world.relay.folder.parent().expect("a folder").to_owned();
    let other = Relay::shared(&world.simulator, &folder, "other", postgres.url());
    let process = world.serve();
    let other_process = other.serve_logged();
    other.until_ready();
    world.pay("before");
    let backup = Backup::of(&postgres);
    world.pay_what_will_be_forgotten();
    backup.restore(&postgres);
    world.relay.pay("later", "bob.near", 5);
    world.until_halted();
    world.simulator.post("/sim/faults", &json!({"forget": 0.0}));
    assert_eq!((process.terminate(), other_process.terminate()), (Some(0), Some(0)));
    assert_eq!(json!(world.simulator.paid()), json!({"before": 1, "landed": 1}));

    let adopted = other.run(&["lanes", "adopt", "--all", "--yes"]);
    assert!(adopted.status.success(), "{}", text(&adopted));
    let process = world.serve();
    let other_process = other.serve_logged();
    world.relay.completed("later");
    world.pay("adrift");
    assert_eq!((process.terminate(), other_process.terminate()), (Some(0), Some(0)));
    let paid = world.simulator.paid();
    assert_eq!(json!(paid), json!({"adrift": 1, "before": 1, "landed": 1, "later": 1}));
}
