//! What a quorum of nodes says.
//!
//! A fact is what a quorum of distinct endpoints says word for word of the same block; fewer than a
//! quorum may say anything whatever and decide nothing. Most facts change from block to block, and
//! nodes are not all at the same one, so [`Peers::agreed`] asks each at its own final block first,
//! and where they differ all of them at one that a quorum has reached.
//!
//! **Rule:** who contradicts a quorum about the same final block is caught: it is asked last and
//! shown. Lagging, forgetting and silence are no contradictions.
//! Not here: the questions, and what becomes of transactions (the rails).

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use landfall_core::guard::{self, Guard};
use landfall_core::ledger::RailError;

use crate::peers::{Peers, unavailable};

/// Times an endpoint is asked before it counts as silent in a question to a quorum.
const QUORUM_TRIES: usize = 3;

/// How long the others may still speak once a quorum has answered, in milliseconds: a node that is
/// well answers within this, and one that is not must not hold up a start.
const QUORUM_GRACE_MS: u64 = 100;

/// A final block that is so many blocks beyond what a quorum has reached is an invention: ten
/// minutes' worth, which nodes that merely lag are not behind together.
const FAR_AHEAD_BLOCKS: u64 = 1_000;

/// A longer answer is cut where it is shown.
const SHOWN_CHARACTERS: usize = 300;

/// At which block a question to a quorum is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The newest that the endpoint calls final.
    Final,
    /// The block of the endpoint's own chain.
    Height(u64),
}

/// What one endpoint says of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtBlock<T> {
    pub height: u64,
    pub value: T,
}

/// What one endpoint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said<T> {
    pub endpoint: usize,
    pub fact: T,
}

/// The fact that a quorum shares, if any does.
pub fn shared<T: PartialEq>(said: &[Said<T>], quorum: usize) -> Option<&T> {
    let agreeing = |fact: &T| said.iter().filter(|one| one.fact == *fact).count();
    said.iter().map(|one| &one.fact).find(|fact| agreeing(fact) >= quorum)
}

/// The highest number that a quorum reaches: the quorum-th highest.
pub fn reached(numbers: impl IntoIterator<Item = u64>, quorum: usize) -> Option<u64> {
    let mut numbers: Vec<u64> = numbers.into_iter().collect();
    numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
    numbers.get(quorum.saturating_sub(1)).copied()
}

impl Peers {
    /// The same question to all endpoints at once, strangers introduced on the way. Returns when
    /// everybody has answered, or a quorum has and the rest was given a moment.
    pub async fn ask_quorum<T, F>(&self, ask: impl Fn(usize) -> F) -> Vec<Said<T>>
    where
        F: Future<Output = Result<T, RailError>>,
    {
        let everybody = 0..self.endpoints.count();
        self.ask_among(everybody, ask).await
    }

    async fn ask_among<T, F>(
        &self,
        endpoints: impl IntoIterator<Item = usize>,
        ask: impl Fn(usize) -> F,
    ) -> Vec<Said<T>>
    where
        F: Future<Output = Result<T, RailError>>,
    {
        for _ in 0..QUORUM_TRIES {
            self.introduce_quorum().await;
        }
        let ask = &ask;
        let one = |endpoint: usize| async move {
            for _ in 0..QUORUM_TRIES {
                if !self.is_introduced(endpoint) && self.introduce_one(endpoint).await.is_err() {
                    continue;
                }
                if let Ok(fact) = ask(endpoint).await {
                    return Some(Said { endpoint, fact });
                }
            }
            None
        };
        let mut asked: FuturesUnordered<_> = endpoints.into_iter().map(one).collect();
        let mut said = Vec::new();
        while said.len() < self.endpoints.quorum() {
            match asked.next().await {
                Some(answer) => said.extend(answer),
                None => return said,
            }
        }
        let rest = async {
            while let Some(answer) = asked.next().await {
                said.extend(answer);
            }
        };
        tokio::select! {
            biased;
            _ = rest => {}
            _ = self.clock.sleep(Duration::from_millis(QUORUM_GRACE_MS)) => {}
        }
        said
    }

    /// Something that does not change, as a quorum has it.
    pub async fn constant<T, F>(&self, what: &str, ask: impl Fn(usize) -> F) -> Result<T, RailError>
    where
        T: PartialEq + Clone + Debug,
        F: Future<Output = Result<T, RailError>>,
    {
        let said = self.ask_quorum(ask).await;
        let quorum = self.endpoints.quorum();
        let fact = shared(&said, quorum).ok_or_else(|| disagreement(what, &said, quorum))?;
        self.catch_those_who_differ(what, &said, fact);
        Ok(fact.clone())
    }

