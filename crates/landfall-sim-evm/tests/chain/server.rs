//! On sockets: what is announced, what faults do, what a state file keeps.

use landfall_sim_evm::{SimConfig, SimEvm};
use serde_json::{Value, json};

use crate::world::{Wallet, payment};

async fn post(url: &str, body: &Value) -> Result<Value, reqwest::Error> {
    reqwest::Client::new().post(url).json(body).send().await?.json().await
}

async fn ask(url: &str, method: &str, params: Value) -> Value {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    post(url, &body).await.unwrap()["result"].clone()
}

async fn landed(url: &str) -> Vec<Value> {
    let answer = reqwest::get(format!("{url}/sim/transactions")).await.unwrap();
    answer.json().await.unwrap()
}

/// Asks until it holds; a block comes every few milliseconds.
async fn until(url: &str, count: usize) -> Vec<Value> {
    loop {
        let all = landed(url).await;
        if all.len() == count {
            return all;
        }
    }
}

#[tokio::test]
async fn a_transaction_is_sent_to_one_node_and_shown_by_all() {
    let config = SimConfig { nodes: 3, block_ms: 5, ..SimConfig::default() };
    let simulated = SimEvm::start(config).await.unwrap();
    let announced = simulated.announcement();
    let urls = simulated.rpc_urls();
    assert_eq!((announced["rpc_urls"].as_array().map(Vec::len), urls.len()), (Some(3), 3));
    let alice = Wallet::new(0);
    let raw = alice.raw(payment(0, alice.address));
    let hash = ask(&urls[0], "eth_sendRawTransaction", json!([raw])).await;
    let all = until(&urls[2], 1).await;
    let expected = json!({
        "hash": hash, "from": alice.address, "nonce": 0, "to": alice.address, "value": "1",
        "input": "0x", "status": 1, "block": all[0]["block"],
    });
    assert_eq!(all, [expected]);
    simulated.shutdown().await;
}

#[tokio::test]
async fn a_lost_answer_is_of_a_request_that_took_effect() {
    let config = SimConfig { block_ms: 5, ..SimConfig::default() };
    let simulated = SimEvm::start(config).await.unwrap();
    let url = simulated.rpc_urls().remove(0);
    post(&format!("{url}/sim/faults"), &json!({ "lose_answer": 1.0 })).await.unwrap();
    let alice = Wallet::new(0);
    let raw = alice.raw(payment(0, alice.address));
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw],
    });
    assert!(post(&url, &body).await.is_err());
    assert_eq!(until(&url, 1).await[0]["nonce"], 0);
    let refused = post(&format!("{url}/sim/faults"), &json!({ "reorg": 2 })).await;
    assert!(refused.is_err(), "a probability");
}

#[tokio::test]
async fn a_state_file_brings_back_what_landed_and_a_reorganisation_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = Some(folder.path().join("chain"));
    let config = SimConfig { block_ms: 5, state, ..SimConfig::default() };
    let simulated = SimEvm::start(config.clone()).await.unwrap();
    let url = simulated.rpc_urls().remove(0);
    let alice = Wallet::new(0);
    for nonce in 0..3 {
        let raw = alice.raw(payment(nonce, alice.address));
        ask(&url, "eth_sendRawTransaction", json!([raw])).await;
    }
    until(&url, 3).await;
    let dropped = post(&format!("{url}/sim/reorg"), &json!({ "depth": 2 })).await.unwrap();
    assert_eq!(dropped, json!({ "dropped": 2 }));
    let before = until(&url, 3).await;
    simulated.shutdown().await;
    let simulated = SimEvm::start(config.clone()).await.unwrap();
    assert_eq!(landed(&simulated.rpc_urls()[0]).await, before);
    simulated.shutdown().await;
    let others = SimConfig { signers: 2, ..config };
    assert!(SimEvm::start(others).await.is_err(), "a file of other signers");
}
