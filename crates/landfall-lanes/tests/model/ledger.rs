//! The modelled ledger: signed bytes and how far each has come.
//!
//! It may take what was sent at once, late, or never, in any order that its kind allows; a block
//! that is not final may fall off. Pools are not modelled: bytes that a pool dropped are bytes that
//! do not land, yet.

use std::collections::BTreeMap;

use landfall_core::ledger::Order;

/// One signed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes {
    pub nonce: u8,
    /// 0 is the attempt's own, others its variants'.
    pub number: u8,
    /// Whom it pays; none for a fence and a cancel.
    pub pays: Option<u8>,
    /// Under which they were signed: two holders never sign the same bytes.
    pub epoch: u8,
}

/// How far bytes have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Can never enter the ledger: refused when they came for the first time, or expired.
    Void,
    /// Sent. They may be lost, or arrive at any time.
    Out,
    /// A node has, or has had, them.
    Arrived,
    Included,
    Final,
}

/// What the ledger does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Include(Bytes),
    Finalise(Bytes),
    FallOff(Bytes),
    Expire(Bytes),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ledger {
    pub places: BTreeMap<Bytes, Place>,
    /// The highest nonce that was ever in a block, fallen off or not.
    pub peak: u8,
}

impl Ledger {
    pub fn place(&self, bytes: &Bytes) -> Option<Place> {
        self.places.get(bytes).copied()
    }

    fn highest(&self, at_least: Place) -> u8 {
        let reached = self.places.iter().filter(|(_, place)| **place >= at_least);
        reached.map(|(bytes, _)| bytes.nonce).max().unwrap_or(0)
    }

    /// The highest nonce in a block.
    pub fn used(&self) -> u8 {
        self.highest(Place::Included)
    }

    /// The same at a final block.
    pub fn used_for_good(&self) -> u8 {
        self.highest(Place::Final)
    }

    /// What is in a block, final or not.
    pub fn landed(&self) -> impl Iterator<Item = &Bytes> {
        self.places.iter().filter(|(_, place)| **place >= Place::Included).map(|(bytes, _)| bytes)
    }

    /// What has used the nonce, in a block that is `enough`.
    pub fn landed_at(&self, nonce: u8, enough: Place) -> Option<&Bytes> {
        let mut landed = self.places.iter().filter(|(_, place)| **place >= enough);
        landed.find(|(bytes, _)| bytes.nonce == nonce).map(|(bytes, _)| bytes)
    }

    /// Whether bytes that anybody may send, or send again, are or may come to be in a block.
    pub fn may_land(&self, order: Order, bytes: &Bytes) -> bool {
        match self.place(bytes) {
            Some(Place::Void) => false,
            Some(Place::Included | Place::Final) => true,
            Some(Place::Out | Place::Arrived) | None => {
                order == Order::Free || bytes.nonce > self.used_for_good()
            }
        }
    }

    /// Everything it may do next.
    pub fn turns(&self, order: Order) -> Vec<Turn> {
        let ordered = order != Order::Free;
        let others = |pass: &dyn Fn(u8) -> bool| {
            ordered && self.places.iter().any(|(b, p)| *p == Place::Included && pass(b.nonce))
        };
        let mut turns = Vec::new();
        for (&bytes, &place) in &self.places {
            let fits = match order {
                Order::Overtakes => bytes.nonce > self.used(),
                Order::Queues => bytes.nonce == self.used() + 1,
                Order::Free => true,
            };
            match place {
                Place::Out | Place::Arrived => {
                    if fits {
                        turns.push(Turn::Include(bytes));
                    }
                    if !ordered {
                        turns.push(Turn::Expire(bytes));
                    }
                }
                Place::Included => {
                    if !others(&|nonce| nonce < bytes.nonce) {
                        turns.push(Turn::Finalise(bytes));
                    }
                    if !others(&|nonce| nonce > bytes.nonce) {
                        turns.push(Turn::FallOff(bytes));
                    }
                }
                Place::Void | Place::Final => {}
            }
        }
        turns
    }

    /// What a final block has passed lies where it lies, wherever it had come.
    pub fn forget_passed(&mut self) {
        let passed = self.used_for_good();
        for (bytes, place) in &mut self.places {
            if bytes.nonce <= passed && *place == Place::Arrived {
                *place = Place::Out;
            }
        }
    }

    pub fn take(&mut self, turn: Turn) {
        let (bytes, place) = match turn {
            Turn::Include(bytes) => (bytes, Place::Included),
            Turn::Finalise(bytes) => (bytes, Place::Final),
            Turn::FallOff(bytes) => (bytes, Place::Arrived),
            Turn::Expire(bytes) => (bytes, Place::Void),
        };
        self.places.insert(bytes, place);
        self.peak = self.peak.max(self.used());
    }
}
