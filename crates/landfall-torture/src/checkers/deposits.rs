//! No registration is paid more for than the contract asks, whatever a node says that it asks.

use landfall_core::Purpose;
use near_primitives::action::Action;
use near_primitives::borsh::BorshDeserialize as _;
use near_primitives::transaction::SignedTransaction;

use super::{Broken, Evidence};
use landfall_sim_near::ledger::token::STORAGE_DEPOSIT;

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let prepare = evidence.attempts.iter().filter(|one| one.purpose == Purpose::Prepare);
    for attempt in prepare {
        let Ok(signed) = SignedTransaction::try_from_slice(&attempt.bytes) else { continue };
        let deposits = signed.transaction.actions().iter().filter_map(|action| match action {
            Action::FunctionCall(call) => Some(call.deposit.as_yoctonear()),
            _ => None,
        });
        if let Some(most) = deposits.max().filter(|most| *most > STORAGE_DEPOSIT) {
            let what = format!("{} attaches {most} yoctoNEAR to a registration", attempt.hash);
            return Err(Broken::new("no more is attached than is asked for", None, what));
        }
    }
    Ok(())
}
