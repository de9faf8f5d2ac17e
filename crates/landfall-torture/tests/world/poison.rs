//! Members that fail as if the relay were at fault, and faults that meet everybody.

use landfall_core::store::Store;
use landfall_core::{Attempt, AttemptId, Fate, Outcome, RailName};
use landfall_sim_near::ledger::{Decree, Poison};
use landfall_torture::near::{World, WorldConfig};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Attempts in an hour for a member that always fails: one in company, one alone at once, then
/// after 5 s, doubling up to five minutes. Six of them double, ten follow.
const IN_AN_HOUR: usize = 20;
/// Attempts until a member is given up: ten are charged, and one or two follow each payment of
/// others before the next can tell.
const UNTIL_GIVEN_UP: usize = 30;
/// Attempts in half an hour in which everybody fails: until three receivers are named, on two
/// lanes, then after 2 s, doubling up to a minute. Five of them double, thirty follow.
const IN_HALF_AN_HOUR: usize = 45;

/// A world in which these and ten healthy receivers, `r0.near` and so on, are registered.
async fn world(others: &[&str]) -> World {
    let world = World::start(WorldConfig::default()).await;
    let healthy = (0..10).map(|n| format!("r{n}.near"));
    let all = healthy.chain(others.iter().map(|other| other.to_string()));
    let account_ids = all.map(|account| account.parse().unwrap()).collect();
    world.decree(Decree::Register { account_ids });
    world.run_ms(3_000).await;
    world
}

fn poison(world: &World, receiver: Option<&str>, poison: Option<Poison>) {
    let receiver = receiver.map(|receiver| receiver.parse().unwrap());
    world.decree(Decree::Poison { receiver, poison });
}

fn panics(words: &str) -> Option<Poison> {
    Some(Poison::Panics(words.to_owned()))
}

async fn reverted(world: &World) -> Vec<Attempt> {
    let attempts = world.store.attempts_page(RailName::Near, AttemptId(0), 10_000).await.unwrap();
    let reverted = |attempt: &Attempt| match &attempt.fate {
        Some(Fate::Landed(landing)) => landing.outcomes.iter().any(|one| *one != Outcome::Done),
        _ => false,
    };
    attempts.into_iter().filter(reverted).collect()
}

async fn alert(world: &World, kind: &str) -> Option<String> {
    let alerts = world.engine.status().await.alerts;
    alerts.into_iter().find(|alert| alert.kind == kind).map(|alert| alert.message)
}

async fn pay_healthy(world: &World, round: usize) -> Vec<String> {
    let keys: Vec<String> = (0..10).map(|n| format!("k{round}-{n}")).collect();
    for (n, key) in keys.iter().enumerate() {
        world.pay(key, &format!("r{n}.near"), 1).await;
    }
    keys
}

async fn check_paid(world: &World, keys: &[String]) {
    for key in keys {
        assert_eq!((world.state(key).await, world.times_paid(key)), ("COMPLETED", 1), "{key}");
    }
}

