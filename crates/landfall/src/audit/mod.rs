//! `landfall audit [RAIL]`: the store against the ledgers, each rail by their own records.
//!
//! Every final transfer is true, and nothing moved that no transfer asked for. May run beside a
//! working relay. Without a name every configured rail is audited; the exit code is that of the
//! worst, and a rail that the store has transfers of and nobody configured is not proven.
//! Not here: how a rail's ledger is read and what is compared (`examine`, each rail's `audit`).

pub mod progress;

use std::fmt;
use std::sync::Arc;

use landfall_core::RailName;
use landfall_core::store::{ListFilter, Store};
use landfall_core::{Transfer, TransferId};
use serde_json::{Map, Value, json};

use crate::cli::AuditArguments;
use crate::config::{self, Config, Need};
use crate::dev::ground::ledger_sources;
use crate::examine::{self, Examiner};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style};
use crate::wire;

/// Rows read from the store at a time.
pub const PAGE: usize = 1_000;
/// Differences printed for people; all of them are in `--json`.
const SHOWN_MAX: usize = 50;

/// What the audit of one rail came to. Printed already, unless JSON was asked for.
pub struct Audited {
    pub rail: RailName,
    pub report: Value,
    pub differences: usize,
    /// Why no difference does not mean that all is well, if so.
    pub unproven: Option<String>,
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
    let examiners = examiners(&config, arguments.rail)?;
    let store = wire::open_existing_store(&config).await?;
    let mut audited = Vec::new();
    for examiner in &examiners {
        let one = examiner.audit(&config, &store, &show).await;
        audited.push(one.or_else(|failure| Audited::unable(examiner.rail(), failure))?);
    }
    let left_out = match arguments.rail {
        // Who names a rail has asked for no other.
        Some(_) => Vec::new(),
        None => left_out(&store, &audited).await?,
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

/// Those of the named rail, or of all that are configured.
fn examiners(config: &Config, named: Option<RailName>) -> Result<Vec<&'static dyn Examiner>> {
    let configured = |one: &&dyn Examiner| one.is_configured(config);
    match named {
        None => Ok(examine::all().filter(configured).collect()),
        Some(rail) if examine::of(rail).is_configured(config) => Ok(vec![examine::of(rail)]),
        Some(rail) => Err(examine::not_configured(rail)),
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

async fn left_out(store: &Arc<dyn Store>, audited: &[Audited]) -> Result<Vec<LeftOut>> {
    let counts = store.counts().await?;
    let of_rail = |rail: RailName| LeftOut {
        rail,
        transfers: counts
            .iter()
            .filter(|(state, _)| state.rail() == rail)
            .map(|(_, count)| count)
            .sum(),
    };
    let is_audited = |rail: &RailName| audited.iter().any(|one| one.rail == *rail);
    let others = RailName::ALL.into_iter().filter(|rail| !is_audited(rail)).map(of_rail);
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
pub async fn each_transfer(
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
pub fn print_differences(show: &Show, differences: &[(&str, &str)], parties: &str) {
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
