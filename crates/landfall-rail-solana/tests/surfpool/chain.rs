//! A chain with a pool, real or simulated, and questions to it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use landfall_rail_solana::encode::{self, Draft, UNITS};
use landfall_rail_solana::keys::Key;
use landfall_rail_solana::shield::{Accounts, Output, PROGRAM, PROOF_BYTES, Withdraw, Word};
use landfall_servers::{Surfpool, SurfpoolAccount, SurfpoolOptions, shield_pool};
use landfall_sim_solana::ledger::shield as pool;
use landfall_sim_solana::{SimSolana, keys};
use serde_json::{Value, json};
use solana_address::Address;
use solana_hash::Hash;

pub const SOL: u64 = 1_000_000_000;
pub const ROOT: Word = [7; 32];
/// Nullifiers that the stand-in has room for.
const NULLIFIERS: usize = 300;

pub struct Chain {
    pub url: String,
    pub root: Word,
    payer: Key,
    // Ends with it.
    _server: Option<Surfpool>,
}

pub fn recipient(number: u8, index: u8) -> Address {
    let mut bytes = [number; 32];
    bytes[31] = index;
    Address::new_from_array(bytes)
}

pub fn payer() -> Key {
    Key::parse(&keys::keypair(0, 0).to_base58_string()).unwrap()
}

/// The kind of each field, whatever its value.
pub fn shape(value: &Value) -> Value {
    match value {
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("yes or no"),
        Value::Null => Value::Null,
        Value::Array(many) => many.first().map(shape).into_iter().collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), shape(value))).collect()
        }
    }
}

impl Chain {
    /// Solana's own machine, with the stand-in where the pool is.
    pub async fn surfpool() -> Chain {
        let own = Accounts::of(&PROGRAM);
        let mut ring = vec![0; 8 + 64 * 32];
        ring[8..40].copy_from_slice(&ROOT);
        let account = |address: Address, lamports, data| SurfpoolAccount {
            address: address.to_string(),
            lamports,
            owner: PROGRAM.to_string(),
            data,
        };
        let mut accounts = vec![
            account(own.pool, 1_000 * SOL, vec![0; 32]),
            account(own.treasury, SOL, Vec::new()),
            account(own.roots_ring, SOL, ring),
            account(own.nullifier_shard, SOL, vec![0; 4 + NULLIFIERS * 32]),
        ];
        accounts.push(SurfpoolAccount {
            owner: "11111111111111111111111111111111".to_owned(),
            ..account(payer().address(), 10 * SOL, Vec::new())
        });
        let programs = vec![(PROGRAM.to_string(), shield_pool())];
        let options = SurfpoolOptions { slot_ms: 20, programs, accounts };
        let server = tokio::task::spawn_blocking(move || Surfpool::start(&options));
        let server = server.await.unwrap().unwrap();
        let url = server.url().to_owned();
        Chain { url, root: ROOT, payer: payer(), _server: Some(server) }
    }

    pub async fn simulated(simulated: &SimSolana) -> Chain {
        let url = simulated.rpc_urls().remove(0);
        let payer = Key::from_file(&simulated.keypairs()[0]).unwrap();
        let chain = Chain { url, root: [0; 32], payer, _server: None };
        let ring = chain.data(&Accounts::of(&PROGRAM).roots_ring).await;
        Chain { root: ring[8..40].try_into().unwrap(), ..chain }
    }

    async fn answer(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = reqwest::Client::new().post(&self.url).json(&body).send().await.unwrap();
        answer.json().await.unwrap()
    }

    pub async fn get(&self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params).await;
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    pub async fn lamports(&self, of: &Address) -> u64 {
        let params = json!([of.to_string(), { "commitment": "confirmed" }]);
        self.get("getBalance", params).await["value"].as_u64().unwrap()
    }

    pub async fn data(&self, of: &Address) -> Vec<u8> {
        let options = json!({ "commitment": "confirmed", "encoding": "base64" });
        let account = self.get("getAccountInfo", json!([of.to_string(), options])).await;
        STANDARD.decode(account["value"]["data"][0].as_str().unwrap()).unwrap()
    }

    /// One SOL to the first, two to the next.
    pub fn withdraw(&self, number: u8, outputs: u8) -> Withdraw {
        let output = |index| Output {
            recipient: recipient(number, index),
            amount: u64::from(index + 1) * SOL,
        };
        let outputs: Vec<Output> = (0..outputs).map(output).collect();
        let amount = pool::amount_for(outputs.iter().map(|one| one.amount).sum()).unwrap();
        let (proof, nullifier) = ([number; PROOF_BYTES], [number; 32]);
        Withdraw { proof, root: self.root, nullifier, amount, outputs }
    }

    /// In base64, and its signature.
    pub async fn signed(&self, withdraw: &Withdraw) -> (String, String) {
        let latest = json!([{ "commitment": "confirmed" }]);
        let latest = self.get("getLatestBlockhash", latest).await;
        let blockhash: Hash = latest["value"]["blockhash"].as_str().unwrap().parse().unwrap();
        let withdraw = withdraw.clone();
        let draft = Draft { program: PROGRAM, withdraw, blockhash, units: UNITS, price: 1_000 };
        let (bytes, signature) = encode::sign(&draft, &self.payer).unwrap();
        (STANDARD.encode(bytes), signature.to_string())
    }

    /// What a simulation says of it.
    pub async fn tried(&self, text: &str) -> Value {
        let options = json!({ "encoding": "base64", "commitment": "confirmed" });
        self.get("simulateTransaction", json!([text, options])).await["value"].clone()
    }

    /// As a relay sends: without a preflight.
    pub async fn send(&self, text: &str) -> Result<String, Value> {
        let options = json!({ "encoding": "base64", "skipPreflight": true });
        let answer = self.answer("sendTransaction", json!([text, options])).await;
        match answer["result"].as_str() {
            Some(signature) => Ok(signature.to_owned()),
            None => Err(answer["error"].clone()),
        }
    }

    /// Its error once it is confirmed.
    pub async fn landed(&self, signature: &str) -> Value {
        loop {
            let statuses = self.get("getSignatureStatuses", json!([[signature]])).await;
            let status = &statuses["value"][0];
            if ["confirmed", "finalized"]
                .contains(&status["confirmationStatus"].as_str().unwrap_or(""))
            {
                return status["err"].clone();
            }
        }
    }

    /// The bytes of one that landed.
    pub async fn bytes(&self, signature: &str) -> Vec<u8> {
        let options = json!({
            "encoding": "base64", "commitment": "confirmed", "maxSupportedTransactionVersion": 0,
        });
        let shown = self.get("getTransaction", json!([signature, options])).await;
        STANDARD.decode(shown["transaction"][0].as_str().unwrap()).unwrap()
    }
}
