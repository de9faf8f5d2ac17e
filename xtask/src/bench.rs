//! `cargo xtask bench near`: relay, simulated ledger and load generator as three processes.
//!
//! The receivers are registered on the ledger before the clock starts; the relay has to find out.
//! Completed means final on the ledger; the simulator's own record of payments is compared with
//! what was asked for, and overpayment counts as a duplicate.
//! Not here: the figures' meaning (docs/benchmarks.md), transfers between services ([`internal`]),
//! calls on an EVM chain ([`evm`]), what the ledger takes blind ([`raw`]), the servers that
//! `--store` and `--queue` name ([`backends`]).

mod backends;
pub mod evm;
pub mod internal;
pub mod lanes;
mod raw;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use hyper::Method;
use serde_json::Value;

use self::backends::{Backends, Choice, Spent};
use crate::http::Connection;
use crate::load::{Intake, Route};
use crate::payouts::{Differences, Payout, compare, payout, receiver};
use crate::process::{Running, Used, cargo, output, shown};
use crate::report::Report;

/// How often the relay is asked how far it is: seldom enough not to be measured itself.
const POLL: Duration = Duration::from_millis(200);
/// How long a process may take to answer for the first time.
const START: Duration = Duration::from_secs(30);
/// How long a run may take before it is given up. Seed 000 wants 60,000 in ten minutes.
const RUN_MAX: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Payouts to send.
    #[arg(long, default_value_t = 60_000)]
    pub transfers: u64,
    /// One `POST /transfer` each, or `POST /transfers` with a thousand.
    #[arg(long, value_enum, default_value = "single")]
    pub intake: Intake,
    /// Payouts offered per second; 0 is as fast as they are taken.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Access keys of the relay's account: lanes.
    #[arg(long, default_value_t = 100)]
    pub keys: u64,
    #[arg(long, default_value_t = 600)]
    pub block_ms: u64,
    /// Nodes of the ledger that the relay is told: with more than one, a quorum decides.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub nodes: u64,
    /// Transactions of one key on their way at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub window: u64,
    /// Let chunks be the limit, as on a real shard: about 600 payouts a block.
    #[arg(long)]
    pub chunk_gas: bool,
    /// First send full batches, signed beforehand, to such a ledger alone: what there is to reach.
    #[arg(long)]
    pub raw: bool,
    /// Receivers, registered beforehand.
    #[arg(long, default_value_t = 2_000)]
    pub receivers: u64,
    /// Connections of the load generator.
    #[arg(long, default_value_t = 64)]
    pub connections: u64,
    #[command(flatten)]
    pub backends: Choice,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let programs = Programs::build_with(root, options.backends.features())?;
    let folder = tempfile::tempdir()?;
    let raw_per_s = match options.raw {
        true => Some(raw::measure(&programs, folder.path(), options)?),
        false => None,
    };
    // Before the relay, so that they end after it.
    let backends = Backends::start(options.backends)?;
    let (mut simulator, ledger) = start_simulator(&programs, options)?;
    let relay_url = format!("http://127.0.0.1:{}", free_port()?);
    let command = |name: &str| {
        let mut command = relay_command(&programs, folder.path(), &relay_url, &ledger, name)?;
        backends.tell(&mut command);
        command.env("LANDFALL_NEAR__WINDOW", options.window.to_string());
        Ok::<Command, anyhow::Error>(command)
    };
    if options.backends.wants_migration() {
        output(&mut command("migrate")?)?;
    }
    let mut relay = Running::start("relay", &mut command("serve")?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut watch = Watch::new(&relay_url)?;
    runtime.block_on(watch.until_ready(&mut relay))?;

    let rpc_url = ledger["rpc_url"].as_str().context("rpc_url of the simulator")?;
    runtime.block_on(register(rpc_url, options.receivers))?;
    note(options, &format!("sending {} payouts", options.transfers));
    let run = Run {
        name: "run",
        transfers: options.transfers,
        rate: options.rate,
        route: options.intake.into(),
    };
    let store_cpu = backends.store_cpu()?;
    let mut report = measure(&programs, &runtime, &mut watch, &mut relay, &run, options)?;
    let spent = backends.spent(store_cpu, options.transfers)?;

    let asked: Vec<Payout> = run.payouts(options).collect();
    let found = runtime.block_on(differences(rpc_url, &asked))?;
    (report.duplicates, report.losses) = (found.duplicates, found.losses);
    if !relay.leave()? || simulator.has_ended() {
        bail!("the relay or the simulator did not end well");
    }
    simulator.leave()?;
    print(options, &report, &spent, raw_per_s);
    Ok(report.is_good())
}

