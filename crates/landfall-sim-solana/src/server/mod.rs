//! Nodes on sockets over one ledger, and the task that lets its slots pass.
//!
//! **Invariant:** a block is in the state file before anybody can see it.
//! Time, files and sockets enter the simulator here and nowhere else.

mod faults;
mod http;
mod routes;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use landfall_sim_front::{Front, Journal, ListenError, Running, Sockets};
use parking_lot::Mutex;
use serde_json::{Value, json};
use solana_keypair::Keypair;
use solana_signer::Signer;

pub use faults::{Faults, Own};

use super::journal::{self, Entry};
use super::keys;
use super::ledger::{FINAL_BLOCKS, Genesis, Ledger, PROGRAM};
use faults::Slot;

const SOL: u64 = 1_000_000_000;
/// What each payer begins with.
const PAYER_SOL: u64 = 10_000;
/// What was deposited into the pool before anybody looked.
const POOL_SOL: u64 = 10_000_000;

#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Address of the first node; further ones take the next free ports. Port 0: any.
    pub listen: SocketAddr,
    pub nodes: usize,
    /// Fee payers with funds, whose keys are told.
    pub payers: usize,
    pub slot_ms: u64,
    /// Whether a block, and an account in it, takes as much as on the main network and no more.
    pub limits: bool,
    /// Where the ledger is kept; `None`: in memory.
    pub state: Option<PathBuf>,
    /// The folder for the payers' keypair files; `None`: beside the state file, or a temporary one.
    pub keypairs: Option<PathBuf>,
    /// Decides the keys and the dice of the faults.
    pub seed: u64,
}

