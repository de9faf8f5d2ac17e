//! The names of keys.

use landfall_core::{AttemptId, LaneId, Nonce, TransferId};

pub(crate) const LANES: &str = "txlanes";
pub(crate) const IDS: &str = "txids";
pub(crate) const STORE: &str = "txstore";

pub(crate) fn lock(lane: &LaneId) -> String {
    format!("txlock:{lane}")
}

pub(crate) fn nonce(lane: &LaneId) -> String {
    format!("txnonce:{lane}")
}

pub(crate) fn lane(lane: &LaneId) -> String {
    format!("txlane:{lane}")
}

pub(crate) fn stream(lane: &LaneId) -> String {
    format!("txq:{lane}")
}

pub(crate) fn record(key: &str) -> String {
    format!("txidem:{key}")
}

pub(crate) fn record_id(id: TransferId) -> String {
    format!("txrecord:{id}")
}

pub(crate) fn attempt(lane: &LaneId, nonce: Nonce) -> String {
    format!("txattempt:{lane}:{nonce}")
}

pub(crate) fn attempt_id(id: AttemptId) -> String {
    format!("txattemptid:{id}")
}

/// The nonces of all attempts of a lane.
pub(crate) fn attempts(lane: &LaneId) -> String {
    format!("txattempts:{lane}")
}

/// The nonces of those that are neither landed nor sunk.
pub(crate) fn open(lane: &LaneId) -> String {
    format!("txopen:{lane}")
}
