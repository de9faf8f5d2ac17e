//! A store that fails before, or commits and then fails to answer, or takes its time, or goes back.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::attempt::Attempt;
use landfall_core::claim::{ClaimKey, Claimed};
use landfall_core::store::*;
use landfall_core::{
    AttemptId, Epoch, Lane, LaneId, Move, NewTransfer, Nonce, RailName, Stage, State, TrailEntry,
    Transfer, TransferId,
};

use super::checkers::epochs;
use super::past::Past;
use super::seat::Seat;

/// One instance's way to the shared store.
pub struct FaultyStore {
    seat: Arc<Seat>,
    past: Arc<Past>,
    inner: Arc<dyn Store>,
}

impl FaultyStore {
    pub fn new(seat: Arc<Seat>, past: Arc<Past>) -> FaultyStore {
        FaultyStore { seat, inner: past.store.clone(), past }
    }

    /// Runs one call with everything that can go wrong around it.
    async fn call<T>(&self, name: &str, act: impl Future<Output = Result<T>>) -> Result<T> {
        self.call_or_repeat(name, act, async {}).await
    }

    /// The same for a read, after which the store may have gone back.
    async fn read<T>(&self, name: &str, act: impl Future<Output = Result<T>>) -> Result<T> {
        let answer = self.call(name, act).await;
        self.past.after_read();
        answer
    }

    /// The same for a write, which enumeration may want made twice.
    async fn call_or_repeat<T>(
        &self,
        name: &str,
        act: impl Future<Output = Result<T>>,
        first: impl Future<Output = ()>,
    ) -> Result<T> {
        let plan = self.seat.plan.clone();
        let number = self.seat.before(name).await;
        if self.seat.dice.strikes(plan.store_slow) {
            self.seat.delay(5_000).await;
        }
        if self.seat.dice.strikes(plan.store_fails_before) {
            self.seat.log("store refuses");
            return Err(StoreError::Unavailable("injected before".to_owned()));
        }
        if self.seat.repeats(number) {
            first.await;
        }
        let answer = act.await;
        self.seat.after(name, number).await;
        if self.seat.dice.strikes(plan.store_fails_after) {
            self.seat.log("store forgets to answer");
            return Err(StoreError::Unavailable("injected after the commit".to_owned()));
        }
        answer
    }
}

#[async_trait]
impl LaneStore for FaultyStore {
    async fn identity(&self) -> Result<StoreIdentity> {
        self.inner.identity().await
    }

    async fn open(&self, batch: Vec<OpenAttempt>) -> Result<Vec<Opened>> {
        let named = batch.iter().map(|open| format!("{} {}", open.lane, open.nonce));
        let name = format!("open {}", named.collect::<Vec<_>>().join(", "));
        let repeated = batch.clone();
        let first = async { _ = self.inner.open(repeated).await };
        let act = async {
            batch.iter().for_each(|open| self.past.before_open(open.purpose));
            let lanes = self.inner.lanes().await?;
            let asked: Vec<_> = batch.iter().map(|open| (open.lane.clone(), open.epoch)).collect();
            let opened = self.inner.open(batch).await?;
            for ((lane, epoch), opened) in asked.iter().zip(&opened) {
                if matches!(opened, Opened::Stored(_)) {
                    self.past.opened();
                }
                if let Err(broken) = epochs::check(&lanes, lane, *epoch, opened) {
                    self.seat.dice.broken.lock().push(broken);
                }
            }
            Ok(opened)
        };
        self.call_or_repeat(&name, act, first).await
    }

    async fn add_variant(&self, add: AddVariant) -> Result<Added> {
        let name = format!("vary {} {}", add.attempt, add.number);
        let first = async { _ = self.inner.add_variant(add.clone()).await };
        let act = async {
            self.past.before_vary();
            let added = self.inner.add_variant(add.clone()).await?;
            if matches!(added, Added::Stored(_)) {
                self.past.opened();
            }
            Ok(added)
        };
        self.call_or_repeat(&name, act, first).await
    }

    async fn settle(&self, settlement: Settlement) -> Result<Settled> {
        let name = format!("settle {}", settlement.attempt);
        let first = async { _ = self.inner.settle(settlement.clone()).await };
        self.call_or_repeat(&name, self.inner.settle(settlement.clone()), first).await
    }