fn note(options: &Options, text: &str) {
    if !options.json {
        println!("{text} …");
    }
}

fn print(options: &Options, report: &Report, spent: &Spent, raw_per_s: Option<f64>) {
    if options.json {
        let mut json = with_terms(spent.json(report), options);
        if let Some(raw_per_s) = raw_per_s {
            json["raw_per_s"] = ((raw_per_s * 10.0).round() / 10.0).into();
        }
        println!("{json}");
        return;
    }
    println!(
        "\n{} payouts, intake {}, rate {}, {} keys, window {}, {} ms blocks, {} receivers, \
         nodes {}, chunk gas {}, store {}, queue {}",
        options.transfers,
        Route::from(options.intake).name(),
        if options.rate == 0 { "unlimited".to_owned() } else { format!("{}/s", options.rate) },
        options.keys,
        options.window,
        options.block_ms,
        options.receivers,
        options.nodes,
        if options.chunk_gas { "on" } else { "off" },
        options.backends.store_name(),
        options.backends.queue_name(),
    );
    print!("{}", spent.table(report));
    if let Some(raw_per_s) = raw_per_s {
        let share = format!("{:.1} %", 100.0 * report.completed_per_s / raw_per_s.max(0.001));
        println!("  {:<24}{raw_per_s:>14.0}", "the ledger alone, per s");
        println!("  {:<24}{share:>14}", "of that, by the relay");
    }
}

fn with_terms(mut json: Value, options: &Options) -> Value {
    json["nodes"] = options.nodes.into();
    json["window"] = options.window.into();
    json
}

/// The programs under measurement, built for speed.
pub struct Programs {
    pub landfall: PathBuf,
    pub xtask: PathBuf,
}

impl Programs {
    pub fn build(root: &Path) -> Result<Programs> {
        Programs::build_with(root, &[])
    }

