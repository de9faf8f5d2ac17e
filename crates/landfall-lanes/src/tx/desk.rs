//! The manager as the lanes see it: the owner of executions.
//!
//! It hands records to lanes in order, has them built when a lane signs, and tells those who wait
//! what became of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::{Shortage, Signed, VariantKind};
use landfall_core::ledger::RailError;
use landfall_core::{
    Attempt, CertificateKind, Clock, Fate, LaneId, Move, Nonce, Purpose, Transfer, TransferId,
};
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::fence::FenceSigner;
use crate::fleet::LedgerLanes;
use crate::owner::{Batch, Demand, Owner};
use crate::tx::build::Build;
use crate::tx::lines::{End, Lines, Told};
use crate::tx::numbers::Numbers;
use crate::tx::settle::{self, Blame};
use crate::watched::Watched;

pub(crate) struct Desk {
    pub clock: Arc<dyn Clock>,
    pub numbers: Arc<Numbers>,
    pub fences: Option<Arc<dyn FenceSigner>>,
    pub build_ms: u64,
    /// How long a lane is held at a time; none where nobody else can want it.
    pub turn_ms: Option<u64>,
    pub lines: Mutex<Lines>,
    /// For as long as the fleet is there, which has this desk in turn.
    pub lanes: Mutex<Option<Arc<LedgerLanes>>>,
}

/// A place in a lane's line that is kept for a call, until this is dropped.
pub(crate) struct Place {
    desk: Arc<Desk>,
    pub lane: LaneId,
}

impl Place {
    pub fn keep(desk: &Arc<Desk>, lines: &mut Lines, lane: &LaneId) -> Place {
        lines.arrive(lane);
        Place { desk: desk.clone(), lane: lane.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.desk.lines.lock().leave(&self.lane);
    }
}

impl Desk {
    /// Has the record driven on the lane, unless it is already.
    pub fn board(&self, record: &Transfer, lane: &LaneId, build: &Arc<dyn Build>) -> Watched<Told> {
        let told = self.lines.lock().board(record, lane, build);
        self.tell_depth(lane);
        self.want(lane);
        self.hand_on();
        told
    }

    pub fn lanes(&self) -> Option<Arc<LedgerLanes>> {
        self.lanes.lock().clone()
    }

    /// Hands on what waits, as far as the lanes have room.
    fn hand_on(&self) {
        let Some(lanes) = self.lanes() else { return };
        let shorter = self.lines.lock().hand_on(|lane, record| {
            let batch = Batch { purpose: Purpose::Pay, members: vec![record] };
            lanes.give_unless(batch, |other| other != lane).is_ok()
        });
        shorter.iter().for_each(|lane| self.tell_depth(lane));
    }

    fn want(&self, lane: &LaneId) {
        self.lanes().into_iter().for_each(|lanes| lanes.want(lane));
    }

    fn tell_depth(&self, lane: &LaneId) {
        let depth = self.lines.lock().waiting(lane);
        self.numbers.queued(lane, depth);
    }

    fn end(&self, id: TransferId, end: End) {
        self.lines.lock().end(id, end);
    }

    /// Has it built, on a task of its own: one that panics or hangs must not take the lane along.
    async fn built(
        &self,
        build: Arc<dyn Build>,
        lane: LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError> {
        let mut task = JoinSet::new();
        task.spawn(async move { build.build(lane, nonce).await });
        tokio::select! {
            biased;
            built = task.join_next() => match built {
                Some(Ok(built)) => built,
                _ => Err(RailError::Misconfigured("the builder panicked".to_owned())),
            },
            _ = self.clock.sleep(Duration::from_millis(self.build_ms)) => {
                Err(RailError::Unavailable(format!("not built within {} ms", self.build_ms)))
            }
        }
    }

    fn fences(&self) -> Result<&Arc<dyn FenceSigner>, RailError> {
        let none = || RailError::Misconfigured("there is nobody who signs fences".to_owned());
        self.fences.as_ref().ok_or_else(none)
    }
}

#[async_trait]
impl Owner for Desk {
    async fn sign(&self, batch: &Batch, lane: &LaneId, nonce: Nonce) -> Result<Signed, RailError> {
        let Some(record) = batch.members.first() else {
            return self.fences()?.sign_fence(lane, nonce).await;
        };
        let build = self.lines.lock().builder(record.id);
        let Some(build) = build else {
            return Err(RailError::Unavailable("nobody here can build it any more".to_owned()));
        };
        let built = self.built(build, lane.clone(), nonce).await;
        if let Err(error) = &built {
            self.end(record.id, End::Unbuilt(error.to_string()));
        }
        built
    }