    /// Something that changes from block to block, as a quorum has it at one final block.
    pub async fn agreed<T, F>(
        &self,
        what: &str,
        ask: impl Fn(usize, Moment) -> F,
    ) -> Result<AtBlock<T>, RailError>
    where
        T: PartialEq + Clone + Debug,
        F: Future<Output = Result<AtBlock<T>, RailError>>,
    {
        let quorum = self.endpoints.quorum();
        let newest = self.ask_quorum(|endpoint| ask(endpoint, Moment::Final)).await;
        let heights = || newest.iter().map(|one| one.fact.height);
        let Some(height) = reached(heights(), quorum) else {
            return Err(unavailable(format!("{} of {quorum} nodes answer", newest.len())));
        };
        self.catch_who_is_far_ahead(&newest, height);
        if newest.iter().all(|one| one.fact.value == newest[0].fact.value) {
            return Ok(AtBlock { height, value: newest[0].fact.value.clone() });
        }
        guard::met(Guard::FactNotShared);
        // Blocks that somebody has named as final, from the newest that a quorum says to have.
        let mut common: Vec<u64> = heights().filter(|one| *one <= height).collect();
        common.sort_unstable();
        common.dedup();
        for height in common.into_iter().rev() {
            let past = newest.iter().filter(|one| one.fact.height >= height);
            let asked = past.map(|one| one.endpoint);
            let said =
                self.ask_among(asked, |endpoint| ask(endpoint, Moment::Height(height))).await;
            let said = said.into_iter();
            let said: Vec<Said<T>> =
                said.map(|one| Said { endpoint: one.endpoint, fact: one.fact.value }).collect();
            if let Some(value) = shared(&said, quorum) {
                self.catch_those_who_differ(&format!("{what} at block {height}"), &said, value);
                return Ok(AtBlock { height, value: value.clone() });
            }
        }
        Err(disagreement(what, &newest, quorum))
    }

    fn catch_those_who_differ<T>(&self, what: &str, said: &[Said<T>], fact: &T)
    where
        T: PartialEq + Debug,
    {
        for other in said.iter().filter(|one| one.fact != *fact) {
            let (said, says) = apart(&other.fact, fact);
            self.endpoints.catch(
                other.endpoint,
                format!("{what} is {said}"),
                format!("{what} is {says}"),
            );
        }
    }

    fn catch_who_is_far_ahead<T>(&self, said: &[Said<AtBlock<T>>], reached: u64) {
        let heights: Vec<u64> = said.iter().map(|one| one.fact.height).collect();
        for ahead in far_ahead(&heights, reached, self.endpoints.quorum()) {
            let newest = |height: u64| format!("the newest final block is {height}");
            self.endpoints.catch(said[ahead].endpoint, newest(heights[ahead]), newest(reached));
        }
    }
}

/// Which of these heights are too far above what was reached to be true. None, unless a quorum is
/// no higher: one liar far behind makes everybody else seem far ahead.
fn far_ahead(heights: &[u64], reached: u64, quorum: usize) -> Vec<usize> {
    if heights.iter().filter(|height| **height <= reached).count() < quorum {
        return Vec::new();
    }
    let limit = reached.saturating_add(FAR_AHEAD_BLOCKS);
    (0..heights.len()).filter(|one| heights[*one] > limit).collect()
}

fn disagreement<T>(what: &str, said: &[Said<T>], quorum: usize) -> RailError {
    unavailable(format!("no {quorum} nodes agree yet about {what} ({} answered)", said.len()))
}

/// Two answers from where they begin to differ, short enough to be read.
fn apart<T: Debug>(one: &T, other: &T) -> (String, String) {
    let (one, other) = (format!("{one:?}"), format!("{other:?}"));
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let from = if one.chars().count() > SHOWN_CHARACTERS { same.saturating_sub(80) } else { 0 };
    let cut = |text: String| text.chars().skip(from).take(SHOWN_CHARACTERS).collect();
    (cut(one), cut(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(facts: &[u64]) -> Vec<Said<u64>> {
        facts.iter().enumerate().map(|(endpoint, fact)| Said { endpoint, fact: *fact }).collect()
    }

    #[test]
    fn a_fact_is_what_a_quorum_says_word_for_word() {
        assert_eq!(shared(&said(&[4, 4, 9]), 2), Some(&4));
        assert_eq!(shared(&said(&[9, 4, 4]), 2), Some(&4));
        assert_eq!(shared(&said(&[4, 5, 9]), 2), None);
        assert_eq!(shared(&said(&[4]), 2), None);
        assert_eq!(shared(&said(&[4]), 1), Some(&4));
    }

    #[test]
    fn one_number_however_high_raises_nothing() {
        assert_eq!(reached([10, 10_000_000, 11], 2), Some(11));
        assert_eq!(reached([10, 11], 2), Some(10));
        assert_eq!(reached([10], 2), None);
    }

    #[test]
    fn who_is_far_ahead_of_a_quorum_is_caught_and_who_is_ahead_of_one_liar_is_not() {
        assert_eq!(far_ahead(&[10, 10_000_000, 11], 11, 2), [1]);
        assert_eq!(far_ahead(&[10_000_000, 11], 11, 2), [0; 0]);
        assert_eq!(far_ahead(&[10, 12, 11], 11, 2), [0; 0]);
    }

    #[test]
    fn a_long_answer_is_shown_where_it_differs() {
        let (mut one, other) = (vec![7; 500], vec![7; 500]);
        one[300] = 8;
        let (one, other) = apart(&one, &other);
        assert!(one.contains('8') && one.len() <= SHOWN_CHARACTERS && !other.contains('8'));
    }
}
