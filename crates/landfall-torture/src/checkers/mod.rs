//! What must hold, each check a file of its own, used by torture, tests and enumeration alike.
//!
//! A check reads the store and the ledger as they are and says what is wrong, or nothing. Checks
//! fail on overpayment as well as on loss.

mod accused;
mod blame;
mod books;
mod conserved;
mod deposits;
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
use landfall_ledger::{Entry, Key, ReqId};
use parking_lot::Mutex;

use crate::internal::services::Books;
use landfall_sim_near::ledger::{self, Ledger};

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

/// The store and the ledger at one moment.
pub struct Evidence {
    pub transfers: Vec<Transfer>,
    pub attempts: Vec<Attempt>,
    pub paid: Vec<ledger::Transfer>,
    /// The highest block that was ever final.
    pub final_height: u64,
    /// Of the services, in their order.
    pub books: Vec<Books>,
    pub promises: Promises,
    /// Tokens the relay had, got and lost by decree, and has now.
    pub relay_began: u128,
    pub relay_gained: u128,
    pub relay_lost: u128,
    pub relay_has: u128,
    /// Halted lanes, and why they say they are.
    pub halted: Vec<String>,
    /// How often somebody else used one of the relay's keys.
    pub keys_used: u64,
    /// Honest nodes that an instance calls caught lying, with what it says.
    pub accused: Vec<String>,
}

impl Evidence {
    pub async fn gather(
        store: &dyn Store,
        ledger: &Mutex<Ledger>,
        books: Vec<Books>,
        promises: &Promises,
        flows: (u128, u128, u128, u128),
        keys_used: u64,
    ) -> Evidence {
        let everything = ListFilter { limit: ALL, ..ListFilter::default() };
        let transfers = store.list(everything).await.unwrap_or_default();
        let decided = store.attempts_page(RailName::Near, AttemptId(0), ALL).await;
        let mut attempts = decided.unwrap_or_default();
        for open in store.open_attempts_of(RailName::Near).await.unwrap_or_default() {
            if !attempts.iter().any(|attempt| attempt.id == open.id) {
                attempts.push(open);
            }
        }
        let lanes = store.lanes().await.unwrap_or_default();
        let (paid, final_height) = {
            let ledger = ledger.lock();
            (ledger.transfers().to_vec(), ledger.final_height())
        };
        Evidence {
            transfers,
            attempts,
            paid,
            final_height,
            books,
            promises: promises.clone(),
            relay_began: flows.0,
            relay_gained: flows.1,
            relay_lost: flows.2,
            relay_has: flows.3,
            halted: lanes.into_iter().filter_map(|lane| Some(lane.halted?.reason)).collect(),
            keys_used,
            accused: Vec::new(),
        }
    }

    /// What the services have on record for a key, each with the service's name.
    pub fn entries_of(&self, key: &str) -> Vec<(&'static str, &Entry)> {
        let Ok(req_id) = key.parse::<ReqId>() else { return Vec::new() };
        let key = Key::Request(req_id);
        let all =
            self.books.iter().flat_map(|book| book.entries.iter().map(|one| (book.name, one)));
        all.filter(|(_, entry)| entry.key == key).collect()
    }

    /// Payments on the ledger for a key: worlds put the key into the memo.
    pub fn paid_for(&self, key: &str) -> Vec<&ledger::Transfer> {
        self.paid.iter().filter(|paid| paid.memo.as_deref() == Some(key)).collect()
    }
}

/// What must hold at every step.
pub fn safe(evidence: &Evidence) -> Result<(), Broken> {
    paid_once::check(evidence)?;
    final_states::check(evidence)?;
    lane_order::check(evidence)?;
    halts::check(evidence)?;
    accused::check(evidence)?;
    books::check(evidence)?;
    promises::check(evidence)
}

/// What must hold when everything has come to rest.
pub async fn at_rest(evidence: &Evidence, store: &dyn Store) -> Result<(), Broken> {
    safe(evidence)?;
    conserved::check(evidence)?;
    deposits::check(evidence)?;
    fairness::check(evidence)?;
    books::at_rest(evidence)?;
    for transfer in &evidence.transfers {
        let trail: Vec<TrailEntry> = store.trail(transfer.id).await.unwrap_or_default();
        trails::check(transfer, &trail)?;
        blame::check(&evidence.attempts, transfer, &trail)?;
    }
    Ok(())
}
