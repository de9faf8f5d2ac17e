//! Deliberate mistakes, to prove that the checkers can see.
//!
//! Only a build with the feature `wounds` can be wounded, and only tests ask for it; anywhere else
//! [`is`] is `false` and costs nothing. Each wound is a mistake that some relay has made.
//! **Rule:** [`is`] is asked only where the mistake would change something: what never had an
//! occasion for it need not be tried with it.

/// One mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wound {
    /// The attempt is stored after it was sent.
    StoredAfterSent,
    /// A broadcast without an answer counts as failed.
    TimeoutIsFailure,
    /// A process whose lease ran out still writes.
    EpochUnchecked,
    /// What no node knows yet is signed anew.
    NewBytesWhileAdrift,
    /// The wrong member of a reverted batch is blamed.
    BlameByPosition,
    /// A client's retry is taken for a new transfer.
    RetryIsNew,
    /// A hint is believed, though the store says that the transfer has moved on.
    HintOverStore,
    /// A nonce is given back.
    NonceReused,
    /// A node that has not reached the deciding block is believed.
    LookedTooEarly,
    /// An attempt is settled though it was decided before.
    SettledTwice,
    /// The same key with other parameters is taken for the same transfer.
    FingerprintIgnored,
    /// What one node saw is outvoted by others that did not.
    SightingOutvoted,
    /// A service that does not answer counts as refusing, and the other leg is undone.
    CompensatedOnTimeout,
    /// A service keeps what it did apart from the fact that it did it.
    DedupeOutsideCommit,
    /// The source is never told that the target has the funds.
    CommitForgotten,
    /// A service that does not know the request yet counts as refusing it.
    NotFoundIsFailed,
    /// A service forgets that it refused.
    RefusalNotRecorded,
    /// A certain refusal is believed of bytes that may have been sent before.
    RefusedTooLate,
    /// One node's refusal is believed.
    OneNodesRefusal,
    /// A refusal by rules that the ledger may change counts as certain.
    RulesNeverChange,
    /// One node's success is believed.
    OneNodesSuccess,
    /// One node's revert is believed.
    OneNodesRevert,
    /// One node's nonce is believed.
    OneNodesNonce,
    /// A success is believed before it is final.
    OptimisticSuccess,
    /// A revert is believed before it is final.
    OptimisticRevert,
    /// A certificate needs one witness.
    QuorumOfOne,
    /// A sighting vetoes no certificate.
    VetoIgnored,
    /// A node bears witness to a history that it does not keep.
    HistoryUnchecked,
    /// An outcome as invalid is believed over the block that passed the nonce.
    InvalidOverBlock,
    /// An attempt expires twenty blocks early.
    ExpiresEarly,
    /// An open fence counts as landed.
    OpenFenceLanded,
    /// What was stored is not noted outside the store.
    MarksNotNoted,
    /// What was left open is not pursued after a start.
    RecoveryLeftOut,
    /// A nonce that nothing explains does not halt the lanes.
    ForeignUnheeded,
    /// The siblings of an offender count as paid.
    SiblingsPaid,
    /// A store that is behind the marks takes an attempt.
    BehindIgnored,
    /// A fingerprint leaves out to whom.
    FingerprintWithoutReceiver,
    /// A fingerprint leaves out the memo.
    FingerprintWithoutMemo,
    /// A fingerprint leaves out whose funds.
    FingerprintWithoutUser,
    /// A fingerprint leaves out from where and to where.
    FingerprintWithoutServices,
    /// What a service works on counts as done.
    InProgressIsDone,
    /// A call is repeated though its dedupe window has passed.
    WindowIgnored,
    /// A service's refusal is believed without asking for its record.
    RefusalUnconfirmed,
    /// What was done under an id counts as done for whatever terms.
    DoneForOtherTerms,
    /// A commit that is refused counts as made.
    CommitRefusedIsEnd,
    /// A rollback that is refused counts as made.
    RollbackRefusedIsEnd,
    /// An operator's word is taken while a call under way could make it untrue.
    WordTakenEarly,
    /// Other bytes for an attempt are stored after they were sent.
    VariantAfterSent,
    /// A variant that is refused sinks its attempt, though other bytes of it may land.
    VariantRefusedSinks,
    /// What took a nonce sinks the attempt, though by its content it is ours.
    ContentUnheeded,
    /// A lane signs while an attempt that may have arrived has not been found.
    SignedPastUnsure,
    /// What is in a block that may yet fall off the chain counts as done.
    MinedIsSuccess,
    /// A receipt that nobody could be asked for is taken for none: something else must have taken
    /// the nonce.
    ReceiptErrorIsReplaced,
}

