//! The audit trail: every state a transfer entered and every note beside them, in order.
//!
//! Stores keep the entries of one move together as bytes; [`encode`] and [`decode`] are the one
//! format, so that a trail reads the same whatever kept it.

use serde::{Deserialize, Serialize};

use crate::attempt::Certificate;
use crate::machine::{RailName, State};

/// What went wrong, as clients and operators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub error_type: String,
    pub message: String,
    pub retry_count: u32,
    pub will_retry: bool,
}

/// What a trail entry records: a state entered, or a note beside the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrailEvent {
    Entered(State),
    Noted(Note),
}

/// Things worth keeping that change no state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A charged failure; it will be tried again.
    Retry,
    /// Its attempt sank; the certificate is in the entry.
    Sunk,
    /// Its attempt landed without paying it.
    Unpaid,
    /// Unknown for longer than usual: it may or may not have landed.
    Adrift,
    /// Waits for the relay (funds), not for itself.
    SetAside,
    /// Taken up again after being set aside.
    Resumed,
    /// The far side has its part for good.
    Confirmed,
}

impl Note {
    pub const ALL: [Note; 7] = [
        Note::Retry,
        Note::Sunk,
        Note::Unpaid,
        Note::Adrift,
        Note::SetAside,
        Note::Resumed,
        Note::Confirmed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Note::Retry => "RETRY",
            Note::Sunk => "SUNK",
            Note::Unpaid => "UNPAID",
            Note::Adrift => "ADRIFT",
            Note::SetAside => "SET_ASIDE",
            Note::Resumed => "RESUMED",
            Note::Confirmed => "CONFIRMED",
        }
    }
}

impl TrailEvent {
    pub fn parse(rail: RailName, name: &str) -> Option<TrailEvent> {
        let noted = Note::ALL.into_iter().find(|note| note.name() == name);
        noted.map(TrailEvent::Noted).or(State::parse(rail, name).map(TrailEvent::Entered))
    }

    pub fn name(self) -> &'static str {
        match self {
            TrailEvent::Entered(state) => state.name(),
            TrailEvent::Noted(note) => note.name(),
        }
    }
}

/// One line of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailEntry {
    pub at_ms: u64,
    pub event: TrailEvent,
    pub tx_hash: Option<String>,
    pub error: Option<Fault>,
    pub certificate: Option<Certificate>,
}

impl TrailEntry {
    pub fn entered(state: State, at_ms: u64) -> TrailEntry {
        TrailEntry::new(TrailEvent::Entered(state), at_ms)
    }

    pub fn noted(note: Note, at_ms: u64) -> TrailEntry {
        TrailEntry::new(TrailEvent::Noted(note), at_ms)
    }

    fn new(event: TrailEvent, at_ms: u64) -> TrailEntry {
        TrailEntry { at_ms, event, tx_hash: None, error: None, certificate: None }
    }
}

#[derive(Serialize, Deserialize)]
struct Kept<'a> {
    at: u64,
    event: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tx: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<Certificate>,
}

/// The entries of one move, as stores keep them.
pub fn encode(entries: &[TrailEntry]) -> Vec<u8> {
    let kept: Vec<Kept<'_>> = entries
        .iter()
        .map(|entry| Kept {
            at: entry.at_ms,
            event: entry.event.name().into(),
            tx: entry.tx_hash.clone(),
            error: entry.error.clone(),
            certificate: entry.certificate.clone(),
        })
        .collect();
    serde_json::to_vec(&kept).expect("trail entries are plain data")
}

/// The reverse of [`encode`]; says what is wrong with bytes that are not its own.
pub fn decode(rail: RailName, bytes: &[u8]) -> Result<Vec<TrailEntry>, String> {
    let kept: Vec<Kept<'_>> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    kept.into_iter()
        .map(|entry| {
            let event = TrailEvent::parse(rail, &entry.event)
                .ok_or_else(|| format!("unknown event {:?} in a trail", entry.event))?;
            Ok(TrailEntry {
                at_ms: entry.at,
                event,
                tx_hash: entry.tx,
                error: entry.error,
                certificate: entry.certificate,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::near;

    #[test]
    fn a_trail_survives_being_kept() {
        let mut entry = TrailEntry::entered(State::Near(near::State::Submitted), 7);
        entry.tx_hash = Some("abc".into());
        let entries = vec![entry, TrailEntry::noted(Note::Adrift, 8)];
        assert_eq!(decode(RailName::Near, &encode(&entries)), Ok(entries));
    }

    #[test]
    fn a_damaged_trail_is_named_not_guessed() {
        assert!(decode(RailName::Near, b"[{\"at\":1,\"event\":\"NOPE\"}]").is_err());
        assert!(decode(RailName::Near, b"nonsense").is_err());
    }
}
