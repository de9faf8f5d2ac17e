//! Work for a store that will be killed, and the look at what is left of it.
//!
//! The process that runs [`work`] says every commit that was answered; whoever killed it hands
//! what was said to [`check`], which wants all of it back and nothing half done.
//! Not here: the killing (each backend's `tests/`).

mod check;
mod work;

use std::fmt;
use std::str::FromStr;

use landfall_core::{AttemptId, ClaimKey, Epoch, LaneId, Nonce, TransferId};

use crate::world::{World, claim_key};

pub use check::check;
pub use work::work;

/// The holder of every lane here; a restarted process takes its lanes back at once.
const HOLDER: &str = "crasher";

/// Takes every lane from whoever works here, under the same name.
pub async fn take_lanes(world: &World) {
    for lane in world.store.lanes().await.expect("lanes") {
        world.lease(&lane.id, HOLDER).await;
    }
}

/// What a transfer of this key claims at the door, if anything.
fn claims_of(key: &str) -> Vec<ClaimKey> {
    let has_one = key.ends_with(['1', '3', '5', '7', '9']);
    has_one.then(|| claim_key(&format!("door-{key}"))).into_iter().collect()
}

/// A commit that was answered, as one line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Accepted { id: TransferId, key: String },
    Moved { id: TransferId, version: u64 },
    Kept { id: TransferId },
    Leased { lane: LaneId, epoch: Epoch },
    Opened { attempt: AttemptId, nonce: Nonce, lane: LaneId },
    Varied { attempt: AttemptId, hash: String },
    Settled { attempt: AttemptId, landed: bool },
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::Accepted { id, key } => write!(f, "accepted {id} {key}"),
            Said::Moved { id, version } => write!(f, "moved {id} {version}"),
            Said::Kept { id } => write!(f, "kept {id}"),
            Said::Leased { lane, epoch } => write!(f, "leased {epoch} {lane}"),
            Said::Opened { attempt, nonce, lane } => write!(f, "opened {attempt} {nonce} {lane}"),
            Said::Varied { attempt, hash } => write!(f, "varied {attempt} {hash}"),
            Said::Settled { attempt, landed } => write!(f, "settled {attempt} {landed}"),
        }
    }
}

impl FromStr for Said {
    type Err = String;

    fn from_str(line: &str) -> Result<Said, String> {
        let unknown = || format!("not a line of ours: {line:?}");
        let number = |text: &str| text.parse::<u64>().map_err(|_| unknown());
        let words: Vec<&str> = line.split(' ').collect();
        Ok(match words[..] {
            ["accepted", id, key] => {
                Said::Accepted { id: TransferId(number(id)?), key: key.into() }
            }
            ["moved", id, version] => {
                Said::Moved { id: TransferId(number(id)?), version: number(version)? }
            }
            ["kept", id] => Said::Kept { id: TransferId(number(id)?) },
            ["leased", epoch, lane] => {
                Said::Leased { lane: LaneId::new(lane), epoch: Epoch(number(epoch)?) }
            }
            ["opened", attempt, nonce, lane] => Said::Opened {
                attempt: AttemptId(number(attempt)?),
                nonce: Nonce(number(nonce)?),
                lane: LaneId::new(lane),
            },
            ["varied", attempt, hash] => {
                Said::Varied { attempt: AttemptId(number(attempt)?), hash: hash.into() }
            }
            ["settled", attempt, landed] => {
                Said::Settled { attempt: AttemptId(number(attempt)?), landed: landed == "true" }
            }
            _ => return Err(unknown()),
        })
    }
}
