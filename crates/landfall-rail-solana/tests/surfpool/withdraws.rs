//! A relay on Solana's own virtual machine.

use std::sync::atomic::Ordering;

use landfall_core::Transfer;
use landfall_core::store::Accepted;
use landfall_rail_solana::shield::{self, Withdraw};
use serde_json::Value;

use crate::chain::{Chain, payer, recipient};
use crate::relay::{Relay, frozen};

async fn relay_on(chain: &Chain) -> Relay {
    Relay::start(std::slice::from_ref(&chain.url), vec![payer()]).await
}

/// Somebody else's transaction, landed.
async fn spend_elsewhere(chain: &Chain, withdraw: &Withdraw) -> String {
    let (text, signature) = chain.signed(withdraw).await;
    chain.send(&text).await.unwrap();
    assert_eq!(chain.landed(&signature).await, Value::Null);
    signature
}

fn error_of(transfer: &Transfer) -> &str {
    transfer.error.as_ref().map_or("", |error| &error.message)
}

#[tokio::test]
async fn withdraws_with_one_output_and_with_five_complete() {
    let chain = Chain::surfpool().await;
    let relay = relay_on(&chain).await;
    for (number, outputs) in [(1, 1), (2, 5)] {
        let withdraw = chain.withdraw(number, outputs);
        let key = format!("w{number}");
        relay.submit(&key, frozen(&withdraw)).await;
        let done = relay.settled(&key).await;
        assert_eq!(done.state.name(), "completed", "{}", error_of(&done));
        for output in &withdraw.outputs {
            assert_eq!(chain.lamports(&output.recipient).await, output.amount);
        }
        let signature = done.tx_hash.unwrap();
        assert_eq!(chain.landed(&signature).await, Value::Null);
        assert_eq!(
            relay.trail(&key).await,
            ["queued", "processing", "confirmed", "completed"],
            "confirmed is shown on the way"
        );
    }
}

#[tokio::test]
async fn a_nullifier_in_use_is_refused_at_the_door() {
    let chain = Chain::surfpool().await;
    let relay = relay_on(&chain).await;
    let first = chain.withdraw(1, 1);
    let Accepted::Created(first_one) = relay.submit("first", frozen(&first)).await else {
        panic!("it is new");
    };
    let other = Withdraw { nullifier: first.nullifier, ..chain.withdraw(2, 1) };
    for _ in 0..2 {
        match relay.submit("second", frozen(&other)).await {
            Accepted::Claimed { owner, .. } => assert_eq!(owner, Some(first_one.id)),
            other => panic!("{other:?}"),
        }
        relay.settled("first").await;
    }
    assert_eq!(chain.lamports(&recipient(2, 0)).await, 0);
}

#[tokio::test]
async fn what_another_spent_for_the_same_outputs_is_completed_by_it() {
    let chain = Chain::surfpool().await;
    let relay = relay_on(&chain).await;
    let withdraw = chain.withdraw(1, 2);
    let spender = spend_elsewhere(&chain, &withdraw).await;
    relay.submit("w", frozen(&withdraw)).await;
    let done = relay.settled("w").await;
    assert_eq!(done.state.name(), "completed", "{}", error_of(&done));
    assert_eq!(done.tx_hash, Some(spender));
    for output in &withdraw.outputs {
        assert_eq!(chain.lamports(&output.recipient).await, output.amount, "once");
    }
}

#[tokio::test]
async fn what_another_spent_for_other_outputs_fails_and_its_nullifier_stays_taken() {
    let chain = Chain::surfpool().await;
    let relay = relay_on(&chain).await;
    let withdraw = chain.withdraw(1, 1);
    let other = Withdraw { nullifier: withdraw.nullifier, ..chain.withdraw(2, 1) };
    let spender = spend_elsewhere(&chain, &other).await;
    relay.submit("w", frozen(&withdraw)).await;
    let failed = relay.settled("w").await;
    assert_eq!(failed.state.name(), "failed");
    assert!(error_of(&failed).contains(&spender), "{}", error_of(&failed));
    assert_eq!(chain.lamports(&recipient(1, 0)).await, 0);
    let again = relay.submit("again", frozen(&withdraw)).await;
    assert!(matches!(again, Accepted::Claimed { .. }), "{again:?}");
}

#[tokio::test]
async fn what_expired_unseen_is_signed_anew_once_and_paid_once() {
    let chain = Chain::surfpool().await;
    let relay = relay_on(&chain).await;
    relay.wire.loses.store(true, Ordering::Relaxed);
    let withdraw = chain.withdraw(1, 1);
    relay.submit("w", frozen(&withdraw)).await;
    let first = relay.in_state("w", "processing").await.tx_hash.unwrap();
    // It is back in its queue only once its first transaction is proven dead.
    loop {
        let trail = relay.trail("w").await;
        if trail.contains(&"SUNK") {
            break;
        }
        assert_eq!(relay.in_state("w", "processing").await.tx_hash.as_ref(), Some(&first));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    relay.wire.loses.store(false, Ordering::Relaxed);
    let done = relay.settled("w").await;
    assert_eq!(done.state.name(), "completed", "{}", error_of(&done));
    assert_ne!(done.tx_hash.as_ref(), Some(&first));
    assert_eq!(chain.lamports(&recipient(1, 0)).await, withdraw.outputs[0].amount);
    assert_eq!(done.retry_count, 0, "charged to nobody");
    let shard = shield::Accounts::of(&shield::PROGRAM).nullifier_shard;
    assert_eq!(shield::is_spent(&chain.data(&shard).await, &withdraw.nullifier), Some(true));
}
