//! `landfall sim near`, `evm` and `solana`: a simulated ledger on its own, until it is told to
//! leave. `landfall sim evm-relayer`: a simulated OpenZeppelin Relayer in front of a chain.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use landfall_rpc::Url;
use landfall_sim_evm::SimEvm;
use landfall_sim_near::{SimConfig, SimNear};
use landfall_sim_relayer::SimRelayer;
use landfall_sim_solana::SimSolana;

use crate::cli::{SimArguments, Switch};
use crate::failure::{Failure, Result};
use crate::serve::Leave;
use crate::show;

pub async fn run(arguments: &SimArguments) -> Result<()> {
    let mut leave = Leave::new()?;
    let simulated = start(SimConfig {
        listen: arguments.listen,
        nodes: arguments.nodes as usize,
        keys: arguments.keys as usize,
        block_ms: arguments.block_ms,
        chunk_gas: arguments.chunk_gas == Switch::On,
        state: arguments.state.clone(),
        ..SimConfig::default()
    })
    .await?;
    show::say(&simulated.announcement().to_string());
    leave.asked().await;
    simulated.shutdown().await;
    Ok(())
}

pub async fn start(config: SimConfig) -> Result<SimNear> {
    SimNear::start(config).await.map_err(unable)
}

#[derive(Debug, Clone, Args)]
pub struct EvmArguments {
    /// Where the first node listens; further nodes take free ports beside it.
    #[arg(long, default_value = "127.0.0.1:8545")]
    listen: SocketAddr,
    /// How many nodes serve the same chain, each with a pool of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    nodes: u64,
    /// Milliseconds between blocks.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    block_ms: u64,
    /// Accounts with funds, whose keys are told.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    signers: u64,
    /// Keeps the chain across restarts.
    #[arg(long)]
    state: Option<PathBuf>,
}

pub async fn run_evm(arguments: &EvmArguments) -> Result<()> {
    let mut leave = Leave::new()?;
    let config = landfall_sim_evm::SimConfig {
        listen: arguments.listen,
        nodes: arguments.nodes as usize,
        signers: arguments.signers as usize,
        block_ms: arguments.block_ms,
        state: arguments.state.clone(),
        ..landfall_sim_evm::SimConfig::default()
    };
    let simulated = SimEvm::start(config).await.map_err(unable)?;
    show::say(&simulated.announcement().to_string());
    leave.asked().await;
    simulated.shutdown().await;
    Ok(())
}

#[derive(Debug, Clone, Args)]
pub struct SolanaArguments {
    /// Where the first node listens; further nodes take free ports beside it.
    #[arg(long, default_value = "127.0.0.1:8899")]
    listen: SocketAddr,
    /// How many nodes serve the same chain.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    nodes: u64,
    /// Milliseconds between slots.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    slot_ms: u64,
    /// Fee payers with funds, whose keypair files are told.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1000))]
    payers: u64,
    /// Blocks of 60 million units, 24 million of them for one account, as on the main network.
    #[arg(long, value_enum, default_value = "on")]
    limits: Switch,
    /// Keeps the chain across restarts.
    #[arg(long)]
    state: Option<PathBuf>,
    /// The folder of the keypair files; without it beside the state file, or a temporary one.
    #[arg(long, value_name = "FOLDER")]
    keypairs: Option<PathBuf>,
}

pub async fn run_solana(arguments: &SolanaArguments) -> Result<()> {
    let mut leave = Leave::new()?;
    let config = landfall_sim_solana::SimConfig {
        listen: arguments.listen,
        nodes: arguments.nodes as usize,
        payers: arguments.payers as usize,
        slot_ms: arguments.slot_ms,
        limits: arguments.limits == Switch::On,
        state: arguments.state.clone(),
        keypairs: arguments.keypairs.clone(),
        ..landfall_sim_solana::SimConfig::default()
    };
    let simulated = SimSolana::start(config).await.map_err(unable)?;
    show::say(&simulated.announcement().to_string());
    leave.asked().await;
    simulated.shutdown().await;
    Ok(())
}

#[derive(Debug, Clone, Args)]
pub struct RelayerArguments {
    /// Where the first relayer listens; further ones take free ports beside it.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The node that it sends to: landfall sim evm, anvil, hardhat, geth.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    rpc: String,
    /// A secret key with funds, in hex; once for each relayer. Without one, that of the first
    /// signer of landfall sim evm.
    #[arg(long = "key", value_name = "HEX")]
    keys: Vec<String>,
    /// Wanted of every client, as Authorization: Bearer or as X-API-Key.
    #[arg(long, default_value = "landfall-sim-relayer")]
    api_key: String,
    /// Blocks on top of a transaction's before it counts as confirmed.
    #[arg(long, default_value_t = 2)]
    confirmations: u64,
    /// What the dice begin with.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    faults: RelayerFaultArguments,
}

