//! The natives: the counter, and the forwarder before it.

use alloy_primitives::{Address, Bytes, Signature, U256, aliases::U48, hex, uint};
use alloy_sol_types::{SolCall, SolError, SolEvent, SolStruct};
use landfall_sim_evm::ledger::natives::{
    COUNTER, Counter, FORWARDER, ForwardRequest, ForwardRequestData, Forwarder, domain,
};
use serde_json::{Value, json};

use crate::world::{CHAIN_ID, Wallet, World, calling};

fn counted(world: &mut World) -> Value {
    let input = hex::encode_prefixed(Counter::countCall {}.abi_encode());
    world.get("eth_call", json!([{ "to": COUNTER, "data": input }, "latest"]))
}

fn word(number: u64) -> Value {
    json!(format!("{:#066x}", U256::from(number)))
}

/// A request to count, signed by a user.
fn request(user: &Wallet, nonce: u64, deadline: u64) -> ForwardRequestData {
    let data = Bytes::from(Counter::incrementCall {}.abi_encode());
    let (from, to, value, gas) = (user.address, COUNTER, U256::ZERO, U256::from(60_000));
    let deadline = U48::from(deadline);
    let nonce = U256::from(nonce);
    let signed = ForwardRequest { from, to, value, gas, nonce, deadline, data: data.clone() };
    let hash = signed.eip712_signing_hash(&domain(CHAIN_ID));
    let signature = Bytes::from(user.sign(&hash).as_bytes());
    ForwardRequestData { from, to, value, gas, deadline, data, signature }
}

fn execute(request: ForwardRequestData) -> Vec<u8> {
    Forwarder::executeCall { request }.abi_encode()
}

/// The same signature with its `s` on the other side of the curve, which recovers the same signer.
fn other_form(signature: &Bytes) -> Bytes {
    let order = uint!(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256);
    let signature = Signature::from_raw(signature).unwrap();
    Signature::new(signature.r(), order - signature.s(), !signature.v()).as_bytes().into()
}

#[test]
fn a_call_counts_and_says_so() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    let input = Counter::incrementCall {}.abi_encode();
    let hash = world.send(0, &alice.raw(calling(0, COUNTER, input))).unwrap();
    world.mine(0);
    let receipt = world.get("eth_getTransactionReceipt", json!([hash]));
    assert_eq!(receipt["status"], "0x1");
    assert_eq!(receipt["logs"][0]["topics"][0], json!(Counter::Counted::SIGNATURE_HASH));
    assert_eq!(counted(&mut world), word(1));
}

#[test]
fn a_forwarded_call_counts_for_its_signer_who_owns_nothing() {
    let (mut world, alice, user) = (World::new(1), Wallet::new(0), Wallet::new(9));
    let asked = request(&user, 0, world.clock_s + 60);
    let hash = world.send(0, &alice.raw(calling(0, FORWARDER, execute(asked.clone())))).unwrap();
    let again = world.send(0, &alice.raw(calling(1, FORWARDER, execute(asked)))).unwrap();
    world.mine(0);
    assert_eq!(world.status(&hash).as_deref(), Some("0x1"));
    assert_eq!(world.status(&again).as_deref(), Some("0x0"), "its nonce is used");
    let of = hex::encode_prefixed(Counter::countOfCall { by: user.address }.abi_encode());
    let count = world.get("eth_call", json!([{ "to": COUNTER, "data": of }, "latest"]));
    assert_eq!((count, counted(&mut world)), (word(1), word(1)));
    let filter = json!({
        "fromBlock": "earliest", "address": FORWARDER,
        "topics": [Forwarder::ExecutedForwardRequest::SIGNATURE_HASH, user.address.into_word()],
    });
    let logs = world.get("eth_getLogs", json!([filter]));
    assert_eq!(logs.as_array().map(Vec::len), Some(1));
    assert_eq!(logs[0]["transactionHash"], json!(hash));
}

