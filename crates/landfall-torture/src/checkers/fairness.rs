//! Nobody fails for another's fault: in a tortured world every payout can be paid as asked, but
//! those to receivers whom the contract refuses. (Orders between services may be refused: `books`.)

use landfall_core::Transfer;

use super::{Broken, Evidence};
use crate::near::weather::SPURNED;

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let mut payouts = evidence.transfers.iter().filter(|one| one.payload.near().is_some());
    let spurned = |transfer: &Transfer| {
        SPURNED.iter().any(|(account, _)| transfer.payload.receiver() == *account)
    };
    match payouts.find(|transfer| transfer.state.is_failed() && !spurned(transfer)) {
        None => Ok(()),
        Some(failed) => {
            let what = format!("{} failed: {:?}", failed.key, failed.error);
            Err(Broken::new("nobody fails for another's fault", Some(&failed.key), what))
        }
    }
}