    async fn sight(&self, sight: Sight) -> Result<bool> {
        self.call("sight", self.inner.sight(sight)).await
    }

    async fn open_attempts(&self, lane: &LaneId) -> Result<Vec<Attempt>> {
        let open = self.call("open_attempts", self.inner.open_attempts(lane)).await;
        if open.as_ref().is_ok_and(|open| !open.is_empty()) {
            self.past.in_recovery();
        }
        open
    }

    async fn attempts_after(
        &self,
        lane: &LaneId,
        above: Nonce,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.read("attempts_after", self.inner.attempts_after(lane, above, limit)).await
    }

    async fn attempt(&self, id: AttemptId) -> Result<Option<Attempt>> {
        self.read("attempt", self.inner.attempt(id)).await
    }

    async fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Result<Option<Attempt>> {
        self.read("attempt_at", self.inner.attempt_at(lane, nonce)).await
    }

    async fn transfers(&self, ids: &[TransferId]) -> Result<Vec<Transfer>> {
        self.read("transfers", self.inner.transfers(ids)).await
    }

    async fn lease(
        &self,
        lane: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Result<Leased> {
        self.call("lease", self.inner.lease(lane, rail, holder, ttl_ms)).await
    }

    async fn renew(&self, lanes: &[(LaneId, Epoch)], ttl_ms: u64) -> Result<Vec<bool>> {
        self.call("renew", self.inner.renew(lanes, ttl_ms)).await
    }

    async fn release(&self, lanes: &[(LaneId, Epoch)]) -> Result<()> {
        self.call("release", self.inner.release(lanes)).await
    }

    async fn start_lane(&self, lane: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> Result<bool> {
        self.call("start_lane", self.inner.start_lane(lane, epoch, ledger_nonce)).await
    }

    async fn halt(&self, lane: &LaneId, reason: &str) -> Result<()> {
        self.call("halt", self.inner.halt(lane, reason)).await
    }

    async fn adopt(&self, lane: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        self.call("adopt", self.inner.adopt(lane, ledger_nonce)).await
    }

    async fn lanes(&self) -> Result<Vec<Lane>> {
        self.read("lanes", self.inner.lanes()).await
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn accept(&self, batch: Vec<NewTransfer>) -> Result<Vec<Accepted>> {
        let first = async { _ = self.inner.accept(batch.clone()).await };
        self.call_or_repeat("accept", self.inner.accept(batch.clone()), first).await
    }

    async fn apply(&self, moves: Vec<Move>) -> Result<AppliedBatch> {
        let first = async { _ = self.inner.apply(moves.clone()).await };
        self.call_or_repeat("apply", self.inner.apply(moves.clone()), first).await
    }

    async fn attempt_of(&self, rail: RailName, hash: &str) -> Result<Option<Attempt>> {
        self.call("attempt_of", self.inner.attempt_of(rail, hash)).await
    }

    async fn open_attempts_of(&self, rail: RailName) -> Result<Vec<Attempt>> {
        self.read("open_attempts_of", self.inner.open_attempts_of(rail)).await
    }

    async fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        self.read("attempts_page", self.inner.attempts_page(rail, after, limit)).await
    }

    async fn sweep(
        &self,
        stage: Stage,
        limit: usize,
        push_ms: u64,
        horizon_ms: u64,
    ) -> Result<Vec<TransferId>> {
        self.call("sweep", self.inner.sweep(stage, limit, push_ms, horizon_ms)).await
    }

    async fn by_key(&self, rail: RailName, tenant: &str, key: &str) -> Result<Option<Transfer>> {
        self.read("by_key", self.inner.by_key(rail, tenant, key)).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>> {
        self.read("trail", self.inner.trail(id)).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>> {
        self.read("list", self.inner.list(filter)).await
    }

    async fn counts(&self) -> Result<Vec<(State, u64)>> {
        self.read("counts", self.inner.counts()).await
    }

    async fn claim(&self, claims: Vec<(ClaimKey, TransferId)>) -> Result<Vec<Claimed>> {
        self.call("claim", self.inner.claim(claims)).await
    }

    async fn kept(&self, keys: &[ClaimKey]) -> Result<Vec<bool>> {
        self.read("kept", self.inner.kept(keys)).await
    }
}
