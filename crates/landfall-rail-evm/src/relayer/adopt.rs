//! Which of a relayer's transactions is ours, when nobody said under which id it was taken.
//!
//! Ours is what does the same (recipient, value, data), has our mark in the limit of its gas, and
//! is not older than our POST.
//! **Rule:** one that is ours is adopted. None, or more than one, or one that cannot be told is
//! evidence for an operator, who decides.
//! Pure: no clock, no I/O.

use super::handover::Handover;
use super::wire::Told;

/// How far a relayer's clock may be behind ours, in milliseconds. Within it, marks must differ: see
/// [`super::handover::MARKS`].
const SKEW_MS: u64 = 60_000;

/// What a relayer has listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub told: Vec<Told>,
    /// Whether nothing that may be ours was left out.
    pub whole: bool,
}

/// What the search came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This one and no other.
    Ours(Box<Told>),
    /// Not adopted, and why: for the operator.
    Not(String),
}

enum Likeness {
    Same,
    /// Like ours as far as the relayer tells.
    Perhaps,
    Other,
}

/// The oldest that may be ours.
pub fn since_ms(opened_ms: u64) -> u64 {
    opened_ms.saturating_sub(SKEW_MS)
}

/// Searches for what was handed over at this time.
pub fn ours(handover: &Handover, opened_ms: u64, listing: Listing) -> Found {
    let (mut same, mut perhaps) = (Vec::new(), 0);
    let total = listing.told.len();
    for told in listing.told {
        match likeness(handover, opened_ms, &told) {
            Likeness::Same => same.push(told),
            Likeness::Perhaps => perhaps += 1,
            Likeness::Other => {}
        }
    }
    let relayer = &handover.relayer;
    if !listing.whole {
        return Found::Not(format!("{relayer} has not listed all of its transactions"));
    }
    match (same.as_slice(), perhaps) {
        ([_], 0) => match same.pop() {
            Some(only) => Found::Ours(only.into()),
            None => Found::Not("none".to_owned()),
        },
        ([], 0) => {
            Found::Not(format!("none of the {total} transactions that {relayer} lists is ours"))
        }
        (several, perhaps) => {
            let ids: Vec<&str> = several.iter().map(|told| told.id.as_str()).collect();
            Found::Not(format!(
                "{} transactions of {relayer} are like ours ({}), {perhaps} more may be",
                several.len(),
                ids.join(", ")
            ))
        }
    }
}

fn likeness(handover: &Handover, opened_ms: u64, told: &Told) -> Likeness {
    let differs = told.to.is_some_and(|to| to != handover.to)
        || told.value.is_some_and(|value| value != handover.value)
        || told.data.as_ref().is_some_and(|data| *data != handover.data)
        || told.gas_limit.is_some_and(|gas| gas != handover.gas)
        || told.created_ms.is_some_and(|created_ms| created_ms < since_ms(opened_ms));
    let is_told = told.to.is_some()
        && told.value.is_some()
        && (told.data.is_some() || handover.data.is_empty())
        && told.gas_limit.is_some()
        && told.created_ms.is_some();
    match (differs, is_told) {
        (true, _) => Likeness::Other,
        (false, true) => Likeness::Same,
        (false, false) => Likeness::Perhaps,
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Address, Bytes, U256};
    use landfall_core::evm::Speed;

    use super::super::wire::Status;
    use super::*;

    const OPENED_MS: u64 = 1_000_000;

    fn handover() -> Handover {
        Handover {
            relayer: "one".to_owned(),
            to: Address::repeat_byte(1),
            value: U256::from(7),
            data: Bytes::from_static(&[1, 2]),
            gas: 57_351,
            speed: Speed::Fast,
            request: None,
        }
    }

    fn told(id: &str) -> Told {
        let Handover { to, value, data, gas, .. } = handover();
        Told {
            id: id.to_owned(),
            status: Status::GivenUp,
            words: String::new(),
            hash: None,
            from: None,
            nonce: None,
            to: Some(to),
            value: Some(value),
            data: Some(data),
            gas_limit: Some(gas),
            created_ms: Some(OPENED_MS + 5),
        }
    }

    fn search(told: Vec<Told>) -> Found {
        ours(&handover(), OPENED_MS, Listing { told, whole: true })
    }

    fn others() -> Vec<Told> {
        vec![
            Told { to: Some(Address::ZERO), ..told("to") },
            Told { value: Some(U256::ZERO), ..told("value") },
            Told { data: Some(Bytes::new()), ..told("data") },
            Told { gas_limit: Some(57_352), ..told("mark") },
            Told { created_ms: Some(OPENED_MS - SKEW_MS - 1), ..told("older") },
        ]
    }

    #[test]
    fn the_only_one_that_does_the_same_with_our_mark_is_adopted() {
        let all = [others(), vec![told("ours")]].concat();
        assert_eq!(search(all), Found::Ours(told("ours").into()));
        let early = Told { created_ms: Some(OPENED_MS - SKEW_MS), ..told("ours") };
        assert_eq!(search(vec![early.clone()]), Found::Ours(early.into()), "its clock is behind");
    }

    #[test]
    fn what_is_not_there_is_not_adopted() {
        assert!(matches!(search(Vec::new()), Found::Not(_)));
        let Found::Not(why) = search(others()) else { panic!("something was adopted") };
        assert_eq!(why, "none of the 5 transactions that one lists is ours");
    }

    #[test]
    fn one_of_several_is_not_adopted() {
        let Found::Not(why) = search(vec![told("first"), told("second")]) else {
            panic!("one was adopted")
        };
        assert_eq!(why, "2 transactions of one are like ours (first, second), 0 more may be");
    }

    #[test]
    fn what_cannot_be_told_is_not_adopted_and_makes_another_doubtful() {
        let vague = [
            Told { to: None, ..told("to") },
            Told { value: None, ..told("value") },
            Told { data: None, ..told("data") },
            Told { gas_limit: None, ..told("mark") },
            Told { created_ms: None, ..told("when") },
        ];
        for vague in vague {
            assert!(matches!(search(vec![vague.clone()]), Found::Not(_)), "{vague:?}");
            assert!(matches!(search(vec![told("ours"), vague]), Found::Not(_)));
        }
    }

    #[test]
    fn nothing_is_adopted_from_a_part_of_the_book() {
        let part = Listing { told: vec![told("ours")], whole: false };
        assert!(matches!(ours(&handover(), OPENED_MS, part), Found::Not(_)));
    }
}