    pub fn build_with(root: &Path, features: &[&str]) -> Result<Programs> {
        let mut build = cargo(root);
        build.args(["build", "--release", "-p", "landfall", "-p", "xtask"]);
        if !features.is_empty() {
            build.args(["--features", &features.join(",")]);
        }
        eprintln!("$ {}", shown(&build));
        if !build.status()?.success() {
            bail!("the release build failed");
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let folder = target.unwrap_or_else(|| root.join("target")).join("release");
        Ok(Programs { landfall: folder.join("landfall"), xtask: folder.join("xtask") })
    }
}

fn start_simulator(programs: &Programs, options: &Options) -> Result<(Running, Value)> {
    let mut command = Command::new(&programs.landfall);
    let chunk_gas = if options.chunk_gas { "on" } else { "off" };
    command.args(["sim", "near", "--listen", "127.0.0.1:0", "--chunk-gas", chunk_gas]);
    command.args(["--nodes", &options.nodes.to_string()]);
    command.args(["--keys", &options.keys.to_string()]);
    command.args(["--block-ms", &options.block_ms.to_string()]);
    let mut simulator = Running::start("simulator", &mut command)?;
    let line = simulator.line()?;
    let ledger = serde_json::from_str(&line).context("the simulator's announcement")?;
    Ok((simulator, ledger))
}

fn relay_command(
    programs: &Programs,
    folder: &Path,
    relay_url: &str,
    ledger: &Value,
    name: &str,
) -> Result<Command> {
    let text = |name: &str| {
        let value = &ledger[name];
        value.as_str().map(str::to_owned).with_context(|| format!("{name} of the simulator"))
    };
    let mut command = Command::new(&programs.landfall);
    command.arg(name).current_dir(folder);
    command.env("LANDFALL_API__LISTEN", relay_url.trim_start_matches("http://"));
    command.env("LANDFALL_API__AUTH", "off");
    command.env("LANDFALL_INSTANCE__DATA", folder);
    command.env("LANDFALL_LOG__LEVEL", "warn");
    command.env("NEAR_RPC_URL", urls(ledger)?);
    command.env("FT_TOKEN_ADDRESS", text("token")?);
    command.env("RELAY_ACCOUNT_ID", text("relay_account")?);
    command.env("RELAY_ACCESS_KEYS", ledger["access_keys"].to_string());
    Ok(command)
}

/// Every node, as the relay takes them.
fn urls(ledger: &Value) -> Result<String> {
    let urls = ledger["rpc_urls"].as_array().context("rpc_urls of the simulator")?;
    Ok(urls.iter().filter_map(Value::as_str).collect::<Vec<&str>>().join(","))
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// One stretch of load.
pub struct Run {
    pub name: &'static str,
    pub transfers: u64,
    pub rate: u64,
    pub route: Route,
}

impl Run {
    fn payouts(&self, options: &Options) -> impl Iterator<Item = Payout> {
        let receivers = options.receivers;
        (0..self.transfers).map(move |index| payout(self.name, index, receivers))
    }
}

/// Loads the relay, waits until everything is final, and reads what it took.
fn measure(
    programs: &Programs,
    runtime: &tokio::runtime::Runtime,
    watch: &mut Watch,
    relay: &mut Running,
    run: &Run,
    options: &Options,
) -> Result<Report> {
    let before = runtime.block_on(watch.figures())?;
    let used_before = relay.used()?;
    let begun = Instant::now();
    let mut load = start_load(programs, &watch.url, run, options.receivers, options.connections)?;
    let goal = before.finished + run.transfers as f64;
    let after = runtime.block_on(watch.until_finished(relay, goal))?;
    let seconds = begun.elapsed().as_secs_f64();
    let used = relay.used()?;
    let summary: Value = serde_json::from_str(&load.line()?)?;
    load.finish()?;
    Ok(figures(run, &summary, seconds, (before, after), (used_before, used)))
}

pub fn start_load(
    programs: &Programs,
    url: &str,
    run: &Run,
    receivers: u64,
    connections: u64,
) -> Result<Running> {
    let mut command = Command::new(&programs.xtask);
    command.args(["load", "--url", url, "--run", run.name, "--route", run.route.name()]);
    for (name, number) in [
        ("--transfers", run.transfers),
        ("--receivers", receivers),
        ("--rate", run.rate),
        ("--connections", connections),
    ] {
        command.args([name, &number.to_string()]);
    }
    Running::start("load generator", &mut command)
}

/// Posts every line of a file, so many, over so many connections.
fn start_lines(
    programs: &Programs,
    (url, path): (&str, &str),
    file: &Path,
    (lines, connections): (u64, u64),
) -> Result<Running> {
    let mut command = Command::new(&programs.xtask);
    command.args(["load", "--url", url, "--path", path, "--run", "run", "--route", "lines"]);
    command.arg("--lines").arg(file).args(["--receivers", "0"]);
    command.args(["--transfers", &lines.to_string()]);
    command.args(["--connections", &connections.to_string()]);
    Running::start("load generator", &mut command)
}

pub fn figures(
    run: &Run,
    load: &Value,
    seconds: f64,
    (before, after): (Figures, Figures),
    (used_before, used): (Used, Used),
) -> Report {
    let transfers = run.transfers.max(1) as f64;
    let of_load = |name: &str| load[name].as_f64().unwrap_or_default();
    Report {
        accepted_per_s: of_load("accepted") / of_load("seconds").max(0.001),
        completed_per_s: transfers / seconds.max(0.001),
        accept_p50_ms: of_load("p50_ms"),
        accept_p99_ms: of_load("p99_ms"),
        rpc_calls_per_transfer: (after.rpc_calls - before.rpc_calls) / transfers,
        relay_cpu_us_per_transfer: (used.cpu_us - used_before.cpu_us) as f64 / transfers,
        relay_peak_rss_mb: used.peak_rss_kib as f64 / 1024.0,
        duplicates: 0,
        losses: 0,
    }
}

/// What the relay counts of itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    /// Completed and failed.
    pub finished: f64,
    pub rpc_calls: f64,
}

/// Asks the relay how far it is.
pub struct Watch {
    pub url: String,
    connection: Connection,
}

impl Watch {
    pub fn new(url: &str) -> Result<Watch> {
        Ok(Watch { url: url.to_owned(), connection: Connection::new(url, None)? })
    }

