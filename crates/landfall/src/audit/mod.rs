//! `landfall audit [RAIL]`: the store against the ledgers, each rail by their own records.
//!
//! Every final transfer is true, and nothing moved that no transfer asked for. May run beside a
//! working relay. Without a name every configured rail is audited; the exit code is that of the
//! worst, and a rail that the store has transfers of and nobody configured is not proven.
//! Not here: how a rail's ledger is read and what is compared ([`near`], [`internal`]).

mod internal;
mod near;
mod progress;

use std::fmt;
use std::sync::Arc;

use landfall_core::RailName;
use landfall_core::store::{ListFilter, Store};
use landfall_core::{Transfer, TransferId};
use serde_json::{Map, Value, json};

use crate::cli::{AuditArguments, AuditedRail};
use crate::config::{self, Config, Need};
use crate::dev::ground::ledger_sources;
use crate::failure::{Failure, Result};
use crate::show::{Show, Style};
use crate::wire;

/// Rows read from the store at a time.
const PAGE: usize = 1_000;
/// Differences printed for people; all of them are in `--json`.
const SHOWN_MAX: usize = 50;

/// What the audit of one rail came to. Printed already, unless JSON was asked for.
struct Audited {
    rail: RailName,
    report: Value,
    differences: usize,
    /// Why no difference does not mean that all is well, if so.
    unproven: Option<String>,
}

impl Audited {
    /// A rail that could not be read must not hide what was found on another.
    fn unable(rail: RailName, failure: Failure) -> Result<Audited> {
        let Failure::Unable(why) = failure else { return Err(failure) };
        let report = json!({"rail": rail.as_str(), "ok": false, "error": why});
        Ok(Audited { rail, report, differences: 0, unproven: Some(why) })
    }
}

pub async fn run(arguments: &AuditArguments) -> Result<()> {
    let read = &arguments.read;
    // A trial's ledger lives until the end.
    let (sources, _ground) = ledger_sources(&read.config, &read.data).await?;
    let config = config::load(&sources, Need::Ledger)?;
    let show = Show::on_stdout(read.json);
    let rails = rails(&config, arguments.rail)?;
    let store = wire::open_existing_store(&config).await?;
    let mut audited = Vec::new();
    for rail in &rails {
        let one = match rail {
            RailName::Near => near::audit(&config, &store, &show).await,
            RailName::Internal => internal::audit(&config, &store, &show).await,
        };
        audited.push(one.or_else(|failure| Audited::unable(*rail, failure))?);
    }
    let left_out = match arguments.rail {
        // Who names a rail has asked for no other.
        Some(_) => Vec::new(),
        None => left_out(&store, &rails).await?,
    };
    if show.json {
        show.value(&report(&audited, &left_out));
    }
    let unproven: Vec<String> = audited
        .iter()
        .filter_map(|one| one.unproven.clone())
        .chain(left_out.iter().map(LeftOut::to_string))
        .collect();
    match (audited.iter().all(|one| one.differences == 0), unproven.is_empty()) {
        (false, _) => Err(Failure::No(String::new())),
        (true, false) => Err(Failure::Unable(unproven.join("; "))),
        (true, true) => Ok(()),
    }
}

/// The named rail, or all that are configured.
fn rails(config: &Config, named: Option<AuditedRail>) -> Result<Vec<RailName>> {
    let configured: Vec<RailName> =
        [(RailName::Near, config.has_near()), (RailName::Internal, config.has_internal())]
            .into_iter()
            .filter_map(|(rail, is_on)| is_on.then_some(rail))
            .collect();
    let named = match named {
        None => return Ok(configured),
        Some(AuditedRail::Near) => RailName::Near,
        Some(AuditedRail::Internal) => RailName::Internal,
    };
    match configured.contains(&named) {
        true => Ok(vec![named]),
        false => Err(Failure::Mistaken(format!(
            "the rail {named} is not configured; name its configuration by --config"
        ))),
    }
}

/// A rail whose transfers nobody looked at.
struct LeftOut {
    rail: RailName,
    transfers: u64,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftOut { rail, transfers } = self;
        let were = if *transfers == 1 { "its transfer was" } else { "its transfers were" };
        write!(f, "the rail {rail} is not configured here: {were} not audited ({transfers})")
    }
}

async fn left_out(store: &Arc<dyn Store>, audited: &[RailName]) -> Result<Vec<LeftOut>> {
    let counts = store.counts().await?;
    let of_rail = |rail: RailName| LeftOut {
        rail,
        transfers: counts
            .iter()
            .filter(|(state, _)| state.rail() == rail)
            .map(|(_, count)| count)
            .sum(),
    };
    let others = RailName::ALL.into_iter().filter(|rail| !audited.contains(rail)).map(of_rail);
    Ok(others.filter(|one| one.transfers > 0).collect())
}

/// One rail's own report, or those of several by their names.
fn report(audited: &[Audited], left_out: &[LeftOut]) -> Value {
    let mut report = match audited {
        [one] => one.report.clone(),
        several => {
            let is_well = |one: &Audited| one.differences == 0 && one.unproven.is_none();
            let ok = ("ok".to_owned(), several.iter().all(is_well).into());
            let rails = several.iter().map(|one| (one.rail.to_string(), one.report.clone()));
            Value::Object(Map::from_iter(std::iter::once(ok).chain(rails)))
        }
    };
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|one| one.rail.as_str()).collect();
        report["ok"] = false.into();
        report["not_audited"] = names.into();
    }
    report
}

/// The transfers of a rail, newest first, a page at a time.
async fn each_transfer(
    store: &Arc<dyn Store>,
    rail: RailName,
    mut take: impl FnMut(&Transfer),
) -> Result<()> {
    let mut before: Option<TransferId> = None;
    loop {
        let filter = ListFilter { rail: Some(rail), before, limit: PAGE, ..ListFilter::default() };
        let page = store.list(filter).await?;
        page.iter().for_each(&mut take);
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some(last.id),
            _ => return Ok(()),
        }
    }
}

/// Differences and the sum of them, for people. `parties` is who agrees, if nobody differs.
fn print_differences(show: &Show, differences: &[(&str, &str)], parties: &str) {
    for (kind, message) in differences.iter().take(SHOWN_MAX) {
        show.line(&format!("  {}  {message}", show.paint(Style::Bad, kind)));
    }
    let more = differences.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        show.line(&format!("  and {more} more; see --json"));
    }
    show.line(&match differences.len() {
        0 => show.paint(Style::Good, &format!("{parties} agree")),
        1 => show.paint(Style::Bad, "1 difference"),
        many => show.paint(Style::Bad, &format!("{many} differences")),
    });
}
