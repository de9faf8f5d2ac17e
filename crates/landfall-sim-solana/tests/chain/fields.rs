//! Our answers beside those of a real virtual machine behind JSON-RPC: Surfpool 1.5.0, offline, as
//! `tests/captures` has them.
//!
//! The same steps are taken here. Fields and their kinds must be the same; of errors, code and
//! data, and the words up to the logs. Of the signatures of an account the capture keeps that of
//! the transfer alone.

use serde_json::{Value, json};
use solana_hash::Hash;
use solana_signer::Signer;

use crate::world::{SOL, Signed, World, payer, recipient, sign, transfer};

/// What Surfpool alone shows.
const NOT_OURS: [&str; 1] = ["surfnet-version"];

fn captures() -> Value {
    let path = format!("{}/tests/captures/surfpool.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The kind of each field, whatever its value.
fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("yes or no"),
        Value::Null => Value::Null,
        Value::Array(many) => many.first().map(shape).into_iter().collect(),
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(name, _)| !NOT_OURS.contains(&name.as_str()));
            Value::Object(fields.map(|(name, value)| (name.clone(), shape(value))).collect())
        }
    }
}

fn check(name: &str, ours: &Value) {
    let captures = captures();
    let mut theirs = captures[name]["answer"].clone();
    let mut ours = ours.clone();
    for one in [&mut ours, &mut theirs] {
        // A program that returned nothing is said to have returned "" there, and nothing here.
        for meta in [&["result", "meta"][..], &["error", "data"], &["result", "value"]] {
            let found = one.get_mut(meta[0]).and_then(|inner| inner.get_mut(meta[1]));
            if let Some(Value::Object(fields)) = found {
                fields.remove("returnData");
                fields.remove("loadedAccountsDataSize");
            }
        }
    }
    assert_eq!(shape(&ours["result"]), shape(&theirs["result"]), "{name}");
    assert_eq!(ours["error"]["code"], theirs["error"]["code"], "{name}");
    assert_eq!(shape(&ours["error"]["data"]), shape(&theirs["error"]["data"]), "{name}");
    let words = |answer: &Value| {
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        said.split(':').take(2).collect::<Vec<_>>().join(":")
    };
    assert_eq!(words(&ours), words(&theirs), "{name}");
}

/// What is the same to the last digit: it follows from the transaction alone.
fn check_same(name: &str, ours: &Value, fields: &[&str]) {
    let theirs = &captures()[name]["answer"]["result"];
    for path in fields {
        assert_eq!(ours["result"].pointer(path), theirs.pointer(path), "{name}{path}");
    }
}

struct Steps {
    world: World,
}

impl Steps {
    fn ask(&mut self, name: &str, method: &str, params: Value) -> Value {
        let answer = self.world.answer(0, method, params);
        check(name, &answer);
        answer
    }

    fn send(&mut self, name: &str, signed: &Signed) -> Value {
        let options = json!({ "encoding": "base64", "preflightCommitment": "processed" });
        self.ask(name, "sendTransaction", json!([signed.text, options]))
    }

    fn transaction(&mut self, name: &str, signed: &Signed, encoding: &str) -> Value {
        let options = json!({
            "encoding": encoding, "commitment": "confirmed", "maxSupportedTransactionVersion": 0,
        });
        self.ask(name, "getTransaction", json!([signed.signature, options]))
    }
}

const BASE64: &str = "base64";

#[test]
fn a_transaction_s_life_has_the_fields_of_a_real_one_s() {
    let mut steps = Steps { world: World::new(1) };
    steps.world.slots(3);
    let (alice, bob) = (payer(0), recipient(1, 0));
    let paid = transfer(&alice, &bob, SOL, steps.world.blockhash());
    let tried = json!({ "encoding": BASE64, "commitment": "processed" });
    steps.ask("simulate", "simulateTransaction", json!([paid.text, tried]));
    steps.send("send", &paid);
    let unknown = "5".repeat(87);
    let search = json!({ "searchTransactionHistory": true });
    let both = json!([[paid.signature, unknown], search]);
    steps.ask("statuses-early-0", "getSignatureStatuses", both.clone());
    steps.world.slots(3);
    let status = steps.ask("statuses-confirmed", "getSignatureStatuses", both.clone());
    assert_eq!(status["result"]["value"][0]["confirmations"], 2);
    let shown = steps.transaction("transaction-json", &paid, "json");
    let same = [
        "/meta/logMessages",
        "/meta/preBalances",
        "/meta/postBalances",
        "/meta/err",
        "/meta/computeUnitsConsumed",
        "/transaction/message/instructions",
        "/transaction/message/header",
        "/version",
    ];
    check_same("transaction-json", &shown, &same);
    steps.transaction("transaction-base64", &paid, BASE64);
    steps.world.slots(31);
    let once = json!([[paid.signature], search]);
    let status = steps.ask("statuses-finalized", "getSignatureStatuses", once);
    assert_eq!(status["result"]["value"][0]["confirmationStatus"], "finalized");
    for (name, method, params) in [
        (
            "signatures",
            "getSignaturesForAddress",
            json!([alice.pubkey().to_string(), { "limit": 5 }]),
        ),
        ("fees", "getRecentPrioritizationFees", json!([[alice.pubkey().to_string()]])),
        ("balance", "getBalance", json!([bob.to_string(), { "commitment": "finalized" }])),
        ("account", "getAccountInfo", json!([bob.to_string(), { "encoding": BASE64 }])),
        (
            "account-none",
            "getAccountInfo",
            json!([recipient(9, 9).to_string(), { "encoding": BASE64 }]),
        ),
        (
            "account-program",
            "getAccountInfo",
            json!(["11111111111111111111111111111111", { "encoding": BASE64 }]),
        ),
        (
            "accounts",
            "getMultipleAccounts",
            json!([[bob.to_string(), recipient(9, 9).to_string()], { "encoding": BASE64 }]),
        ),
    ] {
        steps.ask(name, method, params);
    }
}

