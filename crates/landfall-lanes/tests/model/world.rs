//! The modelled world: two holders, one lane in a store, writes on their way, a ledger; and every
//! step that may be taken next.
//!
//! Time is free: a lease runs out, a fence falls due, an answer is given up on whenever that is
//! possible at all. A pause is a holder whose turn does not come.

use landfall_core::ledger::{Manner, Order};
use landfall_lanes::gate::Standing;

use crate::holder::{Boarded, Holder, inquest};
use crate::ledger::{Bytes, Ledger, Place, Turn};
use crate::properties::{Broken, signs_past_unsure};
use crate::store::{Answer, Attempt, Fate, Store, Transfer, Write};

/// A rule taken out of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    EpochUnchecked,
    DecidedUnchecked,
    NonceReused,
    HintOverStore,
    /// What is open is taken over, though a later epoch has opened it.
    RecoversAnything,
    UnsureIgnored,
    SentBeforeStored,
    VariantSentBeforeStored,
    /// A broadcast without an answer counts as a death.
    SunkWithoutProof,
    /// A refusal counts, whoever may have sent the bytes before.
    RefusalBelieved,
    BelievedBeforeFinal,
    /// What queues is sunk by a refusal like anything else: its nonce stays empty, and other bytes
    /// for it may land.
    RefusalSinksQueued,
}

/// How large the modelled world is.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub epochs: u8,
    pub nonces: u8,
    /// Of all attempts together.
    pub variants: u8,
    pub transfers: u8,
}

#[derive(Debug, Clone, Copy)]
pub struct Model {
    pub manner: Manner,
    pub limits: Limits,
    pub fault: Option<Fault>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub store: Store,
    /// By epoch: which process is which makes no difference.
    pub holders: [Holder; 2],
    /// Sorted.
    pub wire: Vec<Write>,
    pub ledger: Ledger,
}

/// How a broadcast ended, as its sender sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    Unanswered,
    Taken,
    Refused,
}

/// One step, named by the epoch of whoever takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Lease,
    /// Crashes, is fenced, or starts over: what it knew is gone.
    Leave(u8),
    Release(u8),
    Recover(u8),
    /// Signs, and asks the store to keep it.
    Ask(Write),
    Arrive(Write),
    Send(u8, Bytes, Sending),
    Pulse(u8),
    /// At the attempt with this nonce; a fate is settled.
    Look(u8, u8),
    /// The same, and the store's answer is lost.
    LookUnanswered(u8, u8),
    Ledger(Turn),
}

/// A state that may come next, with the rule that the step itself broke.
pub struct Next {
    pub step: Step,
    pub world: World,
    pub broken: Option<Broken>,
}

impl World {
    pub fn new(transfers: u8) -> World {
        World {
            store: Store::new(transfers),
            holders: Default::default(),
            wire: Vec::new(),
            ledger: Ledger::default(),
        }
    }

    fn delay(&mut self, write: Write) {
        if let Err(at) = self.wire.binary_search(&write) {
            self.wire.insert(at, write);
        }
    }

    /// Whether it makes a difference when it arrives. What is refused now is refused later, too,
    /// and a fate once proven stays so: to be late with either is to have been paused before.
    fn may_matter(&self, write: Write) -> bool {
        let may_be_stored = match write {
            Write::Open { pays: Some(transfer), .. } => {
                self.store.transfers[transfer as usize] == Transfer::Waiting
            }
            Write::Open { pays: None, .. } | Write::Variant { .. } => true,
            Write::Settle { .. } => false,
        };
        may_be_stored && self.store.holds(write.epoch())
    }

    /// Leaves out what can make no difference any more, so that fewer states are told apart.
    fn simplify(&mut self, order: Order) {
        let asking = self.holders.each_ref().map(|holder| self.is_asking(holder.epoch));
        for (holder, asking) in self.holders.iter_mut().zip(asking) {
            if holder.epoch > 0 && !self.store.holds(holder.epoch) {
                holder.become_stale();
            } else if !asking {
                holder.forget_departures();
            }
        }
        self.holders.sort_by_key(|holder| holder.epoch);
        if order != Order::Free {
            self.ledger.forget_passed();
        }
    }

