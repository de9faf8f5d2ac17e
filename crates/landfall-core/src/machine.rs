//! What all rails' machines have in common: rails, stages, states, events.
//!
//! [`State::next`] alone changes a state. It is pure: no clock, no I/O. Each rail lists its legal
//! steps in a module of its own; what is not listed is illegal.
//! Not here: retry timing (`landfall-engine`), nonces (`landfall-lanes`).

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::claim::ClaimKey;
use crate::ids::Fingerprint;
use crate::{evm, execution, internal, near, solana};

/// A way for value to move, named as in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RailName {
    Near,
    Internal,
    Evm,
    Solana,
    /// Transactions that somebody else builds (`landfall_lanes::TxManager`).
    Lanes,
}

impl RailName {
    pub const ALL: [RailName; 5] =
        [RailName::Near, RailName::Internal, RailName::Evm, RailName::Solana, RailName::Lanes];

    pub fn as_str(self) -> &'static str {
        match self {
            RailName::Near => "near",
            RailName::Internal => "internal",
            RailName::Evm => "evm",
            RailName::Solana => "solana",
            RailName::Lanes => "lanes",
        }
    }

    pub fn parse(name: &str) -> Option<RailName> {
        RailName::ALL.into_iter().find(|rail| rail.as_str() == name)
    }
}

impl fmt::Display for RailName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A worker's job. Stage names are unique over all rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stage(pub &'static str);

/// What the stages of a rail with attempts are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptStages {
    /// Makes ready what payments need; none where they need nothing.
    pub prepare: Option<Stage>,
    /// Signs and stores attempts.
    pub pay: Stage,
    /// Pursues attempts to their fate; lanes do it, no transfer is ever due here.
    pub verify: Stage,
}

impl Stage {
    /// Every stage of every rail.
    pub const ALL: [Stage; 9] = [
        near::REGISTRATION,
        near::TRANSFER,
        near::VERIFICATION,
        internal::STAGE,
        evm::SUBMISSION,
        evm::CONFIRMATION,
        solana::WITHDRAWAL,
        solana::FINALITY,
        execution::STAGE,
    ];
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Where a transfer is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Near(near::State),
    Internal(internal::State),
    Evm(evm::State),
    Solana(solana::State),
    Lanes(execution::State),
}

impl State {
    /// The state after `event`, or why there is none. `confirmed` is the fact stored beside the
    /// state (see [`crate::Transfer::confirmed`]).
    pub fn next(self, confirmed: bool, event: Event) -> Result<State, Illegal> {
        match self {
            State::Near(state) => near::next(state, event).map(State::Near),
            State::Internal(state) => internal::next(state, confirmed, event).map(State::Internal),
            State::Evm(state) => evm::next(state, event).map(State::Evm),
            State::Solana(state) => solana::next(state, event).map(State::Solana),
            State::Lanes(state) => execution::next(state, event).map(State::Lanes),
        }
        .ok_or(Illegal { state: self, event })
    }

