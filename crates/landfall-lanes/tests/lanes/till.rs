//! An owner in a few lines: it pays one transfer per attempt, and pays again what sank.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use landfall_core::attempt::{Shortage, Signed, VariantKind};
use landfall_core::ledger::RailError;
use landfall_core::{Attempt, Event, Fate, LaneId, Move, Nonce, Purpose, Transfer, TransferId};
use landfall_lanes::watched::Watched;
use landfall_lanes::{Batch, LedgerLanes, Owner};
use parking_lot::Mutex;

use crate::chain::{Chain, ids};

/// What a member is shown as while its attempt is in a block that is not final.
pub const IN_A_BLOCK: &str = "in a block";

pub struct Till {
    pub chain: Arc<Chain>,
    /// What is paid for a transaction by now; a variant needs more than the bytes before it.
    pub fee: AtomicU64,
    pub waiting: Mutex<VecDeque<Transfer>>,
    pub lanes: Mutex<Option<LedgerLanes>>,
    pub halts: Mutex<Vec<String>>,
    /// Whether its signer takes its time.
    pub signs_slowly: Watched<bool>,
}

impl Till {
    pub fn new(chain: Arc<Chain>) -> Till {
        let (waiting, lanes, halts) = Default::default();
        let (fee, signs_slowly) = (AtomicU64::new(1), Watched::new(false));
        Till { chain, fee, waiting, lanes, halts, signs_slowly }
    }

    /// Hands on what waits, as far as there is room.
    pub fn dispatch(&self) {
        let lanes = self.lanes.lock();
        let Some(lanes) = lanes.as_ref() else { return };
        let mut waiting = self.waiting.lock();
        while let Some(next) = waiting.pop_front() {
            let batch = Batch { purpose: Purpose::Pay, members: vec![next] };
            if let Err(back) = lanes.give(batch) {
                back.members.into_iter().for_each(|member| waiting.push_front(member));
                return;
            }
        }
    }

    pub fn wait(&self, transfer: Transfer) {
        self.waiting.lock().push_back(transfer);
    }
}

#[async_trait]
impl Owner for Till {
    async fn sign(&self, batch: &Batch, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        let members: Vec<TransferId> = batch.members.iter().map(|member| member.id).collect();
        self.signs_slowly.watch().until(|slowly| !*slowly).await;
        Ok(self.chain.sign(lane, nonce, ids(&members), self.fee.load(Ordering::Relaxed)))
    }

    async fn sign_variant(
        &self,
        attempt: &Attempt,
        _: &[Transfer],
        kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        let before: crate::chain::Tx = serde_json::from_slice(&attempt.newest().bytes).unwrap();
        let pays = match kind {
            VariantKind::Replaces => ids(&attempt.members),
            VariantKind::Cancels => Vec::new(),
        };
        let fee = match kind {
            VariantKind::Replaces => self.fee.load(Ordering::Relaxed),
            VariantKind::Cancels => self.fee.load(Ordering::Relaxed).max(before.fee + 1),
        };
        let signed = self.chain.sign(&attempt.lane, attempt.nonce, pays, fee);
        Ok(Some(signed).filter(|_| fee > before.fee))
    }

    fn opening(&self, batch: &Batch, hash: &str, now_ms: u64) -> Vec<Move> {
        let open = |member: &Transfer| {
            let mut step = Move::of(member, now_ms).due(None);
            step.tx_hash = Some(hash.to_owned());
            step.fire(Event::AttemptStored).and_then(|step| step.fire(Event::Enqueued)).unwrap()
        };
        batch.members.iter().map(open).collect()
    }

    fn sighted(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        included: bool,
        now_ms: u64,
    ) -> Vec<Move> {
        let changed = members.iter().filter(|member| member.aside.is_some() != included);
        let step = |member: &Transfer| {
            let mut step = Move::of_member(member, attempt.id, now_ms);
            (step.attempt, step.aside) = (Some(attempt.id), included.then(|| IN_A_BLOCK.into()));
            step
        };
        changed.map(step).collect()
    }

    fn settling(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        now_ms: u64,
    ) -> Vec<Move> {
        let event = match fate {
            Fate::Landed(_) => Event::Landed,
            Fate::Sunk(_) => Event::Sunk,
        };
        let settle = |member: &Transfer| {
            let mut step = Move::of_member(member, attempt.id, now_ms).due(Some(now_ms));
            step.aside = None;
            step.fire(event).unwrap()
        };
        members.iter().map(settle).collect()
    }

    fn opened(&self, _: &Attempt) {}

    async fn settled(
        &self,
        _: &Attempt,
        members: &[Transfer],
        _: &Fate,
        moves: Vec<Move>,
        moved: Vec<TransferId>,
        _: Vec<TransferId>,
    ) {
        let all = members.iter().zip(&moves).filter(|(member, _)| moved.contains(&member.id));
        let after = all.map(|(member, step)| step.applied_to(member));
        after.filter(|after| !after.state.is_final()).for_each(|after| self.wait(after));
    }

    fn returned(&self, batch: Batch, _: &str) {
        self.waiting.lock().extend(batch.members);
    }

    fn unsignable(&self, _: Batch, why: &str) {
        panic!("{why}");
    }

    fn hopeless(&self, _: Batch, why: &str) {
        panic!("{why}");
    }

    /// A sweeper would find them.
    fn forgotten(&self, _: &[TransferId]) {}
    fn shortage(&self, _: &LaneId, _: Shortage, _: &str) {}

    fn halted(&self, lane: &LaneId, reason: &str) {
        self.halts.lock().push(format!("{lane}: {reason}"));
    }

    fn alert(&self, _: &str, _: String) {}
    fn calm(&self, _: &str) {}
    fn freed(&self) {}
}
