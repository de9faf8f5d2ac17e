//! Transfers in memory, ready for their next step.
//!
//! A pool is a cache of what the store says is waiting. Losing it costs a sweep. A transfer is
//! busy from the moment it is pooled until it has moved, so that no hint pools it twice.

use std::collections::{HashMap, VecDeque};

use landfall_core::{Purpose, Transfer, TransferId};

/// Where a waiting transfer goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Look up whether it is prepared.
    Check,
    /// Be carried by an attempt.
    Carry(Purpose),
}

/// After this long a transfer that left the pools may be pooled again: whoever had it may have
/// died. A second copy loses the compare-and-set and costs nothing else.
pub const OUT_MAX_MS: u64 = 120_000;

/// Where a busy transfer is. Times are of the process's own clock.
#[derive(Debug, Clone, Copy)]
enum Busy {
    Pooled,
    Out { since_ms: u64 },
}

/// The pools of one rail.
#[derive(Debug, Default)]
pub struct Pools {
    check: VecDeque<Transfer>,
    prepare: Queue,
    pay: Queue,
    busy: HashMap<TransferId, Busy>,
}

/// A first-come queue that knows how long its front has waited.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Transfer>,
    since_ms: u64,
}

impl Pools {
    /// Pools a transfer unless it is busy. `again` is for one that comes back from a batch.
    pub fn put(&mut self, step: Step, transfer: Transfer, now_ms: u64, again: bool) {
        if !again && self.is_busy(transfer.id, now_ms) {
            return;
        }
        self.busy.insert(transfer.id, Busy::Pooled);
        let queue = match step {
            Step::Check => return self.check.push_back(transfer),
            Step::Carry(purpose) => self.queue(purpose),
        };
        if queue.waiting.is_empty() {
            queue.since_ms = now_ms;
        }
        match again {
            true => queue.waiting.push_front(transfer),
            false => queue.waiting.push_back(transfer),
        }
    }

    /// Free places, given the capacity of all pools together.
    pub fn room(&self, capacity: usize) -> usize {
        capacity.saturating_sub(self.busy.len())
    }

    pub fn is_busy(&self, id: TransferId, now_ms: u64) -> bool {
        match self.busy.get(&id) {
            None => false,
            Some(Busy::Pooled) => true,
            Some(Busy::Out { since_ms }) => now_ms < since_ms + OUT_MAX_MS,
        }
    }

    /// These have moved, or are somebody else's business now.
    pub fn release(&mut self, ids: impl IntoIterator<Item = TransferId>) {
        for id in ids {
            self.busy.remove(&id);
        }
    }

    pub fn take_checks(&mut self, max: usize, now_ms: u64) -> Vec<Transfer> {
        let count = self.check.len().min(max);
        let taken: Vec<Transfer> = self.check.drain(..count).collect();
        self.out(&taken, now_ms);
        taken
    }

    fn out(&mut self, taken: &[Transfer], now_ms: u64) {
        for transfer in taken {
            self.busy.insert(transfer.id, Busy::Out { since_ms: now_ms });
        }
    }

    /// A batch's candidates, from the front. They stay busy.
    pub fn take(&mut self, purpose: Purpose, max: usize, now_ms: u64) -> Vec<Transfer> {
        let queue = self.queue(purpose);
        let count = queue.waiting.len().min(max);
        queue.since_ms = now_ms;
        let taken: Vec<Transfer> = queue.waiting.drain(..count).collect();
        self.out(&taken, now_ms);
        taken
    }

    /// Whether a batch of this purpose is worth sending now: full, or waited for long enough.
    /// Otherwise when it will be.
    pub fn ripe(&self, purpose: Purpose, full: usize, linger_ms: u64, now_ms: u64) -> Ripe {
        let queue = match purpose {
            Purpose::Prepare => &self.prepare,
            Purpose::Pay | Purpose::Fence => &self.pay,
        };
        if queue.waiting.is_empty() {
            return Ripe::Empty;
        }
        let at_ms = queue.since_ms + linger_ms;
        match queue.waiting.len() >= full || now_ms >= at_ms {
            true => Ripe::Now,
            false => Ripe::In(at_ms - now_ms),
        }
    }

    fn queue(&mut self, purpose: Purpose) -> &mut Queue {
        match purpose {
            Purpose::Prepare => &mut self.prepare,
            Purpose::Pay | Purpose::Fence => &mut self.pay,
        }
    }
}

/// Whether a batch is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ripe {
    Now,
    In(u64),
    Empty,
}
