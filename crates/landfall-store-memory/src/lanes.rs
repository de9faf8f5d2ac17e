//! Lanes: leases with epochs, nonces, halts.
//!
//! **Invariant:** every lease has a new epoch, and an epoch ends with its lease: whoever gave a
//! lane back, or lost it, stores nothing on it any more.

use landfall_core::lane::{Halt, Lane, Mark};
use landfall_core::opening::{Reached, Standing};
use landfall_core::store::{LEASE_MAX_MS, Leased, Result, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{Epoch, LaneId, Nonce, RailName};

use crate::Tables;

impl Tables {
    pub(crate) fn lease(
        &mut self,
        id: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
        now_ms: u64,
    ) -> Leased {
        let lane = self.lanes.entry(id.clone()).or_insert_with(|| Lane {
            id: id.clone(),
            rail,
            epoch: Epoch(0),
            holder: None,
            lease_until_ms: 0,
            base_nonce: None,
            next_nonce: None,
            seq: 0,
            halted: None,
        });
        match &lane.holder {
            // A lease further away than it could last was given before the clock was set back.
            Some(other)
                if other != holder
                    && lane.lease_until_ms > now_ms
                    && lane.lease_until_ms <= now_ms.saturating_add(LEASE_MAX_MS) =>
            {
                return Leased::Busy { holder: other.clone(), until_ms: lane.lease_until_ms };
            }
            _ => {}
        }
        lane.epoch = Epoch(lane.epoch.0 + 1);
        lane.holder = Some(holder.to_owned());
        lane.lease_until_ms = now_ms.saturating_add(ttl_ms);
        Leased::Yours(lane.clone())
    }

    pub(crate) fn renew(
        &mut self,
        lanes: &[(LaneId, Epoch)],
        ttl_ms: u64,
        now_ms: u64,
    ) -> Vec<bool> {
        lanes
            .iter()
            .map(|(id, epoch)| match self.held(id, *epoch) {
                Some(lane) => {
                    lane.lease_until_ms = now_ms.saturating_add(ttl_ms);
                    true
                }
                None => false,
            })
            .collect()
    }

    pub(crate) fn release(&mut self, lanes: &[(LaneId, Epoch)]) {
        for (id, epoch) in lanes {
            if let Some(lane) = self.held(id, *epoch) {
                lane.holder = None;
                lane.lease_until_ms = 0;
            }
        }
    }

    pub(crate) fn start_lane(&mut self, id: &LaneId, epoch: Epoch, ledger_nonce: Nonce) -> bool {
        match self.held(id, epoch) {
            Some(lane) if lane.next_nonce.is_none() => {
                lane.base_nonce = Some(ledger_nonce);
                lane.next_nonce = Some(ledger_nonce.next());
                true
            }
            _ => false,
        }
    }

    pub(crate) fn halt(&mut self, id: &LaneId, reason: &str, now_ms: u64) -> Result<()> {
        let lane = self.known(id)?;
        let first = || Halt { reason: reason.to_owned(), at_ms: now_ms };
        lane.halted.get_or_insert_with(first);
        Ok(())
    }

    pub(crate) fn adopt(&mut self, id: &LaneId, ledger_nonce: Nonce, now_ms: u64) -> Result<()> {
        let lane = self.known(id)?;
        lane.halted = None;
        lane.epoch = Epoch((lane.epoch.0 + 1).max(now_ms));
        lane.seq = lane.seq.max(now_ms);
        (lane.holder, lane.lease_until_ms) = (None, 0);
        lane.base_nonce = lane.base_nonce.max(Some(ledger_nonce));
        lane.next_nonce = lane.next_nonce.max(Some(ledger_nonce.next()));
        Ok(())
    }

    /// Whether the epoch still is the lane's.
    pub(crate) fn holds(&self, id: &LaneId, epoch: Epoch) -> bool {
        self.lanes.get(id).is_some_and(|lane| lane.epoch == epoch && lane.holder.is_some())
    }

    /// A lane as the open rule sees it for whoever signs on it under `epoch`.
    pub(crate) fn standing(&self, id: &LaneId, epoch: Epoch) -> Option<Standing> {
        let mut standing = Standing::from(self.lanes.get(id)?);
        if standing.held != Some(epoch) && wound::is(Wound::EpochUnchecked) {
            standing.held = Some(epoch);
        }
        Some(standing)
    }

    /// How far a lane has come, for whoever has these marks.
    pub(crate) fn reached(&self, id: &LaneId, marks: &[(LaneId, Mark)]) -> Option<Reached> {
        let reached = self.lanes.get(id).map(|lane| Standing::from(lane).reached);
        let lacks = |mark: &Mark| reached.unwrap_or_default().lacks(mark).is_some();
        if marks.iter().any(|(lane, mark)| lane == id && lacks(mark))
            && (wound::is(Wound::NonceReused)
                || wound::is(Wound::BehindIgnored)
                || wound::is(Wound::MarksNotNoted))
        {
            return Some(Reached { next_nonce: Some(Nonce(u64::MAX)), seq: u64::MAX });
        }
        reached
    }

    fn held(&mut self, id: &LaneId, epoch: Epoch) -> Option<&mut Lane> {
        self.lanes.get_mut(id).filter(|lane| lane.epoch == epoch && lane.holder.is_some())
    }

    fn known(&mut self, id: &LaneId) -> Result<&mut Lane> {
        let unknown = || StoreError::Corrupt(format!("lane {id} is not in the store"));
        self.lanes.get_mut(id).ok_or_else(unknown)
    }
}
