//! `landfall audit near`: the store against the ledger.
//!
//! Every COMPLETED landed once, every FAILED never, and nothing is on the ledger that no transfer
//! asked for. May run beside a working relay: the ledger's height is read before the store, so
//! that every transaction up to it was stored when the store is read; and attempts are read after
//! transfers, so that whatever finished a transfer is among them.
//! Not here: the rules (`compare`), how the ledger is read (`landfall_rail_near`).

mod compare;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use landfall_core::rail::RailError;
use landfall_core::store::Store;
use landfall_core::{Attempt, AttemptId, Fate, RailName, TransferId};
use landfall_rail_near::{Auditor, Seen, Walk};
use serde_json::{Value, json};

use crate::audit::progress::Progress;
use crate::audit::{Audited, PAGE, each_transfer, print_differences};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::show::{Show, counted};
use crate::wire;
use compare::{AttemptFact, Facts, Ledger, TransferFact, Verdict};

/// Transactions looked up at once.
const IN_FLIGHT: usize = 8;
pub async fn audit(config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
    let facts = gather(config, store).await?;
    let mut verdict = compare::compare(&facts);
    forgive_the_meanwhile(store, &mut verdict).await?;
    if !show.json {
        print(show, &facts, &verdict);
    }
    let unproven = facts.walk.gone_below.map(|height| {
        format!(
            "no difference was found, but the nodes keep no blocks below {height}, so {} attempts \
             are not proven; ask an archival node by near.rpc_urls",
            verdict.unproven
        )
    });
    let report = report(&facts, &verdict);
    let differences = verdict.differences.len();
    Ok(Audited { rail: RailName::Near, report, differences, unproven })
}

async fn gather(config: &Config, store: &Arc<dyn Store>) -> Result<Facts> {
    let clock = wire::clock();
    let network = super::network(config, None).await.map_err(Failure::Unable)?;
    let terms = wire::terms(config, &network);
    let ledger = Ledger { network: terms.network, account: terms.sender, token: terms.token };
    let auditor =
        Auditor::new(wire::endpoints(config, clock.clone())?, clock, ledger.network.clone());
    let to = auditor.final_height().await.map_err(unreachable_ledger)?;
    let transfers = read_transfers(store, &ledger).await?;
    let stored = read_attempts(store, &ledger).await?;
    let lowest = stored.values().filter_map(|attempt| attempt.base.as_ref());
    let lowest = lowest.map(|base| base.height).min();
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
    each_transfer(store, RailName::Near, |transfer| {
        let Some(payout) = transfer.payload.near() else { return };
        if payout.network == ledger.network && payout.sender == ledger.account {
            transfers.insert(transfer.id, TransferFact::of(transfer));
        }
    })
    .await?;
    Ok(transfers)
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
    let counts = facts.counts();
    show.line(&format!(
        "{} ({} completed, {} failed, {} unfinished), {} ({} landed, {} sunk, {} open), {} of {}",
        counted(facts.transfers.len(), "transfer"),
        counts.completed,
        counts.failed,
        facts.transfers.len() as u64 - counts.completed - counts.failed,
        counted(facts.attempts.len(), "attempt"),
        counts.landed,
        counts.sunk,
        counts.open,
        counted(facts.walk.blocks as usize, "block"),
        facts.ledger.network,
    ));
    let differences: Vec<(&str, &str)> =
        verdict.differences.iter().map(|one| (one.kind, one.message.as_str())).collect();
    print_differences(show, &differences, "store and ledger");
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
        "rail": RailName::Near.as_str(),
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
