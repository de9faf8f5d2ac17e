//! A ledger of each order in a few lines: blocks by the clock, one pool, final two blocks later.
//!
//! It enforces the order's rules, and it may lose, drop, refuse or hold back what it is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::attempt::{Certificate, Landing, Outcome, Sighting, Signed, VariantKind};
use landfall_core::ledger::{
    Broadcast, Foreign, Later, Ledger, LedgerNonce, Look, Manner, Order, Progress, RailError,
    Reach, Refusal, Waiting,
};
use landfall_core::store::Store;
use landfall_core::{Attempt, CertificateKind, Clock, LaneId, Nonce, RailName, TransferId};
use landfall_store_memory::MemoryStore;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub const BLOCK_MS: u64 = 100;
/// Blocks until a block is final.
const FINAL_AFTER: u64 = 2;
/// The most calls of a kind that a test can want.
const CALLS_MAX: usize = 100_000;
/// How long bytes that expire are valid.
const VALID_BLOCKS: u64 = 40;

/// A transaction of this ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tx {
    pub lane: String,
    pub nonce: u64,
    /// Whom it pays; nobody, if it only uses its nonce.
    pub pays: Vec<u64>,
    pub fee: u64,
    pub expires_height: Option<u64>,
}

impl Tx {
    fn hash(&self) -> String {
        let Tx { lane, nonce, pays, fee, expires_height } = self;
        format!("{lane}/{nonce}/{pays:?}/{fee}/{expires_height:?}")
    }
}

/// What goes wrong next.
#[derive(Debug, Default)]
pub struct Faults {
    /// So many broadcasts get lost on the way.
    pub lost: usize,
    /// So many arrive, and are not answered.
    pub unanswered: usize,
    /// Broadcasts under this nonce get lost on the way.
    pub lost_nonce: Option<u64>,
    /// What pays somebody can never enter.
    pub refusing: bool,
    /// This fee is refused for ever.
    pub refused_fee: Option<u64>,
    /// Only this fee or a higher one gets into a block.
    pub fee_floor: u64,
    /// No block is filled.
    pub stopped: bool,
    /// No block above this becomes final.
    pub final_at_most: Option<usize>,
    /// A pulse calls final whatever is in a block.
    pub hasty: bool,
}

#[derive(Default)]
struct State {
    blocks: Vec<Vec<Tx>>,
    pool: Vec<Tx>,
    faults: Faults,
    /// Every broadcast, by hash, and its round.
    sent: Vec<String>,
    rounds: Vec<u32>,
    calls: BTreeMap<&'static str, usize>,
}

pub struct Chain {
    manner: Manner,
    lanes: Vec<LaneId>,
    clock: Arc<dyn Clock>,
    /// Everything that is sent must be stored there.
    store: Arc<MemoryStore>,
    state: Mutex<State>,
}

impl Chain {
    pub fn new(manner: Manner, clock: Arc<dyn Clock>, store: Arc<MemoryStore>) -> Chain {
        let lanes = vec![LaneId::new("key")];
        Chain { manner, lanes, clock, store, state: Mutex::default() }
    }

    pub fn lane(&self) -> &LaneId {
        &self.lanes[0]
    }

    /// What goes wrong from here on.
    pub fn faults(&self, change: impl FnOnce(&mut Faults)) {
        self.at_head(|state, _| change(&mut state.faults));
    }

    /// How often the ledger was asked this.
    pub fn calls(&self, name: &str) -> usize {
        self.state.lock().calls.get(name).copied().unwrap_or_default()
    }

    /// Every broadcast so far, by hash.
    pub fn sent(&self) -> Vec<String> {
        self.state.lock().sent.clone()
    }

    /// The round of every broadcast so far.
    pub fn rounds(&self) -> Vec<u32> {
        self.state.lock().rounds.clone()
    }

    pub fn height(&self) -> u64 {
        self.at_head(|state, _| state.blocks.len() as u64)
    }

    /// Who was paid, in the order of the blocks.
    pub fn paid(&self) -> Vec<u64> {
        self.at_head(|state, _| {
            state.blocks.iter().flatten().flat_map(|tx| tx.pays.iter().copied()).collect()
        })
    }

    /// Somebody else sends this.
    pub fn submit(&self, tx: Tx) {
        self.at_head(|state, manner| state.admit(manner, tx));
    }

    /// Nodes forget what waits.
    pub fn drop_pool(&self) {
        self.at_head(|state, _| state.pool.clear());
    }

    /// The newest block falls off the chain with all that it holds.
    pub fn reorganise(&self) {
        self.at_head(|state, _| {
            if let Some(block) = state.blocks.last_mut() {
                block.clear();
            }
        });
    }

    /// Signs as whoever has the key would.
    pub fn sign(&self, lane: &LaneId, nonce: Nonce, pays: Vec<u64>, fee: u64) -> Signed {
        let height = self.height();
        let expires = self.manner.order != Order::Queues;
        let tx = Tx {
            lane: lane.as_str().to_owned(),
            nonce: nonce.0,
            pays,
            fee,
            expires_height: expires.then_some(height + VALID_BLOCKS),
        };
        Signed {
            bytes: serde_json::to_vec(&tx).unwrap(),
            hash: tx.hash(),
            base: None,
            expires_height: tx.expires_height,
        }
    }

