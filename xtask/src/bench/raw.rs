//! What a simulated NEAR takes blind: full batches, signed beforehand and sent without a relay.
//!
//! They are spread over as many keys as the relay has, and all are sent at once, so that the ledger
//! is the only limit. Counted until a node would call the last of them final, like the relay's.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hyper::Method;
use serde_json::{Value, json};

use super::{
    Options, POLL, Programs, RUN_MAX, differences, register, start_lines, start_simulator,
};
use crate::http::Connection;
use crate::payouts::{Differences, Payout, payout};

/// Payouts in one transaction: what the protocol takes, and the relay sends.
const BATCH: usize = 100;

/// Blocks from a payment to its refund of gas, without which no node calls a transaction final.
const REFUND_BLOCKS: u64 = 1;

/// Payouts a second, on a ledger of its own of the kind that the options name.
pub fn measure(programs: &Programs, folder: &Path, options: &Options) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (simulator, ledger) = start_simulator(programs, options)?;
    let url = ledger["rpc_url"].as_str().context("rpc_url of the simulator")?;
    runtime.block_on(register(url, options.receivers))?;
    let receivers = options.receivers;
    let asked: Vec<Payout> =
        (0..options.transfers).map(|index| payout("raw", index, receivers)).collect();
    let bodies = runtime.block_on(sign(url, &asked, options.keys as usize))?;
    let file = folder.join("raw");
    std::fs::write(&file, bodies.join("\n"))?;

    let begun = Instant::now();
    let lines = (bodies.len() as u64, options.connections);
    let load = start_lines(programs, (url, "/"), &file, lines)?;
    runtime.block_on(until_final(url, asked.len(), begun))?;
    let seconds = begun.elapsed().as_secs_f64();
    load.finish()?;
    if runtime.block_on(differences(url, &asked))? != Differences::default() {
        bail!("the ledger alone did not pay each once");
    }
    simulator.leave()?;
    Ok(asked.len() as f64 / seconds.max(0.001))
}

/// The requests that send them, a key's own in the order of its nonces.
async fn sign(url: &str, asked: &[Payout], keys: usize) -> Result<Vec<String>> {
    let mut simulator = Connection::new(url, None)?;
    let mut bodies = Vec::new();
    for (index, batch) in asked.chunks(BATCH).enumerate() {
        let pay =
            |one: &Payout| json!({"receiver_id": one.receiver, "amount": one.amount.to_string()});
        let payouts: Vec<Value> = batch.iter().map(pay).collect();
        let body = json!({"key": index % keys, "nonce": 1 + index / keys, "payouts": payouts});
        let body = body.to_string().into_bytes();
        let (status, answer) = simulator.send(Method::POST, "/sim/sign", &[], body).await?;
        if status != 200 {
            bail!("/sim/sign answered {status}");
        }
        let mut params: Value = serde_json::from_slice(&answer).context("/sim/sign")?;
        params["wait_until"] = "NONE".into();
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "send_tx", "params": params});
        bodies.push(request.to_string());
    }
    Ok(bodies)
}

/// Waits until so many payments are made, and the last of them is final with its refund.
async fn until_final(url: &str, payments: usize, begun: Instant) -> Result<()> {
    let mut simulator = Connection::new(url, None)?;
    let mut last_block = None;
    loop {
        let stats: Value = serde_json::from_slice(&simulator.get("/sim/stats").await?)?;
        // The long list is read only when nothing waits any more.
        if last_block.is_none() && stats["pool"] == 0 {
            let made: Vec<Value> = serde_json::from_slice(&simulator.get("/sim/transfers").await?)?;
            let blocks = made.iter().filter_map(|payment| payment["block"].as_u64());
            let refunded = blocks.max().map(|block| block + REFUND_BLOCKS);
            last_block = refunded.filter(|_| made.len() >= payments);
        }
        if last_block.is_some_and(|block| stats["final_height"].as_u64() >= Some(block)) {
            return Ok(());
        }
        if begun.elapsed() > RUN_MAX {
            bail!("the ledger alone did not finish");
        }
        tokio::time::sleep(POLL).await;
    }
}
