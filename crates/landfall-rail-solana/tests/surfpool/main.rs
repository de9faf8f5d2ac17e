//! Withdraws as we build them, on Solana's own virtual machine with a stand-in for the pool; what
//! the simulator says of the same withdraw; and whole relays on both.

mod chain;
mod relay;
mod simulated;
mod withdraws;

use chain::{Chain, SOL, recipient, shape};
use landfall_rail_solana::encode::{self, Spend};
use landfall_rail_solana::refusal::{self, Meaning};
use landfall_rail_solana::shield::{self, Accounts, PROGRAM};
use landfall_rail_solana::trouble::{self, Trouble};
use landfall_sim_solana::{SimConfig, SimSolana};
use serde_json::{Value, json};

#[tokio::test]
async fn a_withdraw_pays_one_output_or_five_and_leaves_its_nullifier() {
    let chain = Chain::surfpool().await;
    for (number, outputs) in [(1, 1), (2, 5)] {
        let withdraw = chain.withdraw(number, outputs);
        let before = chain.lamports(&Accounts::of(&PROGRAM).pool).await;
        let (text, signature) = chain.signed(&withdraw).await;
        assert_eq!(chain.tried(&text).await["err"], Value::Null);
        assert_eq!(chain.send(&text).await, Ok(signature.clone()));
        assert_eq!(chain.landed(&signature).await, Value::Null);
        for output in &withdraw.outputs {
            assert_eq!(chain.lamports(&output.recipient).await, output.amount);
        }
        let after = chain.lamports(&Accounts::of(&PROGRAM).pool).await;
        assert_eq!(before - after, withdraw.amount);
        let shard = chain.data(&Accounts::of(&PROGRAM).nullifier_shard).await;
        assert_eq!(shield::is_spent(&shard, &withdraw.nullifier), Some(true));
        assert_eq!(shield::is_spent(&shard, &[99; 32]), Some(false));
    }
    let ring = chain.data(&Accounts::of(&PROGRAM).roots_ring).await;
    assert_eq!(shield::knows_root(&ring, &chain::ROOT), Some(true));
}

#[tokio::test]
async fn a_nullifier_that_is_spent_is_refused_and_who_spent_it_is_found() {
    let chain = Chain::surfpool().await;
    let first = chain.withdraw(1, 2);
    let (text, spender) = chain.signed(&first).await;
    chain.send(&text).await.unwrap();
    assert_eq!(chain.landed(&spender).await, Value::Null);
    let again = shield::Withdraw { nullifier: first.nullifier, ..chain.withdraw(2, 1) };
    let (text, signature) = chain.signed(&again).await;
    let tried = chain.tried(&text).await;
    assert_eq!(trouble::read(&tried["err"]), Some(Trouble::Spent));
    chain.send(&text).await.unwrap();
    assert_eq!(trouble::read(&chain.landed(&signature).await), Some(Trouble::Spent));
    assert_eq!(chain.lamports(&recipient(2, 0)).await, 0);
    let shard = Accounts::of(&PROGRAM).nullifier_shard.to_string();
    let written = chain.get("getSignaturesForAddress", json!([shard])).await;
    let written = written.as_array().unwrap().iter().filter(|one| one["err"].is_null());
    let written: Vec<&str> = written.filter_map(|one| one["signature"].as_str()).collect();
    assert_eq!(written, [spender.as_str()]);
    let bytes = chain.bytes(&spender).await;
    let shield::Withdraw { nullifier, amount, outputs, .. } = first.clone();
    let spent = encode::spends(&bytes, &PROGRAM).unwrap();
    assert!(first.pays_as(&spent[0].outputs) && !again.pays_as(&spent[0].outputs));
    assert_eq!(spent, [Spend { nullifier, amount, outputs }]);
}

#[tokio::test]
async fn what_was_sent_and_landed_is_known_and_lands_no_second_time() {
    let chain = Chain::surfpool().await;
    let withdraw = chain.withdraw(1, 1);
    let (text, signature) = chain.signed(&withdraw).await;
    chain.send(&text).await.unwrap();
    chain.landed(&signature).await;
    let error = chain.send(&text).await.unwrap_err();
    let code = error["code"].as_i64().unwrap();
    let said = refusal::meaning(code, error["message"].as_str().unwrap(), &error["data"]);
    assert_eq!(said, Meaning::Known);
    assert_eq!(chain.lamports(&recipient(1, 0)).await, SOL);
}

#[tokio::test]
async fn a_root_that_the_pool_does_not_know_is_told_apart() {
    let chain = Chain::surfpool().await;
    let unknown = shield::Withdraw { root: [9; 32], ..chain.withdraw(1, 1) };
    let (text, _) = chain.signed(&unknown).await;
    assert_eq!(trouble::read(&chain.tried(&text).await["err"]), Some(Trouble::Root));
}

/// Fields and kinds; the same withdraw, made in the same way.
#[tokio::test]
async fn the_simulator_shows_a_withdraw_as_the_real_machine_does() {
    let config = SimConfig { slot_ms: 20, ..SimConfig::default() };
    let simulated = SimSolana::start(config).await.unwrap();
    let chains = [Chain::surfpool().await, Chain::simulated(&simulated).await];
    let mut shown = Vec::new();
    for chain in &chains {
        let withdraw = chain.withdraw(1, 3);
        let (text, signature) = chain.signed(&withdraw).await;
        let mut tried = chain.tried(&text).await;
        chain.send(&text).await.unwrap();
        chain.landed(&signature).await;
        let statuses = chain.get("getSignatureStatuses", json!([[signature]])).await;
        let options = json!({
            "encoding": "json", "commitment": "confirmed", "maxSupportedTransactionVersion": 0,
        });
        let mut transaction = chain.get("getTransaction", json!([signature, options])).await;
        let again = shield::Withdraw { root: chain.root, ..chain.withdraw(1, 2) };
        let (text, _) = chain.signed(&again).await;
        let mut refused = chain.tried(&text).await;
        let codes = refused["err"].clone();
        for one in [&mut tried, &mut refused, &mut transaction["meta"]] {
            let fields = one.as_object_mut().unwrap();
            fields.remove("returnData");
            fields.remove("loadedAccountsDataSize");
        }
        let keys =
            transaction["transaction"]["message"]["accountKeys"].as_array().unwrap()[1..].to_vec();
        let instructions =
            transaction["transaction"]["message"]["instructions"][2]["accounts"].clone();
        shown.push((
            shape(&tried),
            shape(&statuses),
            shape(&transaction),
            shape(&refused),
            (codes, keys, instructions),
        ));
    }
    assert_eq!(shown[0], shown[1]);
}
