//! Transfers in memory, ready for their next step.
//!
//! A pool is a cache of what the store says is waiting. Losing it costs a sweep. A transfer is
//! busy from the moment it is pooled until it has moved, so that no hint pools it twice.
//! **Rule:** the more urgent go first, and nobody starves: urgency counts as time waited, and no
//! more of it than there can be.

use std::collections::{HashMap, VecDeque};

use landfall_core::solana::PRIORITY_MAX;
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

/// What a point of urgency is worth in time waited: the most urgent overtake those who came a
/// minute and a half before them, and nobody who has waited for longer.
const POINT_MS: u64 = 100;

/// A queue that knows how long its front has waited: first come, first served, but for urgency.
#[derive(Debug, Default)]
struct Queue {
    /// Each with its turn; lower ones first.
    waiting: VecDeque<(u64, Transfer)>,
    since_ms: u64,
}

/// When it is somebody's turn who comes now.
fn turn(transfer: &Transfer, now_ms: u64) -> u64 {
    let patience = PRIORITY_MAX.saturating_sub(transfer.payload.priority());
    now_ms + u64::from(patience) * POINT_MS
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
        let turn = turn(&transfer, now_ms);
        let place = match again {
            true => 0,
            false => queue.waiting.partition_point(|(other, _)| *other <= turn),
        };
        // Who comes back is first, whoever has come meanwhile.
        let turn = queue.waiting.front().filter(|_| again).map_or(turn, |(first, _)| *first);
        queue.waiting.insert(place, (turn, transfer));
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
        let taken = queue.waiting.drain(..count).map(|(_, transfer)| transfer);
        let taken: Vec<Transfer> = taken.collect();
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

#[cfg(test)]
mod tests {
    use landfall_core::solana::{State as Withdrawing, Withdraw};
    use landfall_core::{NewTransfer, Payload, State};

    use super::*;

    fn transfer(id: u64, priority: u32) -> Transfer {
        let payload = Payload::Solana(Withdraw {
            network: String::new(),
            program: String::new(),
            proof: String::new(),
            root: String::new(),
            nullifier: id.to_string(),
            amount: 1,
            outputs: Vec::new(),
            priority,
        });
        let first = State::Solana(Withdrawing::Queued);
        let scope = (String::new(), id.to_string());
        let new = NewTransfer::begin(scope, payload.fingerprint(), payload, first, &[], 0).unwrap();
        new.accepted_as(TransferId(id))
    }

    fn order(pools: &mut Pools) -> Vec<u64> {
        pools.take(Purpose::Pay, 100, 0).into_iter().map(|taken| taken.id.0).collect()
    }

    #[test]
    fn the_urgent_go_first_and_equals_in_the_order_in_which_they_came() {
        let mut pools = Pools::default();
        for (id, priority) in [(1, 100), (2, 100), (3, 900), (4, 0), (5, 900), (6, 100)] {
            pools.put(Step::Carry(Purpose::Pay), transfer(id, priority), id, false);
        }
        assert_eq!(order(&mut pools), [3, 5, 1, 2, 6, 4]);
    }

    #[test]
    fn whoever_has_waited_long_enough_is_overtaken_by_nobody() {
        let mut pools = Pools::default();
        let pay = Step::Carry(Purpose::Pay);
        pools.put(pay, transfer(1, 0), 0, false);
        for id in 2..=200 {
            pools.put(pay, transfer(id, PRIORITY_MAX), id * 1_000, false);
        }
        let place = order(&mut pools).iter().position(|id| *id == 1);
        assert_eq!(place, Some(98), "after those of its first 100 s");
    }

    #[test]
    fn who_comes_back_from_a_batch_is_first_again() {
        let mut pools = Pools::default();
        let pay = Step::Carry(Purpose::Pay);
        pools.put(pay, transfer(1, 900), 5, false);
        pools.put(pay, transfer(2, 100), 6, true);
        assert_eq!(order(&mut pools), [2, 1]);
    }
}
