//! The rules of an audit, as a pure function of what was read.
//!
//! The checker fails on overpayment as well as on loss: a payment counts as moved when the ledger
//! shows it final and successful, whatever the store says of it.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::{Attempt, Fate, LaneId, Purpose, State, Transfer, TransferId};
use landfall_rail_near::{Found, Seen, Walk};

use super::{moved, paid_all};

/// What the audit is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    pub network: String,
    pub account: String,
    pub token: String,
}

impl Ledger {
    /// The public key of a lane of this ledger's account.
    pub fn key_of<'a>(&self, lane: &'a LaneId) -> Option<&'a str> {
        let (account, key) = landfall_rail_near::parse_lane_id(lane, &self.network)?;
        (account == self.account).then_some(key)
    }
}

/// A transfer, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferFact {
    pub key: String,
    pub state: State,
    pub receiver: String,
    pub amount: u128,
}

impl TransferFact {
    pub fn of(transfer: &Transfer) -> TransferFact {
        TransferFact {
            key: transfer.key.clone(),
            state: transfer.state,
            receiver: transfer.payload.receiver().into_owned(),
            amount: transfer.payload.amount(),
        }
    }
}

/// An attempt, as the store has it, and what the ledger says of it.
#[derive(Debug, Clone)]
pub struct AttemptFact {
    pub attempt: Attempt,
    pub seen: Seen,
}

/// Everything that was read.
pub struct Facts {
    pub ledger: Ledger,
    pub transfers: BTreeMap<TransferId, TransferFact>,
    pub attempts: Vec<AttemptFact>,
    pub walk: Walk,
}

/// How many there are of what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub completed: u64,
    pub failed: u64,
    pub landed: u64,
    pub sunk: u64,
    pub open: u64,
}

impl Facts {
    /// Whether all blocks in which it could be were read, and do not hold it.
    fn is_in_no_block(&self, attempt: &Attempt) -> bool {
        let base = attempt.base.as_ref().map_or(0, |base| base.height);
        let all = self.walk.gone_below.is_none_or(|height| height <= base);
        all && self.walk.blocks > 0 && self.walk.found.iter().all(|one| one.hash != attempt.hash)
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for transfer in self.transfers.values() {
            counts.completed += u64::from(transfer.state.is_completed());
            counts.failed += u64::from(transfer.state.is_failed());
        }
        for fact in &self.attempts {
            match &fact.attempt.fate {
                Some(Fate::Landed(_)) => counts.landed += 1,
                Some(Fate::Sunk(_)) => counts.sunk += 1,
                None => counts.open += 1,
            }
        }
        counts
    }
}

/// One thing that store and ledger disagree about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// A short name for programs.
    pub kind: &'static str,
    pub message: String,
    /// The transfer's idempotency key.
    pub transfer: Option<String>,
    pub tx_hash: Option<String>,
    /// No difference after all, if this transfer is completed by now.
    pub unless_completed: Option<TransferId>,
}

/// What the comparison came to.
#[derive(Debug, Default)]
pub struct Verdict {
    pub differences: Vec<Difference>,
    /// Payments beyond what was asked for.
    pub duplicates: u64,
    /// Transfers called COMPLETED without a payment.
    pub losses: u64,
    /// Attempts that the ledger no longer shows because its history is gone.
    pub unproven: u64,
}

impl Verdict {
    fn differ(&mut self, kind: &'static str, tx_hash: &str, message: String) {
        self.differences.push(Difference {
            kind,
            message,
            transfer: None,
            tx_hash: Some(tx_hash.to_owned()),
            unless_completed: None,
        });
    }

    fn differ_about(&mut self, kind: &'static str, transfer: &TransferFact, message: String) {
        self.differences.push(Difference {
            kind,
            message,
            transfer: Some(transfer.key.clone()),
            tx_hash: None,
            unless_completed: None,
        });
    }
}

/// Payments per transfer: by attempts the store has decided, and by open ones.
#[derive(Debug, Clone, Copy, Default)]
struct Paid {
    decided: u64,
    open: u64,
}

pub fn compare(facts: &Facts) -> Verdict {
    let mut verdict = Verdict::default();
    let mut paid: BTreeMap<TransferId, Paid> = BTreeMap::new();
    for fact in &facts.attempts {
        let has_moved = check_attempt(facts, fact, &mut verdict);
        if has_moved && fact.attempt.purpose == Purpose::Pay {
            for member in &fact.attempt.members {
                let count = paid.entry(*member).or_default();
                match fact.attempt.fate {
                    Some(_) => count.decided += 1,
                    None => count.open += 1,
                }
            }
        }
    }
    for (id, transfer) in &facts.transfers {
        let paid = paid.get(id).copied().unwrap_or_default();
        check_transfer(*id, transfer, paid, &mut verdict);
    }
    check_walk(facts, &mut verdict);
    verdict
}

