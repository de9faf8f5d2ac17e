//! What a fate means for the transfers it concerns: pure, from facts to moves.
//!
//! **Invariant:** only what is charged to the transfer itself counts as a retry: a sibling's
//! poison, a sunk attempt, an outage or an empty relay count against nobody.
//! **Invariant:** a member becomes FAILED only here, from a fate that proves it unpaid.

use landfall_core::attempt::{Landing, Outcome};
use landfall_core::wound::{self, Wound};
use landfall_core::{
    Attempt, CertificateKind, ClaimEnd, ClaimKey, Event, Fate, Fault, Move, Note, Purpose, Transfer,
};

/// What settling needs to know beside the fate.
pub struct Terms<'a> {
    pub now_ms: u64,
    /// Charged failures allowed in the member's stage.
    pub retries: u32,
    /// The wait before the next try, by charged failures so far.
    pub backoff_ms: &'a dyn Fn(u32) -> u64,
    /// What the member had claimed or relied on.
    pub claim: Option<ClaimKey>,
    /// When the sweeper may doubt the hint for a member that is ready at once.
    pub ready_due_ms: u64,
}

/// The move of one member of a decided attempt.
pub fn member(
    attempt: &Attempt,
    member: &Transfer,
    fate: &Fate,
    index: usize,
    terms: &Terms<'_>,
) -> Move {
    let base = Move::of_member(member, attempt.id, terms.now_ms);
    match (attempt.purpose, fate) {
        (_, Fate::Sunk(certificate)) => {
            let sunk = base.note(Note::Sunk).with(|entry| {
                entry.tx_hash = Some(attempt.hash.clone());
                entry.certificate = Some(certificate.clone());
            });
            let blame = certificate.kind == CertificateKind::Refused
                && certificate.evidence["relays_fault"] != true;
            match blame {
                true => charge(
                    sunk,
                    Event::Sunk,
                    attempt.purpose,
                    "refused",
                    &certificate.summary,
                    terms,
                ),
                false => requeue(sunk, Event::Sunk, attempt.purpose).due(Some(terms.ready_due_ms)),
            }
        }
        (Purpose::Prepare, Fate::Landed(landing)) => prepared(attempt, base, landing, index, terms),
        (_, Fate::Landed(landing)) => paid(attempt, base, landing, index, terms),
    }
}

/// Lanes settle a landing only if it has an outcome for every member.
fn outcome(landing: &Landing, index: usize) -> Outcome {
    let blamed = match wound::is(Wound::BlameByPosition) {
        true => (index + 1) % landing.outcomes.len(),
        false => index,
    };
    landing.outcomes[blamed].clone()
}

fn paid(attempt: &Attempt, base: Move, landing: &Landing, index: usize, terms: &Terms<'_>) -> Move {
    let outcome = outcome(landing, index);
    if outcome == Outcome::Done {
        let mut paid = fire(base, Event::Landed).with(|entry| {
            entry.tx_hash = Some(attempt.hash.clone());
        });
        paid.error = None;
        return paid;
    }
    let unpaid = base.note(Note::Unpaid).with(|entry| entry.tx_hash = Some(attempt.hash.clone()));
    match outcome {
        Outcome::Unprepared { message } => {
            let forgotten = match &terms.claim {
                Some(claim) => unpaid.ending(ClaimEnd::Forget(claim.clone())),
                None => unpaid,
            };
            charge(forgotten, Event::Unprepared, Purpose::Pay, "not_registered", &message, terms)
        }
        Outcome::OwnFault { message } => {
            blame(fire(unpaid, Event::Refused), "refused", &message, false)
        }
        Outcome::Unexplained { message } => {
            charge(unpaid, Event::Unpaid, Purpose::Pay, "unexplained", &message, terms)
        }
        Outcome::RelayFault { message, .. } => {
            let mut noted = blame(unpaid, "relay", &message, true);
            noted.error = None;
            fire(noted, Event::Unpaid).due(Some(terms.ready_due_ms))
        }
        Outcome::Sibling | Outcome::Done => {
            fire(unpaid, Event::Unpaid).due(Some(terms.ready_due_ms))
        }
    }
}

fn prepared(
    attempt: &Attempt,
    base: Move,
    landing: &Landing,
    index: usize,
    terms: &Terms<'_>,
) -> Move {
    let end = |base: Move, end: fn(ClaimKey) -> ClaimEnd| match &terms.claim {
        Some(claim) => base.ending(end(claim.clone())),
        None => base,
    };
    match outcome(landing, index) {
        Outcome::Done => {
            let kept = end(base, ClaimEnd::Keep);
            let prepared = fire(kept, Event::Prepared)
                .with(|entry| entry.tx_hash = Some(attempt.hash.clone()));
            fire(prepared, Event::Enqueued).due(Some(terms.ready_due_ms))
        }
        Outcome::OwnFault { message } => {
            let refused = fire(end(base, ClaimEnd::Release), Event::Refused);
            blame(refused, "registration_refused", &message, false)
        }
        Outcome::Unexplained { message } | Outcome::Unprepared { message } => {
            let released = end(base, ClaimEnd::Release);
            charge(released, Event::Unpaid, Purpose::Prepare, "registration", &message, terms)
        }
        Outcome::Sibling | Outcome::RelayFault { .. } => base.due(Some(terms.ready_due_ms)),
    }
}

/// A failure charged to the member: tried again later, or given up if it was the last.
fn charge(
    mut step: Move,
    event: Event,
    purpose: Purpose,
    kind: &str,
    message: &str,
    terms: &Terms<'_>,
) -> Move {
    // Being unregistered again and again harvests our deposits: that count never starts anew.
    let tries = match event {
        Event::Unprepared => step.retry_count,
        _ => step.stage_retries,
    };
    step.retry_count += 1;
    if tries + 1 >= terms.retries {
        let released = terms.claim.clone().filter(|_| purpose == Purpose::Prepare);
        let given_up = blame(fire(step, Event::GaveUp), kind, message, false);
        return match released {
            Some(claim) if given_up.claims.is_empty() => given_up.ending(ClaimEnd::Release(claim)),
            _ => given_up,
        };
    }
    let again = blame(step.note(Note::Retry), kind, message, true);
    let mut again = requeue(again, event, purpose);
    again.stage_retries = tries + 1;
    again.due(Some(terms.now_ms + (terms.backoff_ms)(tries)))
}

/// Back to the queue it came from. A preparing member never left its state.
fn requeue(step: Move, event: Event, purpose: Purpose) -> Move {
    match purpose {
        Purpose::Prepare => step,
        Purpose::Pay | Purpose::Fence => fire(step, event),
    }
}

fn blame(mut step: Move, kind: &str, message: &str, will_retry: bool) -> Move {
    let fault = Fault {
        error_type: kind.to_owned(),
        message: message.to_owned(),
        retry_count: step.retry_count,
        will_retry,
    };
    step.error = Some(fault.clone());
    step.with(|entry| entry.error = Some(fault))
}

/// The members of an attempt are in the states its opening left them in, where this is legal.
fn fire(step: Move, event: Event) -> Move {
    step.fire(event).expect("a member of an open attempt can be settled")
}
