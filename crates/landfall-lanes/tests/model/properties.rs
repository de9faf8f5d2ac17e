//! What must hold in every state that can be reached, and what it means to be done.

use landfall_core::ledger::Order;

use crate::ledger::Place;
use crate::store::{Attempt, Fate, Transfer};
use crate::world::{Limits, Model, World};

/// A property that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// Two stored attempts share a nonce.
    NonceShared,
    /// An attempt, a variant or a settlement was stored by an epoch that is over.
    OldEpochStored,
    /// A variant or a fate was stored for an attempt that was decided.
    DecidedAgain,
    /// Bytes left before they were stored.
    SentUnstored,
    /// A payment was signed while one before it may never have left.
    SignedPastUnsure,
    /// An attempt is called sunk, though bytes of it that pay are in a block or may come there.
    SunkMayLand,
    /// Called landed, or its transfer completed, without being final on the ledger.
    LandedIsNotFinal,
    /// A transfer is in two transactions of the chain.
    PaidTwice,
}

/// The first property that the state breaks, if only those count that `counts` lets pass.
pub fn broken(world: &World, order: Order, counts: impl Fn(Broken) -> bool) -> Option<Broken> {
    type Check = (Broken, fn(&World, Order) -> bool);
    let checks: [Check; 4] = [
        (Broken::NonceShared, nonce_shared),
        (Broken::SunkMayLand, sunk_may_land),
        (Broken::LandedIsNotFinal, landed_is_not_final),
        (Broken::PaidTwice, paid_twice),
    ];
    let failing = checks.iter().find(|(broken, fails)| counts(*broken) && fails(world, order));
    failing.map(|(broken, _)| *broken)
}

fn nonce_shared(world: &World, _: Order) -> bool {
    let attempts = &world.store.attempts;
    attempts
        .iter()
        .enumerate()
        .any(|(at, one)| attempts[..at].iter().any(|other| other.nonce == one.nonce))
}

fn sunk_may_land(world: &World, order: Order) -> bool {
    let sunk = world.store.attempts.iter().filter(|attempt| attempt.fate == Some(Fate::Sunk));
    let mut bytes = sunk.flat_map(|attempt| attempt.all_bytes());
    bytes.any(|bytes| bytes.pays.is_some() && world.ledger.may_land(order, &bytes))
}

fn landed_is_not_final(world: &World, _: Order) -> bool {
    let is_final = |bytes| world.ledger.place(&bytes) == Some(Place::Final);
    let landed = world.store.attempts.iter().filter(|attempt| attempt.fate == Some(Fate::Landed));
    let mut unproven = landed.filter(|attempt| {
        !attempt.all_bytes().any(|bytes| bytes.pays == attempt.pays && is_final(bytes))
    });
    let is_paid = |transfer: u8| {
        let mut places = world.ledger.places.iter();
        places.any(|(bytes, place)| bytes.pays == Some(transfer) && *place == Place::Final)
    };
    let mut transfers = (0..).zip(&world.store.transfers);
    let unpaid = |(id, transfer): (u8, &Transfer)| *transfer == Transfer::Completed && !is_paid(id);
    unproven.next().is_some() || transfers.any(unpaid)
}

fn paid_twice(world: &World, _: Order) -> bool {
    let payments = |transfer| world.ledger.landed().filter(|b| b.pays == Some(transfer)).count();
    (0..world.store.transfers.len() as u8).any(|transfer| payments(transfer) > 1)
}

/// Whether a payment signed now stands behind one that may never have left: nobody has had it, no
/// block has passed it, and it is not about to leave first.
pub fn signs_past_unsure(world: &World, holder: usize, order: Order) -> bool {
    let holder = &world.holders[holder];
    // What an old epoch signs is stored by nobody.
    if order == Order::Free || !world.store.holds(holder.epoch) {
        return false;
    }
    let is_safe = |attempt: &&Attempt| {
        let places = || attempt.all_bytes().map(|bytes| world.ledger.place(&bytes));
        let leaves = holder.aboard.iter().any(|b| b.nonce == attempt.nonce && b.fresh);
        let arrived = places().any(|place| place >= Some(Place::Arrived));
        let refused = places().all(|place| place == Some(Place::Void));
        leaves || arrived || refused || attempt.nonce <= world.ledger.peak
    };
    let mut open = world.store.attempts.iter().filter(|attempt| attempt.fate.is_none());
    open.any(|attempt| !is_safe(&attempt))
}

/// Whether the model has enough epochs and nonces left to bring everything to its end, whatever
/// became of what is open: a fence and another payment, or another payment alone.
pub fn has_means(world: &World, model: &Model) -> bool {
    let needed = |transfer: &Transfer| match (transfer, model.manner.order) {
        (Transfer::Completed, _) => 0,
        (Transfer::Carried(_), Order::Overtakes) => 2,
        (Transfer::Carried(_) | Transfer::Waiting, _) => 1,
    };
    let needed: u8 = world.store.transfers.iter().map(needed).sum();
    let Limits { epochs, nonces, .. } = model.limits;
    world.store.epoch < epochs && world.store.next - 1 + needed <= nonces
}

/// Everything is paid, decided and at rest.
pub fn is_settled(world: &World) -> bool {
    world.wire.is_empty()
        && world.store.transfers.iter().all(|transfer| *transfer == Transfer::Completed)
        && world.store.attempts.iter().all(|attempt| attempt.fate.is_some())
}
