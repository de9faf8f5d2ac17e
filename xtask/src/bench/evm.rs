//! `cargo xtask bench evm`: relay, anvil and load generator as three processes, for each number of
//! signers anew.
//!
//! First the node alone is sent as many transactions that were signed beforehand, by accounts that
//! the relay does not use, which tells what there is to reach; then the relay is asked for the same
//! calls. Both are measured until the last one is final. Each call carries its number behind what
//! it calls, so that the blocks tell how often each was made.
//! Not here: the figures' meaning (docs/benchmarks.md).

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use hyper::Method;
use landfall_servers::{Anvil, AnvilAccount, AnvilOptions, contracts};
use serde_json::{Value, json};

use super::{POLL, Programs, RUN_MAX, Watch, free_port, start_lines};
use crate::http::Connection;
use crate::process::{Running, Used};
use crate::report::Calls;

/// `increment()` and `count()` of the counter.
const INCREMENT: &str = "0xd09de08a";
const COUNT: &str = "0x06661abd";
/// What a block holds: more calls than a second brings.
const BLOCK_GAS: u64 = 3_000_000_000;
/// More than one call to the counter takes.
const CALL_GAS: u64 = 100_000;
/// Offered for a unit of gas by what is signed beforehand: ten times what anvil begins with.
const FEE: u64 = 10_000_000_000;
/// Requests to the node in one batch.
const BATCH: usize = 500;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Calls to ask for, with each number of signers.
    #[arg(long, default_value_t = 10_000)]
    pub calls: u64,
    /// Signers of the relay: one run for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    pub signers: Vec<u64>,
    /// Calls of one signer on their way at once.
    #[arg(long, default_value_t = 64)]
    pub window: u64,
    #[arg(long, default_value_t = 1_000)]
    pub block_ms: u64,
    /// Connections of the load generator.
    #[arg(long, default_value_t = 64)]
    pub connections: u64,
    /// Print one JSON object instead of the tables: that of the last run, with all of them in it.
    #[arg(long)]
    pub json: bool,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let programs = Programs::build(root)?;
    let code = contracts()?;
    let mut runs = Vec::new();
    for signers in &options.signers {
        if !options.json {
            println!("{} calls with {signers} signers …", options.calls);
        }
        let report = one(&programs, &code, *signers, options)?;
        if !options.json {
            print!("{}", report.table());
        }
        runs.push(report);
    }
    let last = runs.last().context("at least one number of signers")?;
    if options.json {
        let mut json = last.json();
        json["runs"] = runs.iter().map(Calls::json).collect();
        println!("{json}");
    }
    Ok(runs.iter().all(Calls::is_good))
}

/// A node with a counter on it, and whoever may sign.
struct World {
    anvil: Anvil,
    node: Connection,
    counter: String,
    /// Of the relay.
    signers: Vec<AnvilAccount>,
    /// Of what is signed beforehand.
    others: Vec<AnvilAccount>,
}

