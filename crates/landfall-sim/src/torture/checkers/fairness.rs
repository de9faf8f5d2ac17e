//! Nobody fails for another's fault: in a tortured world every payout can be paid as asked.

use super::{Broken, Evidence};

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    match evidence.transfers.iter().find(|transfer| transfer.state.is_failed()) {
        None => Ok(()),
        Some(failed) => {
            let what = format!("{} failed: {:?}", failed.key, failed.error);
            Err(Broken::new("nobody fails for another's fault", Some(&failed.key), what))
        }
    }
}
