//! What the error of a transaction means for the withdraw that it carries: of one that landed, or
//! of one that was tried. Where it was only tried, it is advice and never a fate.
//!
//! **Rule:** the match below is exhaustive: a new release of the ledger's crates that adds an error
//! does not compile until it has a row.
//! **Rule:** the pool looks for the root before it looks for the nullifier, so that one that is
//! spent may be refused for a root that has left the ring: whoever fails a withdraw for its root
//! asks for its nullifier first.

use serde_json::Value;
use solana_instruction_error::InstructionError;
use solana_transaction_error::TransactionError;

use crate::encode::WITHDRAW_INDEX;

/// What to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The nullifier is spent, by us or by somebody else: find out for which outputs.
    Spent,
    /// The pool does not know the root: not yet, or no more.
    Root,
    /// The withdraw itself cannot be made, now or ever.
    Own(String),
    /// The fee payer cannot pay for it.
    Short,
    /// By the relay's or the pool's doing; charged to nobody.
    Relays(String),
    /// Not now; or nothing that we know.
    Passing(String),
    /// The very transaction is in a block already.
    Known,
}

/// What an `err` of a node's answer means; null is no error.
pub fn read(error: &Value) -> Option<Trouble> {
    if error.is_null() {
        return None;
    }
    let known = serde_json::from_value::<TransactionError>(error.clone());
    Some(known.map_or_else(|_| Trouble::Passing(format!("unknown: {error}")), |known| of(&known)))
}

/// One row per error.
pub fn of(error: &TransactionError) -> Trouble {
    use TransactionError as E;
    match error {
        E::InstructionError(WITHDRAW_INDEX, InstructionError::Custom(code)) => pool(*code),
        // The budget's own instructions, or a withdraw that ran out of it.
        E::InstructionError(..) => Trouble::Relays(error.to_string()),
        E::AlreadyProcessed => Trouble::Known,
        E::AccountNotFound | E::InsufficientFundsForFee => Trouble::Short,
        E::InsufficientFundsForRent { account_index: 0 } => Trouble::Short,
        E::InsufficientFundsForRent { .. } => {
            Trouble::Own("an output is too small for an account that does not exist".to_owned())
        }
        E::ProgramAccountNotFound
        | E::InvalidAccountForFee
        | E::CallChainTooDeep
        | E::MissingSignatureForFee
        | E::InvalidAccountIndex
        | E::SignatureFailure
        | E::InvalidProgramForExecution
        | E::SanitizeFailure
        | E::UnsupportedVersion
        | E::InvalidWritableAccount
        | E::TooManyAccountLocks
        | E::AddressLookupTableNotFound
        | E::InvalidAddressLookupTableOwner
        | E::InvalidAddressLookupTableData
        | E::InvalidAddressLookupTableIndex
        | E::InvalidRentPayingAccount
        | E::DuplicateInstruction(_)
        | E::MaxLoadedAccountsDataSizeExceeded
        | E::InvalidLoadedAccountsDataSizeLimit
        | E::UnbalancedTransaction
        | E::AccountLoadedTwice => Trouble::Relays(error.to_string()),
        // A hash is not found by a node that lags, or that is on another fork.
        E::BlockhashNotFound
        | E::AccountInUse
        | E::ClusterMaintenance
        | E::AccountBorrowOutstanding
        | E::WouldExceedMaxBlockCostLimit
        | E::WouldExceedMaxAccountCostLimit
        | E::WouldExceedAccountDataBlockLimit
        | E::WouldExceedMaxVoteCostLimit
        | E::WouldExceedAccountDataTotalLimit
        | E::ResanitizationNeeded
        | E::ProgramExecutionTemporarilyRestricted { .. }
        | E::ProgramCacheHitMaxLimit
        | E::CommitCancelled => Trouble::Passing(error.to_string()),
    }
}

