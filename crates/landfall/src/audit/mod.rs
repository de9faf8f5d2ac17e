//! `landfall audit`: the store against the ledger.
//!
//! Every COMPLETED landed once, every FAILED never, and nothing is on the ledger that no transfer
//! asked for. May run beside a working relay: the ledger's height is read before the store, so
//! that every transaction up to it was stored when the store is read; and attempts are read after
//! transfers, so that whatever finished a transfer is among them.
//! Not here: the rules (`compare`), how the ledger is read (`landfall_rail_near`).

mod compare;
mod progress;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use landfall_core::rail::RailError;
use landfall_core::store::{ListFilter, Store};
use landfall_core::{Attempt, AttemptId, Fate, RailName, TransferId};
use landfall_rail_near::{Auditor, Seen, Walk};
use serde_json::{Value, json};

use crate::cli::CheckArguments;
use crate::config::{self, Config, Need, Sources};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style};
use crate::wire;
use compare::{AttemptFact, Facts, Ledger, TransferFact, Verdict};
use progress::Progress;

/// Rows read from the store at a time.
const PAGE: usize = 1_000;
/// Transactions looked up at once.
const IN_FLIGHT: usize = 8;
/// Differences printed for people; all of them are in `--json`.
const SHOWN_MAX: usize = 50;

pub async fn run(arguments: &CheckArguments) -> Result<()> {
    let data = arguments.data.as_ref().map(|path| path.display().to_string());
    let sources =
        Sources::surroundings(arguments.config.clone()).with_flag("instance.data", "--data", data);
    let config = config::load(&sources, Need::Ledger)?;
    let show = Show::on_stdout(arguments.json);
    let store = wire::open_existing_store(&config).await?;
    let facts = gather(&config, &store).await?;
    let mut verdict = compare::compare(&facts);
    forgive_the_meanwhile(&store, &mut verdict).await?;
    print(&show, &facts, &verdict);
    match (verdict.differences.is_empty(), facts.walk.gone_below) {
        (false, _) => Err(Failure::No(String::new())),
        (true, Some(height)) => Err(Failure::Unable(format!(
            "no difference was found, but the nodes keep no blocks below {height}, so {} attempts \
             are not proven; ask an archival node by near.rpc_urls",
            verdict.unproven
        ))),
        (true, None) => Ok(()),
    }
}

async fn gather(config: &Config, store: &Arc<dyn Store>) -> Result<Facts> {
    let clock = wire::clock();
    let network = match &config.near.network {
        Some(network) => network.clone(),
        None => {
            let endpoints = wire::endpoints(config, clock.clone())?;
            wire::shown_network(&endpoints).await.map_err(Failure::Unable)?
        }
    };
    let terms = wire::terms(config, &network);
    let ledger = Ledger { network: terms.network, account: terms.sender, token: terms.token };
    let auditor =
        Auditor::new(wire::endpoints(config, clock.clone())?, clock, ledger.network.clone());
    let to = auditor.final_height().await.map_err(unreachable_ledger)?;
    let transfers = read_transfers(store, &ledger).await?;
    let stored = read_attempts(store, &ledger).await?;
    let lowest = stored.values().map(|attempt| attempt.base_height).min();
    let walk = match lowest {
        Some(from) if from <= to => walk(&auditor, &ledger, from, to).await?,
        _ => Walk::default(),
    };
    let attempts = look(&auditor, &ledger, stored).await?;
    Ok(Facts { ledger, transfers, attempts, walk })
}

fn unreachable_ledger(error: RailError) -> Failure {
    Failure::Unable(format!("{error}; try again, or see `landfall check`"))
}

