//! Invariant 5: one total order per lane, epochs that never fall along it, and no transfer in two
//! open attempts (invariant 4).

use std::collections::BTreeMap;

use landfall_core::{Attempt, LaneId, TransferId};

use super::{Broken, Evidence};

const RULE: &str = "one total order per lane";

pub fn check(evidence: &Evidence) -> Result<(), Broken> {
    let mut lanes: BTreeMap<&LaneId, Vec<&Attempt>> = BTreeMap::new();
    for attempt in &evidence.attempts {
        lanes.entry(&attempt.lane).or_default().push(attempt);
    }
    for (lane, mut attempts) in lanes {
        attempts.sort_by_key(|attempt| attempt.nonce);
        for pair in attempts.windows(2) {
            if pair[0].nonce == pair[1].nonce {
                let what = format!("{lane} has two attempts with nonce {}", pair[0].nonce);
                return Err(Broken::new(RULE, None, what));
            }
            if pair[0].epoch > pair[1].epoch {
                let what = format!(
                    "{lane} has nonce {} of epoch {} before nonce {} of epoch {}",
                    pair[0].nonce, pair[0].epoch, pair[1].nonce, pair[1].epoch
                );
                return Err(Broken::new(RULE, None, what));
            }
        }
    }
    let mut carried: BTreeMap<TransferId, &Attempt> = BTreeMap::new();
    for attempt in evidence.attempts.iter().filter(|attempt| attempt.fate.is_none()) {
        for member in &attempt.members {
            if let Some(other) = carried.insert(*member, attempt) {
                let what = format!(
                    "transfer {member} is in two open attempts, {} and {}",
                    other.hash, attempt.hash
                );
                return Err(Broken::new("new bytes only after the old are decided", None, what));
            }
        }
    }
    Ok(())
}
