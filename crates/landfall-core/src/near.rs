//! The life of a NEAR payout, as data, and what a payout is.
//!
//! [`next`] alone changes a [`State`]. Pure: no clock, no I/O.
//! **Invariant:** signed bytes are stored ([`Event::AttemptStored`]) before they are broadcast.
//! **Invariant:** no event but an operator's replay leaves a final state.
//! Not here: encoding, signing, RPC (`landfall-rail-near`).

use near_account_id::AccountId;
use serde::{Deserialize, Serialize};

use crate::field::BadField;
use crate::ids::Fingerprint;
use crate::machine::{AttemptStages, Event, Stage};
use crate::wound::{self, Wound};

pub const REGISTRATION: Stage = Stage("registration");
pub const TRANSFER: Stage = Stage("transfer");
pub const VERIFICATION: Stage = Stage("verification");
pub const STAGES: AttemptStages =
    AttemptStages { prepare: Some(REGISTRATION), pay: TRANSFER, verify: VERIFICATION };

/// Bytes of a memo that are taken. Each byte costs gas in a batch of 100 that must fit one
/// transaction.
pub const MEMO_MAX_BYTES: usize = 256;

/// Where a payout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Received,
    QueuedRegistration,
    Registered,
    QueuedTransfer,
    Submitted,
    QueuedVerification,
    Completed,
    Failed,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Received,
        State::QueuedRegistration,
        State::Registered,
        State::QueuedTransfer,
        State::Submitted,
        State::QueuedVerification,
        State::Completed,
        State::Failed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            State::Received => "RECEIVED",
            State::QueuedRegistration => "QUEUED_REGISTRATION",
            State::Registered => "REGISTERED",
            State::QueuedTransfer => "QUEUED_TRANSFER",
            State::Submitted => "SUBMITTED",
            State::QueuedVerification => "QUEUED_VERIFICATION",
            State::Completed => "COMPLETED",
            State::Failed => "FAILED",
        }
    }

    pub fn stage(self) -> Option<Stage> {
        match self {
            State::Received | State::QueuedRegistration => Some(REGISTRATION),
            State::Registered | State::QueuedTransfer => Some(TRANSFER),
            State::Submitted | State::QueuedVerification => Some(VERIFICATION),
            State::Completed | State::Failed => None,
        }
    }
}

/// The whole machine. What it does not list is illegal.
pub fn next(state: State, event: Event) -> Option<State> {
    use {Event as E, State as S};
    Some(match (state, event) {
        (S::Received, E::Enqueued) => S::QueuedRegistration,
        (S::QueuedRegistration, E::Prepared) => S::Registered,
        (S::Registered, E::Enqueued) => S::QueuedTransfer,
        (S::QueuedTransfer, E::AttemptStored) => S::Submitted,
        (S::Submitted, E::Enqueued) => S::QueuedVerification,
        // The answer to a send may be lost: the look decides, whatever the send said.
        (S::Submitted | S::QueuedVerification, E::Landed) => S::Completed,
        (S::Submitted | S::QueuedVerification, E::Sunk | E::Unpaid) => S::QueuedTransfer,
        (S::Submitted | S::QueuedVerification, E::Unprepared) => S::QueuedRegistration,
        (S::Submitted | S::QueuedVerification, E::Refused | E::GaveUp) => S::Failed,
        (S::QueuedRegistration | S::QueuedTransfer, E::Refused | E::GaveUp) => S::Failed,
        (S::Failed, E::Replayed) => S::QueuedRegistration,
        _ => return None,
    })
}

/// One token payout. The first three facts come from the configuration and are frozen in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payout {
    pub network: String,
    pub token: String,
    /// The account that pays.
    pub sender: String,
    pub receiver_id: String,
    #[serde(with = "crate::decimal")]
    pub amount: u128,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memo: Option<String>,
}

/// What the configuration decides about every payout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub network: String,
    pub token: String,
    pub sender: String,
}

fn bad(field: &'static str, message: impl Into<String>) -> BadField {
    BadField::new(field, message)
}

impl Payout {
    /// Checks a request by the ledger's own rules and freezes the terms into it.
    pub fn new(
        terms: &Terms,
        receiver_id: &str,
        amount: &str,
        memo: Option<&str>,
    ) -> Result<Payout, BadField> {
        let receiver = payable(terms, receiver_id)?;
        let amount = parse_amount(amount)?;
        let memo = memo.map(check_memo).transpose()?;
        Ok(Payout {
            network: terms.network.clone(),
            token: terms.token.clone(),
            sender: terms.sender.clone(),
            receiver_id: receiver.to_string(),
            amount,
            memo,
        })
    }

    /// All that is wrong with the given fields of a request: [`Payout::new`] stops at the first.
    pub fn faults(
        terms: &Terms,
        receiver_id: Option<&str>,
        amount: Option<&str>,
        memo: Option<&str>,
    ) -> Vec<BadField> {
        let receiver = receiver_id.and_then(|text| payable(terms, text).err());
        let amount = amount.and_then(|text| parse_amount(text).err());
        let memo = memo.and_then(|text| check_memo(text).err());
        [receiver, amount, memo].into_iter().flatten().collect()
    }

    /// Covers what the client said, in canonical form. The frozen terms are not the client's.
    pub fn fingerprint(&self) -> Fingerprint {
        let memo = match &self.memo {
            Some(memo) if !wound::is(Wound::FingerprintWithoutMemo) => format!("memo:{memo}"),
            _ => "none".to_owned(),
        };
        let receiver = match wound::is(Wound::FingerprintWithoutReceiver) {
            false => self.receiver_id.as_str(),
            true => "",
        };
        Fingerprint::of(&["near", receiver, &self.amount.to_string(), &memo])
    }
}

/// An account by the ledger's own rules.
pub fn account(receiver_id: &str) -> Result<AccountId, BadField> {
    let named = receiver_id.parse();
    named.map_err(|error| bad("receiver_id", format!("not a NEAR account id: {error}")))
}

fn payable(terms: &Terms, receiver_id: &str) -> Result<AccountId, BadField> {
    let receiver = account(receiver_id)?;
    match receiver.as_str() == terms.sender {
        true => Err(bad("receiver_id", "is the relay's own account, which cannot pay itself")),
        false => Ok(receiver),
    }
}

fn parse_amount(text: &str) -> Result<u128, BadField> {
    if text.is_empty() {
        return Err(bad("amount", "is empty; give a whole number as a decimal string"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bad(
            "amount",
            "must be a whole number in the token's smallest unit, digits only",
        ));
    }
    match text.parse::<u128>() {
        Ok(0) => Err(bad("amount", "must be at least 1")),
        Ok(amount) => Ok(amount),
        Err(_) => Err(bad("amount", format!("is larger than the ledger's limit {}", u128::MAX))),
    }
}

fn check_memo(memo: &str) -> Result<String, BadField> {
    if memo.len() > MEMO_MAX_BYTES {
        return Err(bad(
            "memo",
            format!("is {} bytes long; at most {MEMO_MAX_BYTES} are taken", memo.len()),
        ));
    }
    if memo.chars().any(char::is_control) {
        return Err(bad("memo", "contains a control character"));
    }
    Ok(memo.to_owned())
}

#[cfg(test)]
mod tests;
