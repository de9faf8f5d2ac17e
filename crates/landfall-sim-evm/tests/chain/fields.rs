//! Our answers beside those of a real node: anvil 1.7.1, with ERC2771Forwarder of OpenZeppelin's
//! contracts 5.7.0, as `tests/captures` has them.

use std::str::FromStr;

use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, Bytes, Signature, TxKind, U256, aliases::U48, hex};
use alloy_sol_types::{Eip712Domain, SolCall, SolError, SolEvent, SolStruct, eip712_domain};
use landfall_sim_evm::ledger::natives::{FORWARDER_NAME, ForwardRequest, Forwarder};
use serde_json::{Value, json};

use crate::world::{CHAIN_ID, GWEI, Wallet, World, payment};

/// Of forks that this chain has not had, and what anvil alone shows.
const NOT_OURS: [&str; 11] = [
    "withdrawalsRoot",
    "withdrawals",
    "blobGasUsed",
    "excessBlobGas",
    "parentBeaconBlockRoot",
    "requestsHash",
    "totalDifficulty",
    "baseFeePerBlobGas",
    "blobGasUsedRatio",
    "blobGasPrice",
    "blockTimestamp",
];

fn captured(name: &str) -> Value {
    let path = format!("{}/tests/captures/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What kind of value it is, whatever the value.
fn shape(value: &Value) -> String {
    match value {
        Value::String(text) => match text.len() {
            length @ (18 | 42 | 66 | 514) => format!("{} bytes", (length - 2) / 2),
            _ => "quantity or data".to_owned(),
        },
        Value::Array(many) => format!("list of {:?}", many.first().map(shape)),
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) => "yes or no".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn check(ours: &Value, capture: &str) {
    let theirs = captured(capture);
    let shapes = |answer: &Value| -> Vec<(String, String)> {
        let fields = answer.as_object().unwrap().iter();
        let fields = fields.filter(|(name, _)| !NOT_OURS.contains(&name.as_str()));
        // Numbers of 32 bytes lose their leading zeros.
        let shown = fields.map(|(name, value)| match name.as_str() {
            "r" | "s" => (name.clone(), "quantity".to_owned()),
            _ => (name.clone(), shape(value)),
        });
        let mut shown: Vec<_> = shown.collect();
        shown.sort();
        shown
    };
    assert_eq!(shapes(ours), shapes(&theirs), "{capture}");
}

#[test]
fn answers_have_the_fields_of_a_real_nodes() {
    let (mut world, alice, bob) = (World::new(1), Wallet::new(0), Wallet::new(7));
    let first = world.send(0, &alice.raw(payment(0, bob.address))).unwrap();
    let legacy = TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce: 1,
        gas_price: 3 * GWEI,
        gas_limit: 21_000,
        to: TxKind::Call(bob.address),
        value: U256::from(5),
        input: Bytes::new(),
    };
    let second = world.send(0, &alice.raw(legacy)).unwrap();
    check(&world.get("eth_getTransactionByHash", json!([first])), "transaction-pending");
    world.mine(0);
    check(&world.get("eth_getTransactionByHash", json!([first])), "transaction-1559");
    check(&world.get("eth_getTransactionByHash", json!([second])), "transaction-legacy");
    check(&world.get("eth_getTransactionReceipt", json!([first])), "receipt");
    check(&world.get("eth_getBlockByNumber", json!(["latest", false])), "block");
    check(&world.get("eth_feeHistory", json!(["0x4", "latest", [10, 50]])), "fee-history");
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

fn address(value: &Value, name: &str) -> Address {
    Address::from_str(text(value, name)).unwrap()
}

fn data(value: &Value, name: &str) -> Vec<u8> {
    hex::decode(text(value, name)).unwrap()
}

fn real_domain(captured: &Value) -> Eip712Domain {
    eip712_domain! {
        name: FORWARDER_NAME,
        version: "1",
        chain_id: captured["chain_id"].as_u64().unwrap(),
        verifying_contract: address(captured, "forwarder"),
    }
}

#[test]
fn a_request_that_the_real_forwarder_took_is_read_and_signed_alike() {
    let captured = captured("forwarder");
    assert_eq!(captured["status"], "0x1");
    let input = data(&captured, "input");
    let call = Forwarder::executeCall::abi_decode(&input).unwrap();
    assert_eq!(call.abi_encode(), input);
    let request = call.request;
    assert_eq!(request.deadline, U48::from(4_102_444_800_u64));
    let signed = ForwardRequest {
        from: request.from,
        to: request.to,
        value: request.value,
        gas: request.gas,
        nonce: U256::ZERO,
        deadline: request.deadline,
        data: request.data,
    };
    let hash = signed.eip712_signing_hash(&real_domain(&captured));
    let signature = Signature::from_raw(&request.signature).unwrap();
    let signer = signature.recover_address_from_prehash(&hash).unwrap();
    assert_eq!(signer, address(&captured, "user"));
}

#[test]
fn the_forwarders_event_and_errors_are_the_real_ones() {
    let captured = captured("forwarder");
    let (user, forwarder) = (address(&captured, "user"), address(&captured, "forwarder"));
    let event =
        Forwarder::ExecutedForwardRequest { signer: user, nonce: U256::ZERO, success: true };
    let log = event.encode_log_data();
    assert_eq!(json!(log.topics()), captured["log"]["topics"]);
    assert_eq!(log.data.to_vec(), data(&captured["log"], "data"));
    let check = |name: &str, error: Vec<u8>| assert_eq!(error, data(&captured[name], "data"));
    let deadline = U48::from(1);
    check("expired", Forwarder::ERC2771ForwarderExpiredRequest { deadline }.abi_encode());
    let (requested, sent) = (U256::from(1), U256::ZERO);
    let mismatched =
        Forwarder::ERC2771ForwarderMismatchedValue { requestedValue: requested, msgValue: sent };
    check("mismatched", mismatched.abi_encode());
    let untrustful = Forwarder::ERC2771UntrustfulTarget { target: user, forwarder };
    check("untrustful", untrustful.abi_encode());
    let replayed = data(&captured["replayed"], "data");
    let invalid = Forwarder::ERC2771ForwarderInvalidSigner::abi_decode(&replayed).unwrap();
    assert_eq!(invalid.from, user);
    assert_ne!(invalid.signer, user, "whoever the signature is of under the next nonce");
    let domain = Forwarder::eip712DomainCall::abi_decode_returns(&data(&captured, "domain"));
    let domain = domain.unwrap();
    assert_eq!((domain.name.as_str(), domain.version.as_str()), (FORWARDER_NAME, "1"));
    assert_eq!(domain.fields, [0x0f]);
}
