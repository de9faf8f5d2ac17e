//! Poison, shortage and emptiness: nobody is paid twice, nobody fails for lack of funds.

use landfall_sim_near::ledger::Decree;
use landfall_sim_near::server::RELAY;
use landfall_torture::near::{World, WorldConfig};

const MINUTE_MS: u64 = 60_000;

fn register(world: &World, accounts: impl Iterator<Item = String>) {
    let account_ids = accounts.map(|account| account.parse().unwrap()).collect();
    world.decree(Decree::Register { account_ids });
}

/// A hundred in one batch; two of them unregistered behind the relay's back, one larger than its
/// balance.
#[tokio::test(start_paused = true)]
async fn three_poison_members_of_a_hundred_hurt_nobody_else() {
    let config = WorldConfig { keys: 1, relay_tokens: 100_000, ..WorldConfig::default() };
    let world = World::start(config).await;
    let receiver = |n: usize| format!("r{n}.near");
    register(&world, (0..100).map(receiver));
    world.run_ms(3_000).await;
    // Everybody is paid once, so that the relay knows them as registered.
    let warm: Vec<String> = (0..100).map(|n| format!("warm{n}")).collect();
    for (n, key) in warm.iter().enumerate() {
        world.pay(key, &receiver(n), 1).await;
    }
    world.run_until_final(&warm, 5 * MINUTE_MS).await;
    for n in [13, 77] {
        world.decree(Decree::Unregister { account_id: receiver(n).parse().unwrap() });
    }
    world.run_ms(3_000).await;
    let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        let amount = if n == 42 { 1_000_000 } else { 10 };
        world.pay(key, &receiver(n), amount).await;
    }
    world.run_ms(3 * MINUTE_MS).await;
    for (n, key) in keys.iter().enumerate() {
        let (state, paid) = if n == 42 { ("QUEUED_TRANSFER", 0) } else { ("COMPLETED", 1) };
        assert_eq!((world.state(key).await, world.times_paid(key)), (state, paid), "{key}");
    }
    let status = world.engine.status().await;
    assert!(status.alerts.iter().any(|alert| alert.kind == "tokens_short"), "{status:?}");
    assert!(world.find("k42").await.aside.is_some());

    world.decree(Decree::Mint { account_id: RELAY.parse().unwrap(), amount: 2_000_000 });
    world.run_until_final(&["k42".into()], 2 * MINUTE_MS).await;
    assert_eq!((world.state("k42").await, world.times_paid("k42")), ("COMPLETED", 1));
    assert!(world.engine.status().await.alerts.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_empty_relay_account_fails_nobody() {
    let world = World::start(WorldConfig { relay_tokens: 0, ..WorldConfig::default() }).await;
    register(&world, ["alice.near".to_owned()].into_iter());
    world.decree(Decree::SetNear { account_id: RELAY.parse().unwrap(), amount: 0 });
    world.run_ms(3_000).await;
    let keys: Vec<String> = (0..10).map(|n| format!("k{n}")).collect();
    for key in &keys {
        world.pay(key, "alice.near", 5).await;
    }
    world.run_ms(10 * MINUTE_MS).await;
    let status = world.engine.status().await;
    assert!(status.rails[0].paused.is_some(), "{status:?}");
    for key in &keys {
        assert!(!world.find(key).await.state.is_final());
    }
    let near = 1_000 * 10u128.pow(24);
    world.decree(Decree::Fund { account_id: RELAY.parse().unwrap(), amount: near });
    world.run_ms(2 * MINUTE_MS).await;
    assert!(world.engine.status().await.rails[0].paused.is_some(), "still no tokens");
    world.decree(Decree::Mint { account_id: RELAY.parse().unwrap(), amount: 1_000 });
    world.run_until_final(&keys, 5 * MINUTE_MS).await;
    for key in &keys {
        assert_eq!((world.state(key).await, world.times_paid(key)), ("COMPLETED", 1), "{key}");
    }
    assert!(world.engine.status().await.rails[0].paused.is_none());
}
