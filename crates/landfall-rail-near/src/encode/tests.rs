//! The encoder against vectors that a real node executed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::*;

fn vectors() -> Vec<Value> {
    let whole: Value =
        serde_json::from_str(include_str!("../../tests/captures/signing-vectors.json")).unwrap();
    whole["vectors"].as_array().unwrap().clone()
}

fn payout(receiver: &str, amount: u128, memo: Option<&str>) -> Payout {
    Payout {
        network: "localnet".into(),
        token: "ft.test.near".into(),
        sender: "relay.test.near".into(),
        receiver_id: receiver.into(),
        amount,
        memo: memo.map(Into::into),
    }
}

/// What a vector's actions ask for, as payouts, and their deposit.
fn payouts_of(vector: &Value) -> (Vec<Payout>, u128) {
    let mut deposit = 0;
    let mut payouts = Vec::new();
    for action in vector["actions"].as_array().unwrap() {
        let call = &action["FunctionCall"];
        let Some(args) = call["args_utf8"].as_str() else { continue };
        let args: Value = serde_json::from_str(args).unwrap();
        let receiver = args["receiver_id"].as_str().or(args["account_id"].as_str()).unwrap();
        let amount = args["amount"].as_str().map_or(1, |amount| amount.parse().unwrap());
        payouts.push(payout(receiver, amount, args["memo"].as_str()));
        deposit = call["deposit"].as_str().unwrap().parse().unwrap();
    }
    (payouts, deposit)
}

#[test]
fn every_signing_vector_is_reproduced_byte_for_byte() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 4);
    for vector in vectors {
        let name = vector["name"].as_str().unwrap();
        let (payouts, deposit) = payouts_of(&vector);
        let payouts: Vec<&Payout> = payouts.iter().collect();
        let limits = Limits::default();
        let actions = match name.split_once("_x").map_or(name, |(method, _)| method) {
            "ft_transfer" => transfers(&payouts, &limits),
            "storage_deposit" => registrations(&payouts, deposit, &limits),
            _ => fence(),
        };
        let envelope = Envelope {
            signer: &vector["signer_id"].as_str().unwrap().parse().unwrap(),
            key: &Key::parse(vector["secret_key"].as_str().unwrap()).unwrap(),
            nonce: vector["nonce"].as_u64().unwrap(),
            receiver: &vector["receiver_id"].as_str().unwrap().parse().unwrap(),
            block_hash: vector["block_hash"].as_str().unwrap().parse().unwrap(),
        };
        let (bytes, hash) = sign(&envelope, actions);
        assert_eq!(hash, vector["tx_hash"].as_str().unwrap(), "{name}");
        assert_eq!(STANDARD.encode(&bytes), vector["signed_tx_base64"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn stored_bytes_tell_whom_they_pay() {
    for vector in vectors() {
        let bytes = STANDARD.decode(vector["signed_tx_base64"].as_str().unwrap()).unwrap();
        let stored = read(&bytes).unwrap();
        let (payouts, _) = payouts_of(&vector);
        assert_eq!(stored.signer, "relay.test.near");
        let receivers: Vec<&str> = payouts.iter().map(|p| p.receiver_id.as_str()).collect();
        let paid: Vec<&str> = stored.payments.iter().map(|p| p.0.as_str()).collect();
        assert_eq!(
            [paid, stored.registered.iter().map(String::as_str).collect()].concat(),
            receivers
        );
    }
    assert_eq!(read(b"not a transaction"), None);
}

#[test]
fn a_batch_fits_actions_gas_and_size() {
    let check = |limits: Limits, purpose, count: usize, expected| {
        let payout = payout("alice.near", 1, Some(&"m".repeat(200)));
        let payouts = vec![&payout; count];
        assert_eq!(limits.fit(purpose, &payouts), expected);
    };
    let limits = Limits::default();
    check(limits, Purpose::Pay, 0, 0);
    check(limits, Purpose::Pay, 1, 1);
    check(limits, Purpose::Pay, 500, 100);
    check(limits, Purpose::Prepare, 500, 100);
    check(Limits { transfer_gas: 10 * TGAS, ..limits }, Purpose::Pay, 500, 30);
    check(Limits { deposit_gas: 10 * TGAS, ..limits }, Purpose::Pay, 500, 100);
    check(Limits { transfer_gas: 400 * TGAS, ..limits }, Purpose::Pay, 5, 1);
    check(Limits { bytes: 2_000, ..limits }, Purpose::Pay, 5, 4);
    check(Limits { bytes: 10, ..limits }, Purpose::Pay, 5, 1);
}

#[test]
fn a_memo_is_encoded_as_json_whatever_it_holds() {
    let payout = payout("alice.near", 7, Some("a\"b\\c é"));
    let args = arguments(Purpose::Pay, &payout);
    let back: Value = serde_json::from_slice(&args).unwrap();
    assert_eq!(back["memo"], "a\"b\\c é");
    assert_eq!(back["amount"], "7");
}
