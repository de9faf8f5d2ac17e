//! Invariant 9: funds between services are neither created nor lost, whoever is asked when.
//!
//! What happened is what the services have on record. Every leg is done at most once and for an
//! order that asked for it; what was deposited was withdrawn, and never given back as well; a final
//! state says what the records say. At rest nothing is held back, and an order that came to nothing
//! was refused by a service, or decided by an operator.

use std::collections::BTreeMap;

use landfall_core::internal::{Order, State};
use landfall_core::{Transfer, machine};
use landfall_ledger::audit::Tally;
use landfall_ledger::{Entry, Key, Outcome, Terms, Verb};

use super::services::Books;
use crate::checkers::{Broken, Evidence};

const CONSERVED: &str = "funds between services are conserved";
const TRUE: &str = "final states are true in the services' books";
const ASKED: &str = "services do what was asked for";
const EXPLAINED: &str = "only a service's refusal fails an order";

/// What the services have on record for one order.
#[derive(Default)]
struct Legs<'a>(BTreeMap<Verb, Vec<(&'static str, &'a Entry)>>);

impl Legs<'_> {
    fn is_done(&self, verb: Verb) -> bool {
        self.recorded(verb).any(|(_, entry)| entry.outcome == Outcome::Done)
    }

    /// What was done, each time that it was.
    fn terms(&self, verb: Verb) -> Vec<Terms> {
        let done = self.recorded(verb).filter(|(_, entry)| entry.outcome == Outcome::Done);
        done.map(|(_, entry)| entry.terms).collect()
    }

    fn is_refused(&self, verb: Verb) -> bool {
        self.recorded(verb).any(|(_, entry)| entry.outcome != Outcome::Done)
    }

    fn recorded(&self, verb: Verb) -> impl Iterator<Item = &(&'static str, &Entry)> {
        self.0.get(&verb).into_iter().flatten()
    }
}

fn legs(books: &[Books]) -> BTreeMap<String, Legs<'_>> {
    let mut legs: BTreeMap<String, Legs<'_>> = BTreeMap::new();
    for book in books {
        for entry in &book.entries {
            if let Key::Request(req_id) = &entry.key {
                let of = legs.entry(req_id.to_string()).or_default();
                of.0.entry(entry.verb).or_default().push((book.name, entry));
            }
        }
    }
    legs
}

fn orders(evidence: &Evidence) -> impl Iterator<Item = (&Transfer, &Order)> {
    evidence.transfers.iter().filter_map(|one| Some((one, one.payload.internal()?)))
}

fn tally(book: &Books) -> Result<Tally, Broken> {
    let mut tally = Tally::new(book.kind);
    let lines = book.entries.iter().try_for_each(|entry| tally.add(entry));
    let whole = lines.and_then(|()| tally.compare(&book.balances));
    let broken = |wrong| Broken::new(CONSERVED, None, format!("{}: {wrong}", book.name));
    whole.map_err(broken).map(|()| tally)
}

/// What must hold at every step.
pub fn check(evidence: &Evidence, books: &[Books]) -> Result<(), Broken> {
    books.iter().try_for_each(|book| tally(book).map(|_| ()))?;
    let legs = legs(books);
    for (key, legs) in &legs {
        let broken = |what: &str| Err(Broken::new(CONSERVED, Some(key), format!("{key}: {what}")));
        let deposited = legs.is_done(Verb::Deposit);
        if deposited && !legs.is_done(Verb::Withdraw) {
            return broken("deposited without having been withdrawn");
        }
        if deposited && legs.terms(Verb::Deposit) != legs.terms(Verb::Withdraw) {
            return broken("deposited otherwise than it was withdrawn");
        }
        if deposited && legs.is_done(Verb::Rollback) {
            return broken("deposited and given back");
        }
        if legs.is_done(Verb::Commit) && !deposited {
            return broken("taken from the source and never deposited");
        }
    }
    // A store that went back may have given a key to another order.
    if !evidence.promises.store_went_back {
        legs.iter().try_for_each(|(key, legs)| was_asked_for(evidence, key, legs))?;
    }
    let none = Legs::default();
    orders(evidence).try_for_each(|(one, _)| is_true(one, legs.get(&one.key).unwrap_or(&none)))
}

