//! An attempt that landed, and nobody tells what became of its members.
//!
//! Operators are told of it for as long as this process pursues the attempt: until it is decided,
//! by whomever, or the lane is another's.

use std::sync::Arc;

use landfall_core::{Attempt, AttemptId};

use crate::fleet::ActiveLedger;

const KIND: &str = "outcomes_missing";

/// One such attempt, told of until this is dropped.
pub(crate) struct Silence {
    ledger: Arc<ActiveLedger>,
    attempt: AttemptId,
}

impl Silence {
    pub fn about(ledger: &Arc<ActiveLedger>, attempt: &Attempt, message: String) -> Silence {
        ledger.silent.lock().insert(attempt.id, message);
        tell(ledger);
        Silence { ledger: ledger.clone(), attempt: attempt.id }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.ledger.silent.lock().remove(&self.attempt);
        tell(&self.ledger);
    }
}

fn tell(ledger: &ActiveLedger) {
    let silent = ledger.silent.lock();
    match silent.values().next() {
        Some(oldest) => ledger.owner.alert(KIND, oldest.clone()),
        None => ledger.owner.calm(KIND),
    }
}