#[test]
fn a_failure_has_the_fields_of_a_real_one_s() {
    let mut steps = Steps { world: World::new(1) };
    let (alice, bob) = (payer(0), recipient(1, 0));
    // Until it has paid as much as in the captures.
    let first = transfer(&alice, &bob, SOL, steps.world.blockhash());
    steps.world.send(&first);
    steps.world.slots(3);
    let poor = transfer(&alice, &bob, 50 * SOL, steps.world.blockhash());
    steps.send("send-poor", &poor);
    let tried = json!({ "encoding": BASE64, "commitment": "processed" });
    steps.ask("simulate-poor", "simulateTransaction", json!([poor.text, tried]));
    steps.world.send(&poor);
    steps.world.slots(3);
    steps.ask("statuses-failed", "getSignatureStatuses", json!([[poor.signature]]));
    let shown = steps.transaction("transaction-failed", &poor, "json");
    let same = ["/meta/logMessages", "/meta/preBalances", "/meta/postBalances", "/meta/err"];
    check_same("transaction-failed", &shown, &same);
}

#[test]
fn refusals_have_the_codes_and_words_of_real_ones() {
    let mut steps = Steps { world: World::new(1) };
    steps.world.slots(3);
    let (alice, bob, blockhash) = (payer(0), recipient(1, 0), steps.world.blockhash());
    steps.send("send-rent", &transfer(&alice, &bob, 1_000, blockhash));
    steps.send("send-nobody", &transfer(&payer(9), &bob, 1_000, blockhash));
    let nowhere = Hash::new_from_array([9; 32]);
    steps.send("send-unknown-blockhash", &transfer(&alice, &bob, 1, nowhere));
    let expiring = transfer(&alice, &bob, 7, blockhash);
    let low = [
        solana_compute_budget_interface::ComputeBudgetInstruction::set_compute_unit_limit(10),
        solana_system_interface::instruction::transfer(&alice.pubkey(), &bob, 1),
    ];
    steps.send("send-low-units", &sign(&alice, &low, blockhash));
    steps.world.slots(151);
    steps.send("send-expired", &expiring);
    let base64 = json!({ "encoding": BASE64 });
    let large = "A".repeat(1_640);
    for (name, params) in [
        ("send-large", json!([large, base64])),
        ("send-notbase64", json!(["!!", base64])),
        ("send-noparams", json!([])),
    ] {
        let theirs = captures()[name]["answer"]["error"]["code"].clone();
        assert_eq!(steps.world.error("sendTransaction", params)["code"], theirs, "{name}");
    }
}

#[test]
fn questions_about_the_chain_have_the_fields_of_a_real_one_s() {
    let mut steps = Steps { world: World::new(1) };
    steps.world.slots(40);
    let (known, unknown) = (steps.world.blockhash(), Hash::new_from_array([9; 32]));
    let known = json!([known.to_string(), { "commitment": "processed" }]);
    for (name, method, params) in [
        ("slot", "getSlot", json!([{ "commitment": "finalized" }])),
        ("height", "getBlockHeight", json!([{ "commitment": "finalized" }])),
        ("blockhash", "getLatestBlockhash", json!([{ "commitment": "finalized" }])),
        ("blockhash-valid", "isBlockhashValid", known),
        ("blockhash-invalid", "isBlockhashValid", json!([unknown.to_string()])),
        ("genesis", "getGenesisHash", json!([])),
        ("version", "getVersion", json!([])),
        ("health", "getHealth", json!([])),
        ("epoch", "getEpochInfo", json!([])),
        ("rent-minimum", "getMinimumBalanceForRentExemption", json!([0])),
        ("first-available", "getFirstAvailableBlock", json!([])),
        ("blocks", "getBlocks", json!([3, 5])),
        ("method-none", "getNothing", json!([])),
    ] {
        steps.ask(name, method, params);
    }
    let minimum = steps.world.get("getMinimumBalanceForRentExemption", json!([0]));
    assert_eq!(minimum, captures()["rent-minimum"]["answer"]["result"]);
}
