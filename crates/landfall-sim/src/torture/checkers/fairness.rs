//! Nobody fails for another's fault: in a tortured world every payout can be paid as asked. (Orders
//! between services may be refused: `books`.)

use super::{Broken, Evidence};

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let mut payouts = evidence.transfers.iter().filter(|one| one.payload.near().is_some());
    match payouts.find(|transfer| transfer.state.is_failed()) {
        None => Ok(()),
        Some(failed) => {
            let what = format!("{} failed: {:?}", failed.key, failed.error);
            Err(Broken::new("nobody fails for another's fault", Some(&failed.key), what))
        }
    }
}
