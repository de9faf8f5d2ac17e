//! The open rule: what makes the opening of an attempt legal, and the adding of a variant.
//!
//! Pure: a store reads what it asks for under its own locks, and writes only what it lets pass. So
//! the rule is the same in all of them. A store whose rules run elsewhere (as scripts of a server)
//! keeps a copy, and the conformance suite holds it to this one.
//! **Invariant:** on a lane no two stored attempts share a nonce, an old epoch stores nothing, and
//! nothing is signed into a store that has forgotten something, or may have.
//! Not here: writing (the stores), what a lane may sign next (`landfall-lanes`).

use std::collections::HashSet;

use crate::attempt::{Purpose, VariantKind};
use crate::ids::{Epoch, LaneId, Nonce, TransferId};
use crate::lane::{Lane, Mark};
use crate::store::{AddVariant, Added, OpenAttempt, Opened, Result, StoreError};
use crate::transfer::Move;

/// How far a lane has come in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// None until the lane was first reconciled.
    pub next_nonce: Option<Nonce>,
    pub seq: u64,
}

impl Reached {
    /// What of the mark is no longer stored, if anything is not.
    pub fn lacks(self, mark: &Mark) -> Option<String> {
        if self.next_nonce.is_none_or(|next| next <= mark.nonce) {
            return Some(format!("nonce {}", mark.nonce));
        }
        (self.seq < mark.seq).then(|| format!("signature {}", mark.seq))
    }
}

/// What the rule asks of a lane's row.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Under which epoch somebody holds it.
    pub held: Option<Epoch>,
    pub halted: Option<String>,
    pub reached: Reached,
}

impl From<&Lane> for Standing {
    fn from(lane: &Lane) -> Standing {
        Standing {
            held: lane.holder.as_ref().map(|_| lane.epoch),
            halted: lane.halted.as_ref().map(|halt| halt.reason.clone()),
            reached: Reached { next_nonce: lane.next_nonce, seq: lane.seq },
        }
    }
}

/// What a store knows when it judges.
pub struct Known<'a> {
    /// None where it cannot be told, which is nobody's.
    pub incarnation: Option<&'a str>,
    /// The lane that is signed on, locked; none if there is no such lane.
    pub lane: Option<&'a Standing>,
    /// How far any lane has come; none if there is no such lane.
    pub reached: &'a dyn Fn(&LaneId) -> Option<Reached>,
}

/// Why nothing may be signed on the lane by whoever asks.
enum Barred {
    Restarted,
    Fenced(String),
    Behind(String),
}

/// Who asks, and what they know.
struct Asker<'a> {
    lane: &'a LaneId,
    epoch: Epoch,
    marks: &'a [(LaneId, Mark)],
    incarnation: &'a str,
    /// What carries nobody and stands above what is unexplained, or takes its place.
    passes_halt: bool,
}

impl Asker<'_> {
    /// The lane's standing, if this asker may sign on it.
    fn admitted<'k>(&self, known: &Known<'k>) -> std::result::Result<&'k Standing, Barred> {
        if known.incarnation != Some(self.incarnation) {
            return Err(Barred::Restarted);
        }
        let (lane, epoch) = (self.lane, self.epoch);
        let Some(standing) = known.lane.filter(|standing| standing.held == Some(epoch)) else {
            return Err(Barred::Fenced(format!("epoch {epoch} of lane {lane} is over")));
        };
        if let Some(reason) = standing.halted.as_ref().filter(|_| !self.passes_halt) {
            return Err(Barred::Fenced(format!("lane {lane} is halted: {reason}")));
        }
        for (lane, mark) in self.marks {
            let reached = (known.reached)(lane).unwrap_or_default();
            if let Some(lacking) = reached.lacks(mark) {
                let why = format!("{lacking} of lane {lane} is no longer stored");
                return Err(Barred::Behind(why));
            }
        }
        Ok(standing)
    }
}

/// Why the attempt cannot be opened, if so. `stale` names the members that cannot be carried (see
/// [`stale_members`]); it is asked last, only if all else is legal.
pub fn refusal<E>(
    open: &OpenAttempt,
    known: &Known<'_>,
    stale: impl FnOnce() -> std::result::Result<Vec<TransferId>, E>,
) -> std::result::Result<Option<Opened>, E> {
    let is_fence = open.purpose == Purpose::Fence;
    let asker = Asker {
        lane: &open.lane,
        epoch: open.epoch,
        marks: &open.marks,
        incarnation: &open.incarnation,
        passes_halt: is_fence,
    };
    let standing = match asker.admitted(known) {
        Ok(standing) => standing,
        Err(Barred::Restarted) => return Ok(Some(Opened::Restarted)),
        Err(Barred::Fenced(why)) => return Ok(Some(Opened::Fenced(why))),
        Err(Barred::Behind(why)) => return Ok(Some(Opened::Behind(why))),
    };
    // A fence may leave nonces out: it is landed above whatever a store may have forgotten.
    let fits = |next: Nonce| open.nonce == next || is_fence && open.nonce > next;
    if !standing.reached.next_nonce.is_some_and(fits) {
        return Ok(Some(Opened::StaleNonce));
    }
    let stale = stale()?;
    Ok((!stale.is_empty()).then_some(Opened::StaleMembers(stale)))
}

/// The members that cannot be carried: who has moved meanwhile, is carried already, or is named
/// twice. `moves` are each with what `is_current` tells it by, which is asked in order, and only of
/// those that are neither.
pub fn stale_members<'a, T, E>(
    moves: impl IntoIterator<Item = (&'a Move, T)>,
    mut is_current: impl FnMut(T) -> std::result::Result<bool, E>,
) -> std::result::Result<Vec<TransferId>, E> {
    let mut named = HashSet::new();
    let mut stale = Vec::new();
    for (step, by) in moves {
        if step.from_attempt.is_some() || !named.insert(step.id) || !is_current(by)? {
            stale.push(step.id);
        }
    }
    Ok(stale)
}

/// What the rule asks of the attempt that a variant is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// Whether it is an attempt of the lane that the variant names.
    pub is_of_lane: bool,
    pub is_decided: bool,
    /// How many variants it has.
    pub variants: u32,
}

/// Why the variant cannot be added, if so; `attempt` is none if there is no such attempt.
pub fn variant_refusal(
    add: &AddVariant,
    known: &Known<'_>,
    attempt: Option<Underway>,
) -> Result<Option<Added>> {
    let asker = Asker {
        lane: &add.lane,
        epoch: add.epoch,
        marks: &add.marks,
        incarnation: &add.incarnation,
        passes_halt: add.kind == VariantKind::Cancels,
    };
    // An attempt that a store has forgotten is a store that is behind, first of all.
    match asker.admitted(known) {
        Ok(_) => {}
        Err(Barred::Restarted) => return Ok(Some(Added::Restarted)),
        Err(Barred::Fenced(why)) => return Ok(Some(Added::Fenced(why))),
        Err(Barred::Behind(why)) => return Ok(Some(Added::Behind(why))),
    }
    let (id, lane) = (add.attempt, &add.lane);
    let Some(attempt) = attempt else {
        return Err(StoreError::Corrupt(format!("attempt {id} is not in the store")));
    };
    Ok(if !attempt.is_of_lane {
        Some(Added::Fenced(format!("attempt {id} is not of lane {lane}")))
    } else if attempt.is_decided {
        Some(Added::Decided)
    } else {
        (add.number.checked_sub(1) != Some(attempt.variants)).then_some(Added::StaleNumber)
    })
}

#[cfg(test)]
mod tests;
