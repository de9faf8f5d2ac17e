//! What must hold, each check a file of its own, used by torture, tests and enumeration alike.
//!
//! A check reads the store and the ledgers as they are and says what is wrong, or nothing. Checks
//! fail on overpayment as well as on loss. These are common to all rails; what must hold of one
//! alone is with its part.

mod accused;
mod blame;
pub mod epochs;
mod fairness;
mod final_states;
mod halts;
mod lane_order;
mod paid_once;
mod promises;
mod trails;

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::store::{ListFilter, Store};
use landfall_core::{Attempt, AttemptId, Payload, RailName, TrailEntry, Transfer};

use crate::part::Part;

/// The most of anything a world holds.
const ALL: usize = 1_000_000;

/// A broken rule, and the transfer it concerns if one does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub rule: &'static str,
    pub what: String,
    pub key: Option<String>,
}

impl Broken {
    pub fn new(rule: &'static str, key: Option<&str>, what: String) -> Broken {
        Broken { rule, what, key: key.map(str::to_owned) }
    }
}

/// What clients were promised: by key, the parameters that were acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    pub acknowledged: BTreeMap<String, Acknowledged>,
    /// Answers that contradict earlier ones, as the clients saw them.
    pub contradictions: Vec<String>,
    /// What an operator has decided.
    pub decided: BTreeSet<String>,
    /// The store went back in time: what it acknowledged before may be gone with it.
    pub store_went_back: bool,
}

/// One acknowledged transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acknowledged {
    pub id: u64,
    pub payload: Payload,
}

/// One payment on a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// The key of the transfer that it is for, as far as the ledger shows one.
    pub key: Option<String>,
    pub receiver: String,
    pub amount: u128,
    pub hash: String,
    pub block: u64,
    /// Whether its block was ever final.
    pub is_final: bool,
}

/// The store and the ledgers at one moment.
pub struct Evidence {
    pub transfers: Vec<Transfer>,
    pub attempts: Vec<Attempt>,
    /// By rail, of those that pay on a ledger.
    pub paid: BTreeMap<RailName, Vec<Payment>>,
    pub promises: Promises,
    /// Halted lanes, and why they say they are.
    pub halted: Vec<String>,
    /// How often somebody else used one of the relay's keys.
    pub keys_used: u64,
    /// Honest nodes that an instance calls caught lying, with what it says.
    pub accused: Vec<String>,
    /// Transfers that failed, and may not.
    pub wronged: Vec<Transfer>,
}

impl Evidence {
    pub async fn gather(
        store: &dyn Store,
        parts: &[Box<dyn Part>],
        promises: &Promises,
        accused: Vec<String>,
    ) -> Evidence {
        let everything = ListFilter { limit: ALL, ..ListFilter::default() };
        let transfers = store.list(everything).await.unwrap_or_default();
        let (mut attempts, mut paid) = (Vec::new(), BTreeMap::new());
        let mut wronged = Vec::new();
        for part in parts {
            let rail = part.rail();
            attempts.append(&mut attempts_of(store, rail).await);
            paid.extend(part.payments().map(|payments| (rail, payments)));
            let failed = transfers.iter().filter(|one| one.payload.rail() == rail);
            let failed = failed.filter(|one| one.state.is_failed() && !part.may_fail(one));
            wronged.extend(failed.cloned());
        }
        let lanes = store.lanes().await.unwrap_or_default();
        Evidence {
            transfers,
            attempts,
            paid,
            promises: promises.clone(),
            halted: lanes.into_iter().filter_map(|lane| Some(lane.halted?.reason)).collect(),
            keys_used: parts.iter().map(|part| part.keys_used()).sum(),
            accused,
            wronged,
        }
    }

    /// Payments on a rail's ledger for a key.
    pub fn paid_for(&self, rail: RailName, key: &str) -> Vec<&Payment> {
        let paid = self.paid.get(&rail).into_iter().flatten();
        paid.filter(|paid| paid.key.as_deref() == Some(key)).collect()
    }
}

/// All attempts of a rail, decided or open.
async fn attempts_of(store: &dyn Store, rail: RailName) -> Vec<Attempt> {
    let decided = store.attempts_page(rail, AttemptId(0), ALL).await;
    let mut attempts = decided.unwrap_or_default();
    for open in store.open_attempts_of(rail).await.unwrap_or_default() {
        if !attempts.iter().any(|attempt| attempt.id == open.id) {
            attempts.push(open);
        }
    }
    attempts
}

/// What must hold at every step.
pub async fn safe(evidence: &Evidence, parts: &[Box<dyn Part>]) -> Result<(), Broken> {
    paid_once::check(evidence)?;
    final_states::check(evidence)?;
    lane_order::check(evidence)?;
    halts::check(evidence)?;
    accused::check(evidence)?;
    for part in parts {
        part.check(evidence).await?;
    }
    promises::check(evidence)
}

/// What must hold when everything has come to rest.
pub async fn at_rest(
    evidence: &Evidence,
    parts: &[Box<dyn Part>],
    store: &dyn Store,
) -> Result<(), Broken> {
    safe(evidence, parts).await?;
    fairness::check(evidence)?;
    for part in parts {
        part.check_at_rest(evidence).await?;
    }
    for transfer in &evidence.transfers {
        let trail: Vec<TrailEntry> = store.trail(transfer.id).await.unwrap_or_default();
        trails::check(transfer, &trail)?;
        blame::check(&evidence.attempts, transfer, &trail)?;
    }
    Ok(())
}
