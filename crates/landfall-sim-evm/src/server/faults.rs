//! What goes wrong, how often, and the dice.
//!
//! Probabilities are per request and node. The dice are seeded, so a run that takes its requests
//! in the same order fails in the same way.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Faults {
    /// The connection closes before the request took effect.
    pub lose_request: f64,
    /// The request takes effect, then the connection closes without an answer.
    pub lose_answer: f64,
    /// The request, or its answer, is `slow_ms` late; it takes effect even if nobody waits.
    pub slow: f64,
    pub slow_ms: u64,
    /// HTTP 429, nothing happened.
    pub rate_limited: f64,
    /// HTTP 500; half of them after the request took effect.
    pub server_error: f64,
    /// The request takes effect, the answer is HTTP 200 and no JSON.
    pub garbage: f64,
    /// A transaction is taken and dropped in silence.
    pub forget: f64,
    /// Per block and transaction in the node's pool: it is dropped.
    pub drop: f64,
    /// Per block that the node makes: it takes senders in any order, whatever they pay.
    pub reorder: f64,
    /// Per block: one to three of the last blocks fall off, and what was in them is in the pools
    /// again. The greatest of all nodes' counts.
    pub reorg: f64,
    /// The node sees the chain as it was so many blocks ago.
    pub lag_blocks: u64,
    /// Every connection closes at once.
    pub down: bool,
}

/// A change to the faults of one node or of all: what is not given stays.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultsPatch {
    pub node: Option<usize>,
    lose_request: Option<f64>,
    lose_answer: Option<f64>,
    slow: Option<f64>,
    slow_ms: Option<u64>,
    rate_limited: Option<f64>,
    server_error: Option<f64>,
    garbage: Option<f64>,
    forget: Option<f64>,
    drop: Option<f64>,
    reorder: Option<f64>,
    reorg: Option<f64>,
    lag_blocks: Option<u64>,
    down: Option<Switch>,
}

/// `true`, or a number where anything but 0 is on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
enum Switch {
    Bool(bool),
    Number(f64),
}

impl FaultsPatch {
    /// Says which probability is none.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.probabilities() {
            if value.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
                return Err(format!("{name} must be between 0 and 1"));
            }
        }
        Ok(())
    }

    fn probabilities(&self) -> [(&'static str, Option<f64>); 10] {
        [
            ("lose_request", self.lose_request),
            ("lose_answer", self.lose_answer),
            ("slow", self.slow),
            ("rate_limited", self.rate_limited),
            ("server_error", self.server_error),
            ("garbage", self.garbage),
            ("forget", self.forget),
            ("drop", self.drop),
            ("reorder", self.reorder),
            ("reorg", self.reorg),
        ]
    }

    pub fn apply(&self, faults: &mut Faults) {
        let set = |field: &mut f64, value: Option<f64>| *field = value.unwrap_or(*field);
        set(&mut faults.lose_request, self.lose_request);
        set(&mut faults.lose_answer, self.lose_answer);
        set(&mut faults.slow, self.slow);
        set(&mut faults.rate_limited, self.rate_limited);
        set(&mut faults.server_error, self.server_error);
        set(&mut faults.garbage, self.garbage);
        set(&mut faults.forget, self.forget);
        set(&mut faults.drop, self.drop);
        set(&mut faults.reorder, self.reorder);
        set(&mut faults.reorg, self.reorg);
        faults.slow_ms = self.slow_ms.unwrap_or(faults.slow_ms);
        faults.lag_blocks = self.lag_blocks.unwrap_or(faults.lag_blocks);
        faults.down = match self.down {
            None => faults.down,
            Some(Switch::Bool(down)) => down,
            Some(Switch::Number(number)) => number != 0.0,
        };
    }
}

/// What happens to one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fortune {
    pub lose_request: bool,
    pub rate_limited: bool,
    pub delay_before_ms: u64,
    pub error_before: bool,
    pub forget: bool,
    pub lag_blocks: u64,
    pub lose_answer: bool,
    pub error_after: bool,
    pub garbage: bool,
    pub delay_after_ms: u64,
}

pub struct Dice(StdRng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(StdRng::seed_from_u64(seed))
    }

    pub fn roll(&mut self, faults: &Faults) -> Fortune {
        let slow = self.happens(faults.slow);
        let error = self.happens(faults.server_error);
        let (early, before) = (self.happens(0.5), self.happens(0.5));
        Fortune {
            lose_request: faults.down || self.happens(faults.lose_request),
            rate_limited: self.happens(faults.rate_limited),
            delay_before_ms: if slow && early { faults.slow_ms } else { 0 },
            error_before: error && before,
            forget: self.happens(faults.forget),
            lag_blocks: faults.lag_blocks,
            lose_answer: self.happens(faults.lose_answer),
            error_after: error && !before,
            garbage: self.happens(faults.garbage),
            delay_after_ms: if slow && !early { faults.slow_ms } else { 0 },
        }
    }

    /// How many blocks fall off now.
    pub fn fall(&mut self, faults: &[Faults], deepest: u64) -> u64 {
        let greatest = faults.iter().map(|faults| faults.reorg).fold(0.0, f64::max);
        if self.happens(greatest) { self.0.random_range(1..=deepest) } else { 0 }
    }

    /// Any number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub fn happens(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_rolls_the_same_fortunes() {
        let faults =
            Faults { lose_answer: 0.5, slow: 0.5, slow_ms: 9, forget: 0.5, ..Faults::default() };
        let fortunes = |seed| {
            let mut dice = Dice::new(seed);
            (0..100).map(|_| dice.roll(&faults)).collect::<Vec<_>>()
        };
        assert_eq!(fortunes(3), fortunes(3));
        assert_ne!(fortunes(3), fortunes(4));
    }

    #[test]
    fn what_cannot_happen_does_not_and_what_must_does() {
        let mut dice = Dice::new(0);
        let certain = Faults { server_error: 1.0, down: true, ..Faults::default() };
        for _ in 0..1_000 {
            assert_eq!(dice.roll(&Faults::default()), Fortune::default());
            let fortune = dice.roll(&certain);
            assert!(fortune.lose_request && (fortune.error_before != fortune.error_after));
        }
    }
}
