//! Calls from their acceptance to their end.

use landfall_core::evm::{DirectFields, Work};
use landfall_core::store::{Accepted, Store};
use landfall_rail_evm::{Finality, Key};
use serde_json::json;

use crate::relay::{INCREMENT, Shape};
use crate::world::{World, fault};

const ALICE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

#[tokio::test(flavor = "multi_thread")]
async fn value_and_calls_land_once_and_are_shown_mined_before_they_are_final() {
    let world = World::new(Shape::default()).await;
    let pays = DirectFields { to: ALICE, value: Some("12345"), ..Default::default() };
    world.submit("pay", world.direct(pays)).await;
    world.submit("count", world.increment()).await;
    world.in_state("pay", "mined").await;
    for key in ["pay", "count"] {
        let settled = world.settled(key).await;
        assert_eq!(settled.state.name(), "success", "{settled:?}");
    }
    let trail = world.store.trail(world.settled("pay").await.id).await.unwrap();
    let names: Vec<_> = trail.iter().map(|entry| entry.event.name()).collect();
    assert_eq!(names, ["pending", "submitted", "mined", "success"]);
    assert_eq!(world.done().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_calls_in_windows_are_tried_and_sent_once_each_and_never_asked_after_one_by_one()
{
    let world = World::new(Shape { finality: Finality::Blocks(1), ..Shape::default() }).await;
    for number in 0..100 {
        world.submit(&format!("{number}"), world.increment()).await;
    }
    for number in 0..100 {
        assert_eq!(world.settled(&number.to_string()).await.state.name(), "success");
    }
    assert_eq!(world.done().await.len(), 100);
    let each = ["eth_estimateGas", "eth_getTransactionReceipt", "eth_getTransactionByHash"];
    let mut asked = Vec::new();
    for method in each {
        asked.push(world.asked(method).await);
    }
    assert_eq!(asked, [100, 0, 0]);
    // What a node has is sent again only when it is in no block for long.
    let sent = world.asked("eth_sendRawTransaction").await;
    assert!((100..150).contains(&sent), "{sent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_would_revert_fails_before_anything_is_signed() {
    let world = World::new(Shape::default()).await;
    let counter = landfall_sim_evm::ledger::natives::COUNTER.to_string();
    let fields = DirectFields { to: &counter, data: Some("0xdeadbeef"), ..Default::default() };
    world.submit("bad", world.direct(fields)).await;
    let settled = world.settled("bad").await;
    assert_eq!(settled.state.name(), "failed");
    let error = settled.error.unwrap();
    assert!(error.message.contains("would not succeed"), "{error:?}");
    assert_eq!((settled.tx_hash, world.done().await.len()), (None, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_owns_nothing_calls_through_the_forwarder_and_its_nonce_is_taken_once() {
    let world = World::new(Shape::default()).await;
    let user = Key::parse(&"11".repeat(32)).unwrap();
    let call = world.by_user(&user, 0);
    assert!(matches!(world.submit("first", call.clone()).await, Accepted::Created(_)));
    let again = world.submit("second", call.clone()).await;
    assert!(matches!(again, Accepted::Claimed { owner: Some(_), .. }), "{again:?}");
    assert_eq!(world.settled("first").await.state.name(), "success");
    let late = world.submit("third", call).await;
    assert!(matches!(late, Accepted::Claimed { owner: Some(_), .. }), "kept for ever: {late:?}");
    world.submit("next", world.by_user(&user, 1)).await;
    assert_eq!(world.settled("next").await.state.name(), "success");
    assert_eq!(world.done().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_proven_unmoved_gives_its_nonce_back() {
    let world = World::new(Shape::default()).await;
    let user = Key::parse(&"11".repeat(32)).unwrap();
    world.submit("early", world.by_user(&user, 1)).await;
    assert_eq!(world.settled("early").await.state.name(), "failed", "its nonce is not its turn");
    let again = world.submit("again", world.by_user(&user, 1)).await;
    assert!(matches!(again, Accepted::Created(_)), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_somebody_else_has_executed_is_not_called_failed() {
    let world = World::new(Shape::default()).await;
    let user = Key::parse(&"11".repeat(32)).unwrap();
    let call = world.by_user(&user, 0);
    let Work::Gasless(request) = &call.work else { panic!("a request") };
    let (asked, signature) = landfall_rail_evm::rail::forward_request(request);
    let input = landfall_rail_evm::forward::execution(&asked, &signature).to_string();
    let forwarder = request.forwarder.to_string();
    let fields = DirectFields { to: &forwarder, data: Some(&input), ..Default::default() };
    world.submit("by another", world.direct(fields)).await;
    assert_eq!(world.settled("by another").await.state.name(), "success");
    world.submit("late", call).await;
    let late = world.set_aside("late").await;
    assert_eq!(late.state.name(), "pending");
    assert!(late.aside.is_some_and(|why| why.contains("is used")));
}

/// It can be executed when it is tried and signed, and cannot any more when it is mined.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_reverts_in_a_block_is_failed_once_nothing_can_execute_it() {
    let world = World::new(Shape::default()).await;
    let user = Key::parse(&"11".repeat(32)).unwrap();
    world.faults(fault("drop", 1.0)).await;
    let deadline = world.now().await + 4;
    world.submit("late", world.by_user_until(deadline, &user, 0)).await;
    world.in_state("late", "submitted").await;
    while world.now().await <= deadline {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    world.faults(fault("drop", 0.0)).await;
    let settled = world.settled("late").await;
    assert_eq!(settled.state.name(), "failed", "{settled:?}");
    assert_eq!((world.reverted().await.len(), world.done().await.len()), (1, 0));
    let again = world.submit("again", world.by_user(&user, 0)).await;
    assert!(matches!(again, Accepted::Created(_)), "its nonce is given back: {again:?}");
    assert_eq!(world.settled("again").await.state.name(), "success");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_lost_requests_and_dropped_transactions_pay_nothing_twice() {
    let world = World::of(3, Shape::default()).await;
    let faults = json!({"lose_answer": 0.1, "lose_request": 0.1, "drop": 0.05, "reorder": 0.2});
    world.faults(faults).await;
    for number in 0..60 {
        world.submit(&number.to_string(), world.increment()).await;
    }
    for number in 0..60 {
        assert_eq!(world.settled(&number.to_string()).await.state.name(), "success");
    }
    assert_eq!(world.done().await.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_falls_off_the_chain_lands_again_once() {
    let world = World::new(Shape::default()).await;
    world.submit("call", world.increment()).await;
    world.in_state("call", "mined").await;
    world.tell("reorg", json!({"depth": 3, "drop": true})).await;
    let settled = world.settled("call").await;
    assert_eq!(settled.state.name(), "success");
    assert_eq!(world.done().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stuck_by_its_fee_is_replaced_under_its_nonce() {
    let world = World::new(Shape { replace_after_ms: 300, ..Shape::default() }).await;
    world.submit("first", world.increment()).await;
    world.settled("first").await;
    world.tell("spike", json!({"base_fee": 40_000_000_000_u64})).await;
    world.submit("stuck", world.increment()).await;
    let settled = world.settled("stuck").await;
    assert_eq!(settled.state.name(), "success");
    assert_eq!(world.done().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn reorganisations_at_every_turn_pay_nothing_twice() {
    let world = World::of(3, Shape::default()).await;
    world.faults(fault("reorg", 0.1)).await;
    for number in 0..40 {
        world.submit(&number.to_string(), world.increment()).await;
    }
    for number in 0..40 {
        assert_eq!(world.settled(&number.to_string()).await.state.name(), "success");
    }
    world.faults(fault("reorg", 0.0)).await;
    let done = world.done().await;
    assert_eq!(done.len(), 40);
    assert!(done.iter().all(|one| one["input"] == INCREMENT));
}
