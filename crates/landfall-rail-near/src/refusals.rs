//! The nodes that refuse one broadcast, until a quorum of them does.
//!
//! What one node refuses is given to the next. A quorum that refuses it for certain proves that it
//! can never land; a quorum that refuses it for whatever reason has at least told the truth about
//! today, so the relay is told what it lacks and sends no more of the kind for a while.
//!
//! **Rule:** what is refused for now is unsure: fewer than a quorum may lie, have kept the bytes,
//! and send them on when the rule has changed.
//! Not here: which refusal is which (`sort`).

use landfall_core::attempt::Shortage;
use landfall_core::guard::{self, Guard};
use landfall_core::rail::{Broadcast, Refusal};
use landfall_core::wound::{self, Wound};

/// One node's refusal.
pub struct Refused {
    pub endpoint: usize,
    pub reason: String,
    pub certain: bool,
}

/// Who refuses, in the order in which they were asked.
#[derive(Default)]
pub struct Refusals(pub Vec<Refused>);

impl Refusals {
    pub fn endpoints(&self) -> Vec<usize> {
        self.0.iter().map(|one| one.endpoint).collect()
    }

    /// One more. What they come to, once a quorum refuses.
    pub fn hear(&mut self, refused: Refused, quorum: usize) -> Option<Broadcast> {
        let reason = refused.reason.clone();
        self.0.push(refused);
        let certain = self.0.iter().filter(|one| one.certain).count();
        if certain >= quorum || certain > 0 && wound::is(Wound::OneNodesRefusal) {
            return Some(Broadcast::Refused(Refusal { reason, relays_fault: true }));
        }
        if self.0.len() < quorum {
            return None;
        }
        guard::met(Guard::RefusedForNow);
        if wound::is(Wound::RulesNeverChange) {
            return Some(Broadcast::Refused(Refusal { reason, relays_fault: true }));
        }
        Some(Broadcast::Unsure { cause: reason, shortage: Some(Shortage::Refused) })
    }

    /// Notes that others do not refuse, or do not say. Why some do, if any.
    pub fn not_shared(&self) -> Option<&str> {
        let first = self.0.first()?;
        guard::met(Guard::RefusalNotShared);
        Some(&first.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: bool = false;
    const CERTAIN: bool = true;

    /// What the nodes come to that refuse one after the other, with a quorum of three.
    fn told(refusing: &[bool]) -> Option<Broadcast> {
        let mut refusals = Refusals::default();
        let mut last = None;
        for (endpoint, certain) in refusing.iter().copied().enumerate() {
            assert_eq!(last, None, "nobody is asked once it is decided");
            last =
                refusals.hear(Refused { endpoint, reason: format!("no {endpoint}"), certain }, 3);
        }
        last
    }

    #[test]
    fn fewer_than_a_quorum_refuse_nothing() {
        assert_eq!(told(&[CERTAIN, CERTAIN]), None);
        assert_eq!(told(&[RULE, RULE]), None);
    }

    #[test]
    fn a_quorum_that_refuses_for_certain_is_believed() {
        let refused = Refusal { reason: "no 2".to_owned(), relays_fault: true };
        assert_eq!(told(&[CERTAIN; 3]), Some(Broadcast::Refused(refused)));
    }

    /// Else a ledger that raises a limit takes from a liar what has been signed anew.
    #[test]
    fn a_rule_that_a_quorum_names_proves_nothing_and_is_told() {
        for refusing in [[RULE; 3], [CERTAIN, CERTAIN, RULE], [RULE, CERTAIN, CERTAIN]] {
            let cause = "no 2".to_owned();
            let unsure = Broadcast::Unsure { cause, shortage: Some(Shortage::Refused) };
            assert_eq!(told(&refusing), Some(unsure), "{refusing:?}");
        }
    }
}
