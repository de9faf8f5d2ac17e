//! What a fate means for the transfers it concerns: pure, from facts to moves.
//!
//! **Invariant:** only what is charged to the transfer itself counts as a retry: a sibling's
//! poison, a sunk attempt, an outage or an empty relay count against nobody.
//! **Invariant:** a member becomes FAILED only here, from a fate that proves it unpaid.
//! **Invariant:** a fault that may be the relay's marks the member that was named ([`is_marked`]):
//! it travels alone until it is served. Alone it is tried ever more rarely, and charged only for
//! what nobody explains, and only while not everybody meets it.
//! Not here: whether others are spared (`trouble`).

use landfall_core::attempt::{Landing, Outcome};
use landfall_core::guard::{self, Guard};
use landfall_core::ledger::Beforehand;
use landfall_core::wound::{self, Wound};
use landfall_core::{
    Attempt, ClaimEnd, ClaimKey, Event, Fate, Fault, Move, Note, Purpose, Transfer,
};

/// Kinds of errors after which a member travels alone.
const RELAY: &str = "relay";
const UNEXPLAINED: &str = "unexplained";
const REGISTRATION: &str = "registration";

/// Failures alone after which an unexplained fault is a member's own though nobody else was served.
const TRIES_ALONE: u32 = 3;

/// Whether it was named by a fault that may be the relay's, and has not been served since.
pub fn is_marked(member: &Transfer) -> bool {
    let kind = member.error.as_ref().map(|error| error.error_type.as_str());
    kind.is_some_and(|kind| [RELAY, UNEXPLAINED, REGISTRATION].contains(&kind))
}

/// How often a marked member has failed alone.
pub fn tries(member: &Transfer) -> u32 {
    member.error.as_ref().filter(|_| is_marked(member)).map_or(0, |error| error.retry_count)
}

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
    /// Everybody meets the fault: it says nothing of the member.
    pub everybody: bool,
    /// Others were served since the member last failed.
    pub others_spared: bool,
    /// Its failures alone so far, and the wait after one more.
    pub tries: u32,
    pub aside_ms: u64,
}

/// The move of one member of a decided attempt.
pub fn member(
    attempt: &Attempt,
    member: &Transfer,
    fate: &Fate,
    index: usize,
    terms: &Terms<'_>,
) -> Move {
    settled(attempt, member, fate, index, terms).ending_claims(&member.payload)
}

