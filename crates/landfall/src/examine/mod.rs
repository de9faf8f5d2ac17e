//! What operators' commands ask of the rails: one examiner for each, and the one list of them.
//!
//! A command knows no rail. It asks the examiner of the rail that a transfer, an attempt or a lane
//! names and, as a rail may have several ledgers, the one of them that owns the lane. A new rail
//! adds a folder here, and a line to [`of`].
//! **Rule:** what no ledger here owns, nobody here answers for: it is refused, and never taken for
//! something that is gone.
//! Not here: what is done with the answers (`adopt`, `adrift`, `audit`, `check`, `transfers`).

mod evm;
mod internal;
mod lanes;
mod near;
mod nodes;
mod solana;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::courier::Courier;
use landfall_core::ledger::{LedgerNonce, RailError};
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_core::{Attempt, LaneId, Payload, RailName, Transfer};
use serde_json::Value;

use crate::audit::Audited;
use crate::check::Finding;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::show::Show;

/// Whoever examines the rail. The one list of them.
pub fn of(rail: RailName) -> &'static dyn Examiner {
    match rail {
        RailName::Near => &near::Near,
        RailName::Internal => &internal::Internal,
        RailName::Evm => &evm::Evm,
        RailName::Solana => &solana::Solana,
        RailName::Lanes => &lanes::Lanes,
    }
}

/// All of them, configured or not.
pub fn all() -> impl Iterator<Item = &'static dyn Examiner> {
    RailName::ALL.into_iter().map(of)
}

/// One rail, as operators' commands ask it. It holds nothing: each answer is made from the
/// configuration, so that a command needs no more of a rail than it asks for.
#[async_trait]
pub trait Examiner: Sync {
    /// The rail it answers for.
    fn rail(&self) -> RailName;

    /// Whether anything of the rail is configured. MUST make no call.
    fn is_configured(&self, config: &Config) -> bool;

    /// Where its secrets are, so that it is noticed who else can read them.
    fn secrets<'c>(&self, config: &'c Config) -> Secrets<'c>;

    /// Tries everything that is configured, as a relay would use it. MUST change nothing, neither
    /// here nor on the ledger. What does not work is a finding; a failure is only what keeps it
    /// from being tried.
    async fn check(&self, config: &Config) -> Result<Vec<Finding>>;

    /// The store against the rail's own records, printed unless JSON is asked for. MUST be right
    /// beside a working relay. MUST find an overpayment as well as a loss, and MUST say what it
    /// could not read: where nothing was read nothing was proven.
    async fn audit(&self, config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited>;

    /// Its ledgers, each with the keys that are configured: one for every network or chain under
    /// its name, none where nothing is signed. MUST send nothing but questions.
    async fn ledgers(
        &self,
        config: &Config,
        folder: &Folder,
    ) -> Result<Vec<Arc<dyn LedgerExaminer>>>;

    /// The keys under which a transfer may be stored that its client calls `key`.
    fn stored_keys(&self, _tenant: &str, key: &str) -> Vec<String> {
        vec![key.to_owned()]
    }

    /// What a payload of the rail asks for. Empty for that of another.
    fn describe(&self, payload: &Payload) -> Description;

    /// How transfers are shown and decided that no attempt carries; none where attempts carry all.
    fn requests(&self) -> Option<&dyn RequestExaminer> {
        None
    }
}

/// What a transfer asks for, for people and programs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Description {
    /// What its client calls it, where it is stored under another key.
    pub client_key: Option<String>,
    /// In the asset's own units.
    pub amount: String,
    pub asset: String,
    /// What is moved, from where and to whom, as lines to read: what each is called, and it.
    pub lines: Vec<(&'static str, String)>,
    /// Its fields beside those of every transfer, in JSON.
    pub fields: Vec<(&'static str, Value)>,
}

/// Where secrets are.
#[derive(Debug, Default)]
pub struct Secrets<'c> {
    /// Whether the configuration itself has some.
    pub in_settings: bool,
    /// Files of their own.
    pub files: Vec<&'c Path>,
}

/// One ledger with lanes, asked while no relay works on it from here.
#[async_trait]
pub trait LedgerExaminer: Send + Sync {
    /// The ledger itself. It says which lanes are its own (`Ledger::owns`) and in which order their
    /// attempts are, and signs fences and brings them to their fate. MUST be made of the same
    /// settings as a relay's.
    fn rail(&self) -> Arc<dyn Rail>;

    fn words(&self) -> Words;

    /// What the ledger says of the keys of these lanes, which it owns; one answer each, in order,
    /// in as few calls as possible. MUST be the word of a quorum at final blocks. Whatever cannot
    /// be told MUST be an error and never [`Key::Gone`]: a lane whose key is gone is not fenced.
    async fn keys(&self, lanes: &[LaneId]) -> std::result::Result<Vec<Key>, RailError>;

