//! The transaction manager: the lanes, for those who build transactions of their own.
//!
//! An execution is an attempt with one member, whose record is the idempotency record: so it is
//! signed, stored, sent, looked for and settled by the very steps that pay Landfall's transfers.
//! What is sent and looked for is asked of the manager's ledger, not of the caller: after a crash
//! there is no caller.
//!
//! **Invariant:** a key is executed at most once, whoever calls, how often, from wherever.
//! Not here: what a transaction is (`Build`), how a ledger is asked ([`Ledger`]).

mod build;
mod desk;
mod lines;
mod numbers;
mod records;
mod route;
mod settle;
mod watched_ledger;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::execution::{Execution, State};
use landfall_core::ledger::{Ledger, Order};
use landfall_core::machine;
use landfall_core::store::{Accepted, StoreError};
use landfall_core::{Clock, LaneId, NewTransfer, Payload, Transfer};
use tokio::task::JoinHandle;

use crate::fence::FenceSigner;
use crate::fleet::{Fleet, FleetParts, LedgerParts};
use crate::handle::LaneView;
use crate::high_water::HighWater;
use crate::settings::LaneSettings;
use crate::tx::desk::{Desk, Place};
use crate::tx::lines::{End, Told};
use crate::tx::numbers::Numbers;
use crate::tx::records::{state_of, told_by};
use crate::tx::route::{Candidate, choose};
use crate::tx::watched_ledger::WatchedLedger;
use crate::watched::Watched;

pub use build::Build;
pub use numbers::{LaneNumbers, TxWatch, Unwatched};
pub use records::RecordStore;
pub use route::Route;
pub use settle::{opening as record_opening, settling as record_settling};

/// Bytes of an idempotency key: every backend can index so many.
pub const KEY_MAX_BYTES: usize = 256;
/// Records that are forgotten in one commit.
const FORGET_BATCH: usize = 500;

/// What a call comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Executed {
    /// Landed, final.
    Done { hash: String },
    /// Proven, at finality, not to have done what it was to do. For good: another try needs another
    /// key.
    Failed { hash: Option<String>, why: String },
    /// Neither yet: it waits for its turn, or its bytes, under this hash, are stored and pursued.
    /// Call again with the same key.
    InFlight { hash: Option<String> },
}

/// Why a call did nothing, cut by what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotExecuted {
    /// The key stands for another payload. Use another key.
    #[error("the idempotency key stands for another payload")]
    Conflict,
    /// Not a key: empty, or too long.
    #[error("an idempotency key has 1 to {KEY_MAX_BYTES} bytes")]
    BadKey,
    /// No lane of that name, or none at all. A mistake of the caller's.
    #[error("there is no lane {0}")]
    UnknownLane(String),
    /// Too much waits for the lane. Call again later, or use more keys.
    #[error("{waiting} wait for {lane}")]
    Full { lane: LaneId, waiting: usize },
    /// The lane stands still until an operator adopts it.
    #[error("{lane} is halted: {reason}")]
    Halted { lane: LaneId, reason: String },
    /// The builder said no. Nothing was sent; the same key may be used again.
    #[error("not built: {0}")]
    Unbuilt(String),
    /// The ledger will not take it from this sender as it is: funds, keys, limits. Proven not to
    /// have landed; once that is mended the same key may be used again.
    #[error("refused: {0}")]
    Unsent(String),
    /// It may have been recorded. Call again with the same key.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a manager does not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotStarted {
    #[error("where a later nonce decides an earlier one somebody must sign fences")]
    NoFences,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How a manager works. Times in milliseconds, each with its reason.