    pub async fn until_ready(&mut self, relay: &mut Running) -> Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < START && !relay.has_ended() {
            if self.connection.get("/ready").await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        bail!("the relay was not ready within {START:?}")
    }

    pub async fn figures(&mut self) -> Result<Figures> {
        let text = self.connection.get("/metrics").await?;
        let text = String::from_utf8_lossy(&text);
        let finished = sum(&text, "landfall_completed_total") + sum(&text, "landfall_failed_total");
        Ok(Figures { finished, rpc_calls: sum(&text, "landfall_rpc_calls") })
    }

    pub async fn until_finished(&mut self, relay: &mut Running, goal: f64) -> Result<Figures> {
        let begun = Instant::now();
        loop {
            let figures = self.figures().await?;
            if figures.finished >= goal {
                return Ok(figures);
            }
            if begun.elapsed() > RUN_MAX || relay.has_ended() {
                bail!("only {} of {goal} transfers are final", figures.finished);
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

/// Adds up a counter over all its labels.
fn sum(metrics: &str, counter: &str) -> f64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(counter));
    let of_counter = samples.filter(|rest| rest.starts_with([' ', '{']));
    of_counter.filter_map(|rest| rest.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Registers the receivers on the ledger. The relay does not know that they are.
async fn register(rpc_url: &str, receivers: u64) -> Result<()> {
    let accounts: Vec<String> = (0..receivers).map(receiver).collect();
    let body = serde_json::json!({"account_ids": accounts}).to_string().into_bytes();
    let mut simulator = Connection::new(rpc_url, None)?;
    match simulator.send(Method::POST, "/sim/register", &[], body).await? {
        (200, _) => Ok(()),
        (status, _) => bail!("/sim/register answered {status}"),
    }
}

/// Compares the simulator's record of payments with what was asked for.
async fn differences(rpc_url: &str, asked: &[Payout]) -> Result<Differences> {
    let body = Connection::new(rpc_url, None)?.get("/sim/transfers").await?;
    let payments: Vec<Value> = serde_json::from_slice(&body).context("/sim/transfers")?;
    let paid = payments.iter().map(|payment| {
        let amount = payment["amount"].as_str().and_then(|amount| amount.parse().ok());
        let receiver = payment["receiver_id"].as_str().unwrap_or_default();
        // A payment that cannot be read matches nothing, and so counts as a duplicate.
        (receiver.to_owned(), amount.unwrap_or(0))
    });
    Ok(compare(asked, paid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn without_a_choice_there_is_one_node_and_the_json_says_so() {
        let options = |words: &[&str]| {
            let line = std::iter::once("bench").chain(words.iter().copied());
            <Line as clap::Parser>::try_parse_from(line).map(|line| line.options)
        };
        assert_eq!(options(&[]).expect("the default").nodes, 1);
        assert!(options(&["--nodes", "0"]).is_err() && options(&["--window", "0"]).is_err());
        let chosen = options(&["--nodes", "3", "--window", "8"]).expect("three nodes");
        let json = with_terms(Spent::default().json(&Report::default()), &chosen);
        assert_eq!((&json["nodes"], &json["window"]), (&3.into(), &8.into()));
    }

    #[test]
    fn the_relay_is_told_every_node() {
        let ledger = serde_json::json!({"rpc_urls": ["http://a:1", "http://b:2"]});
        assert_eq!(urls(&ledger).expect("urls"), "http://a:1,http://b:2");
    }

    #[test]
    fn a_counter_is_added_up_over_its_labels() {
        let metrics = "# TYPE landfall_rpc_calls counter\n\
                       landfall_rpc_calls{endpoint=\"a b\"} 3\n\
                       landfall_rpc_calls{endpoint=\"c\"} 4\n\
                       landfall_rpc_callsign 9\n";
        assert_eq!(sum(metrics, "landfall_rpc_calls"), 7.0);
    }
}