    async fn sign_variant(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        let Some(record) = members.first().filter(|_| kind == VariantKind::Replaces) else {
            return self.fences()?.sign_anew(attempt, kind).await;
        };
        let build = self.lines.lock().builder(record.id);
        match build {
            Some(build) => build.rebuild(attempt).await,
            // What is stored is sent on.
            None => Ok(None),
        }
    }

    fn opening(&self, batch: &Batch, hash: &str, now_ms: u64) -> Vec<Move> {
        let opening = |record: &Transfer| {
            settle::opening(record, hash, now_ms).expect("only what is queued is handed on")
        };
        batch.members.iter().map(opening).collect()
    }

    fn sighted(&self, _: &Attempt, _: &[Transfer], _: bool, _: u64) -> Vec<Move> {
        Vec::new()
    }

    fn settling(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        now_ms: u64,
    ) -> Vec<Move> {
        let settling = |record: &Transfer| {
            settle::settling(attempt, record, fate, now_ms).expect("what is carried is in flight")
        };
        members.iter().map(settling).collect()
    }

    fn opened(&self, attempt: &Attempt) {
        let mut lines = self.lines.lock();
        attempt.members.iter().for_each(|id| lines.stored(*id, &attempt.hash));
    }

    async fn settled(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        moves: Vec<Move>,
        moved: Vec<TransferId>,
        _: Vec<TransferId>,
    ) {
        let sunk = match fate {
            Fate::Sunk(certificate) => Some(certificate),
            Fate::Landed(_) => None,
        };
        let passed = [CertificateKind::NoncePassed, CertificateKind::Displaced];
        if attempt.purpose == Purpose::Pay && sunk.is_some_and(|by| passed.contains(&by.kind)) {
            self.numbers.invalid_nonce(&attempt.lane);
        }
        for (record, step) in members.iter().zip(&moves) {
            if !moved.contains(&record.id) {
                self.end(record.id, End::Elsewhere);
                continue;
            }
            let after = step.applied_to(record);
            match sunk.map(settle::blame) {
                _ if after.state.is_final() => {
                    self.end(record.id, End::Settled(Box::new(after)));
                }
                Some(Blame::Senders(why)) => self.end(record.id, End::Unsent(why)),
                _ => self.lines.lock().come_back(record.id, Some(after)),
            }
        }
        self.tell_depth(&attempt.lane);
    }

    fn returned(&self, batch: Batch, why: &str) {
        for record in batch.members {
            tracing::debug!(key = record.key, why, "not signed yet");
            let lane = self.lines.lock().lane_of(record.id);
            self.lines.lock().come_back(record.id, None);
            if let Some(lane) = lane {
                self.tell_depth(&lane);
                self.want(&lane);
            }
        }
    }

    fn unsignable(&self, batch: Batch, why: &str) {
        // Its builder was asked, and has told why.
        batch.members.iter().for_each(|record| self.end(record.id, End::Unbuilt(why.to_owned())));
    }

    fn hopeless(&self, batch: Batch, why: &str) {
        self.unsignable(batch, why);
    }

    fn forgotten(&self, members: &[TransferId]) {
        members.iter().for_each(|id| self.end(*id, End::Elsewhere));
    }

    fn shortage(&self, lane: &LaneId, _: Shortage, message: &str) {
        self.numbers.watch.alert("shortage", &format!("{lane}: {message}"));
    }

    fn halted(&self, lane: &LaneId, reason: &str) {
        self.numbers.watch.halted(lane, reason);
    }

    fn alert(&self, kind: &str, message: String) {
        self.numbers.watch.alert(kind, &message);
    }

    fn calm(&self, kind: &str) {
        self.numbers.watch.calm(kind);
    }

    fn freed(&self) {
        self.hand_on();
    }

    fn demand(&self, lane: &LaneId) -> Demand {
        match (self.turn_ms, self.lines.lock().flights(lane)) {
            (None, _) => Demand::Always,
            (Some(_), 0) => Demand::Nothing,
            (Some(turn_ms), _) => Demand::InTurns { turn_ms },
        }
    }

    fn let_go(&self, lane: &LaneId) {
        self.lines.lock().end_stored(lane);
    }

    fn contended(&self, lane: &LaneId) {
        self.numbers.contended(lane);
    }

    fn took_over(&self, lane: &LaneId, attempts: usize) {
        self.numbers.took_over(lane, attempts);
    }
}
