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

use alloy_primitives::{B256, U256};
use landfall_sim_front::{Dice, Front, Journal, ListenError, Running, Sockets};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub use faults::{Faults, Own};

use super::journal::{self, Entry};
use super::keys;
use super::ledger::natives::{COUNTER, FORWARDER};
use super::ledger::{FINAL_BLOCKS, Genesis, Ledger, Transaction};

/// No known network's.
pub const CHAIN_ID: u64 = 1_337_001;
/// Ether each signer begins with.
const SIGNER_ETHER: u64 = 10_000;

#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Address of the first node; further ones take the next free ports. Port 0: any.
    pub listen: SocketAddr,
    pub nodes: usize,
    /// Accounts with funds, whose keys are told.
    pub signers: usize,
    pub block_ms: u64,
    /// Where the ledger is kept; `None`: in memory.
    pub state: Option<PathBuf>,
    /// Decides the keys and the dice of the faults.
    pub seed: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            nodes: 1,
            signers: 1,
            block_ms: 1_000,
            state: None,
            seed: 0,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot use the state file {path}")]
    State { path: PathBuf, source: io::Error },
    #[error("the state file has other signers: start with as many, or with another file")]
    OtherSigners,
    #[error("a simulator needs at least one {0}")]
    Nothing(&'static str),
}

/// A running simulator. Stops when dropped.
pub struct SimEvm {
    secrets: Vec<B256>,
    running: Running,
}

/// What all nodes share.
struct World {
    chain: Mutex<ChainState>,
    front: Front<Own>,
}

struct ChainState {
    ledger: Ledger,
    journal: Option<Journal<Entry>>,
}

impl SimEvm {
    /// Starts the nodes and the making of blocks on the current runtime.
    pub async fn start(config: SimConfig) -> Result<SimEvm, StartError> {
        if config.nodes == 0 {
            return Err(StartError::Nothing("node"));
        }
        if config.signers == 0 {
            return Err(StartError::Nothing("signer"));
        }
        let secrets: Vec<B256> =
            (0..config.signers).map(|index| keys::secret(config.seed, index)).collect();
        let chain = open(&config, &secrets)?;
        let sockets = Sockets::bind(config.listen, config.nodes).await?;
        let front = Front::new(config.nodes, config.seed);
        let world = Arc::new(World { chain: Mutex::new(chain), front });
        let mut running = Running::default();
        running.serve(sockets, &world);
        running.every(config.block_ms, move || world.make_block(now_s()));
        Ok(SimEvm { secrets, running })
    }

    pub fn rpc_urls(&self) -> Vec<String> {
        self.running.urls()
    }

    /// The signers' secret keys.
    pub fn signers(&self) -> &[B256] {
        &self.secrets
    }

    /// What `landfall sim evm` prints, as one line of JSON.
    pub fn announcement(&self) -> Value {
        let urls = self.rpc_urls();
        json!({
            "rpc_url": urls[0],
            "rpc_urls": urls,
            "chain_id": CHAIN_ID,
            "signers": self.secrets,
            "forwarder": FORWARDER,
            "counter": COUNTER,
        })
    }

    /// Stops all tasks. What is in a block is in the state file already.
    pub async fn shutdown(self) {
        self.running.shutdown().await;
    }
}

fn open(config: &SimConfig, secrets: &[B256]) -> Result<ChainState, StartError> {
    let genesis = Genesis {
        chain_id: CHAIN_ID,
        timestamp: now_s(),
        signers: secrets.iter().map(keys::address).collect(),
        funds: U256::from(SIGNER_ETHER) * U256::from(10).pow(U256::from(18)),
    };
    let Some(path) = &config.state else {
        return Ok(ChainState { ledger: Ledger::new(genesis, config.nodes), journal: None });
    };
    let signers = genesis.signers.clone();
    let unusable = |source| StartError::State { path: path.clone(), source };
    let (journal, ledger) = journal::open(path, genesis, config.nodes).map_err(unusable)?;
    if ledger.genesis().signers != signers {
        return Err(StartError::OtherSigners);
    }
    Ok(ChainState { ledger, journal: Some(journal) })
}

impl ChainState {
    /// Notes the newest block.
    fn note(&mut self) -> io::Result<()> {
        match &mut self.journal {
            Some(journal) => journal.append(&Entry::from(self.ledger.head())),
            None => Ok(()),
        }
    }

    /// Another branch of the same length, with nothing in it, takes the place of the last blocks.
    fn reorg(&mut self, depth: u64, drop: bool) -> io::Result<u64> {
        let depth = depth.min(FINAL_BLOCKS - 1).min(self.ledger.height());
        let timestamp = self.ledger.head().header.timestamp;
        let fallen = self.ledger.cut(depth);
        if let Some(journal) = &mut self.journal {
            journal.append(&Entry::Cut(depth))?;
        }
        for _ in 0..depth {
            self.ledger.append(timestamp + 1, Vec::new());
            self.note()?;
        }
        if !drop {
            self.ledger.pool_again(&fallen);
        }
        Ok(depth)
    }
}

impl World {
    /// The nodes take turns; each makes its block of what it has, and only then tells the others.
    fn make_block(&self, now_s: u64) -> io::Result<()> {
        let faults: Vec<Own> = self.front.faults.lock().iter().map(|all| all.own.clone()).collect();
        let mut dice = self.front.dice.lock();
        let mut chain = self.chain.lock();
        for (node, faults) in faults.iter().enumerate().filter(|(_, faults)| faults.drop > 0.0) {
            chain.ledger.keep_pooled(node, |_| !dice.happens(faults.drop));
        }
        let node = (chain.ledger.height() % faults.len() as u64) as usize;
        let mut chosen = chain.ledger.best(node);
        if dice.happens(faults[node].reorder) {
            chosen = reordered(chosen, &mut dice);
        }
        chain.ledger.append(now_s, chosen);
        chain.note()?;
        if faults.len() > 1 {
            chain.ledger.gossip();
        }
        match faults::fall(&mut dice, &faults, FINAL_BLOCKS - 1) {
            0 => Ok(()),
            depth => chain.reorg(depth, false).map(|_| ()),
        }
    }
}

/// Senders in any order, each one's transactions in theirs.
fn reordered(mut chosen: Vec<Arc<Transaction>>, dice: &mut Dice) -> Vec<Arc<Transaction>> {
    let mut other = Vec::with_capacity(chosen.len());
    while !chosen.is_empty() {
        let from = chosen[dice.below(chosen.len())].from;
        let first = chosen.iter().position(|one| one.from == from).unwrap_or(0);
        other.push(chosen.remove(first));
    }
    other
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