fn was_asked_for(evidence: &Evidence, key: &str, legs: &Legs<'_>) -> Result<(), Broken> {
    let broken = |what: String| Err(Broken::new(ASKED, Some(key), format!("{key}: {what}")));
    let Some((_, order)) = orders(evidence).find(|(transfer, _)| transfer.key == *key) else {
        return broken("nobody asked for it".to_owned());
    };
    for (verb, entries) in &legs.0 {
        let service = if *verb == Verb::Deposit { &order.target } else { &order.source };
        for (name, entry) in entries {
            let account = entry.terms.account;
            let asked = (order.user_id, order.asset_id, order.amount);
            let done = (account.user_id, account.asset_id, entry.terms.amount.get());
            if name != service || asked != done {
                return broken(format!(
                    "{verb} of {done:?} at {name}, {asked:?} at {service} asked"
                ));
            }
        }
    }
    Ok(())
}

fn is_true(transfer: &Transfer, legs: &Legs<'_>) -> Result<(), Broken> {
    let machine::State::Internal(state) = transfer.state else { return Ok(()) };
    let (withdrawn, deposited) = (legs.is_done(Verb::Withdraw), legs.is_done(Verb::Deposit));
    let (committed, returned) = (legs.is_done(Verb::Commit), legs.is_done(Verb::Rollback));
    let holds = match state {
        State::Committed => withdrawn && deposited && committed && !returned,
        State::RolledBack => withdrawn && !deposited && !committed && returned,
        State::Failed => !withdrawn && !deposited,
        _ => true,
    };
    if holds {
        return Ok(());
    }
    let what = format!(
        "{} is {}; withdrawn: {withdrawn}, deposited: {deposited}, committed: {committed}, given \
         back: {returned}",
        transfer.key, transfer.state
    );
    Err(Broken::new(TRUE, Some(&transfer.key), what))
}

/// What must hold when everything has come to rest.
pub fn at_rest(evidence: &Evidence, books: &[Books]) -> Result<(), Broken> {
    if evidence.promises.store_went_back {
        // What it has forgotten is held by the services until its client asks again.
        return Ok(());
    }
    for book in books {
        if let Some(key) = tally(book)?.open().keys().next() {
            let what = format!("{} still holds what {key:?} withdrew", book.name);
            return Err(Broken::new(CONSERVED, None, what));
        }
    }
    let (given, held) = totals(books);
    if given != held {
        let what = format!("users were given {given} and hold {held}");
        return Err(Broken::new(CONSERVED, None, what));
    }
    let legs = legs(books);
    let none = Legs::default();
    for (transfer, _) in orders(evidence) {
        let legs = legs.get(&transfer.key).unwrap_or(&none);
        let refused = match transfer.state {
            machine::State::Internal(State::Failed) => legs.is_refused(Verb::Withdraw),
            machine::State::Internal(State::RolledBack) => legs.is_refused(Verb::Deposit),
            _ => true,
        };
        if !refused && !evidence.promises.decided.contains(&transfer.key) {
            let what = format!("{} is {}, and nobody refused", transfer.key, transfer.state);
            return Err(Broken::new(EXPLAINED, Some(&transfer.key), what));
        }
    }
    Ok(())
}

/// What all users were given to begin with, and what they have.
fn totals(books: &[Books]) -> (u128, u128) {
    let entries = books.iter().flat_map(|book| &book.entries);
    let given = entries.filter(|entry| entry.verb == Verb::Fund && entry.outcome == Outcome::Done);
    let given = given.map(|entry| u128::from(entry.terms.amount.get())).sum();
    let balances = books.iter().flat_map(|book| &book.balances);
    let held = balances.map(|one| u128::from(one.available) + u128::from(one.frozen)).sum();
    (given, held)
}
