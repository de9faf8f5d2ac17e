//! Nodes on sockets over one ledger, and the task that makes its blocks.
//!
//! **Invariant:** a block is in the state file before anybody can see it.
//! Time and sockets enter the simulator here and nowhere else.

mod faults;
mod http;
mod routes;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use landfall_sim_front::{Front, Journal, ListenError, Running, Sockets};
use near_crypto::SecretKey;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

pub use faults::{Faults, Own};

use super::journal::{self, Entry};
use super::keys;
use super::ledger::{Decree, Genesis, Ledger, Settings};

pub const TOKEN: &str = "token.sim.near";
pub const RELAY: &str = "relay.sim.near";
pub const CHAIN_ID: &str = "simnet";
/// yoctoNEAR the relay begins with: 1,000,000 NEAR.
pub const RELAY_NEAR: u128 = 1_000_000 * 10u128.pow(24);
/// Tokens the relay begins with.
pub const RELAY_TOKENS: u128 = 10u128.pow(30);

#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Address of the first node; further ones take the next free ports. Port 0: any.
    pub listen: SocketAddr,
    pub nodes: usize,
    /// Access keys of the relay.
    pub keys: usize,
    pub block_ms: u64,
    /// Whether a block's chunk takes only 1 PGas.
    pub chunk_gas: bool,
    /// Where the ledger is kept; `None`: in memory.
    pub state: Option<PathBuf>,
    pub validity_blocks: u64,
    pub history_blocks: u64,
    pub max_transaction_gas: u64,
    /// Decides the keys and the dice of the faults.
    pub seed: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        let settings = Settings::default();
        SimConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            nodes: 1,
            keys: 1,
            block_ms: 600,
            chunk_gas: true,
            state: None,
            validity_blocks: settings.validity_blocks,
            history_blocks: settings.history_blocks,
            max_transaction_gas: settings.max_transaction_gas,
            seed: 0,
        }
    }
}

impl SimConfig {
    fn settings(&self) -> Settings {
        let settings = Settings::default();
        Settings {
            validity_blocks: self.validity_blocks,
            history_blocks: self.history_blocks,
            max_transaction_gas: self.max_transaction_gas,
            chunk_gas: settings.chunk_gas.filter(|_| self.chunk_gas),
            ..settings
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot use the state file {path}")]
    State { path: PathBuf, source: io::Error },
    #[error("the state file has the keys of another seed: start with that seed or another file")]
    OtherSeed,
    #[error("a simulator needs at least one {0}")]
    Nothing(&'static str),
}

/// A running simulator. Stops when dropped.
pub struct SimNear {
    world: Arc<World>,
    running: Running,
}

/// What all nodes share.
struct World {
    chain: Mutex<ChainState>,
    /// Height of the head, told after each block and reorganisation.
    blocks: watch::Sender<u64>,
    front: Front<Own>,
    keys: Vec<SecretKey>,
    addrs: Vec<String>,
}

struct ChainState {
    ledger: Ledger,
    journal: Option<Journal<Entry>>,
}

impl SimNear {
    /// Starts the nodes and the making of blocks on the current runtime.
    pub async fn start(config: SimConfig) -> Result<SimNear, StartError> {
        if config.nodes == 0 {
            return Err(StartError::Nothing("node"));
        }
        if config.keys == 0 {
            return Err(StartError::Nothing("key"));
        }
        let keys: Vec<SecretKey> =
            (0..config.keys).map(|index| keys::secret_key(config.seed, index)).collect();
        let chain = open(&config, &keys)?;
        let sockets = Sockets::bind(config.listen, config.nodes).await?;
        let world = Arc::new(World {
            blocks: watch::Sender::new(chain.ledger.height()),
            chain: Mutex::new(chain),
            front: Front::new(config.nodes, config.seed),
            keys,
            addrs: sockets.addrs().iter().map(SocketAddr::to_string).collect(),
        });
        let mut running = Running::default();
        running.serve(sockets, &world);
        let maker = world.clone();
        running.every(config.block_ms, move || maker.make_block(now_ns()));
        Ok(SimNear { world, running })
    }

    pub fn rpc_urls(&self) -> Vec<String> {
        self.running.urls()
    }

    /// The relay's secret keys, as `ed25519:base58`.
    pub fn access_keys(&self) -> Vec<String> {
        self.world.keys.iter().map(SecretKey::to_string).collect()
    }

    /// What `landfall sim near` prints, as one line of JSON.
    pub fn announcement(&self) -> Value {
        let urls = self.rpc_urls();
        json!({
            "rpc_url": urls[0],
            "rpc_urls": urls,
            "token": TOKEN,
            "relay_account": RELAY,
            "access_keys": self.access_keys(),
        })
    }

    /// Stops all tasks. What is final is in the state file already.
    pub async fn shutdown(self) {
        self.running.shutdown().await;
    }
}

fn open(config: &SimConfig, keys: &[SecretKey]) -> Result<ChainState, StartError> {
    let settings = config.settings();
    let genesis = Genesis {
        chain_id: CHAIN_ID.to_string(),
        timestamp_ns: now_ns(),
        token: TOKEN.parse().expect("a well-formed account id"),
        relay: RELAY.parse().expect("a well-formed account id"),
        relay_keys: keys.iter().map(SecretKey::public_key).collect(),
        relay_near: RELAY_NEAR,
        relay_tokens: RELAY_TOKENS,
        settings: settings.clone(),
    };
    let Some(path) = &config.state else {
        return Ok(ChainState { ledger: Ledger::new(genesis), journal: None });
    };
    let unusable = |source| StartError::State { path: path.clone(), source };
    let (mut journal, mut ledger) = journal::open(path, genesis).map_err(unusable)?;
    if ledger.genesis().relay_keys.first() != keys.first().map(SecretKey::public_key).as_ref() {
        return Err(StartError::OtherSeed);
    }
    if ledger.genesis().settings != settings {
        journal.append(&Entry::Settings(settings.clone())).map_err(unusable)?;
        ledger.set_settings(settings);
    }
    let relay = ledger.genesis().relay.clone();
    for key in keys.iter().map(SecretKey::public_key) {
        if ledger.next_nonce(&relay, &key).is_none() {
            ledger.decree(Decree::AddKey { account_id: relay.clone(), public_key: key });
        }
    }
    Ok(ChainState { ledger, journal: Some(journal) })
}

impl World {
    fn make_block(&self, now_ns: u64) -> io::Result<()> {
        let mut chain = self.chain.lock();
        let ChainState { ledger, journal } = &mut *chain;
        let timestamp_ns = now_ns.max(ledger.chain().head().timestamp_ns + 1);
        let produced = ledger.produce(timestamp_ns);
        if let Some(journal) = journal {
            journal.append(&Entry::from(&produced.input))?;
        }
        drop(chain);
        self.blocks.send_replace(produced.block.height);
        Ok(())
    }

    fn reorg(&self, depth: u64, drop_transactions: bool) -> io::Result<u64> {
        let mut chain = self.chain.lock();
        let dropped = chain.ledger.reorg(depth, drop_transactions);
        if let Some(journal) = &mut chain.journal {
            journal.append(&Entry::Reorg { depth, drop: drop_transactions })?;
        }
        let height = chain.ledger.height();
        drop(chain);
        self.blocks.send_replace(height);
        Ok(dropped)
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
