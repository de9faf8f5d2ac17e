//! Invariant 2: COMPLETED is on the ledger and final, FAILED is not and never will be. By the
//! ledger's own books: no node is asked.

use super::{Broken, Evidence};

const RULE: &str = "final states are true on the ledger";

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let payouts = evidence.transfers.iter().filter(|one| one.payload.near().is_some());
    for transfer in payouts.filter(|transfer| transfer.state.is_final()) {
        let key = Some(transfer.key.as_str());
        let paid = evidence.paid_for(&transfer.key);
        if let Some(early) = paid.iter().find(|paid| paid.block > evidence.final_height) {
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
