//! Calls to a counter on a real chain, made by relays that are killed every second.
//!
//! Real processes: anvil, a database server, relays on it, and a client that does not give up.
//! Whatever happens, each call is in one block, and the counter has counted each once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use crate::backends::{Killable, Topology, kill as kill_server};
use crate::chain::Chain;
use crate::processes::{Client, LANDFALL, Restarted, free_port, machine, pause};

const CALLS: usize = 2_000;
const RELAYS: usize = 3;
/// At most, one a second: then they are left alone, to finish.
const KILLS: usize = 20;
/// Requests under way at once.
const CLIENTS: usize = 16;
/// How long everything may take to settle once nobody is killed any more.
const SETTLE: Duration = Duration::from_secs(90);

/// One relay, as it is started again and again.
#[derive(Clone)]
pub struct Place {
    folder: PathBuf,
    pub port: u16,
    role: &'static str,
    variables: Vec<(String, String)>,
}

impl Place {
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(LANDFALL);
        command.args(arguments).current_dir(&self.folder).envs(self.variables.iter().cloned());
        command
    }
}

/// Relays on one store and one chain.
pub struct Crew {
    pub chain: Chain,
    pub places: Vec<Place>,
    pub relays: Vec<Restarted>,
    pub client: Client,
    _folder: TempDir,
}

impl Crew {
    /// One relay for each role, on the nodes of these URLs.
    pub fn on(chain: Chain, urls: &str, topology: &Topology, roles: &[&'static str]) -> Crew {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |(number, role): (usize, &&'static str)| {
            let home = folder.path().join(number.to_string());
            std::fs::create_dir_all(&home).expect("a folder");
            let port = free_port();
            let own = [
                ("LANDFALL_API__LISTEN", format!("127.0.0.1:{port}")),
                ("LANDFALL_API__AUTH", "off".into()),
                ("LANDFALL_ENGINE__REBROADCAST_MS", "200".into()),
                ("LANDFALL_ENGINE__REBROADCAST_MAX_MS", "2000".into()),
                ("LANDFALL_ENGINE__SWEEP_MS", "200".into()),
                ("LANDFALL_LOG__LEVEL", "warn".into()),
            ];
            let own = own.map(|(name, text)| (name.to_owned(), text));
            let shared = Chain::variables(urls).into_iter().chain(topology.variables(number));
            let variables = shared.chain(own).collect();
            Place { folder: home, port, role, variables }
        };
        let places: Vec<Place> = roles.iter().enumerate().map(place).collect();
        let relay = |place: &Place| {
            let place = place.clone();
            let log = place.folder.join("relay.log");
            Restarted::new(log, move |_| place.command(&["serve", "--role", place.role]))
        };
        let relays = places.iter().map(relay).collect();
        let takers = places.iter().filter(|place| place.role != "worker");
        let client = Client::at(takers.map(|place| place.port));
        Crew { chain, places, relays, client, _folder: folder }
    }

    pub fn start(&mut self) {
        let migrated = self.places[0].command(&["migrate"]).output().expect("migrate runs");
        assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
        self.relays.iter_mut().for_each(Restarted::start);
    }

    fn logs(&self) -> String {
        let logs: Vec<String> = self.relays.iter().map(Restarted::log_tail).collect();
        logs.join("\n---\n")
    }

    /// Kills each in turn, one a second, until everything is done, or for as long as that may
    /// last; and others after so many kills. Returns how often it killed and how much was done by
    /// then.
    pub async fn storm(
        &mut self,
        calls: usize,
        most: usize,
        others: &BTreeMap<usize, Killable>,
    ) -> (usize, usize) {
        for kill in 0..most {
            pause(Duration::from_secs(1)).await;
            if self.client.in_state_at_once("success").await >= Some(calls) {
                return (kill, calls);
            }
            let relays = self.relays.len();
            let victim = &mut self.relays[kill % relays];
            victim.kill();
            victim.start();
            if let Some(other) = others.get(&kill) {
                kill_server(other.clone()).await;
            }
        }
        (most, self.client.in_state_eventually("success").await)
    }

    pub async fn until_all_succeed(&self, calls: usize) {
        let begun = Instant::now();
        loop {
            let done = self.client.in_state_eventually("success").await;
            if done == calls {
                return;
            }
            assert!(begun.elapsed() < SETTLE, "{done} of {calls} are done\n{}", self.logs());
            pause(Duration::from_millis(200)).await;
        }
    }

    pub fn assert_audit_is_clean(&self) {
        let audit = self.places[0].command(&["audit", "evm"]).output().expect("the audit runs");
        let said =
            [audit.stdout, audit.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
        assert!(audit.status.success(), "audit: {}", said.join("\n"));
    }
}

/// Asks for every call, each until it is answered, and notes their ids.
pub async fn submit_all(client: Client, bodies: Vec<Value>, ids: Arc<Mutex<Vec<String>>>) {
    let next = AtomicUsize::new(0);
    let one = |_| async {
        loop {
            let number = next.fetch_add(1, Ordering::SeqCst);
            let Some(body) = bodies.get(number) else { return };
            let id = client.call_until_taken(&format!("call-{number}"), body).await;
            ids.lock().push(id);
        }
    };
    futures::future::join_all((0..CLIENTS).map(one)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_relays_on_postgres_killed_every_second_call_a_counter_exactly_2000_times() {
    let _alone = machine().await;
    let topology = Topology::postgres();
    let chain = Chain::start().await;
    let urls = chain.url().to_owned();
    let mut crew = Crew::on(chain, &urls, &topology, &["both"; RELAYS]);
    crew.start();
    let bodies = (0..CALLS).map(|number| crew.chain.call(number)).collect();
    let begun = Instant::now();
    let submitting = tokio::spawn(submit_all(crew.client.clone(), bodies, Arc::default()));

    let (kills, done) = crew.storm(CALLS, KILLS, &BTreeMap::new()).await;
    submitting.await.expect("every call was answered");
    crew.until_all_succeed(CALLS).await;
    let took = begun.elapsed();
    println!("{kills} times killed, {done} of {CALLS} done meanwhile, all after {took:?}");
    crew.chain.assert_called_exactly_once(CALLS).await;
    crew.assert_audit_is_clean();
    assert!(done >= CALLS / 10, "only {done} were done meanwhile");
}
