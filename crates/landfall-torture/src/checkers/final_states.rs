//! Invariant 2: COMPLETED is on the ledger and final, FAILED is not and never will be. By the
//! ledgers' own books: no node is asked.

use landfall_core::Transfer;

use super::{Broken, Evidence};

const RULE: &str = "final states are true on the ledger";

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let on_ledgers = |one: &&Transfer| evidence.paid.contains_key(&one.payload.rail());
    let transfers = evidence.transfers.iter().filter(on_ledgers);
    for transfer in transfers.filter(|transfer| transfer.state.is_final()) {
        let key = Some(transfer.key.as_str());
        let paid = evidence.paid_for(transfer.payload.rail(), &transfer.key);
        if let Some(early) = paid.iter().find(|paid| !paid.is_final) {
            let what = format!(
                "{} is {} by block {}, which is not final",
                transfer.key, transfer.state, early.block
            );
            return Err(Broken::new(RULE, key, what));
        }
        let paid = paid.len();
        let expected = usize::from(transfer.state.is_completed());
        if paid != expected {
            let what = format!("{} is {} and was paid {paid} times", transfer.key, transfer.state);
            return Err(Broken::new(RULE, key, what));
        }
        if transfer.attempt.is_some() {
            let what = format!("{} is {} and carried by an attempt", transfer.key, transfer.state);
            return Err(Broken::new(RULE, key, what));
        }
    }
    Ok(())
}
