//! `landfall check`: reads the configuration as `serve` would, then tries everything it names.
//!
//! Changes nothing: it makes no store, takes no lane, sends nothing to the ledger but questions.
//! What is no mistake, but had better be known before it is relied on, is a note.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use landfall_core::courier::Courier;
use landfall_core::rail::{Rail, RailError};
use serde_json::{Value, json};

use crate::cli::CheckArguments;
use crate::config::{self, Config, Mistake, Mistakes, Need, StoreUrl};
use crate::dev::ground::ledger_sources;
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, counted};
use crate::wire::{self, Agreement};

/// What one trial came to.
struct Finding {
    what: &'static str,
    mark: Mark,
    detail: String,
    /// For programs, beside the above.
    facts: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Good,
    /// It works, and somebody should know what it means.
    Note,
    Bad,
}

impl Finding {
    fn new(what: &'static str, found: std::result::Result<String, String>) -> Finding {
        let mark = if found.is_ok() { Mark::Good } else { Mark::Bad };
        Finding { what, mark, detail: found.unwrap_or_else(|why| why), facts: json!({}) }
    }
}

pub async fn run(arguments: &CheckArguments) -> Result<()> {
    // A trial's ledger lives until the end.
    let (sources, _ground) = ledger_sources(&arguments.config, &arguments.data).await?;
    let show = Show::on_stdout(arguments.json);
    let config = match config::load(&sources, Need::Serve) {
        Ok(config) => config,
        Err(mistakes) if show.json => {
            print(&show, &[mistaken(&mistakes)]);
            return Err(Failure::Mistaken(String::new()));
        }
        Err(mistakes) => return Err(mistakes.into()),
    };
    let mut findings = vec![
        Finding::new("configuration", Ok("no mistakes".into())),
        folder(&config),
        store(&config).await,
    ];
    findings.extend(open_to_others(&config, sources.file.as_deref()));
    if config.has_near() {
        findings.push(Finding::new("NEAR", try_ledger(&config).await));
        findings.push(nodes(wire::agreement(&config)?));
    }
    if config.has_internal() {
        findings.push(services(&config).await);
    }
    print(&show, &findings);
    match findings.iter().any(|finding| finding.mark == Mark::Bad) {
        false => Ok(()),
        true => Err(Failure::No(String::new())),
    }
}

fn print(show: &Show, findings: &[Finding]) {
    if show.json {
        let one = |found: &Finding| {
            let mut one = found.facts.clone();
            one["check"] = json!(found.what);
            one["ok"] = json!(found.mark != Mark::Bad);
            one["detail"] = json!(found.detail);
            one
        };
        show.value(&Value::Array(findings.iter().map(one).collect()));
        return;
    }
    for finding in findings {
        let mark = match finding.mark {
            Mark::Good => show.paint(Style::Good, "ok  "),
            Mark::Note => show.paint(Style::Warn, "NOTE"),
            Mark::Bad => show.paint(Style::Bad, "FAIL"),
        };
        // Two spaces and the mark's four before the name.
        show.text_at(6 + 14, &format!("{mark}  {:<14}", finding.what), &finding.detail);
    }
}

fn mistaken(mistakes: &Mistakes) -> Finding {
    let one = |mistake: &Mistake| {
        json!({
            "place": mistake.place.to_string(),
            "setting": mistake.setting,
            "message": mistake.message,
            "remedy": mistake.remedy,
        })
    };
    let list: Vec<Value> = mistakes.0.iter().map(one).collect();
    let found = Finding::new("configuration", Err(mistakes.to_string()));
    Finding { facts: json!({"mistakes": list}), ..found }
}

/// The nearest folder that exists must take new files.
fn folder(config: &Config) -> Finding {
    let data = &config.instance.data;
    let path = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    let there = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(&path);
    let probe = there.join(format!(".landfall-check-{}", std::process::id()));
    let tried = std::fs::write(&probe, b"").and_then(|()| std::fs::remove_file(&probe));
    let becomes = if there == path { "can be written" } else { "will be made" };
    let found = tried
        .map(|()| format!("{} {becomes}", data.display()))
        .map_err(|error| format!("{} cannot be written ({error})", there.display()));
    Finding::new("data folder", found)
}

