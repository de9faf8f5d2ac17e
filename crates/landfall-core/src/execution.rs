//! The life of a transaction that somebody else builds, as data: an idempotency record.
//!
//! [`next`] alone changes a [`State`]. Pure: no clock, no I/O.
//! **Invariant:** a record is `inflight` from the commit that stores its signed bytes until their
//! fate is final. **Invariant:** no event leaves a final state.
//! Not here: who builds and when (`landfall_lanes::TxManager`), what a transaction does.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::ids::Fingerprint;
use crate::machine::{Event, Stage};

pub const STAGE: Stage = Stage("execution");

/// Where an execution is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing of it was ever sent, or all that was is proven sunk. Whoever has its builder may
    /// drive it.
    Queued,
    /// Its bytes are stored, and may have been sent.
    Inflight,
    /// Landed, final.
    Done,
    /// Proven, at finality, not to have done what it was to do.
    Failed,
}

impl State {
    pub const ALL: [State; 4] = [State::Queued, State::Inflight, State::Done, State::Failed];

    pub fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Inflight => "inflight",
            State::Done => "done",
            State::Failed => "failed",
        }
    }

    pub fn stage(self) -> Option<Stage> {
        match self {
            State::Queued | State::Inflight => Some(STAGE),
            State::Done | State::Failed => None,
        }
    }
}

/// The whole machine. What it does not list is illegal.
pub fn next(state: State, event: Event) -> Option<State> {
    use {Event as E, State as S};
    Some(match (state, event) {
        (S::Queued, E::AttemptStored) => S::Inflight,
        // The answer to a send may be lost: the look decides, whatever the send said.
        (S::Inflight, E::Landed) => S::Done,
        (S::Inflight, E::Sunk) => S::Queued,
        (S::Inflight, E::Refused) => S::Failed,
        _ => return None,
    })
}

/// What was asked for, as far as it is known here: that it is the same as before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// SHA-256 of the caller's payload, in hex.
    pub digest: String,
}

impl Execution {
    /// Of a payload that the caller keeps.
    pub fn of(payload: &[u8]) -> Execution {
        let digest = Sha256::digest(payload);
        Execution { digest: digest.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&[&self.digest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proof_leaves_a_flight_and_nothing_leaves_an_end() {
        for event in Event::ALL {
            let expected = match event {
                Event::Landed => Some(State::Done),
                Event::Sunk => Some(State::Queued),
                Event::Refused => Some(State::Failed),
                _ => None,
            };
            assert_eq!(next(State::Inflight, event), expected, "{event:?}");
            let stored = (event == Event::AttemptStored).then_some(State::Inflight);
            assert_eq!(next(State::Queued, event), stored, "{event:?}");
            assert_eq!([State::Done, State::Failed].map(|end| next(end, event)), [None, None]);
        }
    }

    #[test]
    fn another_payload_has_another_fingerprint() {
        let print = |payload: &[u8]| Execution::of(payload).fingerprint();
        assert_eq!(print(b"create alice"), print(b"create alice"));
        assert_ne!(print(b"create alice"), print(b"create bob"));
    }
}
