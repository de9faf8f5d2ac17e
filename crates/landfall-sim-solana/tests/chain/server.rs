//! On sockets: what is announced, what faults do, what a state file keeps.

use landfall_sim_solana::ledger::shield;
use landfall_sim_solana::request::Request;
use landfall_sim_solana::{SimConfig, SimSolana};
use serde_json::{Value, json};
use solana_hash::Hash;
use solana_keypair::read_keypair_file;

use crate::world::{SOL, recipient};

async fn post(url: &str, body: &Value) -> Result<Value, reqwest::Error> {
    reqwest::Client::new().post(url).json(body).send().await?.json().await
}

async fn ask(url: &str, method: &str, params: Value) -> Result<Value, reqwest::Error> {
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    Ok(post(url, &body).await?["result"].clone())
}

async fn sim(url: &str, route: &str, body: Value) -> Value {
    post(&format!("{url}/sim/{route}"), &body).await.unwrap()
}

async fn spent(url: &str) -> Vec<Value> {
    let answer = reqwest::get(format!("{url}/sim/spent")).await.unwrap();
    answer.json().await.unwrap()
}

/// Asks until so many are spent; a slot passes every few milliseconds.
async fn until(url: &str, count: usize) -> Vec<Value> {
    loop {
        let all = spent(url).await;
        if all.len() == count {
            return all;
        }
    }
}

async fn request(url: &str, amount: u64) -> Request {
    let outputs = json!([{ "recipient": recipient(1, 0).to_string(), "amount": amount }]);
    let made = sim(url, "requests", json!({ "outputs": outputs })).await;
    serde_json::from_value(made).unwrap()
}

/// A request in a transaction of the announced payer's, in base64.
async fn signed(simulated: &SimSolana, request: &Request) -> (String, String) {
    use base64::Engine;
    let url = &simulated.rpc_urls()[0];
    let latest = json!([{ "commitment": "confirmed" }]);
    let latest = ask(url, "getLatestBlockhash", latest).await.unwrap();
    let blockhash: Hash = latest["value"]["blockhash"].as_str().unwrap().parse().unwrap();
    let payer = read_keypair_file(&simulated.keypairs()[0]).unwrap();
    let transaction = request.transaction(&payer, blockhash).unwrap();
    let text = base64::engine::general_purpose::STANDARD.encode(&transaction.raw);
    (text, transaction.signature.to_string())
}

const SENDING: &str = "sendTransaction";

fn options() -> Value {
    json!({ "encoding": "base64", "preflightCommitment": "confirmed" })
}

#[tokio::test]
async fn a_request_that_was_made_here_is_taken_and_shown_by_all_nodes() {
    let config = SimConfig { nodes: 3, slot_ms: 5, ..SimConfig::default() };
    let simulated = SimSolana::start(config).await.unwrap();
    let (announced, urls) = (simulated.announcement(), simulated.rpc_urls());
    assert_eq!((announced["rpc_urls"].as_array().map(Vec::len), urls.len()), (Some(3), 3));
    assert_eq!(announced["keypair_path"], announced["keypairs"][0]);
    let request = request(&urls[0], SOL).await;
    let (text, signature) = signed(&simulated, &request).await;
    let sent = ask(&urls[1], SENDING, json!([text, options()])).await.unwrap();
    assert_eq!(sent, json!(signature));
    let all = until(&urls[2], 1).await;
    let amount = request.public_inputs.amount;
    let expected = json!({
        "nullifier": request.public_inputs.nf, "signature": signature, "slot": all[0]["slot"],
        "final": false, "amount": amount, "fee": shield::fee(amount),
        "outputs": [{ "recipient": recipient(1, 0).to_string(), "amount": SOL }],
    });
    assert_eq!(all, [expected]);
    simulated.shutdown().await;
}

