//! Nodes' answers, read as far as a fate depends on them.
//!
//! **Rule:** what does not look as expected is nothing, never a "no": only a null in its place says
//! that a node does not know a transaction.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use solana_hash::Hash;

/// How sure a node is of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Surety {
    Processed,
    Confirmed,
    Finalized,
}

/// What a node knows of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub slot: u64,
    pub surety: Surety,
    /// Null if it succeeded.
    pub error: Value,
}

/// Statuses of transactions, each as of the same slot; none where the node knows none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses {
    pub slot: u64,
    pub each: Vec<Option<Status>>,
}

/// An answer to `getSignatureStatuses` about so many.
pub fn statuses(answer: &Value, asked: usize) -> Option<Statuses> {
    let each = answer["value"].as_array().filter(|each| each.len() == asked)?;
    let each = each.iter().map(|one| match one {
        Value::Null => Some(None),
        one => status(one).map(Some),
    });
    Some(Statuses { slot: slot(answer)?, each: each.collect::<Option<_>>()? })
}

fn status(answer: &Value) -> Option<Status> {
    let surety = match answer["confirmationStatus"].as_str()? {
        "processed" => Surety::Processed,
        "confirmed" => Surety::Confirmed,
        "finalized" => Surety::Finalized,
        _ => return None,
    };
    let error = answer.get("err")?.clone();
    Some(Status { slot: answer["slot"].as_u64()?, surety, error })
}

/// The slot that an answer is of.
pub fn slot(answer: &Value) -> Option<u64> {
    answer["context"]["slot"].as_u64()
}

/// A hash to sign on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blockhash {
    pub hash: Hash,
    /// The last height that a final block may have while it may still be used.
    pub last_valid_height: u64,
    /// At or after that of its block.
    pub slot: u64,
}

/// An answer to `getLatestBlockhash`.
pub fn blockhash(answer: &Value) -> Option<Blockhash> {
    let value = &answer["value"];
    Some(Blockhash {
        hash: value["blockhash"].as_str()?.parse().ok()?,
        last_valid_height: value["lastValidBlockHeight"].as_u64()?,
        slot: slot(answer)?,
    })
}

/// The data of an account in an answer to `getAccountInfo` in base64, with the slot that it is of.
pub fn account(answer: &Value) -> Option<(u64, Vec<u8>)> {
    let data = &answer["value"]["data"];
    if data[1].as_str()? != "base64" {
        return None;
    }
    Some((slot(answer)?, STANDARD.decode(data[0].as_str()?).ok()?))
}

/// The bytes in an answer to `getTransaction` in base64.
pub fn bytes(answer: &Value) -> Option<Vec<u8>> {
    let transaction = &answer["transaction"];
    if transaction[1].as_str()? != "base64" {
        return None;
    }
    STANDARD.decode(transaction[0].as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As recorded from Surfpool for the simulator.
    fn captured(name: &str) -> Value {
        let folder = env!("CARGO_MANIFEST_DIR");
        let path = format!("{folder}/../landfall-sim-solana/tests/captures/surfpool.json");
        let all: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        all[name]["answer"]["result"].clone()
    }

    #[test]
    fn a_real_node_s_answers_are_read() {
        let unknown = statuses(&captured("statuses-early-0"), 2).unwrap();
        assert_eq!(unknown.each, [None, None]);
        let confirmed = statuses(&captured("statuses-confirmed"), 2).unwrap();
        let status = Status { slot: 38, surety: Surety::Confirmed, error: Value::Null };
        assert_eq!(confirmed.each, [Some(status.clone()), None]);
        let finalized = statuses(&captured("statuses-finalized"), 1).unwrap();
        assert_eq!(finalized.each, [Some(Status { surety: Surety::Finalized, ..status })]);
        let failed = statuses(&captured("statuses-failed"), 1).unwrap().each.remove(0).unwrap();
        assert_eq!(failed.error, json!({ "InstructionError": [2, { "Custom": 1 }] }));
        let blockhash = blockhash(&captured("blockhash")).unwrap();
        assert_eq!((blockhash.last_valid_height, blockhash.slot), (170, 50));
        let (_, data) = account(&captured("account-program")).unwrap();
        assert_eq!(data, b"system_program");
        assert_eq!(account(&captured("account-none")), None);
        let bytes = bytes(&captured("transaction-base64")).unwrap();
        assert!(crate::encode::signature(&bytes).is_ok());
    }

    #[test]
    fn what_is_no_answer_is_nothing_and_never_unknown() {
        let context = json!({ "slot": 7 });
        let good = json!({ "slot": 5, "confirmationStatus": "finalized", "err": null });
        let value = |each: Value| json!({ "context": context, "value": each });
        assert!(statuses(&value(json!([good, null])), 2).is_some());
        for bad in [
            json!(null),
            json!({}),
            json!({ "value": [null] }),
            value(json!([])),
            value(json!([null, null])),
            value(json!([0])),
            value(json!([{}])),
            value(json!([{ "slot": 5, "confirmationStatus": "finalized" }])),
            value(json!([{ "slot": 5, "confirmationStatus": "sure", "err": null }])),
            value(json!([{ "confirmationStatus": "finalized", "err": null }])),
        ] {
            assert_eq!(statuses(&bad, 1), None, "{bad}");
        }
    }
}
