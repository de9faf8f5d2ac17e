//! THE TABLE: what the answer to `sendTransaction` proves.
//!
//! | row | meaning |
//! |---|---|
//! | a signature as result, and it is ours | sent |
//! | -32602: too large, not base64, not a transaction, not in order | refused for certain |
//! | -32003: the signature is not its payer's | refused for certain |
//! | the transaction is in a block already | known |
//! | the payer cannot pay | short |
//! | everything else, known or not | unsure |
//!
//! **Rule:** the certain refusals are a closed list. A reason is on it only if it follows from the
//! bytes alone; all of them are checked before anything is sent, so that a node that gives one is
//! wrong, or we are. A blockhash that is not found never is: nodes that lag say so of any, and of
//! landed ones once they are old. What a preflight foresees is the state's, which changes.
//! **Rule:** a refusal counts only for bytes that were never sent before; that is the caller's to
//! know.

use serde_json::Value;

use crate::trouble::{self, Trouble};

/// What an answer to a broadcast means, cut by what the sender does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Meaning {
    /// These bytes can never enter the ledger. By the relay's doing, always: it made them.
    Refused(String),
    /// It is in a block already, as this node says: look.
    Known,
    /// The payer cannot pay for it now.
    Short,
    Unsure(String),
}

/// Bad parameters, as JSON-RPC has it.
const INVALID_PARAMS: i64 = -32602;
/// A transaction whose preflight failed.
const PREFLIGHT_FAILED: i64 = -32002;
/// A signature that is wrong.
const BAD_SIGNATURE: i64 = -32003;

/// How Agave begins what it says of bytes that no node can take.
const UNREADABLE: [&str; 6] = [
    "base64 encoded solana_transaction::versioned::VersionedTransaction too large: ",
    "decoded solana_transaction::versioned::VersionedTransaction too large: ",
    "failed to deserialize solana_transaction::versioned::VersionedTransaction: ",
    "invalid base64 encoding: ",
    "invalid transaction: Transaction failed to sanitize accounts offsets correctly",
    "invalid transaction: index out of bounds",
];

/// How Surfpool, which tries every transaction, says that one has landed.
const PROCESSED: &str = "This transaction has already been processed";

/// Sorts a node's JSON-RPC error to a broadcast.
pub fn meaning(code: i64, message: &str, data: &Value) -> Meaning {
    match code {
        INVALID_PARAMS if UNREADABLE.iter().any(|words| message.starts_with(words)) => {
            Meaning::Refused(message.to_owned())
        }
        BAD_SIGNATURE => Meaning::Refused(message.to_owned()),
        PREFLIGHT_FAILED => match trouble::read(&data["err"]) {
            Some(Trouble::Known) => Meaning::Known,
            Some(Trouble::Short) => Meaning::Short,
            None if message.contains(PROCESSED) => Meaning::Known,
            _ => Meaning::Unsure(message.to_owned()),
        },
        _ => Meaning::Unsure(message.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As recorded from Surfpool for the simulator.
    fn captured() -> Value {
        let folder = env!("CARGO_MANIFEST_DIR");
        let path = format!("{folder}/../landfall-sim-solana/tests/captures/surfpool.json");
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    fn said(name: &str) -> Meaning {
        let error = &captured()[name]["answer"]["error"];
        let message = error["message"].as_str().unwrap();
        meaning(error["code"].as_i64().unwrap(), message, &error["data"])
    }

    #[test]
    fn a_real_node_s_answers_are_sorted() {
        for refused in ["send-large", "send-garbage", "send-notbase64"] {
            assert!(matches!(said(refused), Meaning::Refused(_)), "{refused}");
        }
        for known in ["send-again", "send-again-skip", "resend-expired"] {
            assert_eq!(said(known), Meaning::Known, "{known}");
        }
        assert_eq!(said("send-nobody"), Meaning::Short);
        let unsure = ["send-unknown-blockhash", "send-expired", "send-poor", "send-rent"];
        let others = ["send-low-units", "send-number", "send-noparams", "send-badsig"];
        for unsure in unsure.iter().chain(&others) {
            assert!(matches!(said(unsure), Meaning::Unsure(_)), "{unsure}");
        }
    }

    #[test]
    fn a_wrong_signature_is_refused_by_its_code() {
        let words = "Transaction signature verification failure";
        assert_eq!(meaning(-32003, words, &Value::Null), Meaning::Refused(words.to_owned()));
    }

    /// A text that somebody else has chosen, or a code of something else, refuses nothing.
    #[test]
    fn words_count_only_with_their_code_and_at_the_beginning() {
        let words = "failed to deserialize solana_transaction::versioned::VersionedTransaction: x";
        for (code, message) in [
            (-32000, words.to_owned()),
            (-32002, words.to_owned()),
            (-32602, format!("Invalid params: {words}")),
            (-32005, "Node is behind by 42 slots".to_owned()),
            (-32016, "Minimum context slot has not been reached".to_owned()),
        ] {
            let said = meaning(code, &message, &Value::Null);
            assert_eq!(said, Meaning::Unsure(message));
        }
    }

    #[test]
    fn what_a_preflight_foresees_refuses_nothing() {
        for error in [
            json!("BlockhashNotFound"),
            json!({ "InstructionError": [2, { "Custom": 0x1020 }] }),
            json!({ "InstructionError": [2, { "Custom": 0x1010 }] }),
            json!("SignatureFailure"),
            json!("SanitizeFailure"),
        ] {
            let said = meaning(-32002, "Transaction simulation failed", &json!({ "err": error }));
            assert!(matches!(said, Meaning::Unsure(_)), "{error}");
        }
    }
}
