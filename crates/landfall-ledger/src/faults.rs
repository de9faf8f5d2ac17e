//! What goes wrong with a simulated service, how often, and the dice.
//!
//! Probabilities are per request. The dice are seeded, so a run that takes its requests in the same
//! order fails in the same way.

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
    /// An operation takes effect `late_ms` from now. Half of its callers are told 202 now, and the
    /// query says that it is in progress; the others are told nothing.
    pub late: f64,
    pub late_ms: u64,
    /// A deposit is refused, on record.
    pub refuse_deposit: f64,
    /// A rollback is refused for now, off the record: against the contract, as some services are.
    pub refuse_rollback: f64,
    /// Every connection closes at once.
    pub down: bool,
}

/// A change to the faults of one service or of all: what is not given stays.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultsPatch {
    /// One service by name; all if none is named.
    pub service: Option<String>,
    pub lose_request: Option<f64>,
    pub lose_answer: Option<f64>,
    pub slow: Option<f64>,
    pub slow_ms: Option<u64>,
    pub rate_limited: Option<f64>,
    pub server_error: Option<f64>,
    pub garbage: Option<f64>,
    pub late: Option<f64>,
    pub late_ms: Option<u64>,
    pub refuse_deposit: Option<f64>,
    pub refuse_rollback: Option<f64>,
    pub down: Option<Switch>,
}

/// `true`, or a number where anything but 0 is on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(untagged)]
pub enum Switch {
    Bool(bool),
    Number(f64),
}

impl FaultsPatch {
    /// Says which probability is none.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in self.probabilities() {
            if value.is_some_and(|value| !(0.0..=1.0).contains(&value)) {
                return Err(format!("{name}: must be between 0 and 1"));
            }
        }
        Ok(())
    }

    fn probabilities(&self) -> [(&'static str, Option<f64>); 9] {
        [
            ("lose_request", self.lose_request),
            ("lose_answer", self.lose_answer),
            ("slow", self.slow),
            ("rate_limited", self.rate_limited),
            ("server_error", self.server_error),
            ("garbage", self.garbage),
            ("late", self.late),
            ("refuse_deposit", self.refuse_deposit),
            ("refuse_rollback", self.refuse_rollback),
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
        set(&mut faults.late, self.late);
        set(&mut faults.refuse_deposit, self.refuse_deposit);
        set(&mut faults.refuse_rollback, self.refuse_rollback);
        faults.slow_ms = self.slow_ms.unwrap_or(faults.slow_ms);
        faults.late_ms = self.late_ms.unwrap_or(faults.late_ms);
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
    pub error_before: bool,
    pub delay_before_ms: u64,
    /// None unless it is late.
    pub late_ms: Option<u64>,
    /// A late one whose caller is told nothing.
    pub late_in_silence: bool,
    pub refuse_deposit: bool,
    pub refuse_rollback: bool,
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
        let (late, silent) = (self.happens(faults.late), self.happens(0.5));
        Fortune {
            lose_request: faults.down || self.happens(faults.lose_request),
            rate_limited: self.happens(faults.rate_limited),
            error_before: error && before,
            delay_before_ms: if slow && early { faults.slow_ms } else { 0 },
            late_ms: late.then_some(faults.late_ms),
            late_in_silence: late && silent,
            refuse_deposit: self.happens(faults.refuse_deposit),
            refuse_rollback: self.happens(faults.refuse_rollback),
            lose_answer: self.happens(faults.lose_answer),
            error_after: error && !before,
            garbage: self.happens(faults.garbage),
            delay_after_ms: if slow && !early { faults.slow_ms } else { 0 },
        }
    }

    fn happens(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_rolls_the_same_fortunes() {
        let faults =
            Faults { lose_answer: 0.5, slow: 0.5, slow_ms: 9, late: 0.5, ..Faults::default() };
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

    #[test]
    fn a_patch_changes_what_it_names_and_refuses_what_is_no_probability() {
        let patch = |text: &str| serde_json::from_str::<FaultsPatch>(text);
        let mut faults = Faults { late: 0.25, ..Faults::default() };
        patch(r#"{"slow":0.5,"slow_ms":9,"down":1}"#).expect("a patch").apply(&mut faults);
        let expected =
            Faults { late: 0.25, slow: 0.5, slow_ms: 9, down: true, ..Faults::default() };
        assert_eq!(faults, expected);
        let wrong = patch(r#"{"late":1.5}"#).expect("a patch").check();
        assert_eq!(wrong, Err("late: must be between 0 and 1".into()));
        assert!(patch(r#"{"forget":1}"#).is_err());
    }
}