fn one(programs: &Programs, code: &Value, signers: u64, options: &Options) -> Result<Calls> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let mut world = runtime.block_on(World::start(code, signers, options))?;
    let raw_per_s = runtime.block_on(world.raw(programs, folder.path(), options))?;

    let relay_url = format!("http://127.0.0.1:{}", free_port()?);
    let mut command = world.relay_command(programs, folder.path(), &relay_url, options);
    let mut relay = Running::start("relay", &mut command)?;
    let mut watch = Watch::new(&relay_url)?;
    runtime.block_on(watch.until_ready(&mut relay))?;
    let bodies = (0..options.calls).map(|number| world.call(number).to_string());
    let file = folder.path().join("calls");
    std::fs::write(&file, bodies.collect::<Vec<String>>().join("\n"))?;

    let before = runtime.block_on(watch.figures())?;
    let used_before = relay.used()?;
    let begun = Instant::now();
    let lines = (options.calls, options.connections);
    let load = (relay_url.as_str(), "/api/v1/relay/direct");
    let mut load = start_lines(programs, load, &file, lines)?;
    let goal = before.finished + options.calls as f64;
    let after = runtime.block_on(watch.until_finished(&mut relay, goal))?;
    let seconds = begun.elapsed().as_secs_f64();
    let used: Used = relay.used()?;
    let summary: Value = serde_json::from_str(&load.line()?)?;
    load.finish()?;

    let (duplicates, losses) = runtime.block_on(world.differences(options.calls))?;
    if !relay.leave()? {
        bail!("the relay did not end well");
    }
    let calls = options.calls.max(1) as f64;
    let of_load = |name: &str| summary[name].as_f64().unwrap_or_default();
    Ok(Calls {
        signers,
        accepted_per_s: of_load("accepted") / of_load("seconds").max(0.001),
        confirmed_per_s: calls / seconds.max(0.001),
        raw_per_s,
        accept_p50_ms: of_load("p50_ms"),
        accept_p99_ms: of_load("p99_ms"),
        rpc_calls_per_transfer: (after.rpc_calls - before.rpc_calls) / calls,
        relay_cpu_us_per_transfer: (used.cpu_us - used_before.cpu_us) as f64 / calls,
        relay_peak_rss_mb: used.peak_rss_kib as f64 / 1024.0,
        duplicates,
        losses,
    })
}

impl World {
    async fn start(code: &Value, signers: u64, options: &Options) -> Result<World> {
        let anvil = Anvil::start(AnvilOptions {
            block_ms: Some(options.block_ms),
            gas_limit: Some(BLOCK_GAS),
            accounts: Some(1 + 2 * signers),
        })?;
        let mut accounts = anvil.accounts()?;
        let mut signing = accounts.split_off(1);
        let others = signing.split_off(signers as usize);
        let deployer = accounts.pop().context("an account")?.address;
        let node = Connection::new(anvil.url(), None)?;
        let mut world = World { anvil, node, counter: String::new(), signers: signing, others };
        // It trusts no forwarder.
        let code = format!("{}{:064}", code["counter"].as_str().context("code")?, 0);
        let created = json!([{"from": deployer, "data": code, "gas": "0x4c4b40"}]);
        let hash = world.ask("eth_sendTransaction", created).await?;
        world.ask("evm_mine", json!([])).await?;
        let receipt = world.ask("eth_getTransactionReceipt", json!([hash])).await?;
        world.counter = receipt["contractAddress"].as_str().context("a contract")?.to_owned();
        Ok(world)
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let body = request(method, params).to_string().into_bytes();
        let (_, answer) = self.node.send(Method::POST, "/", &[], body).await?;
        let mut answer: Value = serde_json::from_slice(&answer).context("an answer of anvil")?;
        match answer.get("error") {
            Some(error) => bail!("{method}: {error}"),
            None => Ok(answer["result"].take()),
        }
    }

    /// The body of the call of this number.
    fn call(&self, number: u64) -> Value {
        json!({"to": self.counter, "data": format!("{INCREMENT}{number:064x}")})
    }

    /// How many calls a second the node brings to finality when nothing else is done.
    async fn raw(&mut self, programs: &Programs, folder: &Path, options: &Options) -> Result<f64> {
        let signed = self.sign(options.calls).await?;
        let file = folder.join("raw");
        std::fs::write(&file, signed.join("\n"))?;
        let goal = self.count().await? + options.calls;
        let begun = Instant::now();
        let lines = (options.calls, options.connections);
        let load = start_lines(programs, (self.anvil.url(), "/"), &file, lines)?;
        while self.count().await? < goal {
            if begun.elapsed() > RUN_MAX {
                bail!("the node alone did not finish");
            }
            tokio::time::sleep(POLL).await;
        }
        let seconds = begun.elapsed().as_secs_f64();
        load.finish()?;
        Ok(options.calls as f64 / seconds.max(0.001))
    }