    fn is_asking(&self, epoch: u8) -> bool {
        self.wire.iter().any(|write| write.epoch() == epoch)
    }

    fn signed_for(&self, transfer: u8) -> bool {
        let asked =
            |write: &Write| matches!(write, Write::Open { pays, .. } if *pays == Some(transfer));
        let pays = |attempt: &Attempt| attempt.pays == Some(transfer);
        self.store.attempts.iter().any(pays)
            || self.wire.iter().any(asked)
            || self.ledger.places.keys().any(|bytes| bytes.pays == Some(transfer))
    }
}

impl Model {
    /// Everything that may happen next.
    pub fn next(&self, world: &World) -> Vec<Next> {
        let mut next = Vec::new();
        for turn in world.ledger.turns(self.manner.order) {
            next.push(self.after(world, Step::Ledger(turn), |world| {
                world.ledger.take(turn);
                None
            }));
        }
        for &write in &world.wire {
            next.push(self.after(world, Step::Arrive(write), |world| {
                world.wire.retain(|waiting| *waiting != write);
                self.deliver(world, write, true)
            }));
        }
        let away = world.holders.iter().position(|holder| holder.epoch == 0);
        if let Some(at) = away.filter(|_| world.store.epoch < self.limits.epochs) {
            next.push(self.after(world, Step::Lease, |world| {
                world.store.epoch += 1;
                world.store.held = true;
                world.holders[at] = Holder::leased(world.store.epoch);
                None
            }));
        }
        for at in 0..world.holders.len() {
            if world.holders[at].epoch > 0 {
                self.holder_steps(world, at, &mut next);
            }
        }
        next
    }

    fn after(
        &self,
        world: &World,
        step: Step,
        change: impl FnOnce(&mut World) -> Option<Broken>,
    ) -> Next {
        let mut world = world.clone();
        let broken = change(&mut world);
        world.simplify(self.manner.order);
        Next { step, world, broken }
    }

    /// Sends a write on its way to the store.
    fn ask(&self, world: &mut World, write: Write) -> Option<Broken> {
        if world.may_matter(write) {
            world.delay(write);
            return None;
        }
        self.deliver(world, write, true)
    }

    fn deliver(&self, world: &mut World, write: Write, answered: bool) -> Option<Broken> {
        let World { store, holders, .. } = world;
        let (answer, broken) = store.apply(write, self.fault);
        let asker = holders.iter_mut().find(|holder| answered && holder.epoch == write.epoch());
        if let Some(holder) = asker {
            answered_to(holder, write, answer, store);
        }
        broken
    }

    fn holder_steps(&self, world: &World, at: usize, next: &mut Vec<Next>) {
        let holder = &world.holders[at];
        let epoch = holder.epoch;
        let leave = |world: &mut World| {
            world.holders[at] = Holder::default();
            None
        };
        next.push(self.after(world, Step::Leave(epoch), leave));
        if world.store.holds(epoch) {
            next.push(self.after(world, Step::Release(epoch), |world| {
                world.store.held = false;
                leave(world)
            }));
        }
        if !holder.recovered {
            next.push(self.after(world, Step::Recover(epoch), |world| {
                world.holders[at].recover(&world.store, self.fault);
                None
            }));
            return;
        }
        self.sign_steps(world, at, next);
        if !world.store.holds(epoch) {
            return self.stale_steps(world, at, next);
        }
        let order = self.manner.order;
        next.push(self.after(world, Step::Pulse(epoch), |world| {
            let World { store, holders, ledger, .. } = world;
            holders[at].pulse(order, store, ledger);
            None
        }));
        for boarded in holder.aboard.iter() {
            self.send_steps(world, at, boarded, next);
            if !boarded.fresh {
                next.push(self.look(world, at, boarded, true));
                next.push(self.look(world, at, boarded, false));
            }
        }
    }

