//! The life of a withdraw from a shield pool on Solana, as data, and what a withdraw is.
//!
//! [`next`] alone changes a [`State`]. Pure: no clock, no I/O.
//! **Invariant:** signed bytes are stored ([`Event::AttemptStored`]) before they are broadcast.
//! **Invariant:** no event but an operator's replay leaves a final state; *confirmed* is no end,
//! since a fork may take it back.
//! **Invariant:** a nullifier is claimed in the commit that accepts its withdraw.
//! Not here: the rules of a request, encoding, signing, RPC (`landfall-rail-solana`).

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::claim::ClaimKey;
use crate::field::BadField;
use crate::ids::{self, Fingerprint};
use crate::machine::{AttemptStages, Event, Stage};

pub const WITHDRAWAL: Stage = Stage("withdrawal");
pub const FINALITY: Stage = Stage("finality");
pub const STAGES: AttemptStages =
    AttemptStages { prepare: None, pay: WITHDRAWAL, verify: FINALITY };

/// How urgent a withdraw is that does not say so; higher is more urgent.
pub const PRIORITY: u32 = 100;
/// No withdraw is more urgent than this.
pub const PRIORITY_MAX: u32 = 1_000;

/// Where a withdraw is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Queued,
    Processing,
    /// In a block that most validators have voted for, and that may yet be forked away.
    Confirmed,
    Completed,
    Failed,
}

impl State {
    pub const ALL: [State; 5] =
        [State::Queued, State::Processing, State::Confirmed, State::Completed, State::Failed];

    pub fn name(self) -> &'static str {
        match self {
            State::Queued => "queued",
            State::Processing => "processing",
            State::Confirmed => "confirmed",
            State::Completed => "completed",
            State::Failed => "failed",
        }
    }

    pub fn stage(self) -> Option<Stage> {
        match self {
            State::Queued => Some(WITHDRAWAL),
            State::Processing | State::Confirmed => Some(FINALITY),
            State::Completed | State::Failed => None,
        }
    }
}

/// The whole machine. What it does not list is illegal.
pub fn next(state: State, event: Event) -> Option<State> {
    use {Event as E, State as S};
    Some(match (state, event) {
        (S::Queued, E::AttemptStored) => S::Processing,
        (S::Queued, E::Retry) => S::Queued,
        (S::Processing, E::Included) => S::Confirmed,
        (S::Confirmed, E::FellOff) => S::Processing,
        // Of what is queued, by another's transaction that does the very same.
        (S::Queued | S::Processing | S::Confirmed, E::Landed) => S::Completed,
        (S::Processing | S::Confirmed, E::Sunk | E::Unpaid) => S::Queued,
        (S::Queued | S::Processing | S::Confirmed, E::Refused | E::GaveUp) => S::Failed,
        (S::Failed, E::Replayed) => S::Queued,
        _ => return None,
    })
}

/// One withdraw, as its proof has it. Network and program come from the configuration and are
/// frozen in. Words are hexadecimal, the proof base64, addresses base58, each in the one form in
/// which it can be written, so that equal withdraws are equal here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Withdraw {
    pub network: String,
    /// The shield pool's program.
    pub program: String,
    pub proof: String,
    pub root: String,
    /// Spends the note, once.
    pub nullifier: String,
    /// Lamports of the note: outputs and the pool's fee.
    pub amount: u64,
    pub outputs: Vec<Output>,
    pub priority: u32,
}

/// Somebody who is paid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    pub recipient: String,
    /// Lamports.
    pub amount: u64,
}

impl Withdraw {
    /// Covers what the client said, but for how urgent it is: that changes nothing that is paid.
    pub fn fingerprint(&self) -> Fingerprint {
        let outputs = serde_json::to_string(&self.outputs).expect("outputs are plain data");
        let amount = self.amount.to_string();
        Fingerprint::of(&["solana", &self.proof, &self.root, &self.nullifier, &amount, &outputs])
    }

