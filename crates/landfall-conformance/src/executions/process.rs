//! A store, a ledger, and processes that execute on them; each can be held up, killed, and started
//! again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use landfall_core::attempt::Signed;
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Waiting,
};
use landfall_core::{Attempt, Clock, LaneId, Nonce, RailName};
use landfall_lanes::watched::Watched;
use landfall_lanes::{
    Executed, FenceSigner, HighWater, LaneSettings, NotExecuted, RecordStore, TxManager, TxParts,
    TxSettings, Unwatched,
};
use tokio::task::JoinHandle;

use super::chain::Chain;

/// Longer than any story takes, also on a busy machine.
const PATIENCE_MS: u64 = 60_000;

/// One store and one ledger.
#[derive(Clone)]
pub struct ExecutionWorld {
    pub store: Arc<dyn RecordStore>,
    pub clock: Arc<dyn Clock>,
    pub chain: Arc<Chain>,
}

/// An execution under way.
pub type Call = JoinHandle<Result<Executed, NotExecuted>>;

/// One process with a manager.
pub struct Process {
    pub manager: Arc<TxManager>,
    pub hold: Arc<Hold>,
}

/// Where a process stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    Nowhere,
    /// With its bytes stored, and nothing sent.
    BeforeSend,
    /// With its bytes sent, and no answer yet.
    AfterSend,
}

/// Holds up a process: what it was about, and its sense of time.
pub struct Hold {
    at: Watched<At>,
    /// True once it stands still.
    pub reached: Watched<bool>,
}

impl Hold {
    fn new() -> Arc<Hold> {
        Arc::new(Hold { at: Watched::new(At::Nowhere), reached: Watched::new(false) })
    }

    pub fn set(&self, at: At) {
        self.at.set(at);
    }

    /// Lets it go on as if nothing had been.
    pub fn release(&self) {
        self.at.set(At::Nowhere);
        self.reached.set(false);
    }

    async fn pass(&self, here: At) {
        if self.at.get() == here {
            self.reached.set(true);
        }
        self.stand().await;
    }

    async fn stand(&self) {
        self.reached.watch().until(|reached| !reached).await;
    }
}

impl ExecutionWorld {
    pub fn new(store: Arc<dyn RecordStore>, clock: Arc<dyn Clock>) -> ExecutionWorld {
        let lanes = ["red", "green", "blue"].map(|name| LaneId::new(format!("key:{name}")));
        ExecutionWorld::with_lanes(store, lanes.to_vec(), clock)
    }

    pub fn with_lanes(
        store: Arc<dyn RecordStore>,
        lanes: Vec<LaneId>,
        clock: Arc<dyn Clock>,
    ) -> ExecutionWorld {
        let chain = Arc::new(Chain::new(store.clone(), lanes, clock.clone()));
        ExecutionWorld { store, clock, chain }
    }

    pub fn lane(&self) -> LaneId {
        self.chain.lanes()[0].clone()
    }

    pub fn settings() -> TxSettings {
        TxSettings {
            patience_ms: PATIENCE_MS,
            poll_ms: 50,
            lanes: LaneSettings {
                lease_ms: 1_000,
                renew_ms: 250,
                retry_ms: 50,
                halted_poll_ms: 200,
            },
            ..TxSettings::default()
        }
    }

    pub async fn start(&self, instance: &str) -> Process {
        self.start_with(instance, ExecutionWorld::settings()).await
    }

    pub async fn start_with(&self, instance: &str, settings: TxSettings) -> Process {
        let hold = Hold::new();
        let parts = TxParts {
            store: self.store.clone(),
            ledger: Arc::new(Port { chain: self.chain.clone(), hold: hold.clone() }),
            fences: Some(Arc::new(Fences)),
            clock: Arc::new(HeldClock { inner: self.clock.clone(), hold: hold.clone() }),
            high_water: Arc::new(HighWater::in_memory()),
            settings,
            instance: instance.to_owned(),
            watch: Arc::new(Unwatched),
        };
        let manager = TxManager::start(parts).await.expect("a manager that starts");
        Process { manager: Arc::new(manager), hold }
    }

    pub async fn pass(&self, ms: u64) {
        self.clock.sleep(Duration::from_millis(ms)).await;
    }