    /// Sends and settles whatever was stored by its own epoch or before.
    fn stale_steps(&self, world: &World, at: usize, next: &mut Vec<Next>) {
        let holder = &world.holders[at];
        for boarded in &holder.aboard {
            self.send_steps(world, at, boarded, next);
        }
        let anything = self.fault == Some(Fault::RecoversAnything);
        let known = |attempt: &&Attempt| anything || attempt.epoch <= holder.epoch;
        let is_fresh = |nonce: u8| holder.aboard.iter().any(|boarded| boarded.nonce == nonce);
        let open = world.store.attempts.iter().filter(|attempt| attempt.fate.is_none());
        for attempt in open.filter(known).filter(|attempt| !is_fresh(attempt.nonce)) {
            let boarded = Boarded::of(attempt, false);
            self.send_steps(world, at, &boarded, next);
            next.push(self.look(world, at, &boarded, true));
        }
    }

    /// Signs what its gate lets pass, and asks the store to keep it.
    fn sign_steps(&self, world: &World, at: usize, next: &mut Vec<Next>) {
        let holder = &world.holders[at];
        // Of an old epoch, too: at worst it guesses right.
        let (epoch, nonce) = (holder.epoch, world.store.next);
        if world.is_asking(epoch) {
            return;
        }
        let has_nonce = nonce <= self.limits.nonces;
        if has_nonce && holder.may_pay(&self.manner, self.fault) {
            // Hints may be old: any transfer is tried. Which of two new ones comes first makes no
            // difference.
            let transfers = 0..self.limits.transfers;
            let new = !transfers.clone().any(|transfer| world.signed_for(transfer));
            for transfer in transfers.take(if new { 1 } else { usize::MAX }) {
                let write = Write::Open { epoch, nonce, pays: Some(transfer) };
                let mut signed = self.sign(world, write);
                if signs_past_unsure(world, at, self.manner.order) {
                    signed.broken = signed.broken.or(Some(Broken::SignedPastUnsure));
                }
                next.push(signed);
            }
        }
        if has_nonce && holder.may_fence(&self.manner) {
            next.push(self.sign(world, Write::Open { epoch, nonce, pays: None }));
        }
        let variants: usize = world.store.attempts.iter().map(|a| a.variants.len()).sum();
        if self.manner.order != Order::Queues || variants >= self.limits.variants.into() {
            return;
        }
        let waiting = holder.aboard.iter().filter(|b| b.standing != Standing::Included);
        for Boarded { nonce, variants, .. } in waiting {
            for cancels in [false, true] {
                let number = variants + 1;
                next.push(
                    self.sign(world, Write::Variant { epoch, nonce: *nonce, number, cancels }),
                );
            }
        }
    }

    fn sign(&self, world: &World, write: Write) -> Next {
        self.after(world, Step::Ask(write), |world| {
            let early = self.sent_early(world, write);
            let unstored = early.is_some_and(|bytes| !world.store.has(&bytes));
            if let Some(bytes) = early {
                world.ledger.places.entry(bytes).or_insert(Place::Out);
            }
            let broken = self.ask(world, write);
            broken.or(unstored.then_some(Broken::SentUnstored))
        })
    }

    /// The mistake of a model without its first rule.
    fn sent_early(&self, world: &World, write: Write) -> Option<Bytes> {
        match (write, self.fault) {
            (Write::Open { epoch, nonce, pays }, Some(Fault::SentBeforeStored)) => {
                Some(Bytes { nonce, number: 0, pays, epoch })
            }
            (
                Write::Variant { epoch, nonce, number, cancels },
                Some(Fault::VariantSentBeforeStored),
            ) => {
                let pays = world.store.attempt(nonce)?.pays.filter(|_| !cancels);
                Some(Bytes { nonce, number, pays, epoch })
            }
            _ => None,
        }
    }

