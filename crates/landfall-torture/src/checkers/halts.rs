//! A lane halts only if somebody else used a key or the store has forgotten: all else comes to its
//! end without anybody's help.

use super::{Broken, Evidence};

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    if evidence.keys_used > 0 || evidence.promises.store_went_back {
        return Ok(());
    }
    match evidence.halted.first() {
        None => Ok(()),
        Some(why) => Err(Broken::new("lanes halt only with a cause", None, why.clone())),
    }
}