    /// With all blocks made that are due by now.
    fn at_head<T>(&self, act: impl FnOnce(&mut State, &Manner) -> T) -> T {
        let mut state = self.state.lock();
        let due = self.clock.monotonic_ms() / BLOCK_MS;
        while (state.blocks.len() as u64) < due {
            let block = state.fill(&self.manner);
            state.blocks.push(block);
        }
        act(&mut state, &self.manner)
    }

    fn asked(&self, name: &'static str) {
        let mut state = self.state.lock();
        let calls = state.calls.entry(name).or_default();
        *calls += 1;
        assert!(*calls < CALLS_MAX, "somebody asks on and on: {name}");
    }
}

impl State {
    fn used(&self, lane: &str, blocks: usize) -> u64 {
        let landed = self.blocks.iter().take(blocks).flatten();
        landed.filter(|tx| tx.lane == lane).map(|tx| tx.nonce).max().unwrap_or_default()
    }

    fn final_blocks(&self) -> usize {
        let most = self.faults.final_at_most.unwrap_or(usize::MAX);
        self.blocks.len().saturating_sub(FINAL_AFTER as usize).min(most)
    }

    fn admit(&mut self, manner: &Manner, tx: Tx) {
        let same = |known: &Tx| known.lane == tx.lane && known.nonce == tx.nonce;
        let is_known = self.pool.contains(&tx);
        let rival = self.pool.iter_mut().find(|known| same(known));
        match rival.filter(|_| manner.order == Order::Queues) {
            Some(known) if tx.fee > known.fee => *known = tx,
            Some(_) => {}
            None if is_known => {}
            None => self.pool.push(tx),
        }
    }

    /// What of the pool gets into the next block.
    fn fill(&mut self, manner: &Manner) -> Vec<Tx> {
        let height = self.blocks.len() as u64 + 1;
        let mut block = Vec::new();
        if self.faults.stopped {
            return block;
        }
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        self.pool.sort_by_key(|tx| tx.nonce);
        for tx in std::mem::take(&mut self.pool) {
            let all = self.blocks.len();
            let last = *used.entry(tx.lane.clone()).or_insert_with(|| self.used(&tx.lane, all));
            let in_order = match manner.order {
                Order::Overtakes => tx.nonce > last,
                Order::Queues => tx.nonce == last + 1,
                Order::Free => !self.blocks.iter().flatten().any(|landed| *landed == tx),
            };
            let is_dead = tx.expires_height.is_some_and(|last| last < height)
                || manner.order != Order::Free && tx.nonce <= last;
            if is_dead {
                continue;
            }
            if in_order && tx.fee >= self.faults.fee_floor {
                used.insert(tx.lane.clone(), tx.nonce);
                block.push(tx);
            } else {
                self.pool.push(tx);
            }
        }
        block
    }

    /// Whatever landed that is wanted, and in which block.
    fn find(&self, wanted: impl Fn(&Tx) -> bool) -> Option<(usize, &Tx)> {
        let blocks = self.blocks.iter().enumerate();
        blocks
            .flat_map(|(at, block)| block.iter().map(move |tx| (at, tx)))
            .find(|(_, tx)| wanted(tx))
    }

    /// What a landed transaction means for the attempt.
    fn shown(&self, attempt: &Attempt, at: usize, tx: &Tx) -> Look {
        let hash = tx.hash();
        if at >= self.final_blocks() {
            let sighting = Sighting {
                endpoint: "node".to_owned(),
                block_hash: format!("block {at}"),
                block_height: Some(at as u64 + 1),
                was_final: false,
                at_ms: 0,
            };
            return Look::Adrift { why: "not final".to_owned(), sightings: vec![sighting] };
        }
        let cancels = attempt
            .variants
            .iter()
            .any(|variant| variant.signed.hash == hash && variant.kind == VariantKind::Cancels);
        if cancels {
            return Look::Sunk(certificate(CertificateKind::Cancelled, &hash));
        }
        Look::Landed(Landing {
            hash: Some(hash).filter(|hash| *hash != attempt.hash),
            block_height: at as u64 + 1,
            block_hash: format!("block {at}"),
            outcomes: attempt.members.iter().map(|_| Outcome::Done).collect(),
        })
    }

    fn look(&self, attempt: &Attempt) -> Look {
        let ours = |tx: &Tx| attempt.hashes().any(|hash| hash == tx.hash());
        match self.find(ours) {
            Some((at, tx)) => self.shown(attempt, at, tx),
            None => Look::Adrift { why: "in no block".to_owned(), sightings: Vec::new() },
        }
    }

