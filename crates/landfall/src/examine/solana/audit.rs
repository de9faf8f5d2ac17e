//! `landfall audit solana`: the store against the chain.
//!
//! Every completed withdraw was paid once, by the transaction that is named, to the same outputs;
//! no failed one by a transaction of ours; and our fee payers have spent nothing from the pool that
//! no attempt explains. May run beside a working relay: transactions are listed before the store is
//! read, and attempts after transfers.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use landfall_core::attempt::Outcome;
use landfall_core::ledger::{Ledger as _, Look, RailError};
use landfall_core::solana::Withdraw;
use landfall_core::store::Store;
use landfall_core::{Attempt, AttemptId, Fate, RailName, State, TransferId};
use landfall_rail_solana::SolanaRail;
use serde_json::{Value, json};

use crate::audit::progress::Progress;
use crate::audit::{Audited, PAGE, each_transfer, print_differences};
use crate::failure::{Failure, Result};
use crate::show::{Show, counted};

/// Attempts looked up at once.
const IN_FLIGHT: usize = 8;

/// A withdraw, as far as it is compared.
struct Fact {
    key: String,
    state: State,
    tx_hash: Option<String>,
    withdraw: Withdraw,
}

/// Something that is not as it should be.
struct Difference {
    kind: &'static str,
    message: String,
    transfer: Option<TransferId>,
    tx_hash: Option<String>,
}

#[derive(Default)]
struct Counts {
    transfers: usize,
    completed: usize,
    failed: usize,
    attempts: usize,
    landed: usize,
    sunk: usize,
    open: usize,
    duplicates: usize,
    losses: usize,
}

pub async fn audit(rail: &SolanaRail, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
    let lanes = store.lanes().await?;
    let ours = lanes.into_iter().filter(|lane| rail.owns(&lane.id)).map(|lane| lane.id);
    let mut spent: HashSet<String> = HashSet::new();
    for lane in ours {
        spent.extend(rail.spent_on(&lane).await.map_err(unreachable_chain)?);
    }
    let mut facts: HashMap<TransferId, Fact> = HashMap::new();
    each_transfer(store, RailName::Solana, |transfer| {
        let Some(withdraw) = transfer.payload.solana() else { return };
        let (key, tx_hash) = (transfer.key.clone(), transfer.tx_hash.clone());
        let withdraw = withdraw.clone();
        facts.insert(transfer.id, Fact { key, state: transfer.state, tx_hash, withdraw });
    })
    .await?;
    let attempts = read_attempts(store, rail).await?;
    let known: HashSet<&str> = attempts.values().map(|attempt| attempt.hash.as_str()).collect();
    let strange = spent.iter().filter(|signature| !known.contains(signature.as_str()));
    let mut differences: Vec<Difference> = strange
        .map(|signature| Difference {
            kind: "unexplained",
            message: format!("{signature} of a fee payer of ours withdraws what nobody asked for"),
            transfer: None,
            tx_hash: Some(signature.clone()),
        })
        .collect();
    let mut counts = Counts {
        transfers: facts.len(),
        completed: facts.values().filter(|one| one.state.is_completed()).count(),
        failed: facts.values().filter(|one| one.state.is_failed()).count(),
        attempts: attempts.len(),
        ..Counts::default()
    };
    let looked = look(rail, attempts).await?;
    let mut paid: HashMap<TransferId, Vec<String>> = HashMap::new();
    for (attempt, seen) in &looked {
        judge_attempt(rail, attempt, seen, &facts, &mut counts, &mut differences);
        let Look::Landed(landing) = seen else { continue };
        let members = attempt.members.iter().zip(&landing.outcomes);
        for (member, _) in members.filter(|(_, outcome)| **outcome == Outcome::Done) {
            paid.entry(*member).or_default().push(attempt.hash.clone());
        }
    }
    judge_withdraws(rail, &facts, &paid, &mut counts, &mut differences).await?;
    if !show.json {
        print(show, &counts, &differences);
    }
    let report = report(&counts, &differences);
    Ok(Audited { rail: RailName::Solana, report, differences: differences.len(), unproven: None })
}

fn unreachable_chain(error: RailError) -> Failure {
    Failure::Unable(format!("{error}; try again, or see `landfall check`"))
}

/// Open ones first: one that is decided in between is then read again among the decided.
async fn read_attempts(
    store: &Arc<dyn Store>,
    rail: &SolanaRail,
) -> Result<BTreeMap<AttemptId, Attempt>> {
    let mut attempts = BTreeMap::new();
    let mut keep = |page: Vec<Attempt>| {
        let ours = page.into_iter().filter(|attempt| rail.owns(&attempt.lane));
        attempts.extend(ours.map(|attempt| (attempt.id, attempt)));
    };
    keep(store.open_attempts_of(RailName::Solana).await?);
    let mut after = AttemptId(0);
    loop {
        let page = store.attempts_page(RailName::Solana, after, PAGE).await?;
        let (last, full) = (page.last().map(|attempt| attempt.id), page.len() == PAGE);
        keep(page);
        match last {
            Some(last) if full => after = last,
            _ => return Ok(attempts),
        }
    }
}