#[derive(Debug, Clone)]
pub struct TxSettings {
    /// Executions that may wait for one lane: more than a lane does in a minute or two is better
    /// refused than kept waiting.
    pub queue_max: usize,
    /// How long a call waits for a final answer before it says that it is in flight.
    pub patience_ms: u64,
    /// How often a record is read again that another process drives.
    pub poll_ms: u64,
    /// How long a builder may take. Its lane does nothing else meanwhile.
    pub build_ms: u64,
    /// How long a lane is held at a time on a store that other processes use, too.
    pub turn_ms: u64,
    /// How long records are kept after they are final; longer than any client retries. A store that
    /// keeps everything for ever keeps them, too.
    pub retention_ms: u64,
    pub lanes: LaneSettings,
}

impl Default for TxSettings {
    fn default() -> TxSettings {
        TxSettings {
            queue_max: 1_000,
            patience_ms: 60_000,
            poll_ms: 200,
            build_ms: 10_000,
            turn_ms: 5_000,
            retention_ms: 7 * 24 * 3_600_000,
            // Lanes change hands: a shorter wait costs a question, a longer one the lane's time.
            lanes: LaneSettings { retry_ms: 100, ..LaneSettings::default() },
        }
    }
}

/// What a manager is made of.
pub struct TxParts {
    pub store: Arc<dyn RecordStore>,
    /// Sends and looks. Its lanes are the keys that this process can sign with.
    pub ledger: Arc<dyn Ledger>,
    /// Signs what carries nobody. None only where attempts are free of each other.
    pub fences: Option<Arc<dyn FenceSigner>>,
    pub clock: Arc<dyn Clock>,
    /// MUST be kept apart from a store that can forget.
    pub high_water: Arc<HighWater>,
    pub settings: TxSettings,
    /// Told apart from other processes by it; a process that is started again under the same name
    /// has its lanes back at once.
    pub instance: String,
    pub watch: Arc<dyn TxWatch>,
}

/// One total order per signing key, and each idempotency key executed once.
pub struct TxManager {
    store: Arc<dyn RecordStore>,
    ledger: Arc<dyn Ledger>,
    clock: Arc<dyn Clock>,
    settings: TxSettings,
    desk: Arc<Desk>,
    fleet: Arc<Fleet>,
    janitor: JoinHandle<()>,
}

impl TxManager {
    /// Starts to hold lanes, and takes up what an earlier life left open.
    pub async fn start(parts: TxParts) -> Result<TxManager, NotStarted> {
        let TxParts { store, ledger, fences, clock, high_water, settings, instance, watch } = parts;
        if fences.is_none() && ledger.manner().order != Order::Free {
            return Err(NotStarted::NoFences);
        }
        let is_shared = store.identity().await?.shared;
        let numbers = Arc::new(Numbers::new(watch));
        let desk = Arc::new(Desk {
            clock: clock.clone(),
            numbers: numbers.clone(),
            fences,
            build_ms: settings.build_ms,
            turn_ms: is_shared.then_some(settings.turn_ms),
            lines: Default::default(),
            lanes: Default::default(),
        });
        let watched =
            WatchedLedger { inner: ledger.clone(), clock: clock.clone(), numbers: numbers.clone() };
        let ledgers = vec![LedgerParts { ledger: Arc::new(watched), owner: desk.clone() }];
        let fleet = Fleet::start(FleetParts {
            store: store.clone(),
            ledgers,
            clock: clock.clone(),
            high_water,
            settings: settings.lanes.clone(),
            instance,
        })
        .await?;
        *desk.lanes.lock() = Some(Arc::new(fleet.lanes_of(0)));
        let janitor = tokio::spawn(forget_old(store.clone(), clock.clone(), settings.retention_ms));
        Ok(TxManager { store, ledger, clock, settings, desk, fleet, janitor })
    }