/// The pool's own codes.
fn pool(code: u32) -> Trouble {
    let words = match code {
        0x1000 | 0x1001 => return Trouble::Root,
        0x1020 => return Trouble::Spent,
        0x1010 => "the proof is wrong",
        0x1011 => "the proof has the wrong length",
        0x1012 => "the public inputs are wrong",
        0x1013 => "the proof is of another circuit",
        0x1022 => "the nullifier is not that of the proof",
        0x1030 => "the outputs are not those of the proof",
        0x1031 => "outputs and fee are not the amount",
        0x1032 => "the outputs do not have that hash",
        0x1033 => "the amount is wrong",
        0x1034 => "a recipient is not the one that was named",
        0x1040 | 0x1041 => "the amounts cannot be reckoned with",
        0x1021 => return Trouble::Relays("the pool has no room for nullifiers".to_owned()),
        0x1055 => return Trouble::Relays("the pool has not as much".to_owned()),
        other => return Trouble::Relays(format!("the pool says 0x{other:x}")),
    };
    Trouble::Own(words.to_owned())
}

#[cfg(test)]
mod tests {
    use landfall_sim_solana::ledger::shield::Refused;
    use serde_json::json;

    use super::*;

    fn custom(index: u8, code: u32) -> Value {
        json!({ "InstructionError": [index, { "Custom": code }] })
    }

    #[test]
    fn the_pool_s_codes_are_told_apart_by_what_to_do() {
        let of = |refused: Refused| read(&custom(2, refused as u32)).unwrap();
        assert_eq!(of(Refused::DoubleSpend), Trouble::Spent);
        assert_eq!(of(Refused::RootNotFound), Trouble::Root);
        for own in [
            Refused::Conservation,
            Refused::InvalidOutputsHash,
            Refused::InvalidNullifier,
            Refused::InvalidRecipient,
            Refused::MathOverflow,
        ] {
            assert!(matches!(of(own), Trouble::Own(_)), "{own:?}");
        }
        for relays in [
            Refused::BadAccounts,
            Refused::PoolNotWritable,
            Refused::InsufficientLamports,
            Refused::BadLength,
            Refused::MissingAccounts,
            Refused::InvalidTag,
        ] {
            assert!(matches!(of(relays), Trouble::Relays(_)), "{relays:?}");
        }
        assert_eq!(read(&custom(2, 0x1021)), Some(Trouble::Relays(FULL.to_owned())));
    }

    const FULL: &str = "the pool has no room for nullifiers";

    #[test]
    fn the_same_code_of_another_instruction_says_nothing_of_the_nullifier() {
        for index in [0, 1, 3] {
            assert!(matches!(read(&custom(index, 0x1020)), Some(Trouble::Relays(_))), "{index}");
        }
        let budget = json!({ "InstructionError": [2, "ComputationalBudgetExceeded"] });
        assert!(matches!(read(&budget), Some(Trouble::Relays(_))));
    }

    #[test]
    fn too_little_for_an_account_is_the_payer_s_trouble_or_the_output_s() {
        let rent = |index| json!({ "InsufficientFundsForRent": { "account_index": index } });
        assert_eq!(read(&rent(0)), Some(Trouble::Short));
        assert!(matches!(read(&rent(5)), Some(Trouble::Own(_))));
        assert_eq!(read(&json!("InsufficientFundsForFee")), Some(Trouble::Short));
        assert_eq!(read(&json!("AccountNotFound")), Some(Trouble::Short));
    }

    #[test]
    fn what_passes_or_is_unknown_fails_nobody() {
        for passing in [
            json!("BlockhashNotFound"),
            json!("WouldExceedMaxAccountCostLimit"),
            json!("SomethingInventedLater"),
            json!({ "Paid": "twice" }),
            json!(7),
        ] {
            assert!(matches!(read(&passing), Some(Trouble::Passing(_))), "{passing}");
        }
        assert_eq!(read(&json!("AlreadyProcessed")), Some(Trouble::Known));
        assert_eq!(read(&Value::Null), None);
    }
}
