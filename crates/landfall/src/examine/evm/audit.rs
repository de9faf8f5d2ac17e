//! `landfall audit evm`: the store against the chains.
//!
//! Every success landed once with that content, every failure never, and nothing is from our
//! signers that no attempt explains. May run beside a working relay: nonces are read before the
//! store, and attempts after transfers, so that whatever finished a transfer is among them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use landfall_core::attempt::{CertificateKind, Outcome};
use landfall_core::evm::Call;
use landfall_core::ledger::{Ledger as _, Look, RailError};
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_core::{
    Attempt, AttemptId, Fate, LaneId, Nonce, Purpose, RailName, State, TransferId,
};
use landfall_rail_evm::EvmRail;
use serde_json::{Value, json};

use crate::audit::progress::Progress;
use crate::audit::{Audited, PAGE, each_transfer, print_differences};
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::show::{Show, counted};
use crate::wire;

/// Attempts looked up at once.
const IN_FLIGHT: usize = 8;

/// Times that the chain is asked the same before it counts as unreachable: an answer that is lost
/// is no difference.
const TRIES: usize = 5;

/// A transfer, as far as it is compared.
struct TransferFact {
    key: String,
    state: State,
    call: Call,
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
    success: usize,
    failed: usize,
    attempts: usize,
    landed: usize,
    sunk: usize,
    open: usize,
    duplicates: usize,
    losses: usize,
}

pub async fn audit(config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
    let (mut counts, mut differences) = (Counts::default(), Vec::new());
    for chain in wire::chains(config) {
        let id = chain.id(config, &wire::clock()).await?;
        let rail = chain.executor(config, id, wire::clock())?;
        let native = chain.rail(config, id, wire::clock())?;
        audit_chain((&*rail, &native), id, store, &mut counts, &mut differences).await?;
    }
    if !show.json {
        print(show, &counts, &differences);
    }
    let report = report(&counts, &differences);
    Ok(Audited { rail: RailName::Evm, report, differences: differences.len(), unproven: None })
}

async fn audit_chain(
    (rail, native): (&dyn Rail, &EvmRail),
    chain_id: u64,
    store: &Arc<dyn Store>,
    counts: &mut Counts,
    differences: &mut Vec<Difference>,
) -> Result<()> {
    let lanes = store.lanes().await?;
    let mut used: BTreeMap<LaneId, (Nonce, Nonce)> = BTreeMap::new();
    for lane in lanes.into_iter().filter(|lane| lane.rail == RailName::Evm && rail.owns(&lane.id)) {
        let nonce = patiently(|| rail.nonce(&lane.id)).await?;
        if let (Some(base), Some(nonce)) = (lane.base_nonce, nonce) {
            used.insert(lane.id, (base, nonce.nonce));
        }
    }
    let mut transfers: HashMap<TransferId, TransferFact> = HashMap::new();
    each_transfer(store, RailName::Evm, |transfer| {
        let Some(call) = transfer.payload.evm().filter(|call| call.chain_id == chain_id) else {
            return;
        };
        let (key, state) = (transfer.key.clone(), transfer.state);
        transfers.insert(transfer.id, TransferFact { key, state, call: call.clone() });
    })
    .await?;
    let attempts = read_attempts(store, rail).await?;
    counts.transfers += transfers.len();
    counts.success += transfers.values().filter(|one| one.state.is_completed()).count();
    counts.failed += transfers.values().filter(|one| one.state.is_failed()).count();
    counts.attempts += attempts.len();
    let looked = look(rail, attempts).await?;
    let mut paid: HashMap<TransferId, Vec<String>> = HashMap::new();
    for (attempt, seen) in &looked {
        judge_attempt(native, attempt, seen, &transfers, counts, differences);
        if let Look::Landed(landing) = seen {
            let members = attempt.members.iter().zip(&landing.outcomes);
            for (member, _) in members.filter(|(_, outcome)| **outcome == Outcome::Done) {
                paid.entry(*member).or_default().push(landing.hash_of(attempt).to_owned());
            }
        }
    }
    judge_transfers(&transfers, &paid, counts, differences);
    judge_nonces(&used, &looked, differences);
    Ok(())
}

