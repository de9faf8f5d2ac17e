//! What a fate means for the record of an execution. Pure.
//!
//! **Invariant:** a record goes back to its queue only on proof that nothing of it can land, and
//! fails only on proof that it did not do what it was to do.

use landfall_core::attempt::Outcome;
use landfall_core::machine::Illegal;
use landfall_core::{Attempt, Certificate, Event, Fate, Fault, Move, Note, Transfer};

/// The record's move when its bytes are stored.
pub fn opening(record: &Transfer, hash: &str, now_ms: u64) -> Result<Move, Illegal> {
    let mut step = Move::of(record, now_ms).due(None);
    step.tx_hash = Some(hash.to_owned());
    step.fire(Event::AttemptStored)
}

/// The record's move when the attempt that carries it, alone, is decided.
pub fn settling(
    attempt: &Attempt,
    record: &Transfer,
    fate: &Fate,
    now_ms: u64,
) -> Result<Move, Illegal> {
    let mut step = Move::of_member(record, attempt.id, now_ms).due(None);
    match fate {
        Fate::Landed(landing) => {
            step.tx_hash = Some(landing.hash_of(attempt).to_owned());
            match landing.outcomes.first() {
                Some(Outcome::Done) => step.fire(Event::Landed),
                outcome => fail(step, "reverted", message_of(outcome)),
            }
        }
        Fate::Sunk(certificate) => {
            let step = step.note(Note::Sunk).with(|entry| {
                entry.tx_hash = Some(attempt.hash.clone());
                entry.certificate = Some(certificate.clone());
            });
            match blame(certificate) {
                Blame::Its => fail(step, "refused", certificate.summary.clone()),
                Blame::Senders(_) | Blame::Nobodys => {
                    step.fire(Event::Sunk).map(|step| Move { tx_hash: None, ..step })
                }
            }
        }
    }
}

/// Whose fault it is that an attempt sank.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The ledger will never take it.
    Its,
    /// The ledger will not take it from us as we are: keys, funds, limits.
    Senders(String),
    /// It may be built anew.
    Nobodys,
}

pub(crate) fn blame(certificate: &Certificate) -> Blame {
    let Some(refusal) = certificate.refusal() else { return Blame::Nobodys };
    match refusal.get("relays_fault").and_then(serde_json::Value::as_bool) {
        Some(false) => Blame::Its,
        _ => Blame::Senders(certificate.summary.clone()),
    }
}

fn fail(step: Move, error_type: &str, message: String) -> Result<Move, Illegal> {
    let retry_count = step.retry_count;
    let error_type = error_type.to_owned();
    let fault = Fault { error_type, message, retry_count, will_retry: false };
    let step = step.fire(Event::Refused)?.with(|entry| entry.error = Some(fault.clone()));
    Ok(Move { error: Some(fault), ..step })
}

fn message_of(outcome: Option<&Outcome>) -> String {
    match outcome {
        Some(
            Outcome::Unprepared { message }
            | Outcome::OwnFault { message }
            | Outcome::Overtaken { message }
            | Outcome::RelayFault { message, .. }
            | Outcome::Unexplained { message },
        ) => message.clone(),
        Some(Outcome::Done | Outcome::Sibling) | None => "it was reverted".to_owned(),
    }
}
