//! The parts of a transfer that scripts carry along without reading them, packed into two fields:
//! Redis keeps a hash of few, short fields in a third of the memory, and writes it faster.

use std::fmt;
use std::str::FromStr;

use landfall_core::store::StoreError;
use landfall_core::{Fault, Move};
use serde::{Deserialize, Serialize};

use crate::answer::parsed;
use crate::fault::{Done, corrupt, unreadable};

/// Numbers, as `CONFIRMED STAGE_RETRIES RETRY_COUNT UPDATED_MS COMPLETED_MS`; the last is `-` until
/// the transfer is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub confirmed: bool,
    pub stage_retries: u32,
    pub retry_count: u32,
    pub updated_ms: u64,
    pub completed_ms: Option<u64>,
}

impl Facts {
    /// Of a transfer that was just created.
    pub(crate) fn new(created_ms: u64) -> Facts {
        Facts {
            confirmed: false,
            stage_retries: 0,
            retry_count: 0,
            updated_ms: created_ms,
            completed_ms: None,
        }
    }

    /// As a move leaves them.
    pub(crate) fn of(step: &Move) -> Facts {
        Facts {
            confirmed: step.confirmed,
            stage_retries: step.stage_retries,
            retry_count: step.retry_count,
            updated_ms: step.at_ms,
            completed_ms: step.completed_ms,
        }
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { confirmed, stage_retries, retry_count, updated_ms, completed_ms } = self;
        write!(f, "{} {stage_retries} {retry_count} {updated_ms} ", u8::from(*confirmed))?;
        match completed_ms {
            Some(ms) => write!(f, "{ms}"),
            None => f.write_str("-"),
        }
    }
}

impl FromStr for Facts {
    type Err = StoreError;

    fn from_str(text: &str) -> Done<Facts> {
        let words: Vec<&str> = text.split(' ').collect();
        let [confirmed, stage_retries, retry_count, updated_ms, completed_ms] = words[..] else {
            return Err(corrupt(format!("the facts of a transfer do not parse: {text:?}")));
        };
        Ok(Facts {
            confirmed: parsed::<u8>(confirmed)? == 1,
            stage_retries: parsed(stage_retries)?,
            retry_count: parsed(retry_count)?,
            updated_ms: parsed(updated_ms)?,
            completed_ms: (completed_ms != "-").then(|| parsed(completed_ms)).transpose()?,
        })
    }
}

/// Why a transfer waits or what went wrong with it, as JSON; empty for the many without either.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Trouble {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Fault>,
}

impl Trouble {
    /// As a move leaves it.
    pub(crate) fn of(step: &Move) -> Done<Vec<u8>> {
        if step.aside.is_none() && step.error.is_none() {
            return Ok(Vec::new());
        }
        let trouble = Trouble { aside: step.aside.clone(), error: step.error.clone() };
        serde_json::to_vec(&trouble).map_err(unreadable)
    }
}

impl FromStr for Trouble {
    type Err = StoreError;

    fn from_str(text: &str) -> Done<Trouble> {
        serde_json::from_str(text).map_err(unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_read_back_as_they_were_written() {
        let final_ms = Some(u64::MAX);
        let large = Facts { confirmed: true, completed_ms: final_ms, ..Facts::new(u64::MAX) };
        for facts in [Facts::new(7), Facts { retry_count: u32::MAX, ..large }] {
            assert_eq!(facts.to_string().parse(), Ok(facts));
        }
        assert!("0 0 0".parse::<Facts>().is_err());
        assert!("0 0 x 7 -".parse::<Facts>().is_err());
    }
}
