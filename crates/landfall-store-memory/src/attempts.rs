//! Attempts: opened with their members moved, given variants, seen, settled once.
//!
//! **Invariant:** a lane's nonce is used by one stored attempt and never given back.
//! **Invariant:** once an attempt is decided, no transfer is carried by it.

use std::convert::Infallible;

use landfall_core::attempt::{Attempt, Fate};
use landfall_core::opening::{Known, Underway, refusal, stale_members, variant_refusal};
use landfall_core::store::{
    AddVariant, Added, OpenAttempt, Opened, Result, Settled, Settlement, Sight, StoreError,
};
use landfall_core::wound::{self, Wound};
use landfall_core::{AttemptId, LaneId, Nonce, RailName, TransferId};

use crate::Tables;

impl Tables {
    pub(crate) fn open_attempt(
        &mut self,
        open: OpenAttempt,
        incarnation: &str,
        now_ms: u64,
    ) -> Opened {
        let standing = self.standing(&open.lane, open.epoch);
        let reached = |lane: &LaneId| self.reached(lane, &open.marks);
        let known =
            Known { incarnation: Some(incarnation), lane: standing.as_ref(), reached: &reached };
        let stale = || {
            let moves = open.moves.iter().map(|step| (step, step));
            let Ok::<_, Infallible>(stale) = stale_members(moves, |step| Ok(self.is_current(step)));
            let believed = !stale.is_empty() && wound::is(Wound::HintOverStore);
            Ok(if believed { Vec::new() } else { stale })
        };
        let Ok::<_, Infallible>(refused) = refusal(&open, &known, stale);
        if let Some(refused) = refused {
            return refused;
        }
        let id = AttemptId(self.attempts.last_key_value().map_or(0, |(last, _)| last.0) + 1);
        for step in &open.moves {
            self.write_move(step, Some(id), now_ms, &mut Vec::new());
        }
        let seq = self.count_signature(&open.lane);
        self.lanes.entry(open.lane.clone()).and_modify(|lane| {
            let reused = wound::is(Wound::NonceReused);
            lane.next_nonce = Some(if reused { open.nonce } else { open.nonce.next() });
        });
        let attempt = open.opened_as(id, seq);
        self.attempts.insert(id, attempt.clone());
        Opened::Stored(Box::new(attempt))
    }

    pub(crate) fn add_variant(&mut self, add: &AddVariant, incarnation: &str) -> Result<Added> {
        let standing = self.standing(&add.lane, add.epoch);
        let reached = |lane: &LaneId| self.reached(lane, &add.marks);
        let known =
            Known { incarnation: Some(incarnation), lane: standing.as_ref(), reached: &reached };
        let underway = self.attempts.get(&add.attempt).map(|attempt| Underway {
            is_of_lane: attempt.lane == add.lane,
            is_decided: attempt.fate.is_some(),
            variants: attempt.variants.len() as u32,
        });
        if let Some(refused) = variant_refusal(add, &known, underway)? {
            return Ok(refused);
        }
        let variant = add.stored_as(self.count_signature(&add.lane));
        self.attempts.entry(add.attempt).and_modify(|attempt| {
            attempt.variants.push(variant.clone());
        });
        Ok(Added::Stored(Box::new(variant)))
    }

    /// One more signature of the lane; returns which.
    fn count_signature(&mut self, lane: &LaneId) -> u64 {
        self.lanes.get_mut(lane).map_or(0, |lane| {
            lane.seq += 1;
            lane.seq
        })
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

    pub(crate) fn sight(&mut self, sight: Sight, now_ms: u64) -> bool {
        let is_open = |attempt: &Attempt| attempt.fate.is_none() && attempt.lane == sight.lane;
        if !self.attempts.get(&sight.attempt).is_some_and(is_open)
            || !self.holds(&sight.lane, sight.epoch)
        {
            return false;
        }
        for step in &sight.moves {
            if self.is_current(step) {
                self.write_move(step, step.attempt, now_ms, &mut Vec::new());
            }
        }
        self.attempts
            .entry(sight.attempt)
            .and_modify(|attempt| attempt.sightings.extend(sight.sightings));
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

    pub(crate) fn attempt_of(&self, rail: RailName, hash: &str) -> Option<Attempt> {
        let has = |attempt: &&Attempt| attempt.rail == rail && attempt.hashes().any(|h| h == hash);
        self.attempts.values().rev().find(has).cloned()
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