async fn read_transfers(
    store: &Arc<dyn Store>,
    ledger: &Ledger,
) -> Result<BTreeMap<TransferId, TransferFact>> {
    let mut transfers = BTreeMap::new();
    let mut before = None;
    loop {
        let filter =
            ListFilter { rail: Some(RailName::Near), before, limit: PAGE, ..ListFilter::default() };
        let page = store.list(filter).await?;
        for transfer in &page {
            let Some(payout) = transfer.payload.near() else { continue };
            if payout.network == ledger.network && payout.sender == ledger.account {
                transfers.insert(transfer.id, TransferFact::of(transfer));
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => before = Some(last.id),
            _ => return Ok(transfers),
        }
    }
}

/// Open ones first: one that is decided in between is then read again among the decided.
async fn read_attempts(
    store: &Arc<dyn Store>,
    ledger: &Ledger,
) -> Result<BTreeMap<AttemptId, Attempt>> {
    let mut attempts = BTreeMap::new();
    let mut keep = |page: Vec<Attempt>| {
        for attempt in page {
            if ledger.key_of(&attempt.lane).is_some() {
                attempts.insert(attempt.id, attempt);
            }
        }
    };
    keep(store.open_attempts_of(RailName::Near).await?);
    let mut after = AttemptId(0);
    loop {
        let page = store.attempts_page(RailName::Near, after, PAGE).await?;
        let last = page.last().map(|attempt| attempt.id);
        let full = page.len() == PAGE;
        keep(page);
        match last {
            Some(last) if full => after = last,
            _ => return Ok(attempts),
        }
    }
}

async fn walk(auditor: &Auditor, ledger: &Ledger, from: u64, to: u64) -> Result<Walk> {
    let progress = Progress::new("blocks", from, to);
    let walk = auditor.walk(&ledger.account, from, to, |height| progress.at(height)).await;
    progress.end();
    walk.map_err(unreachable_ledger)
}

async fn look(
    auditor: &Auditor,
    ledger: &Ledger,
    stored: BTreeMap<AttemptId, Attempt>,
) -> Result<Vec<AttemptFact>> {
    let progress = Progress::new("attempts", 0, stored.len() as u64);
    let looks = stream::iter(stored.into_values().enumerate()).map(|(index, attempt)| {
        let progress = &progress;
        async move {
            let seen = auditor.seen(&attempt.hash, &ledger.account, &ledger.token).await;
            progress.at(index as u64);
            seen.map(|seen| AttemptFact { attempt, seen })
        }
    });
    let facts = looks.buffered(IN_FLIGHT).try_collect().await.map_err(unreachable_ledger);
    progress.end();
    facts
}

/// A transfer that was being paid when it was read, and is completed by now, is no difference.
async fn forgive_the_meanwhile(store: &Arc<dyn Store>, verdict: &mut Verdict) -> Result<()> {
    let in_doubt: Vec<TransferId> =
        verdict.differences.iter().filter_map(|difference| difference.unless_completed).collect();
    let now = store.transfers(&in_doubt).await?;
    let completed: Vec<TransferId> =
        now.iter().filter(|one| one.state.is_completed()).map(|one| one.id).collect();
    verdict
        .differences
        .retain(|one| one.unless_completed.is_none_or(|id| !completed.contains(&id)));
    Ok(())
}

fn print(show: &Show, facts: &Facts, verdict: &Verdict) {
    if show.json {
        show.value(&report(facts, verdict));
        return;
    }
    let counts = facts.counts();
    show.line(&format!(
        "{} transfers ({} completed, {} failed, {} unfinished), {} attempts ({} landed, {} sunk, \
         {} open), {} blocks of {}",
        facts.transfers.len(),
        counts.completed,
        counts.failed,
        facts.transfers.len() as u64 - counts.completed - counts.failed,
        facts.attempts.len(),
        counts.landed,
        counts.sunk,
        counts.open,
        facts.walk.blocks,
        facts.ledger.network,
    ));
    for difference in verdict.differences.iter().take(SHOWN_MAX) {
        let kind = show.paint(Style::Bad, difference.kind);
        show.line(&format!("  {kind}  {}", difference.message));
    }
    let more = verdict.differences.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        show.line(&format!("  and {more} more; see --json"));
    }
    show.line(&match verdict.differences.len() {
        0 => show.paint(Style::Good, "store and ledger agree"),
        1 => show.paint(Style::Bad, "1 difference"),
        many => show.paint(Style::Bad, &format!("{many} differences")),
    });
}

fn report(facts: &Facts, verdict: &Verdict) -> Value {
    let counts = facts.counts();
    let differences = verdict.differences.iter().map(|difference| {
        json!({
            "kind": difference.kind,
            "message": difference.message,
            "transfer": difference.transfer,
            "tx_hash": difference.tx_hash,
        })
    });
    json!({
        "ok": verdict.differences.is_empty() && facts.walk.gone_below.is_none(),
        "transfers": facts.transfers.len(),
        "completed": counts.completed,
        "failed": counts.failed,
        "attempts": facts.attempts.len(),
        "landed": counts.landed,
        "sunk": counts.sunk,
        "open": counts.open,
        "blocks": facts.walk.blocks,
        "history_gone_below": facts.walk.gone_below,
        "unproven": verdict.unproven,
        "duplicates": verdict.duplicates,
        "losses": verdict.losses,
        "differences": differences.collect::<Vec<Value>>(),
    })
}

/// Whether a decided fate says that every member was paid.
fn paid_all(fate: &Fate) -> bool {
    match fate {
        Fate::Landed(landing) => {
            landing.outcomes.iter().all(|outcome| *outcome == landfall_core::Outcome::Done)
        }
        Fate::Sunk(_) => false,
    }
}

/// Whether the ledger moved value by it.
fn moved(seen: &Seen) -> bool {
    matches!(seen, Seen::Done(_))
}
