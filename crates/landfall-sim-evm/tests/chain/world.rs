//! A chain without sockets or time, wallets, and questions to its nodes.

use alloy_consensus::{SignableTransaction, Signed, TxEip1559, TxEnvelope};
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, hex};
use k256::ecdsa::SigningKey;
use landfall_sim_evm::keys;
use landfall_sim_evm::ledger::{Genesis, Ledger};
use landfall_sim_evm::rpc::{Node, handle};
use serde_json::{Value, json};

pub const CHAIN_ID: u64 = 1_337_001;
pub const GWEI: u128 = 1_000_000_000;
pub const ETHER: u128 = 1_000_000_000 * GWEI;
const BEGIN_S: u64 = 1_700_000_000;

pub struct World {
    pub ledger: Ledger,
    pub clock_s: u64,
}

pub struct Wallet {
    pub address: Address,
    key: SigningKey,
}

impl Wallet {
    pub fn new(index: usize) -> Wallet {
        let secret = keys::secret(0, index);
        let key = SigningKey::from_slice(secret.as_slice()).unwrap();
        Wallet { address: keys::address(&secret), key }
    }

    pub fn sign(&self, hash: &B256) -> Signature {
        self.key.sign_prehash_recoverable(hash.as_slice()).unwrap().into()
    }

    pub fn raw<T>(&self, transaction: T) -> String
    where
        T: SignableTransaction<Signature>,
        TxEnvelope: From<Signed<T>>,
    {
        let signature = self.sign(&transaction.signature_hash());
        let envelope = TxEnvelope::from(transaction.into_signed(signature));
        hex::encode_prefixed(envelope.encoded_2718())
    }
}

/// A payment of one wei.
pub fn payment(nonce: u64, to: Address) -> TxEip1559 {
    TxEip1559 {
        chain_id: CHAIN_ID,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 3 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(to),
        value: U256::from(1),
        ..TxEip1559::default()
    }
}

pub fn calling(nonce: u64, to: Address, input: Vec<u8>) -> TxEip1559 {
    let (value, input, gas_limit) = (U256::ZERO, Bytes::from(input), 300_000);
    TxEip1559 { value, input, gas_limit, ..payment(nonce, to) }
}

impl World {
    pub fn new(nodes: usize) -> World {
        let genesis = Genesis {
            chain_id: CHAIN_ID,
            timestamp: BEGIN_S,
            signers: vec![Wallet::new(0).address, Wallet::new(1).address],
            funds: U256::from(10 * ETHER),
        };
        World { ledger: Ledger::new(genesis, nodes), clock_s: BEGIN_S }
    }

    /// The whole answer of a node.
    pub fn answer(&mut self, node: usize, body: &Value) -> Value {
        let ledger = &mut self.ledger;
        handle(&mut Node { ledger, index: node, lag_blocks: 0, forgets: false }, body)
    }

    fn ask(&mut self, node: usize, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        self.answer(node, &body)
    }

    /// The first node's result.
    pub fn get(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(0, method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// The first node's error.
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        self.ask(0, method, params)["error"].clone()
    }

    /// Sends to a node; its hash, or what the node says against it.
    pub fn send(&mut self, node: usize, raw: &str) -> Result<String, String> {
        let answer = self.ask(node, "eth_sendRawTransaction", json!([raw]));
        match answer["result"].as_str() {
            Some(hash) => Ok(hash.to_owned()),
            None => Err(answer["error"]["message"].as_str().unwrap().to_owned()),
        }
    }

    pub fn mine(&mut self, node: usize) {
        self.clock_s += 1;
        self.ledger.produce(node, self.clock_s);
    }

    /// The status in its receipt; none if it has none.
    pub fn status(&mut self, hash: &str) -> Option<String> {
        let receipt = self.get("eth_getTransactionReceipt", json!([hash]));
        receipt["status"].as_str().map(str::to_owned)
    }
}