impl Default for SimConfig {
    fn default() -> SimConfig {
        SimConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            nodes: 1,
            payers: 1,
            slot_ms: 400,
            limits: true,
            state: None,
            keypairs: None,
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
    #[error("the state file has other payers: start with as many, or with another file")]
    OtherPayers,
    #[error("cannot write the keypair file {path}: {why}")]
    Keypair { path: PathBuf, why: String },
    #[error("a simulator needs at least one {0}")]
    Nothing(&'static str),
}

/// A running simulator. Stops when dropped.
pub struct SimSolana {
    keypairs: Vec<PathBuf>,
    running: Running,
}

/// What all nodes share.
struct World {
    chain: Mutex<ChainState>,
    front: Front<Own>,
    nodes: usize,
    /// Somebody with funds who is not the relay.
    stranger: Keypair,
}

struct ChainState {
    ledger: Ledger,
    journal: Option<Journal<Entry>>,
}

impl SimSolana {
    /// Starts the nodes and the passing of slots on the current runtime.
    pub async fn start(config: SimConfig) -> Result<SimSolana, StartError> {
        if config.nodes == 0 {
            return Err(StartError::Nothing("node"));
        }
        if config.payers == 0 {
            return Err(StartError::Nothing("payer"));
        }
        // The last one is the stranger's.
        let mut payers: Vec<Keypair> =
            (0..=config.payers).map(|index| keys::keypair(config.seed, index)).collect();
        let chain = open(&config, &payers)?;
        let stranger = payers.remove(config.payers);
        let sockets = Sockets::bind(config.listen, config.nodes).await?;
        let port = sockets.addrs().first().map_or(0, SocketAddr::port);
        let keypairs = write_keypairs(&folder(&config, port), &payers)?;
        let (nodes, front) = (config.nodes, Front::new(config.nodes, config.seed));
        let world = Arc::new(World { chain: Mutex::new(chain), front, nodes, stranger });
        let mut running = Running::default();
        running.serve(sockets, &world);
        running.every(config.slot_ms, move || world.pass_slot(now_s()));
        Ok(SimSolana { keypairs, running })
    }

    pub fn rpc_urls(&self) -> Vec<String> {
        self.running.urls()
    }

    /// The payers' keypair files.
    pub fn keypairs(&self) -> &[PathBuf] {
        &self.keypairs
    }

    /// What `landfall sim solana` prints, as one line of JSON.
    pub fn announcement(&self) -> Value {
        let urls = self.rpc_urls();
        json!({
            "rpc_url": urls[0],
            "rpc_urls": urls,
            "program": PROGRAM.to_string(),
            "keypair_path": self.keypairs[0],
            "keypairs": self.keypairs,
        })
    }

    /// Stops all tasks. What is in a block is in the state file already.
    pub async fn shutdown(self) {
        self.running.shutdown().await;
    }
}

fn open(config: &SimConfig, payers: &[Keypair]) -> Result<ChainState, StartError> {
    let genesis = Genesis {
        time_s: now_s(),
        payers: payers.iter().map(Signer::pubkey).collect(),
        payer_lamports: PAYER_SOL * SOL,
        pool_lamports: POOL_SOL * SOL,
        limits: config.limits,
    };
    let Some(path) = &config.state else {
        return Ok(ChainState { ledger: Ledger::new(genesis, config.nodes), journal: None });
    };
    let payers = genesis.payers.clone();
    let unusable = |source| StartError::State { path: path.clone(), source };
    let (journal, ledger) = journal::open(path, genesis, config.nodes).map_err(unusable)?;
    if ledger.genesis().payers != payers {
        return Err(StartError::OtherPayers);
    }
    Ok(ChainState { ledger, journal: Some(journal) })
}

/// Where keypair files go. The keys follow from the seed, so that nobody minds who wrote them.
fn folder(config: &SimConfig, port: u16) -> PathBuf {
    match (&config.keypairs, &config.state) {
        (Some(folder), _) => folder.clone(),
        (None, Some(state)) => state.with_extension("keypairs"),
        (None, None) => std::env::temp_dir().join(format!("landfall-sim-solana-{port}")),
    }
}

fn write_keypairs(folder: &Path, payers: &[Keypair]) -> Result<Vec<PathBuf>, StartError> {
    let write = |(number, payer): (usize, &Keypair)| {
        let path = folder.join(format!("payer-{number}.json"));
        match solana_keypair::write_keypair_file(payer, &path) {
            Ok(_) => Ok(path),
            Err(error) => Err(StartError::Keypair { path, why: error.to_string() }),
        }
    };
    payers.iter().enumerate().map(write).collect()
}

impl ChainState {
    fn note(&mut self, entry: impl FnOnce(&Ledger) -> Entry) -> io::Result<()> {
        match &mut self.journal {
            Some(journal) => journal.append(&entry(&self.ledger)),
            None => Ok(()),
        }
    }

    fn newest_root(&self) -> [u8; 32] {
        let roots = self.ledger.shield().roots(self.ledger.height());
        roots.last().map_or([0; 32], |(_, root)| *root)
    }

    fn push_root(&mut self, root: [u8; 32]) -> io::Result<()> {
        self.ledger.push_root(root);
        self.note(|_| Entry::Root(root))
    }

    /// Another branch wins, which has none of the last blocks yet.
    fn fork(&mut self, depth: u64, drop: bool) -> io::Result<u64> {
        let before = self.ledger.height();
        let fallen = self.ledger.cut(depth);
        self.note(|_| Entry::Cut(depth))?;
        if !drop {
            self.ledger.pool_again(&fallen);
        }
        Ok(before - self.ledger.height())
    }
}

impl World {
    fn pass_slot(&self, now_s: u64) -> io::Result<()> {
        let faults: Vec<Own> = self.front.faults.lock().iter().map(|all| all.own.clone()).collect();
        let mut dice = self.front.dice.lock();
        let mut chain = self.chain.lock();
        for (node, faults) in faults.iter().enumerate().filter(|(_, faults)| faults.drop > 0.0) {
            chain.ledger.keep_pooled(node, |_| !dice.happens(faults.drop));
        }
        let slot = Slot::roll(&mut dice, &faults, FINAL_BLOCKS - 1);
        if slot.is_skipped {
            chain.ledger.skip();
        } else {
            let best = chain.ledger.best();
            chain.ledger.append(now_s, best);
            chain.note(|ledger| Entry::from(ledger.head()))?;
        }
        match slot.fall {
            0 => Ok(()),
            depth => chain.fork(depth, slot.loses).map(|_| ()),
        }
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
