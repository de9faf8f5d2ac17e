//! The life of a call on an EVM chain, as data, and what a call is.
//!
//! [`next`] alone changes a [`State`]. Pure: no clock, no I/O.
//! **Invariant:** signed bytes are stored ([`Event::AttemptStored`]) before they are broadcast.
//! **Invariant:** no event but an operator's replay leaves a final state; a block that holds it is
//! no end, since it may fall off the chain.
//! Not here: encoding, signing, RPC, whether a user has signed (`landfall-rail-evm`).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::claim::ClaimKey;
use crate::field::BadField;
use crate::ids::{self, Fingerprint};
use crate::machine::{AttemptStages, Event, Stage};

mod words;

pub use words::{Address, Data};

pub const SUBMISSION: Stage = Stage("submission");
pub const CONFIRMATION: Stage = Stage("confirmation");
pub const STAGES: AttemptStages =
    AttemptStages { prepare: None, pay: SUBMISSION, verify: CONFIRMATION };

/// Gas that a call may ask for: what a block of the largest chains holds.
pub const GAS_MAX: u64 = 60_000_000;
/// Gas of the cheapest transaction there is.
pub const GAS_MIN: u64 = 21_000;
/// The largest deadline that a forwarder knows.
pub const DEADLINE_MAX: u64 = (1 << 48) - 1;
/// Bytes of a user's signature.
const SIGNATURE_BYTES: usize = 65;

/// Where a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Pending,
    Submitted,
    /// In a block that may yet fall off the chain.
    Mined,
    Success,
    Failed,
}

impl State {
    pub const ALL: [State; 5] =
        [State::Pending, State::Submitted, State::Mined, State::Success, State::Failed];

    pub fn name(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Submitted => "submitted",
            State::Mined => "mined",
            State::Success => "success",
            State::Failed => "failed",
        }
    }

    pub fn stage(self) -> Option<Stage> {
        match self {
            State::Pending => Some(SUBMISSION),
            State::Submitted | State::Mined => Some(CONFIRMATION),
            State::Success | State::Failed => None,
        }
    }
}

/// The whole machine. What it does not list is illegal.
pub fn next(state: State, event: Event) -> Option<State> {
    use {Event as E, State as S};
    Some(match (state, event) {
        (S::Pending, E::AttemptStored) => S::Submitted,
        (S::Submitted, E::Included) => S::Mined,
        (S::Mined, E::FellOff) => S::Submitted,
        (S::Submitted | S::Mined, E::Landed) => S::Success,
        (S::Submitted | S::Mined, E::Sunk | E::Unpaid) => S::Pending,
        (S::Pending | S::Submitted | S::Mined, E::Refused | E::GaveUp) => S::Failed,
        (S::Failed, E::Replayed) => S::Pending,
        _ => return None,
    })
}

/// How soon a call should be mined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Speed {
    Slow,
    #[default]
    Average,
    Fast,
    Fastest,
}

impl Speed {
    pub const ALL: [Speed; 4] = [Speed::Slow, Speed::Average, Speed::Fast, Speed::Fastest];

    pub fn as_str(self) -> &'static str {
        match self {
            Speed::Slow => "slow",
            Speed::Average => "average",
            Speed::Fast => "fast",
            Speed::Fastest => "fastest",
        }
    }

    pub fn parse(text: &str) -> Option<Speed> {
        Speed::ALL.into_iter().find(|speed| speed.as_str() == text)
    }
}

/// One call. Chain and forwarder come from the configuration and are frozen in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The chain by its configured name.
    pub chain: String,
    pub chain_id: u64,
    pub speed: Speed,
    #[serde(flatten)]
    pub work: Work,
}

/// What is to be done, and who wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "request", rename_all = "lowercase")]
pub enum Work {
    /// A signer of the relay calls.
    Direct(Direct),
    /// A user calls through a forwarder, by a request that the relay submits and pays for.
    Gasless(Gasless),
}

/// A call by a signer of the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Direct {
    pub to: Address,
    pub data: Data,
    #[serde(with = "crate::decimal")]
    pub value: u128,
    /// None: as the nodes estimate it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gas: Option<u64>,
}

/// A request that its user has signed (ERC-2771). A forwarder takes each nonce of a user once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gasless {
    pub forwarder: Address,
    pub from: Address,
    pub to: Address,
    #[serde(with = "crate::decimal")]
    pub value: u128,
    pub gas: u64,
    pub nonce: u64,
    pub deadline: u64,
    pub data: Data,
    pub signature: Data,
}

/// What the configuration decides about every call on a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    pub chain: String,
    pub chain_id: u64,
    /// None: no requests of users are taken.
    pub forwarder: Option<Address>,
}

/// The fields of a call by the relay, as they were given.
#[derive(Debug, Clone, Copy, Default)]
pub struct DirectFields<'a> {
    pub to: &'a str,
    pub data: Option<&'a str>,
    pub value: Option<&'a str>,
    pub gas: Option<&'a str>,
    pub speed: Option<&'a str>,
}

/// The fields of a user's request, as they were given.
#[derive(Debug, Clone, Copy, Default)]
pub struct GaslessFields<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub value: &'a str,
    pub gas: &'a str,
    pub nonce: &'a str,
    pub deadline: &'a str,
    pub data: &'a str,
    pub signature: &'a str,
    /// The forwarder for which it is meant, if the client says so.
    pub forwarder: Option<&'a str>,
    pub speed: Option<&'a str>,
}

fn bad(field: &'static str, message: impl Into<String>) -> BadField {
    BadField::new(field, message)
}

