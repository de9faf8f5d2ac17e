//! Transfers and their moves.
//!
//! **Invariant:** [`Move`] is the only way a state changes, and [`Move::fire`] the only way to
//! make one that does: every step goes through [`State::next`].

use crate::claim::{ClaimEnd, ClaimKey};
use crate::ids::{AttemptId, Fingerprint, TransferId};
use crate::machine::{Event, Illegal, Payload, State};
use crate::trail::{Fault, Note, TrailEntry};

/// The version of a transfer that has not moved yet.
pub const FIRST_VERSION: u64 = 1;

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    pub id: TransferId,
    /// Scope of the idempotency key; empty where no API keys are in use.
    pub tenant: String,
    pub key: String,
    pub fingerprint: Fingerprint,
    pub payload: Payload,
    pub state: State,
    /// The far side has its part for good: from here the transfer can only be completed.
    pub confirmed: bool,
    /// Grows by one with every move.
    pub version: u64,
    /// The open attempt that carries it.
    pub attempt: Option<AttemptId>,
    /// Failures charged to it since it was last prepared, or began to be.
    pub stage_retries: u32,
    /// Failures charged to it in its whole life.
    pub retry_count: u32,
    /// When the sweeper may pick it up; none while an attempt carries it or it is final.
    pub due_ms: Option<u64>,
    /// Why it is set aside, waiting for the relay rather than for itself.
    pub aside: Option<String>,
    /// Hash of the newest attempt that paid, or was to pay, it.
    pub tx_hash: Option<String>,
    pub error: Option<Fault>,
    pub created_ms: u64,
    pub updated_ms: u64,
    pub completed_ms: Option<u64>,
}

/// A transfer about to be accepted. `state`, `trail` come from [`NewTransfer::begin`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTransfer {
    pub tenant: String,
    pub key: String,
    pub fingerprint: Fingerprint,
    pub payload: Payload,
    pub state: State,
    pub due_ms: Option<u64>,
    pub created_ms: u64,
    pub trail: Vec<TrailEntry>,
    /// What it claims in the commit that accepts it, all or nothing. It holds them then, until its
    /// moves end them.
    pub claims: Vec<ClaimKey>,
}

impl NewTransfer {
    /// A transfer in its first state, stepped through `events`; each state is an entry in the
    /// trail.
    pub fn begin(
        scope: (String, String),
        fingerprint: Fingerprint,
        payload: Payload,
        first: State,
        events: &[Event],
        now_ms: u64,
    ) -> Result<NewTransfer, Illegal> {
        let mut state = first;
        let mut trail = vec![TrailEntry::entered(state, now_ms)];
        for event in events {
            state = state.next(false, *event)?;
            trail.push(TrailEntry::entered(state, now_ms));
        }
        Ok(NewTransfer {
            tenant: scope.0,
            key: scope.1,
            fingerprint,
            payload,
            state,
            due_ms: None,
            created_ms: now_ms,
            trail,
            claims: Vec::new(),
        })
    }
}

impl NewTransfer {
    /// The transfer as it is once a store has accepted it under `id`.
    pub fn accepted_as(&self, id: TransferId) -> Transfer {
        Transfer {
            id,
            tenant: self.tenant.clone(),
            key: self.key.clone(),
            fingerprint: self.fingerprint,
            payload: self.payload.clone(),
            state: self.state,
            confirmed: false,
            version: FIRST_VERSION,
            attempt: None,
            stage_retries: 0,
            retry_count: 0,
            due_ms: self.due_ms,
            aside: None,
            tx_hash: None,
            error: None,
            created_ms: self.created_ms,
            updated_ms: self.created_ms,
            completed_ms: None,
        }
    }
}

/// A compare-and-set of a transfer to its next state, with its trail. All values are absolute:
/// they replace the stored ones; the version grows by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub id: TransferId,
    /// Expected.
    pub from_state: State,
    /// Expected, unless none: a member of an open attempt is fixed by its attempt alone.
    pub from_version: Option<u64>,
    /// Expected with the version. A store that went back counts ids and versions anew: only the
    /// time tells a transfer from the forgotten one whose numbers it was given.
    pub from_updated_ms: u64,
    /// Expected.
    pub from_attempt: Option<AttemptId>,
    pub state: State,
    pub confirmed: bool,
    /// The attempt after the move. A store that opens an attempt puts the new attempt's id here.
    pub attempt: Option<AttemptId>,
    pub stage_retries: u32,
    pub retry_count: u32,
    pub due_ms: Option<u64>,
    pub aside: Option<String>,
    pub tx_hash: Option<String>,
    pub error: Option<Fault>,
    pub completed_ms: Option<u64>,
    pub at_ms: u64,
    pub trail: Vec<TrailEntry>,
    pub claims: Vec<ClaimEnd>,
}

