use landfall_sim_solana::ledger::shield as pool;
use landfall_sim_solana::request::Request;
use serde_json::{Value, json};

use super::*;
use crate::shield::PROGRAM;

const SOL: u64 = 1_000_000_000;

fn recipient(byte: u8) -> Address {
    Address::new_from_array([byte; 32])
}

/// Cloak's shape, made by the simulated pool.
fn cloak(count: u8) -> Value {
    let output = |byte| pool::Output { recipient: recipient(byte), amount: u64::from(byte) * SOL };
    let outputs: Vec<pool::Output> = (1..=count).map(output).collect();
    json!(Request::new([7; 32], [8; 32], &outputs).unwrap())
}

/// The same in the older shape.
fn older(count: u8) -> Value {
    let cloak = cloak(count);
    let inputs = &cloak["public_inputs"];
    let mut bytes = Vec::new();
    for name in ["root", "nf", "outputs_hash"] {
        bytes.extend(hex::decode(inputs[name].as_str().unwrap()).unwrap());
    }
    bytes.extend(inputs["amount"].as_u64().unwrap().to_le_bytes());
    json!({
        "proof": cloak["proof_bytes"],
        "public_inputs": STANDARD.encode(bytes),
        "outputs": cloak["outputs"],
        "fee_bps": inputs["fee_bps"],
    })
}

fn read(body: Value) -> Result<Withdraw, Vec<BadField>> {
    withdraw(&serde_json::from_value(body).unwrap(), &PROGRAM)
}

/// The fields that are blamed.
fn blamed(body: Value) -> Vec<&'static str> {
    read(body).unwrap_err().into_iter().map(|bad| bad.field).collect()
}

/// A body with something else at a place of it.
fn with(mut body: Value, place: &str, value: Value) -> Value {
    *body.pointer_mut(place).unwrap() = value;
    body
}

#[test]
fn both_shapes_ask_for_the_same_withdraw() {
    for count in 1..=5 {
        let withdraw = read(cloak(count)).unwrap();
        assert_eq!(read(older(count)), Ok(withdraw.clone()));
        assert_eq!((withdraw.root, withdraw.nullifier), ([7; 32], [8; 32]));
        assert_eq!(withdraw.outputs.len(), usize::from(count));
    }
}

#[test]
fn one_output_may_stand_alone_and_amounts_may_be_digits() {
    let one = older(1);
    let alone = with(one.clone(), "/outputs", one["outputs"][0].clone());
    assert_eq!(read(alone), read(one.clone()));
    let digits = with(one.clone(), "/outputs/0/amount", json!("1000000000"));
    assert_eq!(read(digits), read(one));
    let prefixed = cloak(1);
    let root = format!("0x{}", prefixed["public_inputs"]["root"].as_str().unwrap());
    assert_eq!(read(with(prefixed, "/public_inputs/root", json!(root))), read(cloak(1)));
}

#[test]
fn what_cannot_be_read_is_blamed_on_its_field() {
    let short = STANDARD.encode([0; PROOF_BYTES - 1]);
    for (place, value, field) in [
        ("/proof_bytes", json!(short), "proof_bytes"),
        ("/proof_bytes", json!("!"), "proof_bytes"),
        ("/public_inputs/root", json!("00"), "public_inputs.root"),
        ("/public_inputs/nf", json!("g".repeat(64)), "public_inputs.nf"),
        ("/public_inputs/outputs_hash", json!("0".repeat(63)), "public_inputs.outputs_hash"),
        ("/public_inputs/amount", json!("1.5"), "public_inputs.amount"),
        ("/public_inputs/amount", json!("99999999999999999999"), "public_inputs.amount"),
        ("/outputs", json!([]), "outputs"),
        ("/outputs/0/recipient", json!("0OIl"), "outputs"),
        ("/outputs/0/recipient", json!(""), "outputs"),
        ("/outputs/0/amount", json!(0), "outputs"),
    ] {
        assert_eq!(blamed(with(cloak(1), place, value.clone())), [field], "{place} {value}");
    }
    assert_eq!(blamed(with(older(1), "/public_inputs", json!("AAAA"))), ["public_inputs"]);
    assert_eq!(blamed(with(older(1), "/proof", Value::Null)), ["proof"]);
    let mut both = older(1);
    both["proof_bytes"] = both["proof"].clone();
    assert_eq!(blamed(both), ["proof"]);
}

#[test]
fn all_that_is_wrong_is_told_at_once() {
    let body = with(cloak(2), "/proof_bytes", json!("!"));
    let body = with(body, "/public_inputs/nf", json!(""));
    let body = with(body, "/outputs/0/amount", json!(0));
    let body = with(body, "/outputs/1/recipient", json!("x"));
    assert_eq!(blamed(body), ["proof_bytes", "public_inputs.nf", "outputs", "outputs"]);
}

#[test]
fn a_sixth_output_is_one_too_many() {
    let six = json!(vec![cloak(1)["outputs"][0].clone(); 6]);
    assert_eq!(blamed(with(cloak(1), "/outputs", six)), ["outputs"]);
}

#[test]
fn outputs_must_have_their_hash_in_their_order() {
    let swapped = json!([cloak(2)["outputs"][1], cloak(2)["outputs"][0]]);
    assert_eq!(blamed(with(cloak(2), "/outputs", swapped)), ["public_inputs"]);
    let other = json!(recipient(9).to_string());
    assert_eq!(blamed(with(cloak(1), "/outputs/0/recipient", other)), ["public_inputs"]);
}

#[test]
fn outputs_and_fee_must_be_the_amount_to_the_last_lamport() {
    let amount = cloak(1)["public_inputs"]["amount"].as_u64().unwrap();
    for wrong in [0, amount - 1, amount + 1, u64::MAX] {
        assert_eq!(blamed(with(cloak(1), "/public_inputs/amount", json!(wrong))), ["outputs"]);
    }
    let huge = with(cloak(2), "/outputs/0/amount", json!(u64::MAX));
    assert_eq!(blamed(huge), ["public_inputs", "outputs"], "the sum is too large to reckon");
}

#[test]
fn the_fee_s_points_are_what_the_fee_demands_wherever_they_are_named() {
    for place in ["/policy/fee_bps", "/public_inputs/fee_bps"] {
        let right = cloak(1).pointer(place).unwrap().as_u64().unwrap();
        for wrong in [0, right - 1, right + 1] {
            assert_eq!(blamed(with(cloak(1), place, json!(wrong))), ["fee_bps"], "{place}");
        }
    }
    assert_eq!(blamed(with(older(1), "/fee_bps", Value::Null)), ["fee_bps"], "is missing");
}

#[test]
fn nobody_withdraws_to_the_pool_itself_or_to_a_program() {
    let own = Accounts::of(&PROGRAM);
    for nobody in own.all().into_iter().chain([PROGRAM, system::ID]) {
        let body = with(cloak(1), "/outputs/0/recipient", json!(nobody.to_string()));
        assert_eq!(blamed(body), ["outputs"], "{nobody}");
    }
}
