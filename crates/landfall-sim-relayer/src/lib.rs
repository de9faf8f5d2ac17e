//! A simulated OpenZeppelin Relayer: its HTTP API in front of any EVM node, keys of its own, and
//! what such relayers do wrong.
//!
//! | module | holds |
//! |---|---|
//! | [`book`] | what it was asked to send, and how far each has come: pure |
//! | [`request`] | the bodies it takes: pure |
//! | [`faults`] | its own faults |
//! | `routes` | its API, without sockets |
//! | `work` | what it does between requests: signing, sending, watching |
//! | `chain` | the node it asks |
//!
//! Each relayer has a key and an address (a socket) of its own, as if it were alone in its process.
//! It keeps nothing across restarts. Time and sockets enter here and nowhere else.

pub mod book;
mod chain;
pub mod faults;
pub mod request;
mod routes;
mod work;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use alloy_primitives::{Address, B256};
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
use axum::routing::get;
use axum::{Json, Router};
use k256::ecdsa::SigningKey;
use landfall_rpc::Url;
use landfall_sim_front::{Front, Host, ListenError, Reply, Running, Sockets};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use book::Book;
use chain::Chain;
pub use faults::{Faults, RelayerFaults};
use routes::{Asked, Route};
use work::Worker;

/// The largest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Address of the first relayer; further ones take the next free ports. Port 0: any.
    pub listen: SocketAddr,
    /// The node that it sends to.
    pub rpc: Url,
    /// One relayer for each.
    pub keys: Vec<B256>,
    /// Wanted as `Authorization: Bearer` or as `X-API-Key`.
    pub api_key: String,
    /// How often it looks after its transactions.
    pub round_ms: u64,
    /// Blocks on top of a transaction's before it counts as confirmed.
    pub confirmations: u64,
    /// How long a transaction may be in no block before it is sent again for more money.
    pub resubmit_ms: u64,
    /// Decides the dice of the faults.
    pub seed: u64,
    pub faults: Faults,
}

impl SimConfig {
    pub fn new(rpc: Url, keys: Vec<B256>) -> SimConfig {
        SimConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            rpc,
            keys,
            api_key: "landfall-sim-relayer".to_owned(),
            round_ms: 200,
            confirmations: 2,
            resubmit_ms: 20_000,
            seed: 0,
            faults: Default::default(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("the node at {url} does not say which chain it serves: {why}")]
    Node { url: Url, why: String },
    #[error("a key is not 32 bytes below the curve's order")]
    Key,
    #[error("a simulated relayer needs at least one key")]
    NoKey,
}

/// One relayer's identity.
pub(crate) struct Signer {
    pub id: String,
    pub key: SigningKey,
    pub address: Address,
}

/// What all relayers share.
pub(crate) struct World {
    pub front: Front<RelayerFaults>,
    pub book: Mutex<Book>,
    pub signers: Vec<Signer>,
    pub chain: Chain,
    pub chain_id: u64,
    pub confirmations: u64,
    pub resubmit_ms: u64,
    api_key: String,
}

impl World {
    pub fn forget_after_ms(&self, relayer: usize) -> u64 {
        self.front.faults.lock()[relayer].own.forget_after_ms
    }

    fn posts(&self) -> u64 {
        self.front.calls().get("POST").copied().unwrap_or_default()
    }
}

/// A running simulator. Stops when dropped.
pub struct SimRelayer {
    world: Arc<World>,
    running: Running,
    workers: Vec<JoinHandle<()>>,
}

impl SimRelayer {
    /// Starts the relayers on the current runtime, once the node has named its chain.
    pub async fn start(config: SimConfig) -> Result<SimRelayer, StartError> {
        let signers: Result<Vec<Signer>, StartError> =
            config.keys.iter().enumerate().map(signer).collect();
        let signers = signers?;
        if signers.is_empty() {
            return Err(StartError::NoKey);
        }
        let sockets = Sockets::bind(config.listen, signers.len()).await?;
        let chain = Chain::new(config.rpc.clone());
        let chain_id = chain.chain_id().await.map_err(|error| StartError::Node {
            url: config.rpc.clone(),
            why: error.to_string(),
        })?;
        let front = Front::new(signers.len(), config.seed);
        front.faults.lock().fill(config.faults);
        let world = Arc::new(World {
            front,
            book: Mutex::default(),
            signers,
            chain,
            chain_id,
            confirmations: config.confirmations,
            resubmit_ms: config.resubmit_ms,
            api_key: config.api_key,
        });
        let mut running = Running::default();
        running.serve(sockets, &world);
        let worker = |relayer| Worker { world: world.clone(), relayer, next_nonce: None };
        let workers = (0..world.signers.len()).map(worker);
        let workers = workers.map(|worker| tokio::spawn(rounds(worker, config.round_ms))).collect();
        Ok(SimRelayer { world, running, workers })
    }

