//! `cargo xtask bench internal`: relay, two account services and load generator as four processes.
//!
//! A transfer counts as committed in its request if the answer to the request says so. Latency is
//! that of the request, from the moment it was due. Conservation is proven by `landfall audit
//! internal`, from the services' own statements.
//! Not here: the figures' meaning (docs/benchmarks.md).

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use hyper::Method;
use serde_json::{Value, json};

use super::{Programs, Run, Watch, free_port, start_load};
use crate::http::Connection;
use crate::load::Route;
use crate::moves::{ASSETS, DECIMALS, HELD, SERVICES};
use crate::process::Running;
use crate::report::Moves;

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Transfers to ask for.
    #[arg(long, default_value_t = 10_000)]
    pub transfers: u64,
    /// Transfers offered per second; 0 is as fast as they are answered.
    #[arg(long, default_value_t = 500)]
    pub rate: u64,
    /// Users whose funds are moved.
    #[arg(long, default_value_t = 200)]
    pub users: u64,
    /// Connections of the load generator.
    #[arg(long, default_value_t = 64)]
    pub connections: u64,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    pub json: bool,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let programs = Programs::build(root)?;
    let folder = tempfile::tempdir()?;
    let services = SERVICES.iter().zip(["freeze", "direct"]);
    let mut services = services
        .map(|(name, kind)| start_service(&programs, folder.path(), name, kind))
        .collect::<Result<Vec<(Running, String)>>>()?;
    let urls: Vec<String> = services.iter().map(|(_, url)| url.clone()).collect();
    let relay_url = format!("http://127.0.0.1:{}", free_port()?);
    let command = |name: &str| relay_command(&programs, folder.path(), &relay_url, &urls, name);
    let mut relay = Running::start("relay", &mut command("serve"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut watch = Watch::new(&relay_url)?;
    runtime.block_on(watch.until_ready(&mut relay))?;
    for url in &urls {
        runtime.block_on(fund(url, options.users))?;
    }
    if !options.json {
        println!("asking for {} transfers …", options.transfers);
    }
    let mut report = measure(&programs, &runtime, &mut watch, &mut relay, options)?;
    let audit = command("audit").args(["internal", "--json"]).output()?;
    let seen: Value = serde_json::from_slice(&audit.stdout).unwrap_or_default();
    report.conservation_ok = audit.status.success()
        && seen["ok"] == true
        && seen["unfinished"] == 0
        && seen["transfers"] == options.transfers;
    if !report.conservation_ok {
        eprintln!("{seen:#}\n{}", String::from_utf8_lossy(&audit.stderr));
    }
    if !relay.leave()? {
        bail!("the relay did not end well");
    }
    for (service, _) in services.drain(..) {
        service.leave()?;
    }
    print(options, &report);
    Ok(report.conservation_ok)
}

fn print(options: &Options, report: &Moves) {
    if options.json {
        println!("{}", report.json());
        return;
    }
    let rate = match options.rate {
        0 => "unlimited".to_owned(),
        rate => format!("{rate}/s"),
    };
    println!("\n{} transfers of {} users, rate {rate}", options.transfers, options.users);
    print!("{}", report.table());
}

/// A built-in account service on a free port, and its address.
fn start_service(
    programs: &Programs,
    folder: &Path,
    name: &'static str,
    kind: &str,
) -> Result<(Running, String)> {
    let mut command = Command::new(&programs.landfall);
    command.args(["ledger", "--name", name, "--kind", kind, "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(folder.join("accounts"));
    let mut service = Running::start(name, &mut command)?;
    let line = service.line()?;
    let url = line.split_whitespace().last().context("the service's address")?.to_owned();
    Ok((service, url))
}

/// A command of the relay, with the embedded default for everything that needs no setting.
fn relay_command(
    programs: &Programs,
    folder: &Path,
    relay_url: &str,
    urls: &[String],
    name: &str,
) -> Command {
    let service = |index: usize| {
        json!({"name": SERVICES[index], "url": urls[index], "freezes": index == 0,
            "dedupe_window_s": "forever"})
    };
    let asset =
        |(id, symbol): (u32, &str)| json!({"id": id, "symbol": symbol, "decimals": DECIMALS});
    let mut command = Command::new(&programs.landfall);
    command.arg(name).current_dir(folder);
    command.env("LANDFALL_API__LISTEN", relay_url.trim_start_matches("http://"));
    command.env("LANDFALL_API__AUTH", "off");
    command.env("LANDFALL_INSTANCE__DATA", folder.join("relay"));
    command.env("LANDFALL_LOG__LEVEL", "warn");
    command.env("LANDFALL_INTERNAL__SERVICES", json!([service(0), service(1)]).to_string());
    command.env("LANDFALL_INTERNAL__ASSETS", json!(ASSETS.map(asset)).to_string());
    command
}

/// Gives every user something to move.
async fn fund(url: &str, users: u64) -> Result<()> {
    let mut service = Connection::new(url, None)?;
    for user in 1..=users {
        for (asset, _) in ASSETS {
            let body = json!({"ref": format!("bench {user} {asset}"), "user_id": user,
                "asset_id": asset, "amount": HELD});
            let body = body.to_string().into_bytes();
            match service.send(Method::POST, "/fund", &[], body).await? {
                (200, _) => {}
                (status, _) => bail!("{url}/fund answered {status}"),
            }
        }
    }
    Ok(())
}

/// Loads the relay, waits until everything is final, and reads what it took.
fn measure(
    programs: &Programs,
    runtime: &tokio::runtime::Runtime,
    watch: &mut Watch,
    relay: &mut Running,
    options: &Options,
) -> Result<Moves> {
    let Options { transfers, rate, users, connections, .. } = *options;
    let before = runtime.block_on(watch.figures())?;
    let run = Run { name: "run", transfers, rate, route: Route::Moves };
    let begun = Instant::now();
    let mut load = start_load(programs, &watch.url, &run, users, connections)?;
    let goal = before.finished + transfers as f64;
    runtime.block_on(watch.until_finished(relay, goal))?;
    let seconds = begun.elapsed().as_secs_f64();
    let summary: Value = serde_json::from_str(&load.line()?)?;
    load.finish()?;
    let of_load = |name: &str| summary[name].as_f64().unwrap_or_default();
    Ok(Moves {
        transfers_per_s: transfers as f64 / seconds.max(0.001),
        committed_in_request_share: of_load("committed") / transfers.max(1) as f64,
        p50_ms: of_load("p50_ms"),
        p99_ms: of_load("p99_ms"),
        conservation_ok: false,
    })
}
