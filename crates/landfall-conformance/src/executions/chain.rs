//! A ledger in a few lines: blocks by the clock, one pool, final two blocks later. A later nonce
//! that lands kills the earlier ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::attempt::{Certificate, Landing, Outcome, Sighting, Signed};
use landfall_core::ledger::{
    Broadcast, Foreign, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Reach,
    Refusal, Waiting,
};
use landfall_core::{Attempt, CertificateKind, Clock, LaneId, Nonce, RailName};
use landfall_lanes::RecordStore;
use parking_lot::Mutex;

const BLOCK_MS: u64 = 20;
/// Blocks until a block is final.
const FINAL_AFTER: usize = 2;

/// A transaction of this ledger: who signed it, under which nonce, and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tx {
    lane: String,
    nonce: u64,
    does: String,
}

impl Tx {
    fn parse(bytes: &[u8]) -> Tx {
        let text = String::from_utf8_lossy(bytes);
        let mut parts = text.splitn(3, '/').map(str::to_owned);
        let mut part = || parts.next().unwrap_or_default();
        Tx { lane: part(), nonce: part().parse().unwrap_or_default(), does: part() }
    }

    fn hash(&self) -> String {
        format!("{}/{}/{}", self.lane, self.nonce, self.does)
    }
}

/// What goes wrong from here on.
#[derive(Debug, Default)]
pub struct Faults {
    /// Broadcasts under this nonce get lost on the way.
    pub lost_nonce: Option<u64>,
    /// So many broadcasts arrive and are not answered.
    pub unanswered: usize,
    /// What does something can never enter; whether that is its sender's fault.
    pub refusing: Option<bool>,
    /// What does this is reverted.
    pub reverting: Option<String>,
    /// No block is filled.
    pub stopped: bool,
}

#[derive(Default)]
struct State {
    blocks: Vec<Vec<Tx>>,
    pool: Vec<Tx>,
    faults: Faults,
    /// Broadcasts of what is in no block, under a nonce that is used.
    invalid_nonces: usize,
    /// Broadcasts of what was not stored.
    unstored: Vec<String>,
}

pub struct Chain {
    lanes: Vec<LaneId>,
    clock: Arc<dyn Clock>,
    /// Whatever is sent must be stored there.
    store: Arc<dyn RecordStore>,
    started_ms: u64,
    state: Mutex<State>,
}

impl Chain {
    pub fn new(store: Arc<dyn RecordStore>, lanes: Vec<LaneId>, clock: Arc<dyn Clock>) -> Chain {
        let started_ms = clock.monotonic_ms();
        Chain { lanes, clock, store, started_ms, state: Mutex::default() }
    }

    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        self.at_head(|state| change(&mut state.faults));
    }

    /// What was done, in the order of the blocks.
    pub fn done(&self) -> Vec<String> {
        self.at_head(|state| {
            let all = state.blocks.iter().flatten().map(|tx| tx.does.clone());
            all.filter(|does| !does.is_empty()).collect()
        })
    }

    pub fn invalid_nonces(&self) -> usize {
        self.state.lock().invalid_nonces
    }

    pub fn unstored(&self) -> Vec<String> {
        self.state.lock().unstored.clone()
    }

    /// Signs as whoever has the key would.
    pub fn sign(lane: &LaneId, nonce: Nonce, does: &str) -> Signed {
        let tx = Tx { lane: lane.to_string(), nonce: nonce.0, does: does.to_owned() };
        let hash = tx.hash();
        Signed { bytes: hash.clone().into_bytes(), hash, base: None, expires_height: None }
    }

    /// With all blocks made that are due by now.
    fn at_head<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let due = self.clock.monotonic_ms().saturating_sub(self.started_ms) / BLOCK_MS;
        while (state.blocks.len() as u64) < due {
            let block = state.fill();
            state.blocks.push(block);
        }
        act(&mut state)
    }
}

impl State {
    fn used(&self, lane: &str, blocks: usize) -> u64 {
        let landed = self.blocks.iter().take(blocks).flatten();
        landed.filter(|tx| tx.lane == lane).map(|tx| tx.nonce).max().unwrap_or_default()
    }

    fn final_blocks(&self) -> usize {
        self.blocks.len().saturating_sub(FINAL_AFTER)
    }

    /// What of the pool gets into the next block: a nonce that was passed never does.
    fn fill(&mut self) -> Vec<Tx> {
        let mut block: Vec<Tx> = Vec::new();
        if self.faults.stopped {
            return block;
        }
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        self.pool.sort_by_key(|tx| tx.nonce);
        for tx in std::mem::take(&mut self.pool) {
            let blocks = self.blocks.len();
            let last = *used.entry(tx.lane.clone()).or_insert_with(|| self.used(&tx.lane, blocks));
            if tx.nonce > last {
                used.insert(tx.lane.clone(), tx.nonce);
                block.push(tx);
            }
        }
        block
    }