impl Move {
    /// A move that changes nothing yet.
    pub fn of(transfer: &Transfer, now_ms: u64) -> Move {
        Move {
            id: transfer.id,
            from_state: transfer.state,
            from_version: Some(transfer.version),
            from_updated_ms: transfer.updated_ms,
            from_attempt: transfer.attempt,
            state: transfer.state,
            confirmed: transfer.confirmed,
            attempt: transfer.attempt,
            stage_retries: transfer.stage_retries,
            retry_count: transfer.retry_count,
            due_ms: transfer.due_ms,
            aside: transfer.aside.clone(),
            tx_hash: transfer.tx_hash.clone(),
            error: transfer.error.clone(),
            completed_ms: transfer.completed_ms,
            at_ms: now_ms,
            trail: Vec::new(),
            claims: Vec::new(),
        }
    }

    /// A move of a member of `attempt`, as its opening left it, for the settlement.
    pub fn of_member(transfer: &Transfer, attempt: AttemptId, now_ms: u64) -> Move {
        Move {
            from_version: None,
            from_attempt: Some(attempt),
            attempt: None,
            ..Move::of(transfer, now_ms)
        }
    }

    /// Steps the machine and records the state entered, or that it was tried in vain.
    pub fn fire(mut self, event: Event) -> Result<Move, Illegal> {
        let next = self.state.next(self.confirmed, event)?;
        if next == self.state {
            return Ok(self.note(Note::Retry));
        }
        self.state = next;
        // The look belongs to the payment: only a change of job starts the count anew.
        if matches!(event, Event::Prepared | Event::Unprepared | Event::Replayed) {
            self.stage_retries = 0;
        }
        if self.state.is_final() {
            self.due_ms = None;
            self.aside = None;
            self.completed_ms = Some(self.at_ms);
        } else {
            self.completed_ms = None;
        }
        self.trail.push(TrailEntry::entered(self.state, self.at_ms));
        Ok(self)
    }

    /// Records that the far side has its part for good.
    ///
    /// # Panics
    /// In a state in which that cannot be found: a mistake of ours, never of outside data.
    pub fn confirm(mut self) -> Move {
        assert!(self.state.may_be_confirmed(), "nothing is confirmed in {}", self.state);
        self.confirmed = true;
        self.note(Note::Confirmed)
    }

    /// Adds a line beside the states.
    pub fn note(mut self, note: Note) -> Move {
        self.trail.push(TrailEntry::noted(note, self.at_ms));
        self
    }

    /// Fills in the newest trail entry.
    pub fn with(mut self, fill: impl FnOnce(&mut TrailEntry)) -> Move {
        if let Some(entry) = self.trail.last_mut() {
            fill(entry);
        }
        self
    }

    pub fn due(mut self, due_ms: Option<u64>) -> Move {
        self.due_ms = due_ms;
        self
    }

    /// Ends what the transfer claimed when it was taken, if the move is its last: what moved keeps
    /// it for ever, what is proven unmoved lets go of it.
    pub fn ending_claims(mut self, payload: &Payload) -> Move {
        let end: fn(ClaimKey) -> ClaimEnd = match self.state {
            state if state.is_completed() => ClaimEnd::Keep,
            state if state.is_failed() => ClaimEnd::Release,
            _ => return self,
        };
        self.claims.extend(payload.claims().into_iter().map(end));
        self
    }

    /// Keeps for ever what the transfer claimed when it was taken, though it failed: somebody else
    /// has used it up.
    pub fn keeping_claims(mut self, payload: &Payload) -> Move {
        self.claims.extend(payload.claims().into_iter().map(ClaimEnd::Keep));
        self
    }

    pub fn ending(mut self, claim: ClaimEnd) -> Move {
        self.claims.push(claim);
        self
    }

    /// The transfer as it is after this move was applied on top of `before`.
    pub fn applied_to(&self, before: &Transfer) -> Transfer {
        Transfer {
            state: self.state,
            confirmed: self.confirmed,
            version: before.version + 1,
            attempt: self.attempt,
            stage_retries: self.stage_retries,
            retry_count: self.retry_count,
            due_ms: self.due_ms,
            aside: self.aside.clone(),
            tx_hash: self.tx_hash.clone(),
            error: self.error.clone(),
            updated_ms: self.at_ms,
            completed_ms: self.completed_ms,
            ..before.clone()
        }
    }
}