    fn inquest(&self, manner: &Manner, attempt: &Attempt, later: &[Later]) -> Look {
        let nowhere = match self.look(attempt) {
            Look::Adrift { sightings, why } if sightings.is_empty() => why,
            found => return found,
        };
        let final_blocks = self.final_blocks();
        let is_expired = attempt.expires_height.is_some_and(|last| last < final_blocks as u64);
        let lane = attempt.lane.as_str();
        let used = self.used(lane, final_blocks);
        match manner.order {
            Order::Free | Order::Overtakes if is_expired => {
                Look::Sunk(certificate(CertificateKind::Expired, &attempt.hash))
            }
            Order::Overtakes if used >= attempt.nonce.0 => {
                match later.iter().any(|one| one.nonce.0 == used) {
                    true => Look::Sunk(certificate(CertificateKind::NoncePassed, &attempt.hash)),
                    false => Look::Foreign(Foreign {
                        reason: format!("nonce {used} is nobody's"),
                        certificate: None,
                    }),
                }
            }
            Order::Queues if used >= attempt.nonce.0 => {
                let same = |tx: &Tx| tx.lane == lane && tx.nonce == attempt.nonce.0;
                let (at, tx) = self.find(same).expect("every nonce up to the last is used");
                let members: Vec<u64> = attempt.members.iter().map(|id| id.0).collect();
                match tx.pays == members {
                    true => self.shown(attempt, at, tx),
                    false => Look::Foreign(Foreign {
                        reason: format!("nonce {} was taken by {}", tx.nonce, tx.hash()),
                        certificate: Some(certificate(CertificateKind::Displaced, &tx.hash())),
                    }),
                }
            }
            _ => Look::Adrift { why: nowhere, sightings: Vec::new() },
        }
    }
}

fn certificate(kind: CertificateKind, by: &str) -> Certificate {
    let evidence = serde_json::json!({ "by": by });
    Certificate { kind, summary: format!("decided by {by}"), evidence }
}

#[async_trait]
impl Ledger for Chain {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn manner(&self) -> Manner {
        self.manner
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.lanes.clone()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        self.lanes.contains(lane)
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        self.asked("broadcast");
        let signed = attempt.newest();
        let stored = self.store.attempt_of(RailName::Near, &signed.hash).await.unwrap();
        assert!(stored.is_some(), "{} is sent before it is stored", signed.hash);
        let tx: Tx = serde_json::from_slice(&signed.bytes).unwrap();
        let take = |count: &mut usize| {
            let some = *count > 0;
            *count = count.saturating_sub(1);
            some
        };
        let unsure = Broadcast::Unsure { cause: "no answer".to_owned(), shortage: None };
        self.at_head(|state, manner| {
            state.sent.push(signed.hash.clone());
            state.rounds.push(round);
            if state.faults.lost_nonce == Some(tx.nonce) || take(&mut state.faults.lost) {
                return unsure;
            }
            let refused_fee = state.faults.refused_fee == Some(tx.fee);
            if refused_fee || state.faults.refusing && !tx.pays.is_empty() {
                let reason = "refused".to_owned();
                return Broadcast::Refused(Refusal { reason, relays_fault: false });
            }
            state.admit(manner, tx);
            match take(&mut state.faults.unanswered) {
                true => unsure,
                false => Broadcast::Sent(None),
            }
        })
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        self.asked("look");
        Ok(self.at_head(|state, _| state.look(attempt)))
    }

    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        self.asked("inquest");
        Ok(self.at_head(|state, manner| state.inquest(manner, attempt, later)))
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        let nonces = self.nonces().await?;
        Ok(nonces.into_iter().find(|(id, _)| id == lane).map(|(_, nonce)| nonce))
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        self.asked("nonces");
        if self.manner.order == Order::Free {
            return Ok(Vec::new());
        }
        Ok(self.at_head(|state, _| {
            let blocks = state.final_blocks();
            let nonce = |lane: &LaneId| LedgerNonce {
                nonce: Nonce(state.used(lane.as_str(), blocks)),
                final_height: blocks as u64,
            };
            self.lanes.iter().map(|lane| (lane.clone(), nonce(lane))).collect()
        }))
    }

    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        self.asked("pulse");
        Ok(self.at_head(|state, manner| {
            let mut shown = Vec::new();
            for one in waiting {
                let lane = one.lane.clone();
                if manner.order == Order::Free {
                    if let Some((at, _)) = state.find(|tx| one.hashes.contains(&tx.hash())) {
                        let is_final = at < state.final_blocks();
                        shown.push(Progress { lane, reach: Reach::Only(one.nonce), is_final });
                    }
                    continue;
                }
                for (blocks, is_final) in
                    [(state.blocks.len(), state.faults.hasty), (state.final_blocks(), true)]
                {
                    let reach = Reach::UpTo(Nonce(state.used(lane.as_str(), blocks)));
                    shown.push(Progress { lane: lane.clone(), reach, is_final });
                }
            }
            shown
        }))
    }
}

/// The transfers that a transaction of a test pays.
pub fn ids(members: &[TransferId]) -> Vec<u64> {
    members.iter().map(|id| id.0).collect()
}