    /// Executes what `build` builds, once for this key, and waits for its fate for as long as the
    /// settings say. Whoever comes later with the same key and payload has the same answer; with
    /// another payload, a refusal.
    ///
    /// A call that is dropped changes nothing: what it began goes on.
    pub async fn execute(
        &self,
        route: impl Into<Route>,
        key: &str,
        payload: &[u8],
        build: impl Build,
    ) -> Result<Executed, NotExecuted> {
        if key.is_empty() || key.len() > KEY_MAX_BYTES {
            return Err(NotExecuted::BadKey);
        }
        let build: Arc<dyn Build> = Arc::new(build);
        let until_ms = self.clock.monotonic_ms() + self.settings.patience_ms;
        let (lane, mut place) = match self.place(&route.into())? {
            Ok(place) => (place.lane.clone(), Some(place)),
            // Whoever asks for what is there already is not refused for it.
            Err(refused) => match self.known(key, payload).await? {
                Some(record) if state_of(&record) != Some(State::Queued) => {
                    return Ok(told_by(&record));
                }
                _ => return Err(refused),
            },
        };
        let mut record = self.enter(key, payload).await?;
        loop {
            let told = match state_of(&record) {
                Some(State::Queued) => Some(self.desk.board(&record, &lane, &build)),
                Some(State::Inflight) => self.desk.lines.lock().told(record.id),
                _ => return Ok(told_by(&record)),
            };
            drop(place.take());
            if let Some(told) = told {
                match self.until_ended(&told, until_ms).await {
                    Some(End::Settled(record)) => return Ok(told_by(&record)),
                    Some(End::Unbuilt(why)) => return Err(NotExecuted::Unbuilt(why)),
                    Some(End::Unsent(why)) => return Err(NotExecuted::Unsent(why)),
                    Some(End::Elsewhere) => {}
                    None => return Ok(so_far(&record, &told)),
                }
            } else if !self.pause(until_ms).await {
                return Ok(told_by(&record));
            }
            record = match self.read_again(record, until_ms).await {
                Ok(record) => record,
                Err(record) => return Ok(told_by(&record)),
            };
        }
    }

    /// What is known of a key; none if it was never used, or is forgotten.
    pub async fn find(&self, key: &str) -> Result<Option<Executed>, StoreError> {
        Ok(self.store.record(key).await?.as_ref().map(told_by))
    }

    /// The lanes that this process can sign on, and others of the ledger that are stored.
    pub fn lanes(&self) -> Vec<LaneView> {
        self.desk.lanes().map_or_else(Vec::new, |lanes| lanes.views())
    }

    /// What was counted of each lane.
    pub fn numbers(&self) -> BTreeMap<LaneId, LaneNumbers> {
        self.desk.numbers.all()
    }

    /// Lets what is being stored be stored, gives the lanes back and leaves. What is open is
    /// pursued by whoever holds the lanes next.
    pub async fn stop(&self, grace: Duration) {
        self.janitor.abort();
        self.fleet.stop(grace).await;
    }

    /// Ends everything at once, as a crash would. Nothing is given back.
    pub async fn abort(&self) {
        self.janitor.abort();
        self.fleet.abort().await;
    }

    /// A place in the line of the lane that the route leads to, or why there is none there now.
    /// Fails if it leads nowhere.
    fn place(&self, route: &Route) -> Result<Result<Place, NotExecuted>, NotExecuted> {
        let views = self.lanes();
        let halted = |lane: &LaneId| {
            let view = views.iter().find(|view| view.id == *lane);
            view.and_then(|view| view.halted.clone())
        };
        let mut lines = self.desk.lines.lock();
        let candidate = |lane: LaneId| Candidate {
            load: lines.load(&lane),
            is_held: views.iter().any(|view| view.id == lane && view.held),
            is_halted: halted(&lane).is_some(),
            lane,
        };
        let all: Vec<Candidate> = self.ledger.lanes().into_iter().map(candidate).collect();
        let Some(Candidate { lane, .. }) = choose(route, &all) else {
            let named = match route {
                Route::Lane(lane) => lane.to_string(),
                _ => "that this process can sign on".to_owned(),
            };
            return Err(NotExecuted::UnknownLane(named));
        };
        if let Some(reason) = halted(lane) {
            return Ok(Err(NotExecuted::Halted { lane: lane.clone(), reason }));
        }
        let waiting = lines.length(lane);
        if waiting >= self.settings.queue_max {
            return Ok(Err(NotExecuted::Full { lane: lane.clone(), waiting }));
        }
        Ok(Ok(Place::keep(&self.desk, &mut lines, lane)))
    }