    /// The name on the wire, as the seeds give it.
    pub fn name(self) -> &'static str {
        match self {
            State::Near(state) => state.name(),
            State::Internal(state) => state.name(),
            State::Evm(state) => state.name(),
            State::Solana(state) => state.name(),
            State::Lanes(state) => state.name(),
        }
    }

    pub fn rail(self) -> RailName {
        match self {
            State::Near(_) => RailName::Near,
            State::Internal(_) => RailName::Internal,
            State::Evm(_) => RailName::Evm,
            State::Solana(_) => RailName::Solana,
            State::Lanes(_) => RailName::Lanes,
        }
    }

    pub fn parse(rail: RailName, name: &str) -> Option<State> {
        State::all(rail).into_iter().find(|state| state.name() == name)
    }

    /// Every state of a rail, in the order of its life.
    pub fn all(rail: RailName) -> Vec<State> {
        match rail {
            RailName::Near => near::State::ALL.into_iter().map(State::Near).collect(),
            RailName::Internal => internal::State::ALL.into_iter().map(State::Internal).collect(),
            RailName::Evm => evm::State::ALL.into_iter().map(State::Evm).collect(),
            RailName::Solana => solana::State::ALL.into_iter().map(State::Solana).collect(),
            RailName::Lanes => execution::State::ALL.into_iter().map(State::Lanes).collect(),
        }
    }

    /// The events of a new transfer's first commit; `prepared` if it needs nothing, or what it
    /// needs is there.
    pub fn first_events(rail: RailName, prepared: bool) -> &'static [Event] {
        match (rail, prepared) {
            (RailName::Near, true) => &[Event::Enqueued, Event::Prepared, Event::Enqueued],
            (RailName::Near, false) => &[Event::Enqueued],
            (RailName::Internal | RailName::Evm | RailName::Solana | RailName::Lanes, _) => &[],
        }
    }

    /// The events of a transfer whose paying attempt is stored, all in that commit.
    pub fn opening_events(self) -> &'static [Event] {
        match self {
            State::Near(_) => &[Event::AttemptStored, Event::Enqueued],
            State::Evm(_) | State::Solana(_) | State::Lanes(_) => &[Event::AttemptStored],
            State::Internal(_) => &[],
        }
    }

    /// The stage that works on transfers in this state; none for final states.
    pub fn stage(self) -> Option<Stage> {
        match self {
            State::Near(state) => state.stage(),
            State::Internal(state) => state.stage(),
            State::Evm(state) => state.stage(),
            State::Solana(state) => state.stage(),
            State::Lanes(state) => state.stage(),
        }
    }

    pub fn is_final(self) -> bool {
        self.stage().is_none()
    }

    /// Final, and the value moved.
    pub fn is_completed(self) -> bool {
        match self {
            State::Near(state) => state == near::State::Completed,
            State::Internal(state) => state == internal::State::Committed,
            State::Evm(state) => state == evm::State::Success,
            State::Solana(state) => state == solana::State::Completed,
            State::Lanes(state) => state == execution::State::Done,
        }
    }

    /// Whether the far side may be found, in this state, to have its part for good.
    pub fn may_be_confirmed(self) -> bool {
        match self {
            State::Near(_) | State::Evm(_) | State::Solana(_) | State::Lanes(_) => false,
            State::Internal(state) => state.may_be_confirmed(),
        }
    }

    /// Final, and proven not to have moved value: a dead letter.
    pub fn is_failed(self) -> bool {
        self.is_final() && !self.is_completed()
    }

    /// Whether some event leads from here to `other`. Used to check audit trails.
    pub fn leads_to(self, confirmed: bool, other: State) -> bool {
        Event::ALL.into_iter().any(|event| self.next(confirmed, event) == Ok(other))
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What can happen to a transfer. Machines say what each means to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// Handed to the next stage's queue.
    Enqueued,
    /// What the payment needs on the ledger is there (NEAR: the receiver is registered).
    Prepared,
    /// The ledger denied that it is there.
    Unprepared,
    /// A paying attempt that carries it was stored.
    AttemptStored,
    /// Its attempt is in a block, which may yet fall off the chain.
    Included,
    /// Its attempt is in no block any more.
    FellOff,
    /// Its attempt landed, final, and paid it.
    Landed,
    /// Its attempt is proven never to land.
    Sunk,
    /// Its attempt landed and is proven, at finality, not to have paid it.
    Unpaid,
    /// Proven unmoved, by its own fault: it can never be paid as asked.
    Refused,
    /// Proven unmoved, and out of retries.
    GaveUp,
    /// An operator reopened a dead letter.
    Replayed,
    /// The source is about to be asked for the funds.
    SourceCall,
    /// The source has taken the funds from the user, or put them aside.
    SourceOk,
    /// The source refused for good; nothing moved.
    SourceFail,
    /// The target is about to be given the funds.
    TargetCall,
    /// The target has them and the source has let go of them.
    TargetOk,
    /// The target refused for good.
    TargetFail,
    /// The source has given the funds back to the user.
    RollbackOk,
    /// The source would not give them back yet.
    RollbackFail,
    /// Nothing is known yet.
    Retry,
}

