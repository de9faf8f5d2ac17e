//! Invariant 5: whoever holds an old epoch stores nothing. Checked at the moment of storing.

use landfall_core::store::Opened;
use landfall_core::{Epoch, Lane, LaneId};

use super::Broken;

/// `lanes` are as they were right before the attempt was opened.
pub fn check(lanes: &[Lane], lane: &LaneId, epoch: Epoch, opened: &Opened) -> Result<(), Broken> {
    let current = lanes.iter().find(|one| one.id == *lane).map(|one| one.epoch);
    match (opened, current) {
        (Opened::Stored(_), Some(current)) if current != epoch => {
            let what = format!("{lane} is in {current:?}, and {epoch:?} stored an attempt");
            Err(Broken::new("epochs fence", None, what))
        }
        _ => Ok(()),
    }
}
