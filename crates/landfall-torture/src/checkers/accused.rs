//! Nobody is called caught that never lied: a node that is behind, away or forgetful is no liar.

use super::{Broken, Evidence};

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    match evidence.accused.first() {
        None => Ok(()),
        Some(who) => Err(Broken::new("only liars are caught", None, who.clone())),
    }
}