impl Wound {
    pub const ALL: [Wound; 53] = [
        Wound::StoredAfterSent,
        Wound::TimeoutIsFailure,
        Wound::EpochUnchecked,
        Wound::NewBytesWhileAdrift,
        Wound::BlameByPosition,
        Wound::RetryIsNew,
        Wound::HintOverStore,
        Wound::NonceReused,
        Wound::LookedTooEarly,
        Wound::SettledTwice,
        Wound::FingerprintIgnored,
        Wound::SightingOutvoted,
        Wound::CompensatedOnTimeout,
        Wound::DedupeOutsideCommit,
        Wound::CommitForgotten,
        Wound::NotFoundIsFailed,
        Wound::RefusalNotRecorded,
        Wound::RefusedTooLate,
        Wound::OneNodesRefusal,
        Wound::RulesNeverChange,
        Wound::OneNodesSuccess,
        Wound::OneNodesRevert,
        Wound::OneNodesNonce,
        Wound::OptimisticSuccess,
        Wound::OptimisticRevert,
        Wound::QuorumOfOne,
        Wound::VetoIgnored,
        Wound::HistoryUnchecked,
        Wound::InvalidOverBlock,
        Wound::ExpiresEarly,
        Wound::OpenFenceLanded,
        Wound::MarksNotNoted,
        Wound::RecoveryLeftOut,
        Wound::ForeignUnheeded,
        Wound::SiblingsPaid,
        Wound::BehindIgnored,
        Wound::FingerprintWithoutReceiver,
        Wound::FingerprintWithoutMemo,
        Wound::FingerprintWithoutUser,
        Wound::FingerprintWithoutServices,
        Wound::InProgressIsDone,
        Wound::WindowIgnored,
        Wound::RefusalUnconfirmed,
        Wound::DoneForOtherTerms,
        Wound::CommitRefusedIsEnd,
        Wound::RollbackRefusedIsEnd,
        Wound::WordTakenEarly,
        Wound::VariantAfterSent,
        Wound::VariantRefusedSinks,
        Wound::ContentUnheeded,
        Wound::SignedPastUnsure,
        Wound::MinedIsSuccess,
        Wound::ReceiptErrorIsReplaced,
    ];
}

#[cfg(feature = "wounds")]
mod inflicted {
    use std::cell::Cell;

    use super::Wound;

    thread_local! {
        // A torture run lives in one thread; runs in others are not hurt.
        static WOUND: Cell<Option<Wound>> = const { Cell::new(None) };
        static ASKED: Cell<u128> = const { Cell::new(0) };
    }

    const _: () = assert!(Wound::ALL.len() <= 128, "a bit for each");

    /// Wounds everything that runs on this thread, or heals it.
    pub fn inflict(wound: Option<Wound>) {
        WOUND.with(|held| held.set(wound));
    }

    pub fn is(wound: Wound) -> bool {
        ASKED.with(|asked| asked.set(asked.get() | 1 << wound as u32));
        WOUND.with(|held| held.get() == Some(wound))
    }

    /// The mistakes for which there was an occasion on this thread since this was last called. A
    /// run without an occasion for one is the same with it and without.
    pub fn take_asked() -> Vec<Wound> {
        let asked = ASKED.with(|asked| asked.replace(0));
        Wound::ALL.into_iter().filter(|wound| asked & 1 << *wound as u32 != 0).collect()
    }
}

#[cfg(feature = "wounds")]
pub use inflicted::{inflict, is, take_asked};

/// Whether this mistake is to be made.
#[cfg(not(feature = "wounds"))]
#[inline(always)]
pub fn is(_: Wound) -> bool {
    false
}
