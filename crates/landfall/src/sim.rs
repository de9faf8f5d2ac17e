//! `landfall sim near`, `evm` and `solana`: a simulated ledger on its own, until it is told to
//! leave.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use landfall_sim_evm::SimEvm;
use landfall_sim_near::{SimConfig, SimNear};
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

fn unable(error: impl std::error::Error) -> Failure {
    Failure::Unable(match error.source() {
        Some(cause) => format!("{error} ({cause})"),
        None => error.to_string(),
    })
}