#[test]
fn the_forwarder_refuses_in_the_contracts_own_errors() {
    let (mut world, user) = (World::new(1), Wallet::new(9));
    let now_s = world.clock_s;
    let check = |world: &mut World, asked: ForwardRequestData, expected: Vec<u8>| {
        let call = json!({ "to": FORWARDER, "data": hex::encode_prefixed(execute(asked)) });
        let error = world.error("eth_call", json!([call, "latest"]));
        assert_eq!((&error["code"], &error["message"]), (&json!(3), &json!("execution reverted")));
        let data = error["data"].as_str().unwrap();
        assert!(data.starts_with(&hex::encode_prefixed(&expected)), "{data}");
    };
    let late = request(&user, 0, now_s - 1);
    let deadline = late.deadline;
    let error = Forwarder::ERC2771ForwarderExpiredRequest { deadline }.abi_encode();
    check(&mut world, late, error);
    let other_nonce = request(&user, 1, now_s + 60);
    let invalid = Forwarder::ERC2771ForwarderInvalidSigner::SELECTOR.to_vec();
    check(&mut world, other_nonce, invalid);
    let mut twisted = request(&user, 0, now_s + 60);
    twisted.signature = other_form(&twisted.signature);
    let nobody =
        Forwarder::ERC2771ForwarderInvalidSigner { signer: Address::ZERO, from: user.address };
    check(&mut world, twisted, nobody.abi_encode());
    let valued = ForwardRequestData { value: U256::from(1), ..request(&user, 0, now_s + 60) };
    let mismatched = Forwarder::ERC2771ForwarderMismatchedValue {
        requestedValue: U256::from(1),
        msgValue: U256::ZERO,
    };
    check(&mut world, valued, mismatched.abi_encode());
    let elsewhere = ForwardRequestData { to: Address::ZERO, ..request(&user, 0, now_s + 60) };
    let (target, forwarder) = (Address::ZERO, FORWARDER);
    let untrustful = Forwarder::ERC2771UntrustfulTarget { target, forwarder };
    check(&mut world, elsewhere, untrustful.abi_encode());
}

#[test]
fn a_revert_has_its_reason_before_and_after_it_is_mined() {
    let (mut world, alice) = (World::new(1), Wallet::new(0));
    let input = Counter::refuseCall { reason: "no more".to_owned() }.abi_encode();
    let call = json!({ "to": COUNTER, "data": hex::encode_prefixed(&input) });
    for method in ["eth_call", "eth_estimateGas"] {
        let error = world.error(method, json!([call, "latest"]));
        assert_eq!(error["message"], "execution reverted: no more");
        assert!(error["data"].as_str().is_some_and(|data| data.starts_with("0x08c379a0")));
    }
    let hash = world.send(0, &alice.raw(calling(0, COUNTER, input))).unwrap();
    world.mine(0);
    assert_eq!(world.status(&hash).as_deref(), Some("0x0"));
}

#[test]
fn estimated_gas_suffices_and_less_does_not() {
    let (mut world, alice, user) = (World::new(1), Wallet::new(0), Wallet::new(9));
    let input = execute(request(&user, 0, world.clock_s + 60));
    let data = hex::encode_prefixed(&input);
    let call = json!({ "from": alice.address, "to": FORWARDER, "input": data });
    let estimate = world.get("eth_estimateGas", json!([call]));
    let text = estimate.as_str().unwrap().trim_start_matches("0x");
    let gas = u64::from_str_radix(text, 16).unwrap();
    for (nonce, gas_limit, expected) in [(0, gas - 1, "0x0"), (1, gas, "0x1")] {
        let mut transaction = calling(nonce, FORWARDER, input.clone());
        transaction.gas_limit = gas_limit;
        let hash = world.send(0, &alice.raw(transaction)).unwrap();
        world.mine(0);
        assert_eq!(world.status(&hash).as_deref(), Some(expected));
    }
}
