//! Attempts: opened with their members moved, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use std::collections::BTreeSet;

use landfall_core::attempt::{Attempt, Fate, Sighting};
use landfall_core::store::{OpenAttempt, Opened, Result, Settled, Settlement, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{AttemptId, Epoch, LaneId, Nonce, Purpose, RailName, TransferId};

use crate::Tables;

impl Tables {
    pub(crate) fn open_attempt(&mut self, open: OpenAttempt, now_ms: u64) -> Opened {
        if let Some(fence) = self.fence_on(&open.lane, open.epoch, open.purpose) {
            return Opened::Fenced(fence);
        }
        let is_behind = |(lane, mark): &&(LaneId, Nonce)| {
            self.lanes.get(lane).and_then(|lane| lane.next_nonce).is_none_or(|next| next <= *mark)
        };
        if let Some((lane, mark)) = open.marks.iter().find(is_behind)
            && !wound::is(Wound::NonceReused)
            && !wound::is(Wound::BehindIgnored)
            && !wound::is(Wound::MarksNotNoted)
        {
            return Opened::Behind(format!("nonce {mark} of lane {lane} is no longer stored"));
        }
        let next = self.lanes.get(&open.lane).and_then(|lane| lane.next_nonce);
        let fits = |next: Nonce| match open.purpose {
            Purpose::Fence => open.nonce >= next,
            Purpose::Prepare | Purpose::Pay => open.nonce == next,
        };
        if !next.is_some_and(fits) {
            return Opened::StaleNonce;
        }
        let stale = self.stale_members(&open);
        if !stale.is_empty() && !wound::is(Wound::HintOverStore) {
            return Opened::StaleMembers(stale);
        }
        let id = AttemptId(self.attempts.last_key_value().map_or(0, |(last, _)| last.0) + 1);
        for step in &open.moves {
            self.write_move(step, Some(id), now_ms, &mut Vec::new());
        }
        self.lanes.entry(open.lane.clone()).and_modify(|lane| {
            let reused = wound::is(Wound::NonceReused);
            lane.next_nonce = Some(if reused { open.nonce } else { open.nonce.next() });
        });
        let attempt = open.opened_as(id);
        self.attempts.insert(id, attempt.clone());
        Opened::Stored(Box::new(attempt))
    }

    /// Members that moved meanwhile, are carried already, or are named twice.
    fn stale_members(&self, open: &OpenAttempt) -> Vec<TransferId> {
        let mut seen = BTreeSet::new();
        open.moves
            .iter()
            .filter(|step| {
                !seen.insert(step.id) || step.from_attempt.is_some() || !self.is_current(step)
            })
            .map(|step| step.id)
            .collect()
    }

    pub(crate) fn settle(&mut self, settlement: Settlement, now_ms: u64) -> Result<Settled> {
        let Some(attempt) = self.attempts.get(&settlement.attempt) else {
            let id = settlement.attempt;
            return Err(StoreError::Corrupt(format!("attempt {id} is not in the store")));
        };
        let held = self.holds(&settlement.lane, settlement.epoch);
        let fenced = attempt.lane != settlement.lane || !held;
        if fenced && !wound::is(Wound::EpochUnchecked) {
            return Ok(Settled::Fenced);
        }
        let again = attempt.fate.is_some();
        if again && !wound::is(Wound::SettledTwice) {
            return Ok(Settled::AlreadyDecided);
        }
        self.check_settlement(attempt, &settlement)?;
        let mut moved = Vec::new();
        let mut released = Vec::new();
        for step in &settlement.moves {
            if again || self.carried_by(step.id, settlement.attempt) {
                self.write_move(step, None, now_ms, &mut released);
                moved.push(step.id);
            }
        }
        self.attempts.entry(settlement.attempt).and_modify(|attempt| {
            attempt.fate = Some(settlement.fate);
            attempt.decided_ms = Some(settlement.now_ms);
        });
        Ok(Settled::Done { moved, released })
    }

    /// Every transfer the attempt carries must have a move that fits it, or it would be stranded.
    fn check_settlement(&self, attempt: &Attempt, settlement: &Settlement) -> Result<()> {
        let carried = attempt.members.iter().filter(|id| self.carried_by(**id, attempt.id));
        for id in carried {
            let fits = settlement
                .moves
                .iter()
                .find(|step| step.id == *id)
                .is_some_and(|step| self.is_current(step));
            if !fits {
                return Err(StoreError::Corrupt(format!(
                    "the settlement of attempt {} has no move that fits its member {id}",
                    attempt.id
                )));
            }
        }
        Ok(())
    }

    fn carried_by(&self, transfer: TransferId, attempt: AttemptId) -> bool {
        self.transfers.get(&transfer).is_some_and(|transfer| transfer.attempt == Some(attempt))
    }

    pub(crate) fn sight(&mut self, id: AttemptId, epoch: Epoch, sighting: Sighting) -> bool {
        let lane = match self.attempts.get(&id) {
            Some(attempt) if attempt.fate.is_none() => attempt.lane.clone(),
            _ => return false,
        };
        if !self.holds(&lane, epoch) {
            return false;
        }
        self.attempts.entry(id).and_modify(|attempt| attempt.sightings.push(sighting));
        true
    }

    pub(crate) fn open_attempts(&self, lane: &LaneId) -> Vec<Attempt> {
        self.attempts_where(|attempt| attempt.lane == *lane && attempt.fate.is_none())
    }

    pub(crate) fn open_attempts_of(&self, rail: RailName) -> Vec<Attempt> {
        self.attempts_where(|attempt| attempt.rail == rail && attempt.fate.is_none())
    }

    pub(crate) fn attempts_after(&self, lane: &LaneId, above: Nonce, limit: usize) -> Vec<Attempt> {
        let mut found = self.attempts_where(|attempt| {
            let is_sunk = matches!(attempt.fate, Some(Fate::Sunk(_)));
            attempt.lane == *lane && attempt.nonce > above && !is_sunk
        });
        found.truncate(limit);
        found
    }

    pub(crate) fn attempt_at(&self, lane: &LaneId, nonce: Nonce) -> Option<Attempt> {
        self.attempts
            .values()
            .find(|attempt| attempt.lane == *lane && attempt.nonce == nonce)
            .cloned()
    }

    pub(crate) fn attempts_page(
        &self,
        rail: RailName,
        after: AttemptId,
        limit: usize,
    ) -> Vec<Attempt> {
        self.attempts
            .values()
            .filter(|attempt| attempt.id > after && attempt.rail == rail && attempt.fate.is_some())
            .take(limit)
            .cloned()
            .collect()
    }

    /// Attempts that pass, by lane and nonce.
    fn attempts_where(&self, pass: impl Fn(&Attempt) -> bool) -> Vec<Attempt> {
        let mut found: Vec<Attempt> =
            self.attempts.values().filter(|attempt| pass(attempt)).cloned().collect();
        found.sort_by(|a, b| (&a.lane, a.nonce).cmp(&(&b.lane, b.nonce)));
        found
    }
}
