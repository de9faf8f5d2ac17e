//! A relay in front of relayers: one POST for each call, and what nobody knows is an operator's.

use landfall_core::Fate;
use landfall_core::attempt::{Landing, Outcome};
use landfall_rail_evm::Key;

use crate::relay::{Relay, sunk};
use crate::world::until;

/// Looks after which what can be found is found.
const LOOKS: u64 = 10;

fn user() -> Key {
    Key::parse("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_handed_over_and_succeeds_under_the_hash_that_landed() {
    let relay = Relay::new(1).await;
    relay.submit("one", relay.increment()).await;
    let settled = relay.settled("one").await;
    assert_eq!(settled.state.name(), "success", "{settled:?}");
    let done = relay.done().await;
    assert_eq!(done.len(), 1);
    assert_eq!(settled.tx_hash.as_deref(), done[0]["hash"].as_str());
    let trail = relay.engine.trail(settled.id).await.unwrap();
    // It may be final by the first look: then nobody has seen it mined before.
    let names = trail.iter().map(|entry| entry.event.name()).filter(|name| *name != "mined");
    assert_eq!(names.collect::<Vec<_>>(), ["pending", "submitted", "success"]);
    assert_eq!(relay.world.sim.posts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_never_come_cost_no_second_post() {
    let relay = Relay::new(2).await;
    relay.world.sim.set_faults(|faults| {
        faults.own.hang = 0.3;
        faults.lose_answer = 0.2;
    });
    for number in 0..40 {
        relay.submit(&number.to_string(), relay.increment()).await;
    }
    for number in 0..40 {
        assert_eq!(relay.settled(&number.to_string()).await.state.name(), "success");
    }
    assert_eq!(relay.done().await.len(), 40);
    assert_eq!((relay.world.sim.posts(), relay.world.sim.taken()), (40, 40));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_twice_is_adrift_until_an_operator_decides() {
    let relay = Relay::new(1).await;
    relay.world.sim.set_faults(|faults| {
        faults.own.hang = 1.0;
        faults.own.duplicate = 1.0;
    });
    relay.submit("one", relay.increment()).await;
    let attempt = relay.adrift("one", LOOKS).await;
    assert_eq!(relay.find("one").await.tx_hash, None, "no hash of the chain is known");
    let landing = Landing {
        hash: None,
        block_height: 0,
        block_hash: String::new(),
        outcomes: vec![Outcome::Done],
    };
    relay.decide(&attempt, Fate::Landed(landing)).await;
    assert_eq!(relay.settled("one").await.state.name(), "success");
    assert_eq!((relay.world.sim.posts(), relay.world.sim.taken()), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_arrived_is_adrift_and_handed_over_anew_by_an_operator_s_word_alone() {
    let relay = Relay::new(1).await;
    relay.world.sim.set_faults(|faults| faults.own.lose_post = 1.0);
    relay.submit("one", relay.increment()).await;
    let attempt = relay.adrift("one", LOOKS).await;
    assert_eq!((relay.world.sim.posts(), relay.world.sim.taken()), (1, 0));
    relay.world.sim.set_faults(|faults| faults.own.lose_post = 0.0);
    relay.decide(&attempt, sunk()).await;
    assert_eq!(relay.settled("one").await.state.name(), "success");
    assert_eq!((relay.world.sim.posts(), relay.world.sim.taken()), (2, 1));
    assert_eq!(relay.done().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_relayer_calls_failed_expired_or_canceled_is_looked_for_on_the_chain() {
    let relay = Relay::new(1).await;
    relay.world.sim.set_faults(|faults| faults.own.ends_falsely = 1.0);
    for number in 0..5 {
        relay.submit(&number.to_string(), relay.increment()).await;
    }
    for number in 0..5 {
        assert_eq!(relay.settled(&number.to_string()).await.state.name(), "success");
    }
    assert_eq!((relay.done().await.len(), relay.world.sim.posts()), (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_relayer_gave_up_unsigned_is_not_failed() {
    let relay = Relay::new(1).await;
    relay.world.sim.set_faults(|faults| faults.own.never_sent = 1.0);
    relay.submit("one", relay.increment()).await;
    let attempt = relay.adrift("one", LOOKS).await;
    relay.world.sim.set_faults(|faults| faults.own.never_sent = 0.0);
    assert_eq!(relay.world.sim.posts(), 1);
    relay.decide(&attempt, sunk()).await;
    assert_eq!(relay.settled("one").await.state.name(), "success");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_what_was_handed_over_is_found_and_not_posted_again() {
    let mut relay = Relay::new(1).await;
    relay.world.sim.set_faults(|faults| faults.own.hang = 1.0);
    for number in 0..5 {
        relay.submit(&number.to_string(), relay.increment()).await;
    }
    until(async || (relay.world.sim.taken() == 5).then_some(())).await;
    relay.crash().await;
    for number in 0..5 {
        assert_eq!(relay.settled(&number.to_string()).await.state.name(), "success");
    }
    assert_eq!((relay.world.sim.posts(), relay.done().await.len()), (5, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_relayer_refuses_goes_to_another() {
    let relay = Relay::new(2).await;
    relay.world.sim.set_faults_of(0, |faults| faults.down = true);
    for number in 0..6 {
        relay.submit(&number.to_string(), relay.increment()).await;
    }
    for number in 0..6 {
        assert_eq!(relay.settled(&number.to_string()).await.state.name(), "success");
    }
    assert_eq!(relay.done().await.len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_would_revert_is_refused_before_it_is_handed_over() {
    let relay = Relay::new(1).await;
    let mut call = relay.increment();
    if let landfall_core::evm::Work::Direct(direct) = &mut call.work {
        direct.data.0 = vec![0xde, 0xad, 0xbe, 0xef];
    }
    relay.submit("bad", call).await;
    assert_eq!(relay.settled("bad").await.state.name(), "failed");
    assert_eq!(relay.world.sim.posts(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_s_request_is_told_by_the_forwarder_though_the_relayer_never_answers() {
    let relay = Relay::new(1).await;
    // Taken twice, so that nothing can be adopted: the second reverts, and does nothing.
    relay.world.sim.set_faults(|faults| {
        faults.own.hang = 1.0;
        faults.own.duplicate = 1.0;
    });
    relay.submit("user", relay.by_user(&user(), 0)).await;
    let settled = relay.settled("user").await;
    assert_eq!(settled.state.name(), "success");
    let done = relay.done().await;
    assert_eq!(done.len(), 1);
    assert_eq!(settled.tx_hash.as_deref(), done[0]["hash"].as_str());
    assert_eq!(relay.world.sim.posts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_s_request_that_another_submits_succeeds_under_that_one_s_hash() {
    let relay = Relay::new(1).await;
    // Ours never arrives; the user sends the same request by somebody else.
    relay.world.sim.set_faults(|faults| faults.own.lose_post = 1.0);
    let call = relay.by_user(&user(), 0);
    relay.submit("user", call.clone()).await;
    relay.adrift("user", LOOKS).await;
    let hash = relay.submit_by_another(&call).await;
    let settled = relay.settled("user").await;
    assert_eq!((settled.state.name(), settled.tx_hash), ("success", Some(hash)));
    assert_eq!((relay.world.sim.posts(), relay.world.sim.taken()), (1, 0));
}