/// The answer to a question that is asked again where too few nodes answer.
async fn patiently<T, F>(ask: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = std::result::Result<T, RailError>>,
{
    for _ in 1..TRIES {
        if let Ok(answer) = ask().await {
            return Ok(answer);
        }
    }
    ask().await.map_err(unreachable_chain)
}

fn unreachable_chain(error: RailError) -> Failure {
    Failure::Unable(format!("{error}; try again, or see `landfall check`"))
}

/// Open ones first: one that is decided in between is then read again among the decided.
async fn read_attempts(
    store: &Arc<dyn Store>,
    rail: &dyn Rail,
) -> Result<BTreeMap<AttemptId, Attempt>> {
    let mut attempts = BTreeMap::new();
    let mut keep = |page: Vec<Attempt>| {
        let ours = page.into_iter().filter(|attempt| rail.owns(&attempt.lane));
        attempts.extend(ours.map(|attempt| (attempt.id, attempt)));
    };
    keep(store.open_attempts_of(RailName::Evm).await?);
    let mut after = AttemptId(0);
    loop {
        let page = store.attempts_page(RailName::Evm, after, PAGE).await?;
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
    rail: &dyn Rail,
    attempts: BTreeMap<AttemptId, Attempt>,
) -> Result<Vec<(Attempt, Look)>> {
    let progress = Progress::new("attempts", 0, attempts.len() as u64);
    let looks = stream::iter(attempts.into_values().enumerate()).map(|(index, attempt)| {
        let progress = &progress;
        async move {
            let seen = patiently(|| rail.look(&attempt, true)).await;
            progress.at(index as u64);
            seen.map(|seen| (attempt, seen))
        }
    });
    let looked = looks.buffered(IN_FLIGHT).try_collect().await;
    progress.end();
    looked
}

/// Whether the chain shows what the store says became of it, and that it does what was asked.
fn judge_attempt(
    native: &EvmRail,
    attempt: &Attempt,
    seen: &Look,
    transfers: &HashMap<TransferId, TransferFact>,
    counts: &mut Counts,
    differences: &mut Vec<Difference>,
) {
    let mut differ = |kind, message: String| {
        let transfer = attempt.members.first().copied();
        let tx_hash = Some(attempt.hash.clone());
        differences.push(Difference { kind, message, transfer, tx_hash });
    };
    let hash = &attempt.hash;
    match (&attempt.fate, seen) {
        (Some(Fate::Landed(stored)), Look::Landed(shown)) => {
            counts.landed += 1;
            if stored.block_hash != shown.block_hash
                || stored.outcomes.len() != shown.outcomes.len()
            {
                differ("other_block", format!("{hash} is in block {}", shown.block_height));
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
    // What was handed over is no transaction of ours to read.
    let is_ours = native.owns(&attempt.lane);
    let asked = attempt.members.first().and_then(|id| transfers.get(id)).filter(|_| is_ours);
    if let (Purpose::Pay, Some(asked)) = (attempt.purpose, asked)
        && !native.carries(&asked.call, &attempt.bytes)
    {
        differ("other_content", format!("{hash} does something else than {} asked for", asked.key));
    }
}

fn judge_transfers(
    transfers: &HashMap<TransferId, TransferFact>,
    paid: &HashMap<TransferId, Vec<String>>,
    counts: &mut Counts,
    differences: &mut Vec<Difference>,
) {
    for (id, fact) in transfers {
        let hashes = paid.get(id).map(Vec::as_slice).unwrap_or_default();
        let (kind, message) = match (hashes.len(), fact.state) {
            (0, state) if state.is_completed() => {
                counts.losses += 1;
                ("lost", format!("{} is success and never landed", fact.key))
            }
            (1, state) if state.is_failed() => {
                ("paid_though_failed", format!("{} is failed and landed", fact.key))
            }
            (2.., _) => {
                counts.duplicates += hashes.len() - 1;
                ("paid_twice", format!("{} landed {} times", fact.key, hashes.len()))
            }
            _ => continue,
        };
        let tx_hash = hashes.first().cloned();
        differences.push(Difference { kind, message, transfer: Some(*id), tx_hash });
    }
}

/// Whether every nonce that a signer has used since we have it is explained.
fn judge_nonces(
    used: &BTreeMap<LaneId, (Nonce, Nonce)>,
    looked: &[(Attempt, Look)],
    differences: &mut Vec<Difference>,
) {
    let explains = |attempt: &Attempt| match &attempt.fate {
        Some(Fate::Sunk(certificate)) => {
            matches!(certificate.kind, CertificateKind::Operator | CertificateKind::Cancelled)
        }
        Some(Fate::Landed(_)) | None => true,
    };
    let mut stored: HashMap<(&LaneId, Nonce), bool> = HashMap::new();
    for (attempt, _) in looked {
        stored.insert((&attempt.lane, attempt.nonce), explains(attempt));
    }
    for (lane, (base, last)) in used {
        let unexplained = (base.0 + 1..=last.0).map(Nonce);
        let unexplained = unexplained.filter(|nonce| stored.get(&(lane, *nonce)) != Some(&true));
        for nonce in unexplained {
            let message = format!("{lane} has used its {nonce}th nonce for what nobody asked for");
            let (transfer, tx_hash) = (None, None);
            differences.push(Difference { kind: "unexplained", message, transfer, tx_hash });
        }
    }
}

fn print(show: &Show, counts: &Counts, differences: &[Difference]) {
    show.line(&format!(
        "{} ({} success, {} failed, {} unfinished), {} ({} landed, {} sunk, {} open)",
        counted(counts.transfers, "call"),
        counts.success,
        counts.failed,
        counts.transfers - counts.success - counts.failed,
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
        "rail": RailName::Evm.as_str(),
        "ok": differences.is_empty(),
        "transfers": counts.transfers,
        "completed": counts.success,
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
