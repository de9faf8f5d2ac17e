//! Invariants 6 and 7: what was acknowledged is there, as it was acknowledged.

use super::{Broken, Evidence};

const RULE: &str = "what was acknowledged stays";

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    if let Some(contradiction) = evidence.promises.contradictions.first() {
        return Err(Broken::new("idempotent answers are stable", None, contradiction.clone()));
    }
    if evidence.promises.store_went_back {
        return Ok(());
    }
    for (key, promise) in &evidence.promises.acknowledged {
        let Some(stored) = evidence.transfers.iter().find(|transfer| &transfer.key == key) else {
            let what = format!("{key} was acknowledged and is not stored");
            return Err(Broken::new(RULE, Some(key), what));
        };
        if stored.payload != promise.payload || stored.id.0 != promise.id {
            let what = format!("{key} is stored as {stored:?}, acknowledged as {promise:?}");
            return Err(Broken::new(RULE, Some(key), what));
        }
    }
    Ok(())
}
