//! `cargo xtask soak near`: the run of seed 000 against a real network, with the report of `bench`.
//! `cargo xtask soak torture`: simulated worlds, optimised, for as long as there is time.
//! `cargo xtask soak internal`: the chaos tests of transfers between services, optimised, longer.
//! `cargo xtask soak backends`: those of three relays on each store and queue, the same way.
//! `cargo xtask soak mutants`: whether a test notices small changes to the code (`mutants`).
//!
//! The first is opt-in: it spends real tokens and gas. The relay is started with the given
//! configuration and RPC; what landed is proven by `landfall audit`, which compares the store with
//! the ledger. The others spend nothing but time; each soak tries seeds that nobody has tried.

pub mod mutants;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::bench::{Programs, Run, Watch, figures, start_load};
use crate::install;
use crate::load::Intake;
use crate::process::{Running, cargo, shown};
use crate::test::ALL;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// The network's RPC; several, separated by commas.
    #[arg(long)]
    pub rpc: String,
    /// Landfall's configuration: token, relay account, keys. Must have `api.auth = "off"`.
    #[arg(long)]
    pub config: PathBuf,
    /// Payouts to send, of 1 to this many of the token's smallest unit.
    #[arg(long, default_value_t = 5_000)]
    pub transfers: u64,
    /// Receivers: implicit accounts, each registered at the relay's expense.
    #[arg(long, default_value_t = 100)]
    pub receivers: u64,
    /// Payouts offered per second; seed 000 wants 100.
    #[arg(long, default_value_t = 100)]
    pub rate: u64,
    #[arg(long, value_enum, default_value = "single")]
    pub intake: Intake,
    /// Where the relay listens meanwhile.
    #[arg(long, default_value = "127.0.0.1:3900")]
    pub listen: String,
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct TortureOptions {
    /// How long.
    #[arg(long, default_value_t = 30)]
    pub minutes: u64,
    /// The first seed; by the time of day unless given, so that every soak tries new ones.
    #[arg(long)]
    pub seed: Option<u64>,
}

#[derive(Debug, Clone, Args)]
pub struct InternalOptions {
    /// Transfers on each store; a hundred a second or so, with something killed every second.
    #[arg(long, default_value_t = 100_000)]
    pub transfers: u64,
}

#[derive(Debug, Clone, Args)]
pub struct BackendsOptions {
    /// How long on each of the four pairs of store and queue.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub minutes: u64,
}

pub fn internal(root: &Path, options: &InternalOptions) -> Result<bool> {
    chaos(
        root,
        "internal::with_relay_and_services_killed",
        ("LANDFALL_CHAOS_TRANSFERS", options.transfers),
    )
}

pub fn backends(root: &Path, options: &BackendsOptions) -> Result<bool> {
    chaos(root, "backends::", ("LANDFALL_CHAOS_MINUTES", options.minutes))
}

/// The tests themselves, one after the other, so that a soak and the test command can never try
/// different things.
fn chaos(root: &Path, which: &str, (length, value): (&str, u64)) -> Result<bool> {
    install::servers(root)?;
    let mut test = cargo(root);
    test.args(["test", "--release", "-p", "landfall", "--features", ALL, "--test", "chaos", "--"]);
    test.args(["--nocapture", which]);
    test.env(length, value.to_string());
    println!("$ {length}={value} {}", shown(&test));
    Ok(test.status().with_context(|| shown(&test))?.success())
}

pub fn torture(root: &Path, options: &TortureOptions) -> Result<bool> {
    let programs = Programs::build(root)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    // Fewer than a thousand a second are tried, so that one soak never repeats an earlier one.
    let first = options.seed.unwrap_or(now * 1_000);
    let mut torture = Command::new(&programs.landfall);
    torture.args(["torture", "--seed", &first.to_string()]);
    torture.args(["--minutes", &options.minutes.to_string()]);
    println!("$ {}", shown(&torture));
    Ok(torture.status().with_context(|| shown(&torture))?.success())
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let programs = Programs::build(root)?;
    let config = options.config.canonicalize().context("--config")?;
    let landfall = |command: &str| {
        let mut landfall = Command::new(&programs.landfall);
        landfall.arg(command).arg("--config").arg(&config);
        landfall.env("LANDFALL_NEAR__RPC_URLS", &options.rpc);
        landfall.env("LANDFALL_API__LISTEN", &options.listen);
        landfall
    };
    if !landfall("check").status()?.success() {
        bail!("the configuration or its connections are not right; see above");
    }
    let mut relay = Running::start("relay", &mut landfall("serve"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut watch = Watch::new(&format!("http://{}", options.listen))?;
    runtime.block_on(watch.until_ready(&mut relay))?;

    // The run's keys must be new on every soak of the same store.
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let name: &'static str = Box::leak(format!("soak-{now}").into_boxed_str());
    let route = options.intake.into();
    let run = Run { name, transfers: options.transfers, rate: options.rate, route };
    let before = runtime.block_on(watch.figures())?;
    let used_before = relay.used()?;
    let begun = Instant::now();
    let mut load = start_load(&programs, &watch.url, &run, options.receivers, 64)?;
    let goal = before.finished + run.transfers as f64;
    let after = runtime.block_on(watch.until_finished(&mut relay, goal))?;
    let seconds = begun.elapsed().as_secs_f64();
    let used = relay.used()?;
    let summary: Value = serde_json::from_str(&load.line()?)?;
    load.finish()?;
    relay.leave()?;

    let mut report = figures(&run, &summary, seconds, (before, after), (used_before, used));
    let audit = landfall("audit").arg("--json").output()?;
    let audit: Value = serde_json::from_slice(&audit.stdout).context("the audit's answer")?;
    let count = |name: &str| audit[name].as_u64().unwrap_or(u64::MAX);
    (report.duplicates, report.losses) = (count("duplicates"), count("losses"));
    if options.json {
        println!("{}", report.json());
    } else {
        print!("{}", report.table());
    }
    Ok(report.is_good())
}
