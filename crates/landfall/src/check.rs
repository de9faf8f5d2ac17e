//! `landfall check`: reads the configuration as `serve` would, then tries everything it names.
//!
//! Changes nothing: it makes no store, takes no lane, sends nothing to the ledger but questions.

use landfall_core::courier::Courier;
use landfall_core::rail::{Rail, RailError};
use serde_json::{Value, json};

use crate::cli::CheckArguments;
use crate::config::{self, Config, Need, Sources, StoreUrl};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style};
use crate::wire;

/// What one trial came to.
struct Finding {
    what: &'static str,
    good: bool,
    detail: String,
}

pub async fn run(arguments: &CheckArguments) -> Result<()> {
    let data = arguments.data.as_ref().map(|path| path.display().to_string());
    let sources =
        Sources::surroundings(arguments.config.clone()).with_flag("instance.data", "--data", data);
    let config = config::load(&sources, Need::Serve)?;
    let mut findings = vec![
        Finding { what: "configuration", good: true, detail: "no mistakes".into() },
        folder(&config),
        store(&config).await,
    ];
    if config.has_near() {
        findings.push(ledger(&config).await);
    }
    if config.has_internal() {
        findings.push(services(&config).await);
    }
    let show = Show::on_stdout(arguments.json);
    print(&show, &findings);
    match findings.iter().all(|finding| finding.good) {
        true => Ok(()),
        false => Err(Failure::No(String::new())),
    }
}

fn print(show: &Show, findings: &[Finding]) {
    if show.json {
        let one = |found: &Finding| {
            let (what, good, detail) = (found.what, found.good, &found.detail);
            json!({"check": what, "ok": good, "detail": detail})
        };
        show.value(&Value::Array(findings.iter().map(one).collect()));
        return;
    }
    for finding in findings {
        let mark = match finding.good {
            true => show.paint(Style::Good, "ok  "),
            false => show.paint(Style::Bad, "FAIL"),
        };
        show.line(&format!("{mark}  {:<14}{}", finding.what, finding.detail));
    }
}

/// The nearest folder that exists must take new files.
fn folder(config: &Config) -> Finding {
    let what = "data folder";
    let data = &config.instance.data;
    let path = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    let there = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(&path);
    let probe = there.join(format!(".landfall-check-{}", std::process::id()));
    match std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe)) {
        Ok(()) if there == path => {
            Finding { what, good: true, detail: format!("{} can be written", data.display()) }
        }
        Ok(()) => Finding { what, good: true, detail: format!("{} will be made", data.display()) },
        Err(error) => {
            let detail = format!("{} cannot be written ({error})", there.display());
            Finding { what, good: false, detail }
        }
    }
}

async fn store(config: &Config) -> Finding {
    let what = "store";
    let found = match config.store_url() {
        StoreUrl::Memory => Ok("memory: forgets everything on exit".to_owned()),
        StoreUrl::Sqlite(path) if !path.exists() => Ok(format!("{} will be made", path.display())),
        _ => holdings(config).await,
    };
    Finding { what, good: found.is_ok(), detail: found.unwrap_or_else(|why| why) }
}

async fn holdings(config: &Config) -> std::result::Result<String, String> {
    let store = wire::open_existing_store(config).await.map_err(|failure| failure.to_string())?;
    let counts = store.counts().await.map_err(|error| error.to_string())?;
    let transfers: u64 = counts.iter().map(|(_, count)| count).sum();
    let id = store.identity().await.map_err(|error| error.to_string())?.id;
    Ok(format!("store {id} holds {transfers} transfers"))
}

async fn services(config: &Config) -> Finding {
    let what = "services";
    let tried = match wire::internal_rail(config, wire::clock()) {
        Ok(rail) => rail.check().await.map_err(|error| error.to_string()),
        Err(failure) => Err(failure.to_string()),
    };
    Finding { what, good: tried.is_ok(), detail: tried.unwrap_or_else(|why| why) }
}

async fn ledger(config: &Config) -> Finding {
    let what = "NEAR";
    match try_ledger(config).await {
        Ok(detail) => Finding { what, good: true, detail },
        Err(detail) => Finding { what, good: false, detail },
    }
}

async fn try_ledger(config: &Config) -> std::result::Result<String, String> {
    let clock = wire::clock();
    let network = match &config.near.network {
        Some(network) => network.clone(),
        None => {
            let endpoints =
                wire::endpoints(config, clock.clone()).map_err(|failure| failure.to_string())?;
            wire::shown_network(&endpoints).await?
        }
    };
    let rail = wire::near_rail(config, &network, clock).map_err(|failure| failure.to_string())?;
    rail.check().await.map_err(|error| match error {
        RailError::Unavailable(why) => format!("{why}; are near.rpc_urls right and reachable?"),
        RailError::Misconfigured(why) => why,
    })
}
