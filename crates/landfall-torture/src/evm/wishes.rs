//! What clients want on the chain: to pay somebody, to be refused by a contract, or to have a
//! user's request submitted.
//!
//! **Rule:** what a store that forgets the key might take in a wish's place carries the same key.

use alloy_primitives::{Address, hex};
use alloy_sol_types::SolCall as _;
use landfall_core::Payload;
use landfall_core::evm::{self, Call, Direct, DirectFields, GaslessFields, Terms, Work};
use landfall_rail_evm::forward::Forwarder;
use landfall_rail_evm::{Key, rail};
use landfall_sim_evm::ledger::natives::{COUNTER, Counter, FORWARDER, FORWARDER_NAME};
use landfall_sim_evm::server::CHAIN_ID;

use super::{CHAIN, key};
use crate::clients::Wish;

/// How many accounts are paid.
pub const RECEIVERS: u8 = 9;

pub fn key_of(number: usize) -> String {
    format!("e{number}")
}

/// The account with this number of those that are paid.
pub fn receiver(number: u8) -> Address {
    Address::left_padding_from(&[0xee, number])
}

/// The user whose request this is.
pub fn user(number: usize) -> Key {
    key(1, number)
}

fn terms() -> Terms {
    let forwarder = evm::Address(FORWARDER.into_array());
    Terms { chain: CHAIN.to_owned(), chain_id: CHAIN_ID, forwarder: Some(forwarder) }
}

fn call(to: Address, data: &[u8], value: u64, gas: Option<&str>, speed: &str) -> Payload {
    let fields = DirectFields {
        to: &to.to_string(),
        data: Some(&hex::encode_prefixed(data)),
        value: Some(&value.to_string()),
        gas,
        speed: Some(speed),
    };
    Payload::Evm(Call::direct(&terms(), &fields).expect("a well-formed call"))
}

/// A payment. Its data is its key.
pub fn direct(number: usize, to: u8, value: u64) -> Wish {
    let key = key_of(number);
    let pay =
        |to: u8, value: u64, speed: &str| call(receiver(to), key.as_bytes(), value, None, speed);
    let second = pay(to % RECEIVERS + 1, value, "average");
    let others = vec![pay(to, value + 1, "average"), pay(to, value, "fast"), second.clone()];
    Wish { payload: pay(to, value, "average"), second, others, key }
}

/// A call that its contract refuses. Gas is given: nobody is asked whether it would work.
pub fn reverting(number: usize) -> Wish {
    let refused = |reason: &str| {
        let data = Counter::refuseCall { reason: reason.to_owned() }.abi_encode();
        call(COUNTER, &data, 0, Some("200000"), "average")
    };
    let second = refused("never");
    let others = vec![refused("not now"), second.clone()];
    Wish { key: key_of(number), payload: refused("no"), second, others }
}

/// Whether its contract refuses it.
pub fn is_refused(direct: &Direct) -> bool {
    direct.to.0 == COUNTER.into_array()
}

/// A request of a user who has no other.
pub fn gasless(number: usize) -> Wish {
    let user = user(number);
    let request = |gas: u64| Payload::Evm(signed(&user, gas));
    let second = request(90_000);
    let others = vec![request(80_000), second.clone()];
    Wish { key: key_of(number), payload: request(100_000), second, others }
}

fn signed(user: &Key, gas: u64) -> Call {
    let fields = |signature: &str| {
        let fields = GaslessFields {
            from: &user.address().to_string(),
            to: &COUNTER.to_string(),
            value: "0",
            gas: &gas.to_string(),
            nonce: "0",
            deadline: "99999999999",
            data: &hex::encode_prefixed(Counter::incrementCall {}.abi_encode()),
            signature,
            forwarder: None,
            speed: None,
        };
        Call::gasless(&terms(), &fields).expect("a well-formed request")
    };
    let unsigned = fields(&hex::encode_prefixed([0; 65]));
    let Work::Gasless(request) = &unsigned.work else { unreachable!("a user's request") };
    let (asked, _) = rail::forward_request(request);
    let forwarder =
        Forwarder { address: FORWARDER, chain_id: CHAIN_ID, name: FORWARDER_NAME.to_owned() };
    fields(&hex::encode_prefixed(user.sign(&forwarder.digest(&asked)).as_bytes()))
}
