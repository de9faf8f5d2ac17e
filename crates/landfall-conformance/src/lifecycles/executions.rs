//! Executions: what the transaction manager costs on a ledger that costs nothing.
//!
//! The ledger has everything final at once, so whatever an execution takes was added by the manager
//! and by what keeps its lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures::future::join_all;
use landfall_core::attempt::{Landing, Outcome, Signed};
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Order, Progress, RailError, Waiting,
};
use landfall_core::{Attempt, Clock, LaneId, Nonce, RailName};
use landfall_lanes::{
    Executed, HighWater, LaneSettings, RecordStore, TxManager, TxParts, TxSettings, Unwatched,
};

use super::{Pace, together};

/// Callers for each key while the rate is measured: a lane is never without work.
const CALLERS: usize = 8;

/// What keeps lanes, and which.
pub type Space = (Arc<dyn RecordStore>, Vec<LaneId>);

/// How fast executions were.
#[derive(Debug, Clone, Copy)]
pub struct Executions {
    /// With more callers than the keys can serve.
    pub busy: Pace,
    /// With one caller for each key: its times are what was added.
    pub calm: Pace,
}

/// Executes for so long on all lanes of all spaces, twice: with one caller for each, then with
/// several.
pub async fn executions(
    spaces: Vec<Space>,
    clock: Arc<dyn Clock>,
    duration: Duration,
) -> Executions {
    let managers = join_all(spaces.into_iter().map(|space| start(space, clock.clone()))).await;
    let numbers = Arc::new(AtomicUsize::new(0));
    // Whoever is new to a store waits for others' objections before it signs.
    run(&managers, 1, Duration::ZERO, &numbers).await;
    let calm = run(&managers, 1, duration, &numbers).await;
    let busy = run(&managers, CALLERS, duration, &numbers).await;
    join_all(managers.iter().map(|(manager, _)| manager.stop(Duration::from_secs(10)))).await;
    Executions { busy, calm }
}

type Started = (Arc<TxManager>, Vec<LaneId>);

async fn start((store, lanes): Space, clock: Arc<dyn Clock>) -> Started {
    let lease = LaneSettings { lease_ms: 3_000, renew_ms: 1_000, ..LaneSettings::default() };
    let parts = TxParts {
        store,
        ledger: Arc::new(Instantly(lanes.clone())),
        fences: None,
        clock,
        high_water: Arc::new(HighWater::in_memory()),
        settings: TxSettings { lanes: lease, ..TxSettings::default() },
        instance: "bench".to_owned(),
        watch: Arc::new(Unwatched),
    };
    (Arc::new(TxManager::start(parts).await.expect("a manager that starts")), lanes)
}

/// Every caller at least once, and then until the time is over.
async fn run(
    managers: &[Started],
    callers: usize,
    duration: Duration,
    numbers: &Arc<AtomicUsize>,
) -> Pace {
    let begun = Instant::now();
    let lanes = managers
        .iter()
        .flat_map(|(manager, lanes)| lanes.iter().map(move |lane| (manager.clone(), lane.clone())));
    let calls = lanes.flat_map(|one| std::iter::repeat_n(one, callers));
    let calls = calls.map(|(manager, lane)| {
        let numbers = numbers.clone();
        async move {
            let mut took = Vec::new();
            while took.is_empty() || begun.elapsed() < duration {
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                let since = Instant::now();
                execute(&manager, &lane, number).await;
                took.push(since.elapsed());
            }
            took
        }
    });
    let (took, whole) = together(calls).await;
    let answers: Vec<Duration> = took.into_iter().flatten().collect();
    let count = answers.len();
    Pace::new(answers, count, whole)
}

async fn execute(manager: &TxManager, lane: &LaneId, number: usize) {
    let key = format!("bench {number}");
    let build = move |lane: LaneId, nonce: Nonce| async move {
        let hash = format!("{lane}-{nonce}");
        // About as much as a transaction has.
        Ok(Signed { bytes: vec![7; 300], hash, base: None, expires_height: None })
    };
    let executed = manager.execute(lane, &key, key.as_bytes(), build).await;
    assert!(matches!(executed, Ok(Executed::Done { .. })), "{executed:?}");
}

/// A ledger without nonces on which everything is final at once.
struct Instantly(Vec<LaneId>);

#[async_trait]
impl Ledger for Instantly {
    fn name(&self) -> RailName {
        RailName::Lanes
    }

    fn manner(&self) -> Manner {
        Manner { order: Order::Free, window: CALLERS, ..Manner::OVERTAKES }
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.0.clone()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        self.0.contains(lane)
    }

    async fn broadcast(&self, attempt: &Attempt, _: u32) -> Broadcast {
        Broadcast::Sent(self.look(attempt, false).await.ok())
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        Ok(Look::Landed(Landing {
            hash: None,
            block_height: 1,
            block_hash: "block 1".to_owned(),
            outcomes: vec![Outcome::Done; attempt.members.len()],
        }))
    }

    async fn inquest(&self, attempt: &Attempt, _: &[Later]) -> Result<Look, RailError> {
        self.look(attempt, false).await
    }

    async fn nonce(&self, _: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        Ok(None)
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        Ok(Vec::new())
    }

    async fn pulse(&self, _: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        Ok(Vec::new())
    }
}
