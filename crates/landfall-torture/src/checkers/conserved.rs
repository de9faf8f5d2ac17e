//! What left the relay's account is what was paid: nothing created, nothing lost on the way.

use super::{Broken, Evidence};

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let paid = evidence.paid.iter().fold(0u128, |sum, paid| sum + paid.amount);
    let in_all = evidence.relay_began + evidence.relay_gained;
    let out_all = evidence.relay_has + evidence.relay_lost + paid;
    if in_all == out_all {
        return Ok(());
    }
    let what = format!(
        "the relay began with {} and got {}; it has {}, lost {} and paid {paid}",
        evidence.relay_began, evidence.relay_gained, evidence.relay_has, evidence.relay_lost
    );
    Err(Broken::new("funds are conserved", None, what))
}