/// Files with secrets, and the data folder, that others on this machine can read.
fn open_to_others(config: &Config, file: Option<&Path>) -> Option<Finding> {
    let file = file.filter(|_| !config.near.access_keys.is_empty() || !config.api.keys.is_empty());
    let keys = config.near.access_keys_file.as_ref().map(|file| file.0.as_path());
    let data = Some(config.instance.data.as_path());
    let others = |path: &&Path| {
        let mode = std::fs::metadata(path).map(|found| found.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o077 != 0)
    };
    let open: Vec<String> = [keys, file, data]
        .into_iter()
        .flatten()
        .filter(others)
        .map(|path| path.display().to_string())
        .collect();
    let detail = match &open[..] {
        [] => return None,
        open => format!(
            "others on this machine can read {}; chmod go= takes that from them",
            open.join(" and ")
        ),
    };
    let facts = json!({ "open_to_others": open });
    Some(Finding { what: "secrets", mark: Mark::Note, detail, facts })
}

async fn store(config: &Config) -> Finding {
    let found = holdings(config).await.map_err(|failure| failure.to_string());
    Finding::new("store", found)
}

async fn holdings(config: &Config) -> Result<String> {
    match config.store_url() {
        StoreUrl::Memory => return Ok("memory: forgets everything on exit".to_owned()),
        StoreUrl::Sqlite(path) if !wire::is_there(&path)? => {
            return Ok(format!("{} will be made", path.display()));
        }
        _ => {}
    }
    let store = wire::open_existing_store(config).await?;
    let transfers: u64 = store.counts().await?.iter().map(|(_, count)| count).sum();
    let id = store.identity().await?.id;
    Ok(format!("store {id} holds {}", counted(transfers as usize, "transfer")))
}

async fn services(config: &Config) -> Finding {
    let tried = match wire::internal_rail(config, wire::clock()) {
        Ok(rail) => rail.check().await.map_err(|error| error.to_string()),
        Err(failure) => Err(failure.to_string()),
    };
    Finding::new("services", tried)
}

/// Whose word is taken.
fn nodes(agreement: Agreement) -> Finding {
    let Agreement { nodes, quorum } = agreement;
    let alone = quorum == 1;
    let detail = match (nodes, quorum) {
        (1, _) => "this node is believed alone: if it lies, payouts are told COMPLETED that were \
                   never paid, or are paid twice; of three in near.rpc_urls two would have to agree"
            .to_owned(),
        (_, 1) => format!(
            "each of {nodes} nodes is believed alone, as near.quorum is 1: if one lies, payouts \
             are told COMPLETED that were never paid, or are paid twice; without it, a majority \
             must agree"
        ),
        _ => format!("{quorum} of {nodes} must agree; {}", what_holds(nodes, quorum)),
    };
    let mark = if alone { Mark::Note } else { Mark::Good };
    Finding { what: "NEAR nodes", mark, detail, facts: json!({"nodes": nodes, "quorum": quorum}) }
}

fn what_holds(nodes: usize, quorum: usize) -> String {
    let liars = match quorum - 1 {
        1 => "one that lies decides nothing".to_owned(),
        few => format!("{few} that lie decide nothing"),
    };
    match nodes - quorum {
        0 => format!("{liars}, but with one away nothing is decided at all"),
        1 => format!("{liars}, and one may be away"),
        few => format!("{liars}, and {few} may be away"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: usize, quorum: usize, mark: Mark, said: &str) {
        let found = super::nodes(Agreement { nodes, quorum });
        assert!(found.mark == mark && found.detail.contains(said), "{}", found.detail);
        assert_eq!(found.facts, json!({"nodes": nodes, "quorum": quorum}));
    }

    #[test]
    fn it_says_how_many_nodes_must_agree() {
        check(1, 1, Mark::Note, "this node is believed alone");
        check(3, 1, Mark::Note, "each of 3 nodes is believed alone");
        check(2, 2, Mark::Good, "2 of 2 must agree; one that lies decides nothing, but with one");
        check(3, 2, Mark::Good, "2 of 3 must agree; one that lies decides nothing, and one may");
        check(5, 3, Mark::Good, "3 of 5 must agree; 2 that lie decide nothing, and 2 may");
    }
}
