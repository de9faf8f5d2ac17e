//! `landfall check`: reads the configuration as `serve` would, then tries everything it names.
//!
//! Changes nothing: it makes no store, takes no lane, sends nothing to the ledger but questions.
//! What is no mistake, but had better be known before it is relied on, is a note.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::cli::CheckArguments;
use crate::config::{self, Config, Mistake, Mistakes, Need, StoreUrl};
use crate::dev::ground::ledger_sources;
use crate::examine;
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, counted};
use crate::wire;

/// What one trial came to.
pub struct Finding {
    pub what: &'static str,
    pub mark: Mark,
    pub detail: String,
    /// For programs, beside the above.
    pub facts: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    Good,
    /// It works, and somebody should know what it means.
    Note,
    Bad,
}

impl Finding {
    pub fn new(what: &'static str, found: std::result::Result<String, String>) -> Finding {
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
    for examiner in examine::all().filter(|one| one.is_configured(&config)) {
        findings.extend(examiner.check(&config).await?);
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
    let secrets: Vec<_> = examine::all().map(|one| one.secrets(config)).collect();
    let in_settings = secrets.iter().any(|one| one.in_settings) || !config.api.keys.is_empty();
    let files = secrets.into_iter().flat_map(|one| one.files);
    let data = config.instance.data.as_path();
    let others = |path: &&Path| {
        let mode = std::fs::metadata(path).map(|found| found.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o077 != 0)
    };
    let open: Vec<String> = files
        .chain(file.filter(|_| in_settings))
        .chain([data])
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