#[tokio::test]
async fn somebody_else_may_spend_a_request_first() {
    let config = SimConfig { slot_ms: 5, ..SimConfig::default() };
    let simulated = SimSolana::start(config).await.unwrap();
    let url = simulated.rpc_urls().remove(0);
    let request = request(&url, SOL).await;
    let spent = sim(&url, "spend", json!(request)).await;
    assert_eq!(until(&url, 1).await[0]["signature"], spent["signature"]);
    let (text, _) = signed(&simulated, &request).await;
    let tried = json!([text, { "encoding": "base64", "commitment": "processed" }]);
    let tried = ask(&url, "simulateTransaction", tried).await.unwrap();
    let expected = json!({ "InstructionError": [1, { "Custom": 0x1020 }] });
    assert_eq!(tried["value"]["err"], expected);
}

#[tokio::test]
async fn a_lost_answer_is_of_a_request_that_took_effect() {
    let config = SimConfig { slot_ms: 5, ..SimConfig::default() };
    let simulated = SimSolana::start(config).await.unwrap();
    let url = simulated.rpc_urls().remove(0);
    let request = request(&url, SOL).await;
    let (text, signature) = signed(&simulated, &request).await;
    sim(&url, "faults", json!({ "lose_answer": 1.0 })).await;
    ask(&url, SENDING, json!([text, options()])).await.unwrap_err();
    assert_eq!(until(&url, 1).await[0]["signature"], json!(signature));
    let refused = post(&format!("{url}/sim/faults"), &json!({ "fork": 2 })).await;
    assert!(refused.is_err(), "a probability");
}

#[tokio::test]
async fn what_leaders_drop_lands_nowhere_until_it_is_sent_again() {
    let config = SimConfig { slot_ms: 5, ..SimConfig::default() };
    let simulated = SimSolana::start(config).await.unwrap();
    let url = simulated.rpc_urls().remove(0);
    let request = request(&url, SOL).await;
    let (text, _) = signed(&simulated, &request).await;
    sim(&url, "faults", json!({ "drop": 1.0 })).await;
    ask(&url, SENDING, json!([text, options()])).await.unwrap();
    loop {
        let stats = reqwest::get(format!("{url}/sim/stats")).await.unwrap();
        let stats: Value = stats.json().await.unwrap();
        if stats["waiting"] == json!([0]) {
            break;
        }
    }
    assert!(spent(&url).await.is_empty());
    sim(&url, "faults", json!({ "drop": 0.0 })).await;
    ask(&url, SENDING, json!([text, options()])).await.unwrap();
    until(&url, 1).await;
}

#[tokio::test]
async fn a_state_file_brings_back_what_was_spent_and_a_fork_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let state = Some(folder.path().join("chain"));
    let config = SimConfig { slot_ms: 5, state, ..SimConfig::default() };
    let simulated = SimSolana::start(config.clone()).await.unwrap();
    let url = simulated.rpc_urls().remove(0);
    sim(&url, "faults", json!({ "skip": 0.3 })).await;
    let fallen = request(&url, SOL).await;
    sim(&url, "spend", json!(fallen)).await;
    until(&url, 1).await;
    sim(&url, "fork", json!({ "depth": 31, "drop": true })).await;
    sim(&url, "roots", json!({ "count": 3 })).await;
    for number in 1..=3 {
        sim(&url, "spend", json!(request(&url, number * SOL).await)).await;
    }
    let before = until_final(&url, 3).await;
    simulated.shutdown().await;
    let simulated = SimSolana::start(config.clone()).await.unwrap();
    let url = &simulated.rpc_urls()[0];
    assert_eq!(spent(url).await[..before.len()], before);
    let asked = json!([{ "commitment": "finalized" }]);
    assert!(ask(url, "getBlockHeight", asked).await.unwrap().as_u64().unwrap() > 0);
    simulated.shutdown().await;
    let others = SimConfig { payers: 2, ..config };
    assert!(SimSolana::start(others).await.is_err(), "a file of other payers");
}

/// Asks until so many are spent for ever.
async fn until_final(url: &str, count: usize) -> Vec<Value> {
    loop {
        let mut all = spent(url).await;
        all.retain(|one| one["final"] == json!(true));
        if all.len() >= count {
            return all;
        }
    }
}