/// How often things go wrong, from 0 to 1. POST /sim/faults changes it.
#[derive(Debug, Clone, Args)]
struct RelayerFaultArguments {
    /// A POST is not taken, and the answer never comes.
    #[arg(long, default_value_t = 0.0)]
    lose_post: f64,
    /// A POST is taken, and the answer never comes.
    #[arg(long, default_value_t = 0.0)]
    hang: f64,
    /// A POST is taken twice.
    #[arg(long, default_value_t = 0.0)]
    duplicate: f64,
    /// What was sent is given out as failed, expired or canceled.
    #[arg(long, default_value_t = 0.0)]
    ends_falsely: f64,
    /// What was taken fails and is never sent.
    #[arg(long, default_value_t = 0.0)]
    never_sent: f64,
    /// What was taken is signed under two nonces, and both are sent.
    #[arg(long, default_value_t = 0.0)]
    signed_twice: f64,
    /// How long what is final is kept. Four hours, as the real one has it.
    #[arg(long, default_value_t = 14_400_000)]
    forget_after_ms: u64,
    /// The connection closes before the request took effect.
    #[arg(long, default_value_t = 0.0)]
    lose_request: f64,
    /// The request takes effect, then the connection closes.
    #[arg(long, default_value_t = 0.0)]
    lose_answer: f64,
    /// The request or its answer is --slow-ms late.
    #[arg(long, default_value_t = 0.0)]
    slow: f64,
    #[arg(long, default_value_t = 1_000)]
    slow_ms: u64,
    /// HTTP 500, half of them after the request took effect.
    #[arg(long, default_value_t = 0.0)]
    server_error: f64,
    /// HTTP 429, nothing happened.
    #[arg(long, default_value_t = 0.0)]
    rate_limited: f64,
}

impl RelayerFaultArguments {
    /// By the door at which they are changed later, so that both refuse the same.
    fn faults(&self) -> Result<landfall_sim_relayer::Faults> {
        let given = serde_json::json!({
            "lose_post": self.lose_post,
            "hang": self.hang,
            "duplicate": self.duplicate,
            "ends_falsely": self.ends_falsely,
            "never_sent": self.never_sent,
            "signed_twice": self.signed_twice,
            "forget_after_ms": self.forget_after_ms,
            "lose_request": self.lose_request,
            "lose_answer": self.lose_answer,
            "slow": self.slow,
            "slow_ms": self.slow_ms,
            "server_error": self.server_error,
            "rate_limited": self.rate_limited,
        });
        let given = given.as_object().cloned().unwrap_or_default();
        let changed = landfall_sim_relayer::Faults::default().changed(&given);
        changed.map_err(|error| Failure::Mistaken(error.to_string()))
    }
}

pub async fn run_relayer(arguments: &RelayerArguments) -> Result<()> {
    let mut leave = Leave::new()?;
    let rpc =
        Url::parse(&arguments.rpc).map_err(|error| Failure::Mistaken(format!("--rpc {error}")))?;
    let key = |text: &String| {
        text.parse().map_err(|_| Failure::Mistaken("--key is not 32 bytes in hex".to_owned()))
    };
    let mut keys = arguments.keys.iter().map(key).collect::<Result<Vec<_>>>()?;
    if keys.is_empty() {
        keys.push(landfall_sim_evm::keys::secret(0, 0));
    }
    let simulated = SimRelayer::start(landfall_sim_relayer::SimConfig {
        listen: arguments.listen,
        api_key: arguments.api_key.clone(),
        confirmations: arguments.confirmations,
        seed: arguments.seed,
        faults: arguments.faults.faults()?,
        ..landfall_sim_relayer::SimConfig::new(rpc, keys)
    });
    let simulated = simulated.await.map_err(unable)?;
    show::say(&simulated.announcement().to_string());
    leave.asked().await;
    simulated.shutdown().await;
    Ok(())
}

fn unable(error: impl std::error::Error) -> Failure {
    Failure::Unable(match error.source() {
        Some(cause) => format!("{error} ({cause})"),
        None => error.to_string(),
    })
}