impl Call {
    /// Checks a call of the relay's own, and freezes the terms into it.
    pub fn direct(terms: &Terms, fields: &DirectFields<'_>) -> Result<Call, BadField> {
        let work = Work::Direct(Direct {
            to: address("to", fields.to)?,
            data: fields.data.map_or(Ok(Data::default()), |data| bytes("data", data))?,
            value: fields.value.map_or(Ok(0), |value| number("value", value))?,
            gas: fields.gas.map(gas).transpose()?,
        });
        Ok(Call::on(terms, fields.speed.map_or(Ok(Speed::default()), speed)?, work))
    }

    /// Checks a user's request, but for its signature, and freezes the terms into it.
    pub fn gasless(terms: &Terms, fields: &GaslessFields<'_>) -> Result<Call, BadField> {
        let Some(forwarder) = terms.forwarder else {
            let why = "no forwarder is configured for this chain: set evm.forwarder";
            return Err(bad("forwarder", why));
        };
        if let Some(meant) = fields.forwarder {
            let meant = address("forwarder", meant)?;
            if meant != forwarder {
                return Err(bad("forwarder", format!("this relay submits to {forwarder} only")));
            }
        }
        let deadline: u64 = number("deadline", fields.deadline)?;
        if deadline > DEADLINE_MAX {
            let why = "must be a time in seconds since 1970 that fits 48 bits";
            return Err(bad("deadline", why));
        }
        let signature = bytes("signature", fields.signature)?;
        if signature.0.len() != SIGNATURE_BYTES {
            let why = format!("is {} bytes long; 65 are wanted: r, s, v", signature.0.len());
            return Err(bad("signature", why));
        }
        let work = Work::Gasless(Gasless {
            forwarder,
            from: address("from", fields.from)?,
            to: address("to", fields.to)?,
            value: number("value", fields.value)?,
            gas: inner_gas(fields.gas)?,
            nonce: number("nonce", fields.nonce)?,
            deadline,
            data: bytes("data", fields.data)?,
            signature,
        });
        Ok(Call::on(terms, fields.speed.map_or(Ok(Speed::default()), speed)?, work))
    }

    fn on(terms: &Terms, speed: Speed, work: Work) -> Call {
        Call { chain: terms.chain.clone(), chain_id: terms.chain_id, speed, work }
    }

    /// Covers what the client said, in canonical form. The frozen terms are not the client's, but
    /// for the chain that it chose.
    pub fn fingerprint(&self) -> Fingerprint {
        let work = serde_json::to_string(&self.work).expect("a call is plain data");
        Fingerprint::of(&["evm", &self.chain, self.speed.as_str(), &work])
    }

    /// What must be this call's alone: a forwarder takes each nonce of a user once.
    pub fn claims(&self) -> Vec<ClaimKey> {
        match &self.work {
            Work::Direct(_) => Vec::new(),
            Work::Gasless(request) => vec![ClaimKey {
                space: format!("evm-forward:{}:{:x}", self.chain_id, request.forwarder),
                key: format!("{:x}:{}", request.from, request.nonce),
            }],
        }
    }

    /// What it moves of the chain's own coin, in wei.
    pub fn value(&self) -> u128 {
        match &self.work {
            Work::Direct(direct) => direct.value,
            Work::Gasless(request) => request.value,
        }
    }

    /// Whom it calls in the end.
    pub fn to(&self) -> Address {
        match &self.work {
            Work::Direct(direct) => direct.to,
            Work::Gasless(request) => request.to,
        }
    }

    /// Its kind, as clients name it.
    pub fn kind(&self) -> &'static str {
        match &self.work {
            Work::Direct(_) => "direct",
            Work::Gasless(_) => "gasless",
        }
    }
}

/// The id of the transaction that a client's own key names: always the same for the same key of
/// the same tenant.
pub fn transaction_id(tenant: &str, client_key: &str) -> Uuid {
    ids::named("landfall evm transaction", tenant, client_key)
}

fn address(field: &'static str, text: &str) -> Result<Address, BadField> {
    Address::parse(text).map_err(|why| bad(field, why))
}

fn bytes(field: &'static str, text: &str) -> Result<Data, BadField> {
    Data::parse(text).map_err(|why| bad(field, why))
}

fn speed(text: &str) -> Result<Speed, BadField> {
    let why = || bad("speed", "must be slow, average, fast or fastest");
    Speed::parse(text).ok_or_else(why)
}

fn gas(text: &str) -> Result<u64, BadField> {
    let gas: u64 = number("gas", text)?;
    match (GAS_MIN..=GAS_MAX).contains(&gas) {
        true => Ok(gas),
        false => Err(bad("gas", format!("must be from {GAS_MIN} to {GAS_MAX}; it is {gas}"))),
    }
}

/// Gas of the call that a forwarder makes, which is no transaction of its own.
fn inner_gas(text: &str) -> Result<u64, BadField> {
    let gas: u64 = number("gas", text)?;
    match (1..=GAS_MAX).contains(&gas) {
        true => Ok(gas),
        false => Err(bad("gas", format!("must be from 1 to {GAS_MAX}; it is {gas}"))),
    }
}

/// A whole number, decimal or as `0x` hex, exact.
fn number<T: TryFrom<u128>>(field: &'static str, text: &str) -> Result<T, BadField> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
    if !plain {
        let why = "must be a whole number, as decimal digits or as 0x and hex digits";
        return Err(bad(field, why));
    }
    let number = u128::from_str_radix(digits, radix).ok().and_then(|number| number.try_into().ok());
    number.ok_or_else(|| bad(field, "is larger than any chain can mean"))
}

#[cfg(test)]
mod tests;