    /// What the ledger shows of an open attempt of a lane that it owns, whichever of its variants
    /// is there. MUST be the word of a quorum at final blocks: an operator's word is held against
    /// it, and a wrong `sunk` pays twice.
    async fn shown(&self, attempt: &Attempt) -> std::result::Result<Shown, RailError>;
}

/// What a ledger calls things, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    /// The ledger itself: a network, a chain.
    pub name: String,
    /// The setting that its signing keys are in.
    pub keys: &'static str,
    /// What fees are paid in.
    pub coin: &'static str,
}

/// What a ledger says of a lane's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    At(LedgerNonce),
    /// It keeps no nonces: attempts are numbered by us, and no fence can be put in their way.
    Uncounted,
    /// It is on the account no more: nothing can land with it.
    Gone,
}

/// What a ledger shows of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub seen: Seen,
    /// Why it may still land, as far as the ledger's own rules go, and what would decide it; none
    /// if it never can.
    pub may_land: Option<String>,
    /// A sighting of it that a quorum does not refute.
    pub sighted: Option<String>,
    /// Which of its hashes is there; none for its own.
    pub hash: Option<String>,
    /// The final block up to which that holds.
    pub final_height: u64,
    /// All that was read, to be kept for ever beside the operator's word.
    pub facts: Value,
}

/// What became of an attempt, as a ledger shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// A quorum does not know it.
    Unknown,
    /// Known, but not final, or not by a quorum.
    Unsettled,
    /// Final, and it paid.
    Paid,
    /// Final, and it did nothing.
    Reverted,
}

/// Transfers that no attempt carries, and of which only an operator may know what became.
pub trait RequestExaminer: Sync {
    /// What they are, before a list of them.
    fn title(&self) -> &'static str;

    fn print(&self, show: &Show, waiting: &[Transfer], now_ms: u64);
    fn json(&self, transfer: &Transfer, now_ms: u64) -> Value;

    /// Says what an operator's word comes to (`Courier::ruled`).
    fn courier(&self, config: &Config) -> Result<Arc<dyn Courier>>;
}

/// The ledgers that are configured, opened to be asked.
pub struct Ledgers(Vec<Arc<dyn LedgerExaminer>>);

impl Ledgers {
    /// Those of the rails that `is_wanted`, so that one that is not needed cannot be in the way.
    pub async fn open(
        config: &Config,
        folder: &Folder,
        is_wanted: impl Fn(RailName) -> bool,
    ) -> Result<Ledgers> {
        let mut ledgers = Vec::new();
        let wanted = |one: &&dyn Examiner| is_wanted(one.rail()) && one.is_configured(config);
        for examiner in all().filter(wanted) {
            ledgers.extend(examiner.ledgers(config, folder).await?);
        }
        Ok(Ledgers(ledgers))
    }

    /// Those of one rail. At least one.
    pub async fn of(rail: RailName, config: &Config, folder: &Folder) -> Result<Ledgers> {
        match Ledgers::open(config, folder, |one| one == rail).await? {
            Ledgers(none) if none.is_empty() => Err(not_configured(rail)),
            some => Ok(some),
        }
    }

    /// The one that the lane is on. Its rail is not known of a lane that the store has forgotten.
    pub fn owner(&self, lane: &LaneId, rail: Option<RailName>) -> Option<&Arc<dyn LedgerExaminer>> {
        self.0.iter().find(|one| {
            let ledger = one.rail();
            rail.is_none_or(|rail| rail == ledger.name()) && ledger.owns(lane)
        })
    }

    /// Any of them.
    pub fn first(&self) -> Option<&Arc<dyn LedgerExaminer>> {
        self.0.first()
    }

    /// What they are called, for a message.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|one| one.words().name).collect();
        if names.is_empty() { "none".into() } else { names.join(", ") }
    }
}

pub fn not_configured(rail: RailName) -> Failure {
    Failure::Mistaken(format!(
        "the rail {rail} is not configured; name its configuration by --config"
    ))
}

/// An open attempt with nonce 7.
#[cfg(test)]
pub fn sample_attempt() -> Attempt {
    use landfall_core::{AttemptId, BaseBlock, Epoch, Nonce, Purpose, TransferId};
    Attempt {
        id: AttemptId(1),
        rail: RailName::Near,
        lane: LaneId::new("near:simnet:relay.near:k"),
        epoch: Epoch(1),
        nonce: Nonce(7),
        purpose: Purpose::Pay,
        hash: "H".into(),
        bytes: Vec::new(),
        seq: 1,
        base: Some(BaseBlock { hash: "B".into(), height: 10 }),
        expires_height: Some(100),
        variants: Vec::new(),
        members: vec![TransferId(1)],
        opened_ms: 0,
        sightings: Vec::new(),
        fate: None,
        decided_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rail_has_an_examiner_of_its_own() {
        assert!(all().map(|one| one.rail()).eq(RailName::ALL));
    }
}