    /// What the counter has counted in final blocks.
    async fn count(&mut self) -> Result<u64> {
        let asked = json!([{"to": self.counter, "data": COUNT}, "finalized"]);
        match self.ask("eth_call", asked).await?.as_str() {
            // Not there yet.
            Some("0x") => Ok(0),
            count => number(count).context("a count"),
        }
    }

    /// As many calls, signed by accounts that the relay does not use, each as a request.
    async fn sign(&mut self, calls: u64) -> Result<Vec<String>> {
        let signers = self.others.len() as u64;
        let unsigned = |index: u64| {
            let mut call = self.call(index);
            call["from"] = json!(self.others[(index % signers) as usize].address);
            call["nonce"] = quantity(index / signers);
            call["gas"] = quantity(CALL_GAS);
            call["maxFeePerGas"] = quantity(FEE);
            call["maxPriorityFeePerGas"] = quantity(1);
            request("eth_signTransaction", json!([call]))
        };
        let unsigned: Vec<Value> = (0..calls).map(unsigned).collect();
        let mut signed = Vec::new();
        for batch in unsigned.chunks(BATCH) {
            let body = json!(batch).to_string().into_bytes();
            let (_, answers) = self.node.send(Method::POST, "/", &[], body).await?;
            let answers: Vec<Value> = serde_json::from_slice(&answers).context("signatures")?;
            signed.extend(answers.iter().map(|answer| {
                request("eth_sendRawTransaction", json!([answer["result"]])).to_string()
            }));
        }
        Ok(signed)
    }

    fn relay_command(
        &self,
        programs: &Programs,
        folder: &Path,
        relay_url: &str,
        options: &Options,
    ) -> Command {
        let keys: Vec<&str> = self.signers.iter().map(|one| one.key.as_str()).collect();
        let mut command = Command::new(&programs.landfall);
        command.arg("serve").current_dir(folder);
        command.env("LANDFALL_API__LISTEN", relay_url.trim_start_matches("http://"));
        command.env("LANDFALL_API__AUTH", "off");
        command.env("LANDFALL_INSTANCE__DATA", folder.join("relay"));
        command.env("LANDFALL_LOG__LEVEL", "warn");
        command.env("LANDFALL_EVM__RPC_URLS", self.anvil.url());
        command.env("LANDFALL_EVM__SIGNERS", json!(keys).to_string());
        command.env("LANDFALL_EVM__WINDOW", options.window.to_string());
        command
    }

    /// Calls of the relay's signers that were made too often, and such that were never made.
    async fn differences(&mut self, calls: u64) -> Result<(u64, u64)> {
        let mut times: HashMap<String, u64> = HashMap::new();
        let newest = self.ask("eth_blockNumber", json!([])).await?;
        for block in 0..=number(newest.as_str()).context("a height")? {
            let asked = json!([quantity(block), true]);
            let block = self.ask("eth_getBlockByNumber", asked).await?;
            let all = block["transactions"].as_array().into_iter().flatten();
            let ours = |call: &&Value| {
                call["to"] == self.counter.as_str()
                    && self.signers.iter().any(|one| call["from"] == one.address.as_str())
            };
            for call in all.filter(ours) {
                let input = call["input"].as_str().unwrap_or_default();
                *times.entry(input.to_owned()).or_default() += 1;
            }
        }
        let asked = |index: u64| format!("{INCREMENT}{index:064x}");
        let lost = (0..calls).filter(|index| !times.contains_key(&asked(*index))).count() as u64;
        // Whatever nobody asked for is one too many as well.
        let made: u64 = times.values().sum();
        Ok((made - (calls - lost), lost))
    }
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn quantity(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

fn number(quantity: Option<&str>) -> Option<u64> {
    u64::from_str_radix(quantity?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_they_are_written() {
        assert_eq!(quantity(255), "0xff");
        assert_eq!(number(quantity(255).as_str()), Some(255));
        assert_eq!(number(Some("ff")), None);
        assert_eq!(number(None), None);
    }
}