impl Event {
    pub const ALL: [Event; 21] = [
        Event::Enqueued,
        Event::Prepared,
        Event::Unprepared,
        Event::AttemptStored,
        Event::Included,
        Event::FellOff,
        Event::Landed,
        Event::Sunk,
        Event::Unpaid,
        Event::Refused,
        Event::GaveUp,
        Event::Replayed,
        Event::SourceCall,
        Event::SourceOk,
        Event::SourceFail,
        Event::TargetCall,
        Event::TargetOk,
        Event::TargetFail,
        Event::RollbackOk,
        Event::RollbackFail,
        Event::Retry,
    ];
}

/// A step that no machine lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{event:?} is illegal in {state}")]
pub struct Illegal {
    pub state: State,
    pub event: Event,
}

/// What a transfer pays, frozen when it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rail", rename_all = "lowercase")]
pub enum Payload {
    Near(near::Payout),
    Internal(internal::Order),
    Evm(evm::Call),
    Solana(solana::Withdraw),
    Lanes(execution::Execution),
}

impl Payload {
    pub fn rail(&self) -> RailName {
        match self {
            Payload::Near(_) => RailName::Near,
            Payload::Internal(_) => RailName::Internal,
            Payload::Evm(_) => RailName::Evm,
            Payload::Solana(_) => RailName::Solana,
            Payload::Lanes(_) => RailName::Lanes,
        }
    }

    /// The payout, if it is one of the NEAR rail.
    pub fn near(&self) -> Option<&near::Payout> {
        match self {
            Payload::Near(payout) => Some(payout),
            _ => None,
        }
    }

    /// The order, if it is one between services.
    pub fn internal(&self) -> Option<&internal::Order> {
        match self {
            Payload::Internal(order) => Some(order),
            _ => None,
        }
    }

    /// The call, if it is one on an EVM chain.
    pub fn evm(&self) -> Option<&evm::Call> {
        match self {
            Payload::Evm(call) => Some(call),
            _ => None,
        }
    }

    /// The withdraw, if it is one on Solana.
    pub fn solana(&self) -> Option<&solana::Withdraw> {
        match self {
            Payload::Solana(withdraw) => Some(withdraw),
            _ => None,
        }
    }

    /// What it must own to be taken at all, and owns until it is proven unmoved.
    pub fn claims(&self) -> Vec<ClaimKey> {
        match self {
            Payload::Evm(call) => call.claims(),
            Payload::Solana(withdraw) => withdraw.claims(),
            _ => Vec::new(),
        }
    }

    /// The amount in the smallest unit of what is paid; 0 where nobody here knows it.
    pub fn amount(&self) -> u128 {
        match self {
            Payload::Near(payout) => payout.amount,
            Payload::Internal(order) => u128::from(order.amount),
            Payload::Evm(call) => call.value(),
            Payload::Solana(withdraw) => u128::from(withdraw.amount),
            Payload::Lanes(_) => 0,
        }
    }

    /// How urgent it is, as its client says; higher is more urgent.
    pub fn priority(&self) -> u32 {
        match self {
            Payload::Solana(withdraw) => withdraw.priority,
            _ => solana::PRIORITY,
        }
    }

    /// Covers every parameter that changes what is paid, in canonical form.
    pub fn fingerprint(&self) -> Fingerprint {
        match self {
            Payload::Near(payout) => payout.fingerprint(),
            Payload::Internal(order) => order.fingerprint(),
            Payload::Evm(call) => call.fingerprint(),
            Payload::Solana(withdraw) => withdraw.fingerprint(),
            Payload::Lanes(execution) => execution.fingerprint(),
        }
    }

    /// Whom it pays, for lists and filters; nobody where that is not known here.
    pub fn receiver(&self) -> Cow<'_, str> {
        match self {
            Payload::Near(payout) => Cow::Borrowed(&payout.receiver_id),
            Payload::Internal(order) => Cow::Owned(order.user_id.to_string()),
            Payload::Evm(call) => Cow::Owned(call.to().to_string()),
            Payload::Solana(withdraw) => Cow::Borrowed(withdraw.recipient()),
            Payload::Lanes(_) => Cow::Borrowed(""),
        }
    }
}
