//! Idempotency records: what the manager needs of a store beyond the lanes.
//!
//! A record is a transfer of the rail `lanes`, so that its attempt and what becomes of it are
//! stored in one commit like any other's.

use async_trait::async_trait;
use landfall_core::execution::State;
use landfall_core::machine;
use landfall_core::store::{Accepted, LaneStore, Result, Store, StoreError};
use landfall_core::{NewTransfer, RailName, Transfer};

use crate::tx::Executed;

/// Lanes and records in one place. Every store of Landfall is one.
#[async_trait]
pub trait RecordStore: LaneStore {
    /// Stores a record under its key, or answers with the one that has it.
    async fn enter(&self, new: NewTransfer) -> Result<Accepted>;

    async fn record(&self, key: &str) -> Result<Option<Transfer>>;

    /// Forgets records, with their keys, that were final before `before_ms`, at most `limit`; how
    /// many there were. MUST NOT forget one that is not final, however old.
    async fn forget_records(&self, before_ms: u64, limit: usize) -> Result<usize>;
}

#[async_trait]
impl<S: Store + ?Sized> RecordStore for S {
    async fn enter(&self, new: NewTransfer) -> Result<Accepted> {
        let unanswered = || StoreError::Unavailable("a record was not answered".into());
        self.accept(vec![new]).await?.pop().ok_or_else(unanswered)
    }

    async fn record(&self, key: &str) -> Result<Option<Transfer>> {
        self.by_key(RailName::Lanes, "", key).await
    }

    async fn forget_records(&self, before_ms: u64, limit: usize) -> Result<usize> {
        self.forget(RailName::Lanes, before_ms, limit).await
    }
}

/// Where a record is; none if it is no execution's.
pub(crate) fn state_of(record: &Transfer) -> Option<State> {
    match record.state {
        machine::State::Lanes(state) => Some(state),
        _ => None,
    }
}

/// What a record tells whoever asks for it.
pub(crate) fn told_by(record: &Transfer) -> Executed {
    let hash = record.tx_hash.clone();
    match (state_of(record), &record.error) {
        (Some(State::Done), _) => Executed::Done { hash: hash.unwrap_or_default() },
        (Some(State::Failed), error) => {
            let why = error.as_ref().map_or_else(String::new, |fault| fault.message.clone());
            Executed::Failed { hash, why }
        }
        _ => Executed::InFlight { hash },
    }
}
