//! What operators and `/health` see of the engine.

use landfall_core::rail::EndpointHealth;
use landfall_core::{Lane, RailName, Stage, State};
use serde::Serialize;

/// The engine at a glance.
#[derive(Debug, Clone)]
pub struct Status {
    /// None when the store answers; else what it said.
    pub store_error: Option<String>,
    pub rails: Vec<RailStatus>,
    pub alerts: Vec<Alert>,
    /// False while the engine is stopping or has not held a lane yet.
    pub ready: bool,
}

/// The engine at a moment, with what the store and the queue had to be asked for.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub status: Status,
    /// Transfers by state; empty if the store did not answer.
    pub counts: Vec<(State, u64)>,
    /// Hints waiting, by stage.
    pub depths: Vec<(Stage, usize)>,
    /// Hints that nobody could handle.
    pub put_aside: usize,
}

/// One rail at a glance.
#[derive(Debug, Clone)]
pub struct RailStatus {
    pub rail: RailName,
    pub endpoints: Vec<EndpointHealth>,
    /// Why nothing is being paid, if so.
    pub paused: Option<String>,
    pub lanes_held: usize,
    pub lanes_halted: usize,
    pub adrift: usize,
    pub aside: usize,
    /// Transfers that have been unknown for longer than usual.
    pub stuck: usize,
}

/// Something an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// A short name for machines, such as `lane_halted`.
    pub kind: String,
    pub message: String,
    pub since_ms: u64,
}

/// A lane with what this process knows of it.
#[derive(Debug, Clone, Serialize)]
pub struct LaneStatus {
    #[serde(flatten)]
    pub lane: Lane,
    pub open_attempts: usize,
}