    fn send_steps(&self, world: &World, at: usize, boarded: &Boarded, next: &mut Vec<Next>) {
        let (order, nonce) = (self.manner.order, boarded.nonce);
        let Some(attempt) = world.store.attempt(nonce) else { return };
        if !world.holders[at].may_send(order, boarded) {
            return;
        }
        let numbers = if boarded.fresh { 0..=0 } else { 0..=boarded.variants };
        for bytes in numbers.map(|number| attempt.bytes(number)) {
            let place = world.ledger.place(&bytes);
            next.push(self.send(world, at, bytes, Sending::Unanswered));
            if matches!(place, None | Some(Place::Out | Place::Arrived)) {
                next.push(self.send(world, at, bytes, Sending::Taken));
            }
            // One that is not believed is no answer.
            if bytes.number == 0 && self.believes_refusal(boarded.fresh) {
                next.push(self.send(world, at, bytes, Sending::Refused));
            }
        }
    }

    fn send(&self, world: &World, at: usize, bytes: Bytes, sending: Sending) -> Next {
        let (epoch, nonce) = (world.holders[at].epoch, bytes.nonce);
        self.after(world, Step::Send(epoch, bytes, sending), |world| {
            let place = world.ledger.places.entry(bytes);
            let holder = &mut world.holders[at];
            let sinks = match sending {
                Sending::Unanswered => {
                    place.or_insert(Place::Out);
                    holder.mark(nonce, Standing::Unsure);
                    self.fault == Some(Fault::SunkWithoutProof)
                }
                Sending::Taken => {
                    place.insert_entry(Place::Arrived);
                    holder.mark(nonce, Standing::Sent);
                    false
                }
                // True of bytes that come for the first time; of others it proves nothing.
                Sending::Refused => {
                    place.or_insert(Place::Void);
                    holder.mark(nonce, Standing::Leaving);
                    true
                }
            };
            let sunk = Write::Settle { epoch, nonce, fate: Fate::Sunk };
            if sinks { self.ask(world, sunk) } else { None }
        })
    }

    /// Where attempts queue, the nonce of one that is refused has to be used all the same.
    fn believes_refusal(&self, first: bool) -> bool {
        let sinks =
            self.manner.order != Order::Queues || self.fault == Some(Fault::RefusalSinksQueued);
        sinks && (first || self.fault == Some(Fault::RefusalBelieved))
    }

    fn look(&self, world: &World, at: usize, boarded: &Boarded, answered: bool) -> Next {
        let (epoch, nonce) = (world.holders[at].epoch, boarded.nonce);
        let order = self.manner.order;
        let step =
            if answered { Step::Look(epoch, nonce) } else { Step::LookUnanswered(epoch, nonce) };
        self.after(world, step, |world| {
            let known = world.store.attempt(nonce).map(|attempt| {
                let mut known = attempt.clone();
                known.variants.truncate(boarded.variants as usize);
                known
            });
            let too_soon = self.fault == Some(Fault::BelievedBeforeFinal);
            let enough = if too_soon { Place::Included } else { Place::Final };
            let (store, ledger) = (&world.store, &world.ledger);
            let fate = known.and_then(|known| inquest(order, &known, store, ledger, enough));
            if let Some(fate) = fate {
                return self.deliver(world, Write::Settle { epoch, nonce, fate }, answered);
            }
            if boarded.standing != Standing::Included {
                world.holders[at].mark(nonce, Standing::Unsure);
            }
            None
        })
    }
}

/// What the holder that asked does with the answer.
fn answered_to(holder: &mut Holder, write: Write, answer: Answer, store: &Store) {
    match (write, answer) {
        (_, Answer::Fenced) => *holder = Holder::default(),
        (Write::Settle { nonce, .. }, _) => holder.unload(nonce),
        (_, Answer::Dropped) => {}
        (Write::Open { nonce, .. }, Answer::Stored) => {
            holder.aboard.extend(store.attempt(nonce).map(|stored| Boarded::of(stored, true)));
        }
        (Write::Variant { nonce, number, .. }, Answer::Stored) => {
            if let Some(boarded) = holder.boarded(nonce) {
                boarded.variants = number;
            }
        }
    }
}