/// One bad receiver among healthy ones: they are paid at once, the bad one is tried ever more
/// rarely and never fails, an alert names it, and once it is well it is paid as well.
async fn check_follows_one(receiver: &str, how: Option<Poison>) {
    let world = world(&[receiver]).await;
    poison(&world, Some(receiver), how);
    world.run_ms(3_000).await;
    world.pay("bad", receiver, 1).await;
    let keys = pay_healthy(&world, 0).await;
    world.run_until_final(&keys, 15_000).await;
    check_paid(&world, &keys).await;
    for round in 1..60 {
        let keys = pay_healthy(&world, round).await;
        world.run_until_final(&keys, 10_000).await;
        check_paid(&world, &keys).await;
        assert_eq!(world.engine.status().await.rails[0].paused, None);
        world.run_ms(HOUR_MS / 60 - 10_000).await;
    }
    let reverted = reverted(&world).await;
    assert!(reverted.len() <= IN_AN_HOUR, "{} reverted", reverted.len());
    let in_company = reverted.iter().filter(|attempt| attempt.members.len() > 1).count();
    assert_eq!(in_company, 1, "it meets its siblings once");
    let bad = world.find("bad").await;
    assert_eq!((bad.state.name(), bad.retry_count), ("QUEUED_TRANSFER", 0));
    assert!(bad.aside.is_some(), "{bad:?}");
    let message = alert(&world, "set_aside").await.expect("an operator is told");
    assert!(message.contains("bad") && message.contains(receiver), "{message}");
    poison(&world, Some(receiver), None);
    world.run_until_final(&["bad".to_owned()], 6 * MINUTE_MS).await;
    check_paid(&world, &["bad".to_owned()]).await;
    assert_eq!(alert(&world, "set_aside").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_eats_all_gas_meets_its_siblings_once() {
    check_follows_one("eater.near", Some(Poison::EatsGas)).await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_for_whom_the_contract_says_paused_pauses_nobody_else() {
    check_follows_one("bad.near", panics("Pausable: Method is paused")).await;
}

/// The contract's words for an empty sender, though the balance suffices.
#[tokio::test(start_paused = true)]
async fn a_receiver_for_whom_the_balance_never_suffices_holds_up_nobody_else() {
    check_follows_one("bad.near", panics("The account doesn't have enough balance")).await;
}

/// Words that a stranger can choose are not the contract's own: whoever is named by such a failure
/// while others are paid is charged for it, and given up in the end.
#[tokio::test(start_paused = true)]
async fn an_account_called_paused_is_taken_for_what_it_is() {
    for words in ["paused.near is not welcome", "insufficient balance.near"] {
        let world = world(&["paused.near"]).await;
        poison(&world, Some("paused.near"), panics(words));
        world.run_ms(3_000).await;
        world.pay("bad", "paused.near", 1).await;
        for round in 0..30 {
            let keys = pay_healthy(&world, round).await;
            world.run_until_final(&keys, 15_000).await;
            check_paid(&world, &keys).await;
            assert_eq!(world.engine.status().await.rails[0].paused, None, "{words}");
            world.run_ms(MINUTE_MS / 2).await;
        }
        assert_eq!((world.state("bad").await, world.times_paid("bad")), ("FAILED", 0));
        let reverted = reverted(&world).await;
        let in_company = reverted.iter().filter(|attempt| attempt.members.len() > 1).count();
        assert_eq!(in_company, 1, "it meets its siblings once");
        assert!(reverted.len() <= UNTIL_GIVEN_UP, "{} reverted", reverted.len());
    }
}

/// Many payouts to one bad receiver are one trouble: they do not revert a batch each.
#[tokio::test(start_paused = true)]
async fn ten_payouts_to_a_bad_receiver_cost_no_more_than_one() {
    let world = world(&["eater.near"]).await;
    poison(&world, Some("eater.near"), Some(Poison::EatsGas));
    world.run_ms(3_000).await;
    let bad: Vec<String> = (0..10).map(|n| format!("bad{n}")).collect();
    for key in &bad {
        world.pay(key, "eater.near", 1).await;
    }
    let keys = pay_healthy(&world, 0).await;
    world.run_until_final(&keys, 15_000).await;
    check_paid(&world, &keys).await;
    world.run_ms(HOUR_MS).await;
    let reverted = reverted(&world).await;
    assert!(reverted.len() <= IN_AN_HOUR, "{} reverted", reverted.len());
    poison(&world, Some("eater.near"), None);
    world.run_until_final(&bad, 7 * MINUTE_MS).await;
    check_paid(&world, &bad).await;
}

/// What the process remembered is gone; the mark is in the store, with the count of tries.
#[tokio::test(start_paused = true)]
async fn after_a_restart_a_bad_receiver_still_travels_alone() {
    let mut world = world(&["eater.near"]).await;
    poison(&world, Some("eater.near"), Some(Poison::EatsGas));
    world.run_ms(3_000).await;
    world.pay("bad", "eater.near", 1).await;
    let keys = pay_healthy(&world, 0).await;
    world.run_until_final(&keys, 15_000).await;
    check_paid(&world, &keys).await;
    for round in 1..10 {
        // It is due when the new process begins, together with healthy ones.
        world.engine.abort().await;
        world.run_ms(6 * MINUTE_MS).await;
        world.crash().await;
        let keys = pay_healthy(&world, round).await;
        world.run_until_final(&keys, 15_000).await;
        check_paid(&world, &keys).await;
        world.run_ms(5_000).await;
    }
    let reverted = reverted(&world).await;
    assert!((10..=IN_AN_HOUR).contains(&reverted.len()), "{} reverted", reverted.len());
    let in_company = reverted.iter().filter(|attempt| attempt.members.len() > 1).count();
    assert_eq!(in_company, 1, "it meets its siblings once");
}

/// Everybody fails for half an hour, whatever the words: few attempts are spent, nobody is charged,
/// and it is over within two minutes of its end.
async fn check_meets_everybody(how: Option<Poison>) {
    let world = world(&[]).await;
    poison(&world, None, how);
    world.run_ms(3_000).await;
    let mut keys = Vec::new();
    for round in 0..30 {
        keys.extend(pay_healthy(&world, round).await);
        world.run_ms(MINUTE_MS).await;
        assert!(world.engine.status().await.rails[0].paused.is_some(), "round {round}");
    }
    assert!(alert(&world, "rail_paused").await.is_some());
    let spent = reverted(&world).await.len();
    assert!(spent <= IN_HALF_AN_HOUR, "{spent} reverted");
    for key in &keys {
        let one = world.find(key).await;
        assert_eq!((one.state.name(), one.retry_count), ("QUEUED_TRANSFER", 0), "{key}");
    }
    poison(&world, None, None);
    world.run_until_final(&keys, 2 * MINUTE_MS).await;
    check_paid(&world, &keys).await;
    let status = world.engine.status().await;
    assert_eq!((status.rails[0].paused.clone(), status.alerts.len()), (None, 0), "{status:?}");
}

#[tokio::test(start_paused = true)]
async fn a_contract_that_is_paused_for_everybody_is_probed_ever_more_slowly() {
    check_meets_everybody(panics("Pausable: Method is paused")).await;
}

#[tokio::test(start_paused = true)]
async fn too_little_gas_for_everybody_is_probed_ever_more_slowly() {
    check_meets_everybody(Some(Poison::EatsGas)).await;
}

/// The contract's words are unknown: that everybody meets them is what tells.
#[tokio::test(start_paused = true)]
async fn an_outage_without_words_that_we_know_fails_nobody() {
    check_meets_everybody(panics("come back later")).await;
}
