//! The life of a move between two services, as data, and what such an order is.
//!
//! ```text
//!  init ─ SourceCall ─▶ source_pending ─ SourceOk ─▶ source_done ─ TargetCall ─▶ target_pending
//!    │                       │                           │                          │
//!    └────── SourceFail ─────┴──▶ failed                 ├────── TargetFail ────────┤
//!                                                        ▼                          │ TargetOk
//!                        rolled_back ◀─ RollbackOk ─ compensating                   ▼
//!                                                                               committed
//! ```
//!
//! [`next`] alone changes a [`State`]. Pure: no clock, no I/O.
//! **Invariant:** once the target has confirmed the deposit nothing is ever rolled back: that fact
//! is stored beside the state, and `next` sees it.
//! **Invariant:** no event leaves a final state.
//! Not here: calling the services (`landfall-rail-internal`), when to try again
//! (`landfall-engine`).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::field::BadField;
use crate::ids::{self, Fingerprint};
use crate::machine::{Event, Stage};
use crate::wound::{self, Wound};

pub const STAGE: Stage = Stage("internal");

/// Where an order is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Init,
    SourcePending,
    SourceDone,
    TargetPending,
    Compensating,
    Committed,
    RolledBack,
    Failed,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Init,
        State::SourcePending,
        State::SourceDone,
        State::TargetPending,
        State::Compensating,
        State::Committed,
        State::RolledBack,
        State::Failed,
    ];

    pub fn name(self) -> &'static str {
        match self {
            State::Init => "init",
            State::SourcePending => "source_pending",
            State::SourceDone => "source_done",
            State::TargetPending => "target_pending",
            State::Compensating => "compensating",
            State::Committed => "committed",
            State::RolledBack => "rolled_back",
            State::Failed => "failed",
        }
    }

    pub fn stage(self) -> Option<Stage> {
        match self {
            State::Committed | State::RolledBack | State::Failed => None,
            _ => Some(STAGE),
        }
    }

    /// Whether the target may be found to have confirmed the deposit.
    pub fn may_be_confirmed(self) -> bool {
        matches!(self, State::SourceDone | State::TargetPending)
    }
}

/// The whole machine. `confirmed`: the target has the deposit. What it does not list is illegal.
pub fn next(state: State, confirmed: bool, event: Event) -> Option<State> {
    use {Event as E, State as S};
    Some(match (state, event) {
        (S::Init, E::SourceCall) => S::SourcePending,
        (S::Init | S::SourcePending, E::SourceOk) => S::SourceDone,
        (S::Init | S::SourcePending, E::SourceFail) => S::Failed,
        (S::SourcePending, E::Retry) => S::SourcePending,
        (S::SourceDone, E::TargetCall) => S::TargetPending,
        // The source has committed, which it is asked to only after the target has confirmed.
        (S::SourceDone | S::TargetPending, E::TargetOk) if confirmed => S::Committed,
        (S::SourceDone | S::TargetPending, E::TargetFail) if !confirmed => S::Compensating,
        (S::TargetPending, E::Retry) => S::TargetPending,
        (S::Compensating, E::RollbackOk) => S::RolledBack,
        (S::Compensating, E::RollbackFail) => S::Compensating,
        _ => return None,
    })
}

/// One move of a user's funds from one service to another. Names and numbers come from the
/// configuration and are frozen in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub source: String,
    pub target: String,
    pub user_id: u64,
    pub asset_id: u32,
    /// Symbol and decimals, to show the amount as the client gave it.
    pub asset: String,
    pub decimals: u8,
    /// In the asset's smallest unit.
    pub amount: u64,
    /// The client's own idempotency key, if it gave one. The request's id comes from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
}

/// An asset that can be moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asset {
    pub id: u32,
    pub symbol: String,
    pub decimals: u8,
}

/// What the configuration decides about every order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// Names of the services.
    pub services: Vec<String>,
    pub assets: Vec<Asset>,
}

/// A request as the client wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub user_id: u64,
    pub asset: &'a str,
    pub amount: &'a str,
}

