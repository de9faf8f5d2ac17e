//! What goes wrong between a client and a simulator, how often, and the dice.
//!
//! Probabilities are per request and node. The dice are seeded, so a run that takes its requests
//! in the same order fails in the same way. A simulator adds faults of its own to those of the
//! wire; on the wire of `/sim/faults` they are fields side by side.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A simulator's own faults. Their fields MUST be an `f64` for a probability, a `u64` for a
/// measure, a `bool` for a switch: that is how a change is checked.
pub trait Own: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<O: Clone + Default + Serialize + DeserializeOwned + Send + Sync + 'static> Own for O {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Faults<O> {
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
    /// Every connection closes at once.
    pub down: bool,
    #[serde(flatten)]
    pub own: O,
}

/// Why faults were not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{0} must be between 0 and 1")]
    NoProbability(String),
    #[error("{0}")]
    Unread(String),
}

impl<O: Own> Faults<O> {
    /// The same with what a change names; what it does not name, or names as null, stays.
    pub fn changed(&self, change: &Map<String, Value>) -> Result<Faults<O>, Refused> {
        let unread = |error: serde_json::Error| Refused::Unread(error.to_string());
        let mut fields = serde_json::to_value(self).map_err(unread)?;
        for (name, value) in change.iter().filter(|(_, value)| !value.is_null()) {
            let Some(field) = fields.get_mut(name) else {
                return Err(Refused::Unread(format!("unknown field `{name}`")));
            };
            *field = match (&*field, value.as_f64()) {
                // Anything but 0 is on.
                (Value::Bool(_), Some(number)) => Value::Bool(number != 0.0),
                (old, Some(number)) if old.is_f64() && !(0.0..=1.0).contains(&number) => {
                    return Err(Refused::NoProbability(name.clone()));
                }
                (old, Some(number)) if old.is_f64() => Value::from(number),
                _ => value.clone(),
            };
        }
        serde_json::from_value(fields).map_err(unread)
    }
}

/// What happens to one request on its way and back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fortune {
    pub lose_request: bool,
    pub rate_limited: bool,
    pub delay_before_ms: u64,
    pub error_before: bool,
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

    pub fn roll<O>(&mut self, faults: &Faults<O>) -> Fortune {
        let slow = self.happens(faults.slow);
        let error = self.happens(faults.server_error);
        let (early, before) = (self.happens(0.5), self.happens(0.5));
        Fortune {
            lose_request: faults.down || self.happens(faults.lose_request),
            rate_limited: self.happens(faults.rate_limited),
            delay_before_ms: if slow && early { faults.slow_ms } else { 0 },
            error_before: error && before,
            lose_answer: self.happens(faults.lose_answer),
            error_after: error && !before,
            garbage: self.happens(faults.garbage),
            delay_after_ms: if slow && !early { faults.slow_ms } else { 0 },
        }
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
    use serde_json::json;

    use super::*;

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Lag {
        forget: f64,
        lag_blocks: u64,
    }

    type Both = Faults<Lag>;

    #[test]
    fn the_same_seed_rolls_the_same_fortunes() {
        let faults = Both { lose_answer: 0.5, slow: 0.5, slow_ms: 9, ..Both::default() };
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
        let certain = Both { server_error: 1.0, down: true, ..Both::default() };
        for _ in 0..1_000 {
            assert_eq!(dice.roll(&Both::default()), Fortune::default());
            let fortune = dice.roll(&certain);
            assert!(fortune.lose_request && (fortune.error_before != fortune.error_after));
        }
    }

    fn changed(change: Value) -> Result<Both, Refused> {
        let faults =
            Both { garbage: 0.25, own: Lag { forget: 0.5, lag_blocks: 2 }, ..Both::default() };
        faults.changed(change.as_object().expect("an object"))
    }

    #[test]
    fn a_change_sets_what_it_names_and_leaves_the_rest() {
        let change = json!({ "slow": 1, "slow_ms": 9, "down": 1, "lag_blocks": 3, "forget": null });
        let expected = Both {
            garbage: 0.25,
            slow: 1.0,
            slow_ms: 9,
            down: true,
            own: Lag { forget: 0.5, lag_blocks: 3 },
            ..Both::default()
        };
        assert_eq!(changed(change), Ok(expected));
        assert_eq!(changed(json!({ "down": false })), changed(json!({})));
    }

    #[test]
    fn what_is_no_probability_no_field_or_no_number_is_refused() {
        let refused = |change| changed(change).expect_err("refused").to_string();
        assert_eq!(refused(json!({ "forget": 1.5 })), "forget must be between 0 and 1");
        assert_eq!(refused(json!({ "slow": -1 })), "slow must be between 0 and 1");
        assert_eq!(refused(json!({ "reorg": 1 })), "unknown field `reorg`");
        for wrong in [json!({ "slow": "1" }), json!({ "slow_ms": -1 }), json!({ "down": "on" })] {
            assert!(matches!(changed(wrong), Err(Refused::Unread(_))));
        }
    }
}
