//! Keys: all under the environment's tag, none that expires; numbers beyond what Lua counts.

use landfall_conformance::World;
use landfall_core::store::{OpenAttempt, Opened};
use landfall_core::{ClaimEnd, ClaimKey, Event, LaneId, Mark, Move, Nonce};
use landfall_store_redis::RedisOptions;
use redis::AsyncCommands;

use crate::{operator, server, world};

/// One of everything that the store keeps.
async fn fill(world: &World) {
    let held = world.started("near:testnet:relay.near:ed25519:abc").await;
    let claim = ClaimKey { space: "registered:testnet".into(), key: "alice.near".into() };
    let owner = world.accept(world.fresh("owner")).await;
    let waiter = world.accept(world.fresh("waiter")).await;
    let asked = vec![(claim.clone(), owner.id), (claim, waiter.id)];
    world.store.claim(asked).await.expect("claim");
    let mark = ClaimKey { space: "registered:testnet".into(), key: "bob.near".into() };
    let kept = Move::of(&waiter, world.now_ms()).ending(ClaimEnd::Keep(mark));
    world.apply(kept).await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a", "b"]).await).await;
    world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
    world.open(&held, 1, &world.accept_ready(&["c"]).await).await;
}

#[tokio::test]
async fn every_key_is_under_the_environments_tag_and_none_expires() {
    let server = server();
    let options = RedisOptions { prefix: "relay".into(), ..RedisOptions::new(server.url()) };
    let world = world(options).await;
    fill(&world).await;
    let mut operator = operator(&server).await;
    let keys: Vec<String> = operator.keys("*").await.expect("keys");
    assert!(keys.len() > 20, "{keys:?}");
    for key in keys {
        assert!(key.starts_with("{relay:main}:"), "{key}");
        let left: i64 = operator.ttl(&key).await.expect("ttl");
        assert_eq!(left, -1, "{key} expires");
    }
}

/// Beyond 2^53 two nonces are one and the same Lua number.
#[tokio::test]
async fn nonces_beyond_what_lua_counts_stay_apart() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let held = world.lease(&LaneId::new("lane"), "one").await;
    let base = Nonce(u64::MAX - 10);
    assert_eq!(world.store.start_lane(&held.lane, held.epoch, base).await, Ok(true));
    let at = |nonce: u64, marks: Vec<(LaneId, Mark)>| OpenAttempt {
        nonce: Nonce(nonce),
        marks,
        ..world.opening(&held, 0, &[])
    };
    for nonce in base.0 + 1..base.0 + 4 {
        let twice = [at(nonce, vec![]), at(nonce, vec![])];
        let [first, second] = twice.map(|open| world.store.open_attempt(open));
        assert!(matches!(first.await, Ok(Opened::Stored(_))));
        assert_eq!(second.await, Ok(Opened::StaleNonce));
    }
    let last = Nonce(base.0 + 3);
    let stored = world.store.attempt_at(&held.lane, last).await.expect("read").expect("stored");
    let after = world.store.attempts_after(&held.lane, Nonce(last.0 - 1), 9).await;
    assert_eq!((stored.nonce, after), (last, Ok(vec![stored.clone()])));
    let behind = at(last.0 + 1, vec![(held.lane.clone(), Nonce(last.0 + 1).into())]);
    let behind = world.store.open_attempt(behind).await;
    assert!(matches!(behind, Ok(Opened::Behind(_))), "{behind:?}");
    let known = at(last.0 + 1, vec![(held.lane.clone(), last.into())]);
    assert!(matches!(world.store.open_attempt(known).await, Ok(Opened::Stored(_))));
}

#[tokio::test]
async fn a_lane_whose_name_looks_like_anothers_key_is_a_lane_of_its_own() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    for name in ["lane", "lane:open", "open:lane", "x:events", "lane-open:lane"] {
        let held = world.started(name).await;
        world.open(&held, 0, &[]).await;
        assert_eq!(world.store.open_attempts(&held.lane).await.expect("read").len(), 1);
    }
    assert_eq!(world.store.lanes().await.expect("lanes").len(), 5);
}

#[tokio::test]
async fn an_aside_without_a_reason_is_still_an_aside() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let transfer = world.accept(world.fresh("k")).await;
    let mut step = Move::of(&transfer, world.now_ms());
    step.aside = Some(String::new());
    step.due_ms = Some(u64::MAX);
    let expected = step.applied_to(&transfer);
    world.apply(step).await;
    assert_eq!(world.get(transfer.id).await, expected);
}

/// The indexes of a batch are written together: a transfer that moves twice in one is in one place.
#[tokio::test]
async fn a_transfer_that_moves_twice_in_a_batch_is_indexed_where_it_ends() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    let transfer = world.accept(world.fresh("k")).await;
    let now_ms = world.now_ms();
    let first = Move::of(&transfer, now_ms).fire(Event::Prepared).expect("legal");
    let between = first.applied_to(&transfer);
    let second = Move::of(&between, now_ms).fire(Event::Enqueued).expect("legal");
    let after = second.applied_to(&between);
    let due = second.due_ms;
    world.store.apply(vec![first, second]).await.expect("apply");
    assert_eq!(world.store.counts().await, Ok(vec![(after.state, 1)]));
    let mut operator = operator(&server).await;
    let keys: Vec<String> = operator.keys("{landfall:main}:[ds]*:near:*").await.expect("keys");
    assert!(due.is_some() && keys.len() == 2, "{keys:?}");
    assert!(keys.iter().all(|key| key.ends_with(after.state.name())), "{keys:?}");
}