fn bad(field: &'static str, message: impl Into<String>) -> BadField {
    BadField::new(field, message)
}

impl Order {
    /// Checks a request and freezes the terms into it.
    pub fn new(terms: &Terms, asked: Asked<'_>) -> Result<Order, BadField> {
        for (field, name) in [("from", asked.from), ("to", asked.to)] {
            if !terms.services.iter().any(|service| service == name) {
                let known = terms.services.join(", ");
                return Err(bad(field, format!("unknown service {name:?}; known are: {known}")));
            }
        }
        if asked.from == asked.to {
            return Err(bad("to", "is the service it comes from; give two different ones"));
        }
        if asked.user_id == 0 {
            return Err(bad("user_id", "must be at least 1"));
        }
        let Some(asset) = terms.assets.iter().find(|asset| asset.symbol == asked.asset) else {
            let known: Vec<&str> = terms.assets.iter().map(|asset| asset.symbol.as_str()).collect();
            let (name, known) = (asked.asset, known.join(", "));
            return Err(bad("asset", format!("unknown asset {name:?}; known are: {known}")));
        };
        Ok(Order {
            source: asked.from.to_owned(),
            target: asked.to.to_owned(),
            user_id: asked.user_id,
            asset_id: asset.id,
            asset: asset.symbol.clone(),
            decimals: asset.decimals,
            amount: parse_amount(asked.amount, asset)?,
            client_key: None,
        })
    }

    /// Covers what the client said, in canonical form: "1.5" is "1.50".
    pub fn fingerprint(&self) -> Fingerprint {
        let numbers = [self.user_id, u64::from(self.asset_id), self.amount].map(|n| n.to_string());
        let [mut user, asset, amount] = numbers.each_ref().map(String::as_str);
        let (mut source, mut target) = (self.source.as_str(), self.target.as_str());
        if wound::is(Wound::FingerprintWithoutUser) {
            user = "";
        }
        if wound::is(Wound::FingerprintWithoutServices) {
            (source, target) = ("", "");
        }
        Fingerprint::of(&["internal", source, target, user, asset, amount])
    }

    /// The amount in whole units, with as many decimals as it needs.
    pub fn shown_amount(&self) -> String {
        let unit = 10_u64.pow(u32::from(self.decimals));
        let (whole, rest) = (self.amount / unit, self.amount % unit);
        if rest == 0 {
            return whole.to_string();
        }
        let rest = format!("{rest:0width$}", width = usize::from(self.decimals));
        format!("{whole}.{}", rest.trim_end_matches('0'))
    }
}

/// The id of the request that a client's own key names: always the same for the same key of the
/// same tenant, so that a repeat is the same request to the services too.
pub fn request_id(tenant: &str, client_key: &str) -> Uuid {
    ids::named("landfall internal request", tenant, client_key)
}

/// The most decimals an asset can have: a whole unit must fit in 64 bits.
pub const DECIMALS_MAX: u8 = 18;

/// A decimal number of whole units, exactly, as a number of smallest units.
fn parse_amount(text: &str, asset: &Asset) -> Result<u64, BadField> {
    let (whole, rest) = match text.split_once('.') {
        Some((whole, rest)) => (whole, rest),
        None => (text, ""),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(rest) || text.ends_with('.') {
        return Err(bad("amount", "must be a positive decimal number such as \"1.5\""));
    }
    let (symbol, decimals) = (&asset.symbol, usize::from(asset.decimals));
    if rest.len() > decimals {
        return Err(bad("amount", format!("has {} decimals; {symbol} has {decimals}", rest.len())));
    }
    match format!("{whole}{rest:0<decimals$}").parse::<u64>() {
        Ok(0) => Err(bad("amount", "must be more than 0")),
        Ok(amount) => Ok(amount),
        Err(_) => {
            let most = u64::MAX;
            Err(bad("amount", format!("is larger than {most} of {symbol}'s smallest units")))
        }
    }
}

#[cfg(test)]
mod tests;