    /// What must be this withdraw's alone: a pool takes each nullifier once.
    pub fn claims(&self) -> Vec<ClaimKey> {
        vec![ClaimKey {
            space: format!("solana-nullifier:{}:{}", self.network, self.program),
            key: self.nullifier.clone(),
        }]
    }

    /// Whom it pays, the first of them for all.
    pub fn recipient(&self) -> &str {
        self.outputs.first().map_or("", |output| &output.recipient)
    }
}

/// Reads withdraws as clients ask for them, by the rules of the pool and of the network.
pub trait Door: Send + Sync {
    /// The withdraw that a JSON body asks for, or all that is wrong with it.
    fn read(&self, body: &str) -> Result<Withdraw, Vec<BadField>>;
}

/// The id of the request that a client's own key names: always the same for the same key of the
/// same tenant.
pub fn request_id(tenant: &str, client_key: &str) -> Uuid {
    ids::named("landfall solana request", tenant, client_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_steps_are_legal() {
        use {Event as E, State as S};
        let legal = [
            (S::Queued, E::AttemptStored, S::Processing),
            (S::Queued, E::Retry, S::Queued),
            (S::Queued, E::Landed, S::Completed),
            (S::Queued, E::Refused, S::Failed),
            (S::Queued, E::GaveUp, S::Failed),
            (S::Processing, E::Included, S::Confirmed),
            (S::Processing, E::Landed, S::Completed),
            (S::Processing, E::Sunk, S::Queued),
            (S::Processing, E::Unpaid, S::Queued),
            (S::Processing, E::Refused, S::Failed),
            (S::Processing, E::GaveUp, S::Failed),
            (S::Confirmed, E::FellOff, S::Processing),
            (S::Confirmed, E::Landed, S::Completed),
            (S::Confirmed, E::Sunk, S::Queued),
            (S::Confirmed, E::Unpaid, S::Queued),
            (S::Confirmed, E::Refused, S::Failed),
            (S::Confirmed, E::GaveUp, S::Failed),
            (S::Failed, E::Replayed, S::Queued),
        ];
        for state in State::ALL {
            for event in Event::ALL {
                let expected =
                    legal.iter().find(|row| row.0 == state && row.1 == event).map(|row| row.2);
                assert_eq!(next(state, event), expected, "{state:?} × {event:?}");
            }
        }
    }

    fn withdraw() -> Withdraw {
        Withdraw {
            network: "devnet".into(),
            program: "c1oak".into(),
            proof: "AAAA".into(),
            root: "aa".into(),
            nullifier: "bb".into(),
            amount: 1_007_537_688,
            outputs: vec![Output { recipient: "alice".into(), amount: 1_000_000_000 }],
            priority: PRIORITY,
        }
    }

    #[test]
    fn everything_but_its_urgency_tells_a_withdraw_from_another() {
        let first = withdraw();
        let urgent = Withdraw { priority: 900, ..withdraw() };
        assert_eq!(first.fingerprint(), urgent.fingerprint());
        let mut other_output = withdraw();
        other_output.outputs[0].amount += 1;
        for other in [
            Withdraw { proof: "BBBB".into(), ..withdraw() },
            Withdraw { root: "ab".into(), ..withdraw() },
            Withdraw { nullifier: "bc".into(), ..withdraw() },
            Withdraw { amount: 1, ..withdraw() },
            other_output,
        ] {
            assert_ne!(first.fingerprint(), other.fingerprint(), "{other:?}");
        }
    }

    #[test]
    fn a_nullifier_is_claimed_where_its_pool_is() {
        let claim = |withdraw: Withdraw| withdraw.claims().remove(0);
        assert_eq!(claim(withdraw()).key, "bb");
        for elsewhere in [
            Withdraw { network: "mainnet".into(), ..withdraw() },
            Withdraw { program: "other".into(), ..withdraw() },
        ] {
            assert_ne!(claim(withdraw()).space, claim(elsewhere).space);
        }
    }
}