    /// Where each relayer is, in order.
    pub fn urls(&self) -> Vec<String> {
        self.running.urls()
    }

    pub fn addresses(&self) -> Vec<Address> {
        self.world.signers.iter().map(|signer| signer.address).collect()
    }

    /// How many transactions were ever taken, by all relayers together.
    pub fn taken(&self) -> u64 {
        self.world.book.lock().taken()
    }

    /// How many POSTs arrived, whatever became of them.
    pub fn posts(&self) -> u64 {
        self.world.posts()
    }

    /// How many questions arrived.
    pub fn gets(&self) -> u64 {
        self.world.front.calls().get("GET").copied().unwrap_or_default()
    }

    /// Changes the faults of all relayers, as `POST /sim/faults` does.
    pub fn set_faults(&self, change: impl Fn(&mut Faults)) {
        self.world.front.faults.lock().iter_mut().for_each(change);
    }

    /// Changes the faults of one of them.
    pub fn set_faults_of(&self, relayer: usize, change: impl FnOnce(&mut Faults)) {
        change(&mut self.world.front.faults.lock()[relayer]);
    }

    /// What `landfall sim evm-relayer` prints, as one line of JSON.
    pub fn announcement(&self) -> Value {
        let signers = self.world.signers.iter().zip(self.urls());
        let relayers = signers
            .map(|(signer, url)| json!({ "url": url, "id": signer.id, "address": signer.address }));
        json!({
            "relayers": relayers.collect::<Vec<_>>(),
            "api_key": self.world.api_key,
            "chain_id": self.world.chain_id,
        })
    }

    pub async fn shutdown(mut self) {
        for worker in std::mem::take(&mut self.workers) {
            worker.abort();
            // Aborted on purpose: how it ended says nothing.
            let _ = worker.await;
        }
        std::mem::take(&mut self.running).shutdown().await;
    }
}

impl Drop for SimRelayer {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
    }
}

fn signer((index, secret): (usize, &B256)) -> Result<Signer, StartError> {
    let key = SigningKey::from_slice(secret.as_slice()).map_err(|_| StartError::Key)?;
    let address = Address::from_private_key(&key);
    Ok(Signer { id: format!("relayer-{}", index + 1), key, address })
}

async fn rounds(mut worker: Worker, round_ms: u64) {
    let mut ticks = tokio::time::interval(Duration::from_millis(round_ms.max(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        worker.round(now_ms()).await;
    }
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Host for World {
    type Own = RelayerFaults;
    type Asked = Asked;

    fn front(&self) -> &Front<RelayerFaults> {
        &self.front
    }

    fn routes(self: Arc<Self>) -> Router {
        landfall_sim_front::routes::faults::<World>()
            .route("/sim/transactions", get(transactions))
            .with_state(self)
    }

    async fn read(&self, request: Request) -> Asked {
        let (parts, body) = request.into_parts();
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer "));
        let given = bearer.or_else(|| header("x-api-key"));
        Asked {
            method: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            authorized: given == Some(self.api_key.as_str()),
            body: to_bytes(body, BODY_BYTES_MAX).await.unwrap_or_default().to_vec(),
        }
    }

    fn names<'a>(&self, asked: &'a Asked) -> Vec<&'a str> {
        vec![asked.method.as_str()]
    }

    async fn act(self: Arc<Self>, relayer: usize, asked: Asked, faults: RelayerFaults) -> Reply {
        let is_post = matches!(asked.route(&self.signers[relayer].id), Route::Submit { .. });
        let never = || Reply::Later(Box::pin(std::future::pending()));
        if is_post && self.front.dice.lock().happens(faults.lose_post) {
            return never();
        }
        let answer = routes::act(&self, relayer, &asked, &faults);
        match is_post && self.front.dice.lock().happens(faults.hang) {
            true => never(),
            false => answer.into(),
        }
    }
}

/// `GET /sim/transactions`: how often it was asked to send something, and everything that is in the
/// book, with all that was signed for it.
async fn transactions(State(world): State<Arc<World>>) -> Json<Value> {
    let posts = world.posts();
    let book = world.book.lock();
    let all = (0..world.signers.len()).flat_map(|relayer| book.of(relayer));
    let all = all.map(|entry| {
        let hashes: Vec<B256> = entry.signed.iter().map(|(hash, _)| *hash).collect();
        json!({
            "id": entry.id,
            "relayer": world.signers[entry.relayer].id,
            "status": entry.status.name(),
            "nonce": entry.nonce,
            "hashes": hashes,
            "to": entry.request.to,
            "value": entry.request.value.to_string(),
            "input": entry.request.data,
            "gas_limit": entry.request.gas_limit,
        })
    });
    let all = all.collect::<Vec<_>>();
    Json(json!({ "posts": posts, "taken": book.taken(), "transactions": all }))
}
