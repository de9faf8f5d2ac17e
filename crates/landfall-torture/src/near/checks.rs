//! What must hold of payouts on NEAR alone: what left the relay's account is what was paid, and no
//! registration was paid more for than the contract asks, whatever a node says that it asks.

use landfall_core::{Attempt, Purpose};
use landfall_sim_near::ledger::token::STORAGE_DEPOSIT;
use near_primitives::action::Action;
use near_primitives::borsh::BorshDeserialize as _;
use near_primitives::transaction::SignedTransaction;

use super::RELAY_TOKENS;
use super::weather::Weather;
use crate::checkers::{Broken, Payment};

/// Nothing created, nothing lost on the way.
pub fn conserved(paid: &[Payment], weather: &Weather) -> Result<(), Broken> {
    let paid = paid.iter().fold(0u128, |sum, paid| sum + paid.amount);
    let (gained, lost, has) = (weather.gained, weather.lost, weather.tokens());
    if RELAY_TOKENS + gained == has + lost + paid {
        return Ok(());
    }
    let what = format!(
        "the relay began with {RELAY_TOKENS} and got {gained}; it has {has}, lost {lost} and paid \
         {paid}"
    );
    Err(Broken::new("funds are conserved", None, what))
}

pub fn deposits(attempts: &[Attempt]) -> Result<(), Broken> {
    for attempt in attempts.iter().filter(|one| one.purpose == Purpose::Prepare) {
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