fn settled(
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
            let (event, why) = (Event::Sunk, &certificate.summary);
            let Some(refusal) = certificate.refusal() else {
                return ready(sunk, event, attempt.purpose, terms);
            };
            match refusal["relays_fault"] == true {
                true if is_alone(attempt) => doubt(sunk, event, attempt, RELAY, why, terms),
                true => ready(sunk, event, attempt.purpose, terms),
                false => charge(sunk, event, attempt.purpose, "refused", why, terms),
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
    match &landing.outcomes[blamed] {
        Outcome::Sibling if wound::is(Wound::SiblingsPaid) => Outcome::Done,
        // All are named, so none is.
        Outcome::RelayFault { .. } if landing.outcomes.len() > 1 && names_all(landing) => {
            Outcome::Sibling
        }
        outcome => outcome.clone(),
    }
}

/// Whether no member was named more than the others.
pub fn names_all(landing: &Landing) -> bool {
    landing.outcomes.iter().all(|outcome| matches!(outcome, Outcome::RelayFault { .. }))
}

fn is_alone(attempt: &Attempt) -> bool {
    attempt.members.len() == 1
}

/// What nobody explains is a member's own once others are spared it; or, where there are no others,
/// once it has met it alone so often that they would have shown it otherwise.
fn is_its_own(attempt: &Attempt, terms: &Terms<'_>) -> bool {
    let is_known = terms.others_spared || terms.tries >= TRIES_ALONE;
    is_alone(attempt) && is_known && !terms.everybody
}

fn paid(attempt: &Attempt, base: Move, landing: &Landing, index: usize, terms: &Terms<'_>) -> Move {
    let outcome = outcome(landing, index);
    let mut base = base;
    base.tx_hash = Some(landing.hash_of(attempt).to_owned());
    let landed_as = base.tx_hash.clone();
    if outcome == Outcome::Done {
        let mut paid = fire(base, Event::Landed).with(|entry| entry.tx_hash = landed_as);
        paid.error = None;
        return paid;
    }
    let unpaid = base.note(Note::Unpaid).with(|entry| entry.tx_hash = landed_as);
    match outcome {
        Outcome::Unprepared { message } => {
            guard::met(Guard::UnpreparedAgain);
            let forgotten = match &terms.claim {
                Some(claim) => unpaid.ending(ClaimEnd::Forget(claim.clone())),
                None => unpaid,
            };
            charge(forgotten, Event::Unprepared, Purpose::Pay, "not_registered", &message, terms)
        }
        Outcome::OwnFault { message } => {
            guard::met(Guard::OwnFault);
            blame(fire(unpaid, Event::Refused), "refused", &message, false)
        }
        Outcome::Unexplained { message } if is_its_own(attempt, terms) => {
            charge(unpaid, Event::Unpaid, Purpose::Pay, UNEXPLAINED, &message, terms)
        }
        Outcome::Unexplained { message } => {
            doubt(unpaid, Event::Unpaid, attempt, UNEXPLAINED, &message, terms)
        }
        Outcome::RelayFault { message, .. } => {
            guard::met(Guard::RelayFault);
            doubt(unpaid, Event::Unpaid, attempt, RELAY, &message, terms)
        }
        Outcome::Overtaken { message } => {
            let told = fault("overtaken", &message, unpaid.retry_count, true);
            let told = unpaid.with(|entry| entry.error = Some(told));
            ready(told, Event::Unpaid, Purpose::Pay, terms)
        }
        Outcome::Sibling | Outcome::Done => {
            guard::met(Guard::SiblingOfOffender);
            ready(unpaid, Event::Unpaid, Purpose::Pay, terms)
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
            let landed_as = landing.hash_of(attempt).to_owned();
            let mut prepared =
                fire(kept, Event::Prepared).with(|entry| entry.tx_hash = Some(landed_as));
            // What held up the preparation says nothing of the payment.
            prepared.error = None;
            fire(prepared, Event::Enqueued).due(Some(terms.ready_due_ms))
        }
        Outcome::OwnFault { message } => {
            guard::met(Guard::OwnFault);
            let refused = fire(end(base, ClaimEnd::Release), Event::Refused);
            blame(refused, "registration_refused", &message, false)
        }
        Outcome::Unexplained { message } | Outcome::Unprepared { message }
            if is_its_own(attempt, terms) =>
        {
            let released = end(base, ClaimEnd::Release);
            charge(released, Event::Unpaid, Purpose::Prepare, REGISTRATION, &message, terms)
        }
        Outcome::Unexplained { message } | Outcome::Unprepared { message } => {
            doubt(base, Event::Unpaid, attempt, REGISTRATION, &message, terms)
        }
        Outcome::RelayFault { message, .. } => {
            guard::met(Guard::RelayFault);
            doubt(base, Event::Unpaid, attempt, RELAY, &message, terms)
        }
        Outcome::Sibling | Outcome::Overtaken { .. } => {
            guard::met(Guard::SiblingOfOffender);
            base.due(Some(terms.ready_due_ms))
        }
    }
}

/// Named, and charged with nothing: it travels alone from here on, at once. One that failed alone
/// waits aside, each time longer; unless everybody fails, for then the rail waits for all.
fn doubt(
    step: Move,
    event: Event,
    attempt: &Attempt,
    kind: &str,
    message: &str,
    terms: &Terms<'_>,
) -> Move {
    let its_own = is_alone(attempt) && !terms.everybody;
    let fault = Fault {
        error_type: kind.to_owned(),
        message: message.to_owned(),
        retry_count: terms.tries + u32::from(its_own),
        will_retry: true,
    };
    let marked = step.with(|entry| entry.error = Some(fault.clone()));
    let mut marked = ready(marked, event, attempt.purpose, terms);
    if its_own {
        marked = marked.due(Some(terms.now_ms + terms.aside_ms)).note(Note::SetAside);
        marked.aside = Some(format!("fails also alone: {message}"));
    }
    marked.error = Some(fault);
    marked
}

/// Back to where it came from, to go again at once.
fn ready(step: Move, event: Event, purpose: Purpose, terms: &Terms<'_>) -> Move {
    requeue(step, event, purpose).due(Some(terms.ready_due_ms))
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
        guard::met(Guard::RetriesUsedUp);
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
    let backoff_ms = (terms.backoff_ms)(tries);
    // While nobody else shows that it is this one's own, it has as long as one that waits aside.
    let unexplained = [UNEXPLAINED, REGISTRATION].contains(&kind);
    if let Some(error) = again.error.as_mut().filter(|_| unexplained) {
        error.retry_count = error.retry_count.max(terms.tries + 1);
    }
    let wait_ms = match unexplained && !terms.others_spared {
        true => backoff_ms.max(terms.aside_ms),
        false => backoff_ms,
    };
    again.due(Some(terms.now_ms + wait_ms))
}

/// Back to the queue it came from. A preparing member never left its state.
fn requeue(step: Move, event: Event, purpose: Purpose) -> Move {
    match purpose {
        Purpose::Prepare => step,
        Purpose::Pay | Purpose::Fence => fire(step, event),
    }
}

/// Proven unmoved without any attempt: what it asks for can never be done.
pub fn hopeless(member: &Transfer, why: &str, now_ms: u64) -> Option<Move> {
    let refused = Move::of(member, now_ms).fire(Event::Refused).ok()?;
    Some(blame(refused, "refused", why, false).ending_claims(&member.payload))
}

/// What was found out of a member before anything was signed for it. Nothing of ours can have moved
/// by then: whatever was signed for it before is proven dead, or unpaid.
pub fn beforehand(
    member: &Transfer,
    found: &Beforehand,
    retries: u32,
    (now_ms, wait_ms): (u64, u64),
) -> Option<Move> {
    let base = Move::of(member, now_ms);
    Some(match found {
        Beforehand::Done { hash } => {
            let mut done = base.fire(Event::Landed).ok()?;
            done.tx_hash = Some(hash.clone());
            done.error = None;
            done.with(|entry| entry.tx_hash = Some(hash.clone())).ending_claims(&member.payload)
        }
        Beforehand::Forestalled { hash, why } => {
            let mut failed = blame(base.fire(Event::Refused).ok()?, "forestalled", why, false);
            failed.tx_hash = Some(hash.clone());
            // What somebody else has used up is never free again.
            failed.with(|entry| entry.tx_hash = Some(hash.clone())).keeping_claims(&member.payload)
        }
        Beforehand::NotNow { charged: true, .. } if member.stage_retries + 1 >= retries => {
            guard::met(Guard::RetriesUsedUp);
            let mut given_up = base.fire(Event::GaveUp).ok()?;
            given_up.retry_count += 1;
            blame(given_up, "refused", &found.to_string(), false).ending_claims(&member.payload)
        }
        Beforehand::NotNow { why, charged } => {
            let mut later = base.fire(Event::Retry).ok()?;
            later.retry_count += u32::from(*charged);
            later.stage_retries += u32::from(*charged);
            blame(later, "not_now", why, true).due(Some(now_ms + wait_ms))
        }
    })
}

fn fault(kind: &str, message: &str, retry_count: u32, will_retry: bool) -> Fault {
    let (error_type, message) = (kind.to_owned(), message.to_owned());
    Fault { error_type, message, retry_count, will_retry }
}

fn blame(mut step: Move, kind: &str, message: &str, will_retry: bool) -> Move {
    let fault = fault(kind, message, step.retry_count, will_retry);
    step.error = Some(fault.clone());
    step.with(|entry| entry.error = Some(fault))
}

/// The members of an attempt are in the states its opening left them in, where this is legal.
fn fire(step: Move, event: Event) -> Move {
    step.fire(event).expect("a member of an open attempt can be settled")
}

#[cfg(test)]
mod tests;
