//! Guards on the way to a payment, and whether a run has met them.
//!
//! A guard is a place where something that could cost money was noticed and held off. Torture
//! counts which of them its worlds have reached: one that no world reaches is one that no world
//! tests. Noting one costs a bit in a thread's own memory, so it is always on.
//! Not here: what a guard does (where [`met`] is called), deliberate mistakes ([`crate::wound`]).

use std::cell::Cell;

macro_rules! guards {
    ($($(#[$doc:meta])* $guard:ident = $words:literal,)*) => {
        /// One guard.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Guard {
            $($(#[$doc])* $guard,)*
        }

        impl Guard {
            pub const ALL: &'static [Guard] = &[$(Guard::$guard,)*];

            /// What it says, in a line for people.
            pub fn words(self) -> &'static str {
                match self {
                    $(Guard::$guard => $words,)*
                }
            }
        }
    };
}

guards! {
    // What nodes say of a broadcast.
    RefusedForCertain = "refused for certain at its very first broadcast",
    RefusedTooLate = "a certain refusal of bytes that may have been sent before",
    RefusedForNow = "a refusal by a quorum that the ledger may take back",
    RefusalNotShared = "a refusal that a quorum does not share",
    // What nodes say of an attempt.
    NotFinalYet = "a success that is not final yet",
    RevertNotFinalYet = "a revert that is not final yet",
    SuccessNotShared = "a final success that a quorum does not share",
    RevertNotShared = "a final revert that a quorum does not share",
    TooFewWitnesses = "too few nodes can testify",
    HistoryGone = "a node that does not keep the history",
    SightingVeto = "a sighting that vetoes a certificate",
    SightingRefuted = "a sighting whose block does not hold the transaction",
    InPassingBlock = "in the block that passed its nonce",
    InvalidElsewhere = "included as invalid in one block and perhaps landed in another",
    NotExpiredYet = "past its expiry by the stored height, not by the nodes' own count",
    NoncePassed = "sunk: its nonce was passed by a later attempt",
    Expired = "sunk: its block hash expired",
    // What nodes say of keys.
    FactNotShared = "a nonce, balance or block on which the nodes do not agree",
    ForeignNonce = "a nonce that no stored attempt explains",
    NodeCaught = "a node caught contradicting a quorum",
    // The lanes.
    FenceOpened = "a fence for an attempt that is adrift",
    OpenedBehind = "a store behind its marks refuses an attempt",
    OpenedRestarted = "a store in another life refuses an attempt",
    OpenedFenced = "an old epoch is refused an attempt",
    StaleMembers = "a member that has moved on is left out",
    SettledElsewhere = "an attempt that was decided before",
    SettledFenced = "an old epoch is refused a settlement",
    MarksBehind = "the store is behind the marks of an instance",
    // Settling.
    RetriesUsedUp = "retries used up",
    OwnFault = "an offender at fault itself",
    RelayFault = "an offender by the relay's fault",
    SiblingOfOffender = "a sibling of an offender goes back",
    UnpreparedAgain = "a receiver that is not registered any more",
    // The door.
    OtherParameters = "the same key with other parameters",
    // Between services.
    RefusalUnconfirmed = "a service's refusal that its record does not confirm",
    NotFoundRepeated = "a service that does not know the request is asked again",
    InProgress = "a call that a service calls in progress",
    CommitRefused = "a commit that is refused for a while",
    RollbackRefused = "a rollback that is refused for a while",
    WindowPassed = "a dedupe window that has passed",
    LookedFirst = "a look before a call that may have been made",
}

thread_local! {
    static MET: Cell<u128> = const { Cell::new(0) };
}

const _: () = assert!(Guard::ALL.len() <= 128, "a bit for each");

/// Notes that a guard held something off.
pub fn met(guard: Guard) {
    MET.with(|met| met.set(met.get() | 1 << guard as u32));
}

/// The guards met on this thread since this was last called.
pub fn take() -> Vec<Guard> {
    let met = MET.with(|met| met.replace(0));
    Guard::ALL.iter().copied().filter(|guard| met & 1 << *guard as u32 != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_met_once_it_was_noted_and_until_it_was_told() {
        take();
        met(Guard::Expired);
        met(Guard::LookedFirst);
        met(Guard::Expired);
        assert_eq!(take(), [Guard::Expired, Guard::LookedFirst]);
        assert_eq!(take(), []);
    }
}