    async fn enter(&self, key: &str, payload: &[u8]) -> Result<Transfer, NotExecuted> {
        let payload = Payload::Lanes(Execution::of(payload));
        let (print, first) = (payload.fingerprint(), machine::State::Lanes(State::Queued));
        let (scope, now_ms) = ((String::new(), key.to_owned()), self.clock.now_ms());
        let new = NewTransfer::begin(scope, print, payload, first, &[], now_ms)
            .expect("a record begins without an event");
        match self.store.enter(new).await? {
            Accepted::Created(record) | Accepted::Already(record) => Ok(record),
            Accepted::Conflict(_) => Err(NotExecuted::Conflict),
            Accepted::Claimed { .. } => {
                let why = "a record that claims nothing met a claim".to_owned();
                Err(StoreError::Corrupt(why).into())
            }
        }
    }

    /// The record of the key, if there is one; refused if it is of another payload.
    async fn known(&self, key: &str, payload: &[u8]) -> Result<Option<Transfer>, NotExecuted> {
        let print = Execution::of(payload).fingerprint();
        match self.store.record(key).await? {
            Some(record) if record.fingerprint != print => Err(NotExecuted::Conflict),
            record => Ok(record),
        }
    }

    /// Waits until this process pursues it no further; none if the time is over before.
    async fn until_ended(&self, told: &Watched<Told>, until_ms: u64) -> Option<End> {
        let left_ms = until_ms.saturating_sub(self.clock.monotonic_ms());
        let mut watcher = told.watch();
        tokio::select! {
            biased;
            told = watcher.until(|told| matches!(told, Told::Ended(_))) => match told {
                Told::Ended(end) => Some(end),
                _ => None,
            },
            _ = self.clock.sleep(Duration::from_millis(left_ms)) => None,
        }
    }

    /// Waits a little; false if the time is over.
    async fn pause(&self, until_ms: u64) -> bool {
        let left_ms = until_ms.saturating_sub(self.clock.monotonic_ms());
        self.clock.sleep(Duration::from_millis(left_ms.min(self.settings.poll_ms))).await;
        self.clock.monotonic_ms() < until_ms
    }

    /// The record as the store has it now, asked for until the time is over; as it was, then.
    async fn read_again(&self, before: Transfer, until_ms: u64) -> Result<Transfer, Transfer> {
        loop {
            if let Ok(found) = self.store.transfers(&[before.id]).await {
                let same = |found: &Transfer| found.key == before.key;
                if let Some(record) = found.into_iter().find(same) {
                    return Ok(record);
                }
            }
            if !self.pause(until_ms).await {
                return Err(before);
            }
        }
    }
}

impl Drop for TxManager {
    fn drop(&mut self) {
        self.janitor.abort();
        // Desk and fleet have each other: nothing else would ever let go of the store.
        self.desk.lanes.lock().take();
    }
}

/// What is known of an execution whose fate is not.
fn so_far(record: &Transfer, told: &Watched<Told>) -> Executed {
    match told.get() {
        Told::Stored(hash) => Executed::InFlight { hash: Some(hash) },
        _ => told_by(record),
    }
}

/// Forgets records whose time is over, about a hundred times within it.
async fn forget_old(store: Arc<dyn RecordStore>, clock: Arc<dyn Clock>, retention_ms: u64) {
    let every = Duration::from_millis((retention_ms / 100).max(1));
    loop {
        clock.sleep(every).await;
        let before_ms = clock.now_ms().saturating_sub(retention_ms);
        loop {
            match store.forget_records(before_ms, FORGET_BATCH).await {
                Ok(FORGET_BATCH) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, "old records are still there");
                    break;
                }
            }
        }
    }
}
