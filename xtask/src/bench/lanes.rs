//! `cargo xtask bench lanes`: the transaction manager on everything that can keep its lanes, on a
//! ledger that costs nothing, so that what is measured is what lanes add.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use crate::process::{cargo, output, shown};

const BACKENDS: [&str; 7] =
    ["memory", "sqlite", "redis", "plain-redis", "postgres", "http", "worker"];

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Which backends; all of them unless named.
    #[arg(long, value_delimiter = ',')]
    pub backends: Vec<String>,
    /// How many signing keys, one run for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10, 50])]
    pub keys: Vec<u64>,
    /// How long each of a run's two parts takes.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Unoptimised: to see that it runs, not how fast.
    #[arg(long)]
    pub debug: bool,
    /// Print one JSON array instead of the table.
    #[arg(long)]
    pub json: bool,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let backends: Vec<&str> = match options.backends.is_empty() {
        true => BACKENDS.to_vec(),
        false => options.backends.iter().map(String::as_str).collect(),
    };
    if let Some(unknown) = backends.iter().find(|name| !BACKENDS.contains(name)) {
        bail!("{unknown} is no backend; there are {}", BACKENDS.join(", "));
    }
    let mut rows = Vec::new();
    if !options.json {
        println!(
            "{:<12}{:>6}{:>14}{:>14}{:>14}",
            "backend", "keys", "executes/s", "p50 ms", "p99 ms"
        );
    }
    for backend in backends {
        for keys in &options.keys {
            let row = measure(root, options, backend, *keys)?;
            if !options.json {
                let figure = |name: &str| row[name].as_f64().unwrap_or_default();
                println!(
                    "{backend:<12}{keys:>6}{:>14.0}{:>14.2}{:>14.2}",
                    figure("executes_per_s"),
                    figure("added_p50_ms"),
                    figure("added_p99_ms")
                );
            }
            rows.push(row);
        }
    }
    if options.json {
        println!("{}", Value::Array(rows));
    }
    Ok(true)
}

fn measure(root: &Path, options: &Options, backend: &str, keys: u64) -> Result<Value> {
    let mut command = cargo(root);
    command.args(["run", "--quiet"]);
    if !options.debug {
        command.arg("--release");
    }
    command.args(["-p", "landfall-lanes-http", "--example", "executions", "--", backend]);
    command.args([keys.to_string(), options.seconds.to_string()]);
    let said = output(&mut command)?;
    let line = said.lines().last().unwrap_or_default();
    serde_json::from_str(line).with_context(|| format!("{}: {said}", shown(&command)))
}