/// What the chain shows of each.
async fn look(
    rail: &SolanaRail,
    attempts: BTreeMap<AttemptId, Attempt>,
) -> Result<Vec<(Attempt, Look)>> {
    let progress = Progress::new("attempts", 0, attempts.len() as u64);
    let looks = stream::iter(attempts.into_values().enumerate()).map(|(index, attempt)| {
        let progress = &progress;
        async move {
            let seen = rail.look(&attempt, true).await;
            progress.at(index as u64);
            seen.map(|seen| (attempt, seen))
        }
    });
    let looked = looks.buffered(IN_FLIGHT).try_collect().await.map_err(unreachable_chain);
    progress.end();
    looked
}

/// Whether the chain shows what the store says became of it, and that it does what was asked.
fn judge_attempt(
    rail: &SolanaRail,
    attempt: &Attempt,
    seen: &Look,
    facts: &HashMap<TransferId, Fact>,
    counts: &mut Counts,
    differences: &mut Vec<Difference>,
) {
    let hash = &attempt.hash;
    let mut differ = |kind, message: String| {
        let transfer = attempt.members.first().copied();
        differences.push(Difference { kind, message, transfer, tx_hash: Some(hash.clone()) });
    };
    match (&attempt.fate, seen) {
        (Some(Fate::Landed(stored)), Look::Landed(shown)) => {
            counts.landed += 1;
            if stored.block_height != shown.block_height {
                differ("other_block", format!("{hash} is in slot {}", shown.block_height));
            }
        }
        (Some(Fate::Landed(_)), _) => {
            counts.landed += 1;
            differ("not_landed", format!("{hash} is stored as landed; the chain does not show it"));
        }
        (Some(Fate::Sunk(_)), Look::Landed(_)) => {
            counts.sunk += 1;
            differ("landed", format!("{hash} is stored as sunk and is on the chain"));
        }
        (Some(Fate::Sunk(_)), _) => counts.sunk += 1,
        (None, _) => counts.open += 1,
    }
    let asked = attempt.members.first().and_then(|id| facts.get(id));
    if let Some(asked) = asked
        && !rail.carries(&asked.withdraw, &attempt.bytes)
    {
        differ("other_content", format!("{hash} does something else than {} asked for", asked.key));
    }
}

/// Whether every withdraw was paid as its state says.
async fn judge_withdraws(
    rail: &SolanaRail,
    facts: &HashMap<TransferId, Fact>,
    paid: &HashMap<TransferId, Vec<String>>,
    counts: &mut Counts,
    differences: &mut Vec<Difference>,
) -> Result<()> {
    for (id, fact) in facts {
        let hashes = paid.get(id).map(Vec::as_slice).unwrap_or_default();
        let (kind, message) = match (hashes.len(), fact.state) {
            (0, state) if state.is_completed() => {
                // Somebody else's transaction may have done the very same.
                let by = fact.tx_hash.as_deref().unwrap_or_default();
                if rail.is_paid_by(&fact.withdraw, by).await.map_err(unreachable_chain)? {
                    continue;
                }
                counts.losses += 1;
                ("lost", format!("{} is completed and was never paid", fact.key))
            }
            (1, state) if state.is_failed() => {
                ("paid_though_failed", format!("{} is failed and was paid", fact.key))
            }
            (2.., _) => {
                counts.duplicates += hashes.len() - 1;
                ("paid_twice", format!("{} was paid {} times", fact.key, hashes.len()))
            }
            _ => continue,
        };
        let tx_hash = hashes.first().cloned();
        differences.push(Difference { kind, message, transfer: Some(*id), tx_hash });
    }
    Ok(())
}

fn print(show: &Show, counts: &Counts, differences: &[Difference]) {
    show.line(&format!(
        "{} ({} completed, {} failed, {} unfinished), {} ({} landed, {} sunk, {} open)",
        counted(counts.transfers, "withdraw"),
        counts.completed,
        counts.failed,
        counts.transfers - counts.completed - counts.failed,
        counted(counts.attempts, "attempt"),
        counts.landed,
        counts.sunk,
        counts.open,
    ));
    let differences: Vec<(&str, &str)> =
        differences.iter().map(|one| (one.kind, one.message.as_str())).collect();
    print_differences(show, &differences, "store and chain");
}

fn report(counts: &Counts, differences: &[Difference]) -> Value {
    let each = differences.iter().map(|one| {
        json!({
            "kind": one.kind, "message": one.message, "transfer": one.transfer,
            "tx_hash": one.tx_hash,
        })
    });
    json!({
        "rail": RailName::Solana.as_str(),
        "ok": differences.is_empty(),
        "transfers": counts.transfers,
        "completed": counts.completed,
        "failed": counts.failed,
        "attempts": counts.attempts,
        "landed": counts.landed,
        "sunk": counts.sunk,
        "open": counts.open,
        "duplicates": counts.duplicates,
        "losses": counts.losses,
        "differences": each.collect::<Vec<Value>>(),
    })
}
