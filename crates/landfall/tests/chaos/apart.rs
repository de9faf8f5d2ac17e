//! Takers and workers as processes of their own, on MariaDB, an SQS server and Redis, all of which
//! are killed, on a chain that loses requests and answers.
//!
//! Meanwhile somebody reads the cache in Redis beside the store: what is final there is final in
//! the store, and the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use landfall_core::store::Store;
use landfall_core::{RailName, Transfer};
use landfall_servers::{Redis, RedisOptions};
use landfall_store_mysql::{MysqlOptions, MysqlStore};
use parking_lot::Mutex;
use rand::Rng;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::backends::{Killable, Topology};
use crate::calls::{Crew, submit_all};
use crate::chain::Chain;
use crate::lossy::Lossy;
use crate::processes::{Client, machine, pause};

const CALLS: usize = 600;
const ROLES: [&str; 4] = ["api", "worker", "api", "worker"];
/// At most, one a second, of a taker or a worker in turn.
const KILLS: usize = 16;
/// After how many of them the store and the cache are killed.
const STORE_KILL: usize = 5;
const CACHE_KILL: usize = 9;

/// Whoever reads the cache beside the store.
struct Reader {
    client: Client,
    cache: String,
    store: MysqlStore,
    /// The ids of all calls that were taken so far.
    ids: Arc<Mutex<Vec<String>>>,
}

impl Reader {
    /// Reads until told to end, and returns how often the cache had a final state.
    async fn read(self, end: watch::Receiver<bool>) -> usize {
        let mut seen = 0;
        while !*end.borrow() {
            pause(Duration::from_millis(5)).await;
            let id = {
                let ids = self.ids.lock();
                let at = (!ids.is_empty()).then(|| rand::rng().random_range(0..ids.len()));
                at.map(|at| ids[at].clone())
            };
            let Some(id) = id else { continue };
            // It is clients' reading that fills the cache. Whoever was asked may be dead.
            let _ = self.client.get(&format!("/api/v1/relay/status/{id}")).await;
            if let Some(cached) = get(&self.cache, &format!("tx:{id}")).await {
                let stored = self.stored(&id).await;
                assert_same(&serde_json::from_str(&cached).expect("JSON"), &stored);
                seen += 1;
            }
        }
        seen
    }

    /// What the store has, once it answers.
    async fn stored(&self, id: &str) -> Transfer {
        loop {
            match self.store.by_key(RailName::Evm, "", id).await {
                Ok(stored) => return stored.expect("it was taken"),
                Err(_) => pause(Duration::from_millis(50)).await,
            }
        }
    }
}

fn assert_same(cached: &Value, stored: &Transfer) {
    let status = match (stored.state.is_completed(), stored.state.is_failed()) {
        (true, _) => "success",
        (_, true) => "failed",
        _ => panic!("{cached} is cached, and not final in the store: {stored:?}"),
    };
    let shown = (cached["status"].as_str(), cached["hash"].as_str(), cached["version"].as_u64());
    assert_eq!(shown, (Some(status), stored.tx_hash.as_deref(), Some(stored.version)), "{cached}");
}

/// What Redis has under a key; none if it has nothing or is down.
async fn get(url: &str, key: &str) -> Option<String> {
    let mut stream = TcpStream::connect(url.trim_start_matches("redis://")).await.ok()?;
    let asked = format!("GET {key}\r\nQUIT\r\n");
    stream.write_all(asked.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    // `$LENGTH`, the text and `+OK` to the goodbye, or `$-1` for nothing.
    let (length, rest) = answer.strip_prefix('$')?.split_once("\r\n")?;
    rest.get(..length.parse().ok()?).map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takers_and_workers_on_mysql_sqs_and_redis_call_a_counter_exactly_once() {
    let _alone = machine().await;
    let redis = Redis::start(RedisOptions::default()).expect("Redis starts");
    let topology = Topology::mysql_and_sqs().and("LANDFALL_CACHE__URL", redis.url());
    let chain = Chain::start().await;
    let lossy = Lossy::before(chain.url()).await;
    let mut crew = Crew::on(chain, &lossy.url, &topology, &ROLES);
    crew.start();
    let options = MysqlOptions { migrate: false, ..MysqlOptions::default() };
    let store = MysqlStore::open(topology.store().url(), options).await.expect("the store");
    let ids = Arc::new(Mutex::new(Vec::new()));
    let (client, cache) = (crew.client.clone(), redis.url().to_owned());
    let reader = Reader { client: client.clone(), cache, store, ids: ids.clone() };
    let (end, ending) = watch::channel(false);
    let reading = tokio::spawn(reader.read(ending));
    let bodies = (0..CALLS).map(|number| crew.chain.call(number)).collect();
    let begun = Instant::now();
    let submitting = tokio::spawn(submit_all(client, bodies, ids));

    let mut others: BTreeMap<usize, Killable> = BTreeMap::new();
    others.insert(STORE_KILL, topology.store());
    others.insert(CACHE_KILL, Arc::new(redis));
    let (kills, done) = crew.storm(CALLS, KILLS, &others).await;
    submitting.await.expect("every call was answered");
    crew.until_all_succeed(CALLS).await;
    let took = begun.elapsed();
    end.send(true).expect("the reader is there");
    let seen = reading.await.expect("the cache never had what the store had not");
    println!(
        "{kills} times killed, {done} done meanwhile, all after {took:?}, {seen} in the cache"
    );
    crew.chain.assert_called_exactly_once(CALLS).await;
    crew.assert_audit_is_clean();
    assert!(seen > 0, "nothing was ever cached");
}
