//! The names of keys. Scripts make theirs from the same prefix (`scripts/common.lua`).
//!
//! **Invariant:** every key of an environment has the same hash tag, `{landfall:main}`, so that a
//! cluster keeps them on one node and one script may touch them all.
//!
//! | key (after the tag) | type | holds |
//! |---|---|---|
//! | `store` | hash | identity, schema (`indexed` while it changes), the last ids given |
//! | `transfer:ID` | hash | what changes with every move |
//! | `transfer:ID:events` | list | what was asked, then the events of each move |
//! | `keys:RAIL` | hash | idempotency keys, `LENGTH:TENANT:KEY` to the transfer's id |
//! | `state:RAIL:STATE` | sorted set | transfers in the state, by id (not of completed ones) |
//! | `completed` | hash | how many transfers have completed, by state |
//! | `due:RAIL:STATE` | sorted set | transfers that the sweeper may pick up, by due time |
//! | `receiver:NAME` | sorted set | transfers to the receiver, by id |
//! | `attempt:ID`, `attempt:ID:sightings` | hash, list | an attempt and who has seen it |
//! | `attempt:ID:variants` | list | of each variant its count, what it is, and its bytes |
//! | `hashes:RAIL` | hash | the hashes of attempts and variants to the attempt's id |
//! | `lanes`, `lane:LANE` | sorted set, hash | the names of lanes, and each of them |
//! | `lane-attempts:LANE`, `lane-open:LANE` | sorted sets | `NONCE:ID`, the nonce padded |
//! | `open:RAIL`, `decided:RAIL` | sorted sets | attempts, by time of opening and by id |
//! | `claims:SPACE` | hash | a claim's key to its owner, or to `kept` |
//! | `kept:SPACE` | hash | a kept claim's key to whoever held it |
//! | `waiters:LENGTH:SPACE:KEY` | set | transfers that wait for the claim to end |

use landfall_core::{AttemptId, LaneId, Nonce, RailName, State, TransferId};

use crate::codes::code;

/// Digits of the largest nonce there is.
const NONCE_DIGITS: usize = 20;

/// The keys of one environment.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// With its braces and the colon after them.
    tag: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str, environment: &str) -> Keys {
        Keys { tag: format!("{{{prefix}:{environment}}}:") }
    }

    fn named(&self, name: std::fmt::Arguments<'_>) -> String {
        format!("{}{name}", self.tag)
    }

    pub(crate) fn store(&self) -> String {
        self.named(format_args!("store"))
    }

    pub(crate) fn transfer(&self, id: TransferId) -> String {
        self.named(format_args!("transfer:{id}"))
    }

    pub(crate) fn events(&self, id: TransferId) -> String {
        self.named(format_args!("transfer:{id}:events"))
    }

    pub(crate) fn keys(&self, rail: RailName) -> String {
        self.named(format_args!("keys:{rail}"))
    }

    pub(crate) fn state(&self, state: State) -> String {
        self.named(format_args!("state:{}", code(state)))
    }

    pub(crate) fn completed(&self) -> String {
        self.named(format_args!("completed"))
    }

    pub(crate) fn receiver(&self, name: &str) -> String {
        self.named(format_args!("receiver:{name}"))
    }

    pub(crate) fn attempt(&self, id: AttemptId) -> String {
        self.named(format_args!("attempt:{id}"))
    }

    pub(crate) fn sightings(&self, id: AttemptId) -> String {
        self.named(format_args!("attempt:{id}:sightings"))
    }

    pub(crate) fn variants(&self, id: AttemptId) -> String {
        self.named(format_args!("attempt:{id}:variants"))
    }

    pub(crate) fn hashes(&self, rail: RailName) -> String {
        self.named(format_args!("hashes:{rail}"))
    }

    pub(crate) fn lanes(&self) -> String {
        self.named(format_args!("lanes"))
    }

    pub(crate) fn lane(&self, id: &LaneId) -> String {
        self.named(format_args!("lane:{id}"))
    }

    pub(crate) fn lane_attempts(&self, id: &LaneId) -> String {
        self.named(format_args!("lane-attempts:{id}"))
    }

    pub(crate) fn lane_open(&self, id: &LaneId) -> String {
        self.named(format_args!("lane-open:{id}"))
    }

    pub(crate) fn open(&self, rail: RailName) -> String {
        self.named(format_args!("open:{rail}"))
    }

    pub(crate) fn decided(&self, rail: RailName) -> String {
        self.named(format_args!("decided:{rail}"))
    }

    pub(crate) fn claims(&self, space: &str) -> String {
        self.named(format_args!("claims:{space}"))
    }
}

/// An idempotency key in its tenant's scope; the length keeps `ab` + `c` from being `a` + `bc`.
pub(crate) fn scoped(tenant: &str, key: &str) -> String {
    format!("{}:{tenant}:{key}", tenant.len())
}

/// A nonce as text that sorts as the number does.
pub(crate) fn padded(nonce: Nonce) -> String {
    format!("{:0width$}", nonce.0, width = NONCE_DIGITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_the_environments_hash_tag() {
        let keys = Keys::new("landfall", "main");
        assert_eq!(keys.store(), "{landfall:main}:store");
        assert_eq!(keys.events(TransferId(7)), "{landfall:main}:transfer:7:events");
    }

    #[test]
    fn padded_nonces_sort_as_their_numbers_do() {
        let (small, large) = (padded(Nonce(9)), padded(Nonce(u64::MAX)));
        assert!(small < padded(Nonce(10)) && padded(Nonce(1 << 53)) < padded(Nonce((1 << 53) + 1)));
        assert_eq!(small.len(), large.len());
    }
}