    /// Waits until this is told of the key.
    pub async fn until_told(&self, by: &Process, key: &str, wanted: impl Fn(&Executed) -> bool) {
        let until_ms = self.clock.monotonic_ms() + PATIENCE_MS;
        while !by.manager.find(key).await.ok().flatten().is_some_and(|told| wanted(&told)) {
            assert!(self.clock.monotonic_ms() < until_ms, "{key} is never as it should be");
            self.pass(10).await;
        }
    }

    /// Everything of the story is done, once each, and nothing was sent that was not stored.
    pub fn check(&self, done: &[String]) {
        let mut landed = self.chain.done();
        let mut expected = done.to_vec();
        landed.sort();
        expected.sort();
        assert_eq!(landed, expected, "done once each");
        assert_eq!(self.chain.unstored(), [""; 0], "stored before it is sent");
    }
}

impl Process {
    /// Executes what does what its key says.
    pub async fn execute(&self, lane: &LaneId, key: &str) -> Result<Executed, NotExecuted> {
        execute(&self.manager, lane, key).await
    }

    /// The same in the background.
    pub fn begin(&self, lane: &LaneId, key: &str) -> Call {
        let (manager, lane, key) = (self.manager.clone(), lane.clone(), key.to_owned());
        tokio::spawn(async move { execute(&manager, &lane, &key).await })
    }

    /// So many at once; the keys, with what each came to.
    pub async fn execute_all(&self, lane: &LaneId, keys: &[String]) -> Vec<Executed> {
        let all = keys.iter().map(|key| self.execute(lane, key));
        let answers = join_all(all).await;
        answers.into_iter().map(|answer| answer.expect("it is executed")).collect()
    }

    /// kill -9.
    pub async fn kill(self) {
        self.manager.abort().await;
    }
}

async fn execute(manager: &TxManager, lane: &LaneId, key: &str) -> Result<Executed, NotExecuted> {
    manager.execute(lane, key, key.as_bytes(), build(key)).await
}

/// Builds what does this.
pub fn build(does: &str) -> impl landfall_lanes::Build {
    let does = does.to_owned();
    move |lane: LaneId, nonce: Nonce| {
        let signed = Chain::sign(&lane, nonce, &does);
        async move { Ok(signed) }
    }
}

/// Keys `0`, `1` and so on, after a name.
pub fn keys(name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{name} {number}")).collect()
}

/// The hash of what is done.
pub fn hash_of(executed: &Executed) -> String {
    match executed {
        Executed::Done { hash } => hash.clone(),
        other => panic!("not done: {other:?}"),
    }
}

struct Fences;

#[async_trait]
impl FenceSigner for Fences {
    async fn sign_fence(&self, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        Ok(Chain::sign(lane, nonce, ""))
    }
}

/// A process's sense of time: none while it is held up.
struct HeldClock {
    inner: Arc<dyn Clock>,
    hold: Arc<Hold>,
}

#[async_trait]
impl Clock for HeldClock {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.inner.monotonic_ms()
    }

    async fn sleep(&self, duration: Duration) {
        self.inner.sleep(duration).await;
        self.hold.stand().await;
    }
}

/// A process's way to the ledger.
struct Port {
    chain: Arc<Chain>,
    hold: Arc<Hold>,
}

#[async_trait]
impl Ledger for Port {
    fn name(&self) -> RailName {
        self.chain.name()
    }

    fn manner(&self) -> Manner {
        self.chain.manner()
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.chain.lanes()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        self.chain.owns(lane)
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        self.hold.pass(At::BeforeSend).await;
        let answer = self.chain.broadcast(attempt, round).await;
        self.hold.pass(At::AfterSend).await;
        answer
    }

    async fn look(&self, attempt: &Attempt, passed: bool) -> Result<Look, RailError> {
        self.hold.stand().await;
        self.chain.look(attempt, passed).await
    }

    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        self.hold.stand().await;
        self.chain.inquest(attempt, later).await
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        self.chain.nonce(lane).await
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        self.chain.nonces().await
    }

    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        self.hold.stand().await;
        self.chain.pulse(waiting).await
    }
}
