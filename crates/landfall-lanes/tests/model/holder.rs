//! The modelled holders: what `driver.rs` and `resolve.rs` do, one step at a time.
//!
//! A holder knows what it has read and what it was answered, nothing else. It may be paused between
//! any two steps, go on after its lease has run out, or leave: crashed, fenced, or starting over.

use landfall_core::Purpose;
use landfall_core::ledger::{Manner, Order};
use landfall_lanes::gate::{self, InFlight, Standing};

use crate::ledger::{Ledger, Place};
use crate::store::{Attempt, Fate, Store};
use crate::world::Fault;

/// Now, on a clock on which every payment is overdue and no fence is: a fence may be due at any
/// moment, and one on its way is given its time.
const NOW_MS: u64 = 60_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Boarded {
    pub nonce: u8,
    pub is_fence: bool,
    pub standing: Standing,
    /// Stored by this holder just now, and never sent.
    pub fresh: bool,
    /// A node has had it, so that the next may leave.
    pub departed: bool,
    /// How many variants the holder knows of.
    pub variants: u8,
}

impl Boarded {
    /// One that this holder has just stored, or has found open in the store.
    pub fn of(attempt: &Attempt, fresh: bool) -> Boarded {
        Boarded {
            nonce: attempt.nonce,
            is_fence: attempt.pays.is_none(),
            standing: if fresh { Standing::Leaving } else { Standing::Unsure },
            fresh,
            departed: false,
            variants: attempt.variants.len() as u8,
        }
    }

    fn in_flight(&self) -> InFlight {
        let purpose = if self.is_fence { Purpose::Fence } else { Purpose::Pay };
        let since_ms = if self.is_fence { NOW_MS } else { 0 };
        InFlight { since_ms, purpose, standing: self.standing }
    }
}

/// A process, as far as it has to do with the lane. Default: it does not hold it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Holder {
    /// 0: it does not hold the lane.
    pub epoch: u8,
    /// Whether it has read what was left open.
    pub recovered: bool,
    /// By nonce.
    pub aboard: Vec<Boarded>,
}

impl Holder {
    pub fn leased(epoch: u8) -> Holder {
        Holder { epoch, ..Holder::default() }
    }

    pub fn recover(&mut self, store: &Store, fault: Option<Fault>) {
        let open = store.attempts.iter().filter(|attempt| attempt.fate.is_none());
        // Somebody else holds the lane, who has not sent this yet and believes a refusal of it.
        if open.clone().any(|attempt| attempt.epoch > self.epoch)
            && fault != Some(Fault::RecoversAnything)
        {
            *self = Holder::default();
            return;
        }
        self.aboard = open.map(|attempt| Boarded::of(attempt, false)).collect();
        self.recovered = true;
    }

    pub fn may_pay(&self, manner: &Manner, fault: Option<Fault>) -> bool {
        let standings = self.aboard.iter().map(|boarded| match boarded.standing {
            Standing::Unsure if fault == Some(Fault::UnsureIgnored) => Standing::Sent,
            standing => standing,
        });
        gate::room(manner, standings) > 0
    }

    pub fn may_fence(&self, manner: &Manner) -> bool {
        let in_flight: Vec<InFlight> = self.aboard.iter().map(Boarded::in_flight).collect();
        let in_flight: Vec<&InFlight> = in_flight.iter().collect();
        gate::needs_fence(&Manner { fence_after_ms: NOW_MS, ..*manner }, &in_flight, NOW_MS)
    }

    /// Whether the attempt's own bytes may be sent: those never sent wait until the one before them
    /// has left. A fence is sent to overtake.
    pub fn may_send(&self, order: Order, boarded: &Boarded) -> bool {
        let waits = order != Order::Free && boarded.fresh && !boarded.is_fence;
        let before = self.aboard.iter().rfind(|before| before.nonce < boarded.nonce);
        !waits || before.is_none_or(|before| before.departed)
    }

    /// One whose epoch is over. Whatever it believes, it may do: nothing need be known of it but
    /// what it has stored and thinks that nobody has sent.
    pub fn become_stale(&mut self) {
        self.recovered = true;
        self.aboard.retain(|boarded| boarded.fresh);
    }

    /// Nobody can be signed behind what closes the gate: whether it has left is told by its next
    /// standing.
    pub fn forget_departures(&mut self) {
        let newest = self.aboard.iter().rposition(|boarded| boarded.fresh).unwrap_or(0);
        for boarded in self.aboard.iter_mut().skip(newest).filter(|boarded| !boarded.fresh) {
            boarded.departed = true;
        }
    }

    pub fn boarded(&mut self, nonce: u8) -> Option<&mut Boarded> {
        self.aboard.iter_mut().find(|boarded| boarded.nonce == nonce)
    }

    pub fn mark(&mut self, nonce: u8, standing: Standing) {
        if let Some(boarded) = self.boarded(nonce) {
            boarded.standing = standing;
            boarded.fresh = false;
            boarded.departed |= matches!(standing, Standing::Sent | Standing::Included);
        }
    }

    pub fn unload(&mut self, nonce: u8) {
        self.aboard.retain(|boarded| boarded.nonce != nonce);
    }

    /// What one question about all keys shows: progress, never a fate.
    pub fn pulse(&mut self, order: Order, store: &Store, ledger: &Ledger) {
        let in_block = |nonce: u8| match order {
            Order::Overtakes | Order::Queues => nonce <= ledger.used(),
            Order::Free => store.attempt(nonce).is_some_and(|attempt| {
                attempt.all_bytes().any(|bytes| ledger.place(&bytes) >= Some(Place::Included))
            }),
        };
        let nonces: Vec<u8> = self.aboard.iter().map(|boarded| boarded.nonce).collect();
        for nonce in nonces.into_iter().filter(|nonce| in_block(*nonce)) {
            self.mark(nonce, Standing::Included);
        }
    }
}

/// The fate of an open attempt, where the ledger proves one: what `look` and `inquest` MUST answer.
/// `enough` is how far bytes must have come to be believed.
pub fn inquest(
    order: Order,
    attempt: &Attempt,
    store: &Store,
    ledger: &Ledger,
    enough: Place,
) -> Option<Fate> {
    if order == Order::Free {
        let places = || attempt.all_bytes().map(|bytes| ledger.place(&bytes));
        if places().any(|place| place >= Some(enough)) {
            return Some(Fate::Landed);
        }
        return places().all(|place| place == Some(Place::Void)).then_some(Fate::Sunk);
    }
    if let Some(landed) = ledger.landed_at(attempt.nonce, enough) {
        // By its content: a cancel has done nothing of what the attempt was to do.
        let is_ours = landed.pays == attempt.pays;
        return Some(if is_ours { Fate::Landed } else { Fate::Sunk });
    }
    let passed_by = ledger.used_for_good();
    let explained = store.attempt(passed_by).is_some_and(|later| later.fate != Some(Fate::Sunk));
    let is_passed = order == Order::Overtakes && passed_by > attempt.nonce;
    (is_passed && explained).then_some(Fate::Sunk)
}