/// Compares one attempt's fate with the ledger; true if value moved by it.
fn check_attempt(facts: &Facts, fact: &AttemptFact, verdict: &mut Verdict) -> bool {
    let AttemptFact { attempt, seen } = fact;
    if let (Seen::Done(payments), Purpose::Pay) = (seen, attempt.purpose) {
        check_payments(facts, attempt, payments, verdict);
    }
    match &attempt.fate {
        None => moved(seen),
        Some(fate @ Fate::Landed(landing)) => {
            let agrees = match seen {
                Seen::Done(_) => paid_all(fate),
                Seen::Reverted => !paid_all(fate),
                Seen::Unknown | Seen::Unsettled => false,
            };
            let is_gone = *seen == Seen::Unknown
                && facts.walk.gone_below.is_some_and(|height| landing.block_height < height);
            if is_gone {
                verdict.unproven += 1;
                return paid_all(fate);
            }
            if !agrees {
                let message = format!(
                    "attempt {} is stored as landed ({}), the ledger says {}",
                    attempt.id,
                    if paid_all(fate) { "paid" } else { "reverted" },
                    word(seen)
                );
                verdict.differ("landed_otherwise", &attempt.hash, message);
            }
            moved(seen)
        }
        Some(Fate::Sunk(_)) => {
            // One node may show what no final block holds, and a quorum has told every block.
            let only_told = *seen == Seen::Unsettled && facts.is_in_no_block(attempt);
            if *seen != Seen::Unknown && !only_told {
                let message = format!(
                    "attempt {} is stored as sunk, the ledger says {}",
                    attempt.id,
                    word(seen)
                );
                verdict.differ("sunk_but_there", &attempt.hash, message);
            }
            moved(seen)
        }
    }
}

fn word(seen: &Seen) -> &'static str {
    match seen {
        Seen::Unknown => "it is not there",
        Seen::Unsettled => "it is not final",
        Seen::Done(_) => "it took effect",
        Seen::Reverted => "it was reverted",
    }
}

/// What the ledger paid, action by action, against the members.
fn check_payments(
    facts: &Facts,
    attempt: &Attempt,
    payments: &[(String, u128)],
    verdict: &mut Verdict,
) {
    let asked: Vec<Option<(String, u128)>> = attempt
        .members
        .iter()
        .map(|member| facts.transfers.get(member))
        .map(|transfer| transfer.map(|transfer| (transfer.receiver.clone(), transfer.amount)))
        .collect();
    let same = asked.len() == payments.len()
        && asked.iter().zip(payments).all(|(asked, payment)| asked.as_ref() == Some(payment));
    if !same {
        let message = format!(
            "attempt {} paid {} times; its {} members asked for something else",
            attempt.id,
            payments.len(),
            asked.len()
        );
        verdict.duplicates += 1;
        verdict.differ("paid_otherwise", &attempt.hash, message);
    }
}

fn check_transfer(id: TransferId, transfer: &TransferFact, paid: Paid, verdict: &mut Verdict) {
    let all = paid.decided + paid.open;
    let key = &transfer.key;
    if all > 1 {
        verdict.duplicates += all - 1;
        verdict.differ_about("paid_twice", transfer, format!("{key} was paid {all} times"));
    }
    if transfer.state.is_completed() && all == 0 {
        verdict.losses += 1;
        let message = format!("{key} is COMPLETED and was never paid");
        verdict.differ_about("never_paid", transfer, message);
    }
    if transfer.state.is_failed() && all > 0 {
        verdict.duplicates += 1;
        verdict.differ_about("failed_but_paid", transfer, format!("{key} is FAILED and was paid"));
    }
    if !transfer.state.is_final() && paid.decided > 0 {
        let message = format!("{key} was paid and is still {}", transfer.state.name());
        verdict.differ_about("paid_but_unfinished", transfer, message);
        if let Some(last) = verdict.differences.last_mut() {
            last.unless_completed = Some(id);
        }
    }
}

/// Nothing that the relay's account signed for the token, or with a lane's key, is unknown here.
fn check_walk(facts: &Facts, verdict: &mut Verdict) {
    let known: BTreeSet<&str> =
        facts.attempts.iter().map(|fact| fact.attempt.hash.as_str()).collect();
    let lanes = facts.attempts.iter().map(|fact| &fact.attempt.lane);
    let keys: BTreeSet<&str> = lanes.filter_map(|lane| facts.ledger.key_of(lane)).collect();
    let is_ours = |found: &&Found| {
        found.receiver == facts.ledger.token || keys.contains(found.public_key.as_str())
    };
    for found in facts.walk.found.iter().filter(is_ours) {
        if !known.contains(found.hash.as_str()) {
            let message = format!(
                "a transaction to {} in block {} is in no attempt of the store",
                found.receiver, found.height
            );
            verdict.duplicates += u64::from(found.receiver == facts.ledger.token);
            verdict.differ("unknown_transaction", &found.hash, message);
        }
    }
}

#[cfg(test)]
mod tests;
