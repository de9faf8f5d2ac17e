//! What a node says that is not to be believed: the opposite of what would move a relay.
//!
//! A landed transaction is unknown, an unknown one has long been final; the chain is further than
//! it is; no nullifier is spent, and no money is there.

use serde_json::{Value, json};

use super::{Commitment, Failure, Node, Params, in_context};

/// Blocks and slots that a liar is ahead: past the age of any hash.
const AHEAD: u64 = 1_000;

pub fn instead(
    node: &Node<'_>,
    method: &str,
    params: Params<'_>,
    truth: Result<Value, Failure>,
) -> Result<Value, Failure> {
    let ahead = node.block(Commitment::Processed).slot + AHEAD;
    match (method, truth) {
        ("getSlot" | "getBlockHeight", Ok(number)) => {
            Ok(json!(number.as_u64().unwrap_or_default() + AHEAD))
        }
        ("getSignatureStatuses", Ok(answer)) => {
            let lie = |status: &Value| match status.is_null() {
                false => Value::Null,
                true => json!({
                    "confirmationStatus": "finalized",
                    "confirmations": Value::Null,
                    "err": Value::Null,
                    "slot": node.block(Commitment::Finalized).slot,
                    "status": { "Ok": Value::Null },
                }),
            };
            let told = answer["value"].as_array().into_iter().flatten().map(lie);
            Ok(in_context(ahead, told.collect()))
        }
        ("getTransaction", Ok(_)) => Ok(Value::Null),
        ("getAccountInfo", Ok(answer)) => {
            let mut account = answer["value"].clone();
            if let Some(fields) = account.as_object_mut() {
                fields.insert("data".to_owned(), json!(["AAAAAA==", "base64"]));
                fields.insert("lamports".to_owned(), json!(1));
            }
            Ok(in_context(ahead, account))
        }
        ("getBalance", Ok(_)) => Ok(in_context(ahead, json!(0))),
        ("isBlockhashValid", Ok(answer)) => {
            Ok(in_context(ahead, json!(answer["value"].as_bool() != Some(true))))
        }
        // What it has taken it calls badly signed; what it refused it calls sent.
        ("sendTransaction", Ok(_)) => {
            Err(Failure::new(-32003, "Transaction signature verification failure"))
        }
        ("sendTransaction", Err(failure)) => {
            let text = params.or_null(0).as_str().unwrap_or_default();
            let read = super::words::transaction(text, params.or_null(1));
            read.map(|sent| json!(sent.signature.to_string())).map_err(|_| failure)
        }
        (_, truth) => truth,
    }
}