    fn find(&self, hash: &str) -> Option<(usize, &Tx)> {
        let blocks = self.blocks.iter().enumerate();
        let mut all = blocks.flat_map(|(at, block)| block.iter().map(move |tx| (at, tx)));
        all.find(|(_, tx)| tx.hash() == hash)
    }

    fn look(&self, attempt: &Attempt) -> Look {
        let Some((at, tx)) = self.find(&attempt.hash) else {
            return Look::Adrift { why: "in no block".to_owned(), sightings: Vec::new() };
        };
        if at >= self.final_blocks() {
            let sighting = Sighting {
                endpoint: "node".to_owned(),
                block_hash: format!("block {at}"),
                block_height: Some(at as u64),
                was_final: false,
                at_ms: 0,
            };
            return Look::Adrift { why: "not final".to_owned(), sightings: vec![sighting] };
        }
        let outcome = match self.faults.reverting.as_ref() == Some(&tx.does) {
            true => Outcome::OwnFault { message: "reverted".to_owned() },
            false => Outcome::Done,
        };
        Look::Landed(Landing {
            hash: None,
            block_height: at as u64,
            block_hash: format!("block {at}"),
            outcomes: attempt.members.iter().map(|_| outcome.clone()).collect(),
        })
    }

    fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Look {
        let used = self.used(attempt.lane.as_str(), self.final_blocks());
        match self.look(attempt) {
            Look::Adrift { sightings, .. } if sightings.is_empty() && used >= attempt.nonce.0 => {
                match later.iter().any(|one| one.nonce.0 == used) {
                    true => Look::Sunk(Certificate {
                        kind: CertificateKind::NoncePassed,
                        summary: format!("passed by nonce {used}"),
                        evidence: serde_json::json!({ "used": used }),
                    }),
                    false => Look::Foreign(Foreign {
                        reason: format!("nonce {used} is nobody's"),
                        certificate: None,
                    }),
                }
            }
            found => found,
        }
    }

    fn take(&mut self, tx: Tx) -> Broadcast {
        let unsure = |cause: &str| Broadcast::Unsure { cause: cause.into(), shortage: None };
        if self.faults.lost_nonce == Some(tx.nonce) {
            return unsure("lost");
        }
        if let Some(relays_fault) = self.faults.refusing.filter(|_| !tx.does.is_empty()) {
            return Broadcast::Refused(Refusal { reason: "never".into(), relays_fault });
        }
        if tx.nonce <= self.used(&tx.lane, self.blocks.len()) {
            self.invalid_nonces += usize::from(self.find(&tx.hash()).is_none());
            return unsure("InvalidNonce");
        }
        if !self.pool.contains(&tx) {
            self.pool.push(tx);
        }
        if self.faults.unanswered > 0 {
            self.faults.unanswered -= 1;
            return unsure("no answer");
        }
        Broadcast::Sent(None)
    }
}

#[async_trait]
impl Ledger for Chain {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn manner(&self) -> Manner {
        Manner {
            window: 4,
            inclusion_ms: 1_000,
            finality_ms: 5_000,
            // Whoever takes over sends the same bytes again, long before that.
            fence_after_ms: 4_000,
            rebroadcast_ms: 100,
            rebroadcast_max_ms: 400,
            look_ms: BLOCK_MS,
            pulse_ms: BLOCK_MS / 2,
            ..Manner::OVERTAKES
        }
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.lanes.clone()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        self.lanes.contains(lane)
    }

    async fn broadcast(&self, attempt: &Attempt, _: u32) -> Broadcast {
        let signed = attempt.newest();
        let stored = self.store.attempt_at(&attempt.lane, attempt.nonce).await;
        let is_stored = stored.is_ok_and(|one| one.is_some_and(|one| one.hash == signed.hash));
        self.at_head(|state| {
            if !is_stored {
                state.unstored.push(signed.hash.clone());
            }
            state.take(Tx::parse(&signed.bytes))
        })
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        Ok(self.at_head(|state| state.look(attempt)))
    }

    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        Ok(self.at_head(|state| state.inquest(attempt, later)))
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        let nonces = self.nonces().await?;
        Ok(nonces.into_iter().find(|(id, _)| id == lane).map(|(_, nonce)| nonce))
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        Ok(self.at_head(|state| {
            let blocks = state.final_blocks();
            let nonce = |lane: &LaneId| LedgerNonce {
                nonce: Nonce(state.used(lane.as_str(), blocks)),
                final_height: blocks as u64,
            };
            self.lanes.iter().map(|lane| (lane.clone(), nonce(lane))).collect()
        }))
    }

    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        Ok(self.at_head(|state| {
            let reach =
                |lane: &LaneId| Reach::UpTo(Nonce(state.used(lane.as_str(), state.blocks.len())));
            let progress = |one: &Waiting| Progress {
                lane: one.lane.clone(),
                reach: reach(&one.lane),
                is_final: false,
            };
            waiting.iter().map(progress).collect()
        }))
    }
}
