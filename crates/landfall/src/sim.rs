//! `landfall sim near`: a simulated ledger on its own, until it is told to leave.

use landfall_sim::near::{SimConfig, SimNear};

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
    SimNear::start(config).await.map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        Failure::Unable(match cause {
            Some(cause) => format!("{error} ({cause})"),
            None => error.to_string(),
        })
    })
}
