//! The seam of rails whose value moves by calls that may be repeated.
//!
//! A ledger that wants signed transactions is behind [`crate::rail::Rail`]. Services that
//! deduplicate by request id need no attempts: the same call, with the same id, may be made any
//! number of times. A courier makes the call that a transfer's stored state asks for and says what
//! to store next; it holds connections, never transfers, and never sees the store.
//!
//! **Rule:** one call of [`Courier::act`] makes at most one call that has an effect, and only one
//! that the stored state announces: what is about to be done is stored before it is done.

use async_trait::async_trait;

use crate::field::BadField;
use crate::machine::{Event, Payload, RailName, Stage};
use crate::rail::{Backoff, EndpointHealth, RailError};
use crate::transfer::Transfer;

/// When and by whom a transfer is acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The caller itself has stored this state a moment ago, so nobody had made its call before.
    /// Somebody may meanwhile: this one's may be the second to arrive. Otherwise it may have been
    /// made, and the answer be lost: look before repeating.
    pub first: bool,
    /// Since when the call that the state asks for may have been made, in Unix time. How long ago
    /// that is the courier MUST ask its own clock right before a call: looking takes time.
    pub since_ms: u64,
}

/// What is to be stored after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Known: store it, then go on at once.
    Go(Known),
    /// Not known yet: ask again later. Decides nothing, and is charged to nobody but the counter.
    Wait(Doubt),
    /// The service has forgotten whether it acted. Only an operator can decide.
    Adrift(String),
}

/// What has become certain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// Recorded before the events: the far side has its part for good.
    pub confirmed: bool,
    pub events: Vec<Event>,
    /// The refusal behind the events, if one is.
    pub refusal: Option<String>,
}

impl Known {
    pub fn events(events: &[Event]) -> Known {
        Known { events: events.to_vec(), ..Known::default() }
    }

    pub fn refused(event: Event, why: impl Into<String>) -> Known {
        Known { events: vec![event], refusal: Some(why.into()), ..Known::default() }
    }
}

/// Why nothing is certain yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// The event of the machine that says so; it changes no state.
    pub event: Option<Event>,
    /// A short name for machines, such as `timeout`.
    pub kind: &'static str,
    pub message: String,
}

/// One rail of services.
#[async_trait]
pub trait Courier: Send + Sync + 'static {
    fn name(&self) -> RailName;

    fn stage(&self) -> Stage;

    /// How long a step waits of which nothing is certain yet. None: the engine's.
    fn backoff(&self) -> Option<Backoff> {
        None
    }

    /// Whether a new transfer can be taken at all, by what the services know: MUST say yes where
    /// they do not answer.
    async fn screen(&self, payload: &Payload) -> Result<(), BadField>;

    /// Makes the call that the stored state asks for, or finds out what became of it. A technical
    /// error MUST come back as `Wait`, never as a refusal.
    async fn act(&self, transfer: &Transfer, turn: Turn) -> Step;

    /// What an operator's word about an adrift transfer comes to: the call in question took effect,
    /// or it never will. Refused with the reason where the word would not help.
    fn ruled(&self, transfer: &Transfer, took_effect: bool) -> Result<Known, String>;

    /// Whether such a word would hold: MUST be false while a call that is under way, or is made by
    /// whoever does not know of the word yet, could make it untrue. `since_ms` as in [`Turn`].
    fn would_hold(&self, transfer: &Transfer, since_ms: u64) -> bool;

    /// Every service's health as known; makes no call.
    fn endpoints(&self) -> Vec<EndpointHealth>;

    /// Tries the services for real.
    async fn check(&self) -> Result<String, RailError>;
}
