//! The attempt protocol: what is never done twice, and what decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use landfall_core::attempt::{Landing, Outcome, Sighting};
use landfall_core::store::{LaneStore, Store};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, Certificate, CertificateKind, Fate, RailName};
use landfall_engine::operate::{OperateError, decide};
use landfall_lanes::HighWater;
use landfall_store_memory::MemoryStore;

use crate::ledger::{FakeRail, Net};
use crate::slow::SlowStore;
use crate::world::World;

fn unknown_to_all() -> Certificate {
    Certificate {
        kind: CertificateKind::Operator,
        summary: "nobody has it".into(),
        evidence: serde_json::json!({}),
    }
}

#[tokio::test(start_paused = true)]
async fn a_payout_is_completed_with_the_full_trail() {
    let world = World::new(1).await;
    world.submit("k", "alice.near", 10).await;
    world.sleep(3_000).await;
    assert_eq!(
        world.trail("k").await,
        [
            "RECEIVED",
            "QUEUED_REGISTRATION",
            "REGISTERED",
            "QUEUED_TRANSFER",
            "SUBMITTED",
            "QUEUED_VERIFICATION",
            "COMPLETED"
        ]
    );
    assert_eq!(world.paid("alice.near"), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_send_answer_never_pays_twice() {
    let world = World::new(2).await;
    *world.rail.net.lock() = Net::LoseAnswer;
    for n in 0..50 {
        world.submit(&format!("k{n}"), &format!("r{n}.near"), 1).await;
    }
    world.sleep(60_000).await;
    for n in 0..50 {
        assert_eq!(world.state(&format!("k{n}")).await, "COMPLETED");
        assert_eq!(world.paid(&format!("r{n}.near")), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_is_sent_again_with_the_same_bytes() {
    let world = World::new(1).await;
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("k", "alice.near", 10).await;
    world.sleep(20_000).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(open.len(), 1, "one attempt, sent many times");
    assert!(world.rail.state.lock().broadcasts > 3);
    *world.rail.net.lock() = Net::Good;
    world.sleep(40_000).await;
    assert_eq!(world.state("k").await, "COMPLETED");
    assert_eq!(world.paid("alice.near"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_time_neither_loses_nor_repeats_a_payment() {
    let mut world = World::new(3).await;
    for round in 0..20 {
        *world.rail.net.lock() =
            [Net::Good, Net::LoseAnswer, Net::LoseRequest, Net::LoseAnswer][round % 4];
        for n in 0..10 {
            let (key, receiver) = (format!("k{round}-{n}"), format!("r{round}-{n}.near"));
            world.submit(&key, &receiver, 1).await;
        }
        world.sleep(7 * round as u64 + 11).await;
        world.crash().await;
    }
    *world.rail.net.lock() = Net::Good;
    world.sleep(120_000).await;
    for round in 0..20 {
        for n in 0..10 {
            assert_eq!(world.state(&format!("k{round}-{n}")).await, "COMPLETED");
            assert_eq!(world.paid(&format!("r{round}-{n}.near")), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_decides_what_is_adrift_and_leaves_a_death_certificate() {
    let rail = FakeRail::new(1);
    rail.manner.lock().fence_after_ms = 5_000;
    let world = World::on(rail, |_| {}).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("k", "alice.near", 10).await;
    world.sleep(4_000).await;
    let before = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(before.len(), 1);
    // The first attempt is lost for good; only what is signed later arrives.
    world.sleep(3_000).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(open.len(), 2, "a fence was opened behind it");
    world.rail.land_only(&open[1]);
    *world.rail.net.lock() = Net::Good;
    world.sleep(60_000).await;
    assert_eq!(world.state("k").await, "COMPLETED");
    assert_eq!(world.paid("alice.near"), 1);
    assert!(world.trail("k").await.contains(&"SUNK"));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_believed_only_for_bytes_never_sent_before() {
    refused_after_it_was_sent().await;
}

/// No simulated world shows this wound yet: what a quorum refuses there seldom lands later.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "left == right")]
async fn a_refusal_believed_of_bytes_sent_before_pays_twice() {
    wound::inflict(Some(Wound::RefusedTooLate));
    refused_after_it_was_sent().await;
}

async fn refused_after_it_was_sent() {
    for crashes in [false, true] {
        let mut world = World::new(1).await;
        world.rail.state.lock().registered.insert("alice.near".into());
        *world.rail.net.lock() = Net::LoseAnswer;
        // No look may settle the matter before the bytes are sent again, and refused.
        *world.rail.blind.lock() = true;
        world.submit("k", "alice.near", 10).await;
        world.sleep(30).await;
        *world.rail.net.lock() = Net::Refuse;
        if crashes {
            world.crash().await;
        }
        let sent = world.rail.state.lock().broadcasts;
        world.sleep(30_000).await;
        assert!(world.rail.state.lock().broadcasts > sent, "sent again, and refused");
        *world.rail.net.lock() = Net::Good;
        *world.rail.blind.lock() = false;
        world.sleep(120_000).await;
        assert_eq!(world.paid("alice.near"), 1);
        assert_eq!(world.state("k").await, "COMPLETED");
        assert!(!world.trail("k").await.contains(&"SUNK"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_store_forgets_in_the_middle_of_work_is_not_signed_anew() {
    forgotten_in_the_middle_of_work().await;
}

/// Worlds seldom have what was forgotten signed anew before their marks are looked over.
#[tokio::test(start_paused = true)]
#[should_panic(expected = "left == right")]
async fn a_store_behind_the_marks_that_takes_an_attempt_pays_twice() {
    wound::inflict(Some(Wound::BehindIgnored));
    forgotten_in_the_middle_of_work().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "left == right")]
async fn what_is_stored_and_not_noted_outside_the_store_is_paid_twice() {
    wound::inflict(Some(Wound::MarksNotNoted));
    forgotten_in_the_middle_of_work().await;
}

async fn forgotten_in_the_middle_of_work() {
    // The sweeper brings back what is forgotten long before the marks are looked over again.
    let world = World::with(2, |settings| {
        (settings.hint_grace_ms, settings.sweep_ms) = (100, 200);
    })
    .await;
    world.rail.state.lock().registered.insert("alice.near".into());
    world.sleep(world.settings.lanes.renew_ms + 100).await;
    world.submit("k", "alice.near", 10).await;
    let backup = world.store.snapshot();
    // Nor does its settlement tell that it is forgotten: nobody knows yet that it landed.
    (*world.rail.net.lock(), *world.rail.blind.lock()) = (Net::LoseAnswer, true);
    world.sleep(50).await;
    assert_eq!(world.paid("alice.near"), 1);
    world.store.restore_in_place(backup);
    world.sleep(2_000).await;
    (*world.rail.net.lock(), *world.rail.blind.lock()) = (Net::Good, false);
    world.sleep(60_000).await;
    assert_eq!(world.paid("alice.near"), 1);
    let lanes = world.store.lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.halted.is_some()), "{lanes:?}");
}

/// Whoever has just stored it believes a refusal of its first broadcast: nobody else may have made
/// one before.
#[tokio::test(start_paused = true)]
async fn what_a_later_epoch_has_stored_is_not_sent_by_one_that_slept() {
    let mut world = World::new(1).await;
    world.sleep(1_000).await;
    let slow = Arc::new(SlowStore::on(world.store.clone()));
    slow.before_open_attempts_ms.store(1_000, Ordering::Relaxed);
    world.crash_and_reach(slow).await;
    world.sleep(500).await;
    let fence = world.open_fence().await;
    // What landed would be found, and the lane given up, before anybody saw under which epoch.
    *world.rail.net.lock() = Net::LoseRequest;
    let sent = world.rail.state.lock().broadcasts;
    while world.rail.state.lock().broadcasts == sent {
        world.sleep(1).await;
    }
    let lane = world.store.lanes().await.unwrap().remove(0);
    assert!(lane.epoch > fence.epoch, "sent under an epoch before {}", fence.epoch);
}

/// Its nonce is used, so it is in a block: that is progress, not a fate.
#[tokio::test(start_paused = true)]
async fn an_attempt_in_a_block_of_which_nobody_tells_the_outcome_is_shown_as_adrift() {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    *world.rail.net.lock() = Net::LoseAnswer;
    *world.rail.blind.lock() = true;
    world.submit("k", "alice.near", 10).await;
    let finality_ms = world.rail.manner.lock().finality_ms;
    world.sleep(finality_ms + 2_000).await;
    assert!(world.alerts().await.contains(&"adrift".to_owned()));
    *world.rail.blind.lock() = false;
    world.sleep(60_000).await;
    assert_eq!((world.state("k").await, world.paid("alice.near")), ("COMPLETED", 1));
    assert_eq!(world.alerts().await, Vec::<String>::new());
}

/// Silence about a member proves nothing: the attempt is left open, and told of until it is not.
#[tokio::test(start_paused = true)]
async fn outcomes_that_no_node_tells_are_an_alert_that_ends_with_their_attempt() {
    let world = World::new(2).await;
    *world.rail.net.lock() = Net::LoseAnswer;
    *world.rail.blind.lock() = true;
    for name in ["alice", "bob"] {
        world.rail.state.lock().registered.insert(name.into());
        world.submit(name, name, 1).await;
        world.sleep(1_000).await;
    }
    let landed = world.rail.state.lock().landed.clone();
    world.rail.state.lock().landed.values_mut().for_each(|one| one.outcomes.clear());
    assert_eq!(landed.len(), 2);
    *world.rail.blind.lock() = false;
    world.sleep(60_000).await;
    for (hash, landing) in landed {
        assert!(world.alerts().await.contains(&"outcomes_missing".to_owned()));
        world.rail.state.lock().landed.insert(hash, landing);
        world.sleep(60_000).await;
    }
    assert_eq!((world.state("alice").await, world.state("bob").await), ("COMPLETED", "COMPLETED"));
    assert_eq!(world.alerts().await, Vec::<String>::new());
}

/// Each forbids a certificate until it is taken back, so none may be taken for another.
#[tokio::test(start_paused = true)]
async fn every_nodes_sighting_is_kept_even_if_it_names_no_block() {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    *world.rail.net.lock() = Net::LoseRequest;
    let seen = |endpoint: &str, block_hash: &str| Sighting {
        endpoint: endpoint.into(),
        block_hash: block_hash.into(),
        block_height: None,
        was_final: false,
        at_ms: 0,
    };
    let same = [seen("a", "B"), seen("b", "B")];
    let unnamed = [seen("a", ""), seen("b", ""), seen("a", "")];
    *world.rail.sightings.lock() = [&same[..], &unnamed[..]].concat();
    world.submit("k", "alice.near", 10).await;
    world.sleep(10_000).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    let kept = open[0].sightings.iter().map(|one| (one.endpoint.as_str(), one.block_hash.as_str()));
    assert_eq!(kept.collect::<Vec<_>>(), [("a", ""), ("b", ""), ("b", "B")]);
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_key_is_not_on_the_account_is_named() {
    let mut world = World::new(1).await;
    world.rail.keyless.lock().insert(world.rail.lanes[0].clone());
    world.crash().await;
    world.submit("k", "alice.near", 10).await;
    world.sleep(10_000).await;
    assert_ne!(world.state("k").await, "COMPLETED");
    let status = world.engine.status().await;
    let alert = status.alerts.iter().find(|alert| alert.kind == "lane_stuck").expect("an alert");
    assert_eq!(alert.message, "near:test:relay:k0: the key is not on the account");
    world.rail.keyless.lock().clear();
    world.sleep(10_000).await;
    assert_eq!(world.state("k").await, "COMPLETED");
    assert_eq!(world.alerts().await, Vec::<String>::new());
}

/// Its lane stays in the store, and is looked after, as long as there is anything to look after.
#[tokio::test(start_paused = true)]
async fn a_key_that_was_taken_out_of_service_alarms_nobody() {
    let mut world = World::new(2).await;
    world.sleep(1_000).await;
    let retired = world.rail.lanes[1].clone();
    world.engine.abort().await;
    world.rail = Arc::new(FakeRail::new(1));
    world.rail.keyless.lock().insert(retired);
    world.crash().await;
    world.submit("k", "alice.near", 10).await;
    world.sleep(60_000).await;
    assert_eq!(world.state("k").await, "COMPLETED");
    assert_eq!(world.alerts().await, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_somebody_decided_is_sent_no_more() {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("k", "alice.near", 10).await;
    world.sleep(500).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    let outcomes = vec![Outcome::Done];
    let landing = Landing { hash: None, block_height: 7, block_hash: "b7".into(), outcomes };
    world.engine.decide(open[0].id, Fate::Landed(landing)).await.unwrap();
    world.sleep(100).await;
    let sent = world.rail.state.lock().broadcasts;
    world.sleep(300_000).await;
    assert_eq!(world.rail.state.lock().broadcasts, sent);
    assert_eq!(world.state("k").await, "COMPLETED");
    // The lane is free again.
    *world.rail.net.lock() = Net::Good;
    world.submit("next", "alice.near", 10).await;
    world.sleep(30_000).await;
    assert_eq!(world.state("next").await, "COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_nonce_halts_every_lane() {
    let world = World::new(2).await;
    world.submit("a", "alice.near", 10).await;
    world.sleep(3_000).await;
    let lane = world.rail.lanes[0].clone();
    *world.rail.state.lock().nonces.get_mut(&lane).unwrap() += 5;
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("b", "bob.near", 10).await;
    world.sleep(60_000).await;
    let lanes = world.store.lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.halted.is_some()), "{lanes:?}");
    *world.rail.net.lock() = Net::Good;
    world.submit("c", "carol.near", 10).await;
    world.sleep(60_000).await;
    assert_ne!(world.state("c").await, "COMPLETED");
    assert!(world.engine.status().await.alerts.iter().any(|alert| alert.kind == "lane_halted"));
}

/// A payment that never arrived, and a relay that has ended.
async fn with_one_adrift() -> (World, Attempt) {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    world.sleep(1_000).await;
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("k", "alice.near", 10).await;
    world.sleep(500).await;
    let adrift = world.store.open_attempts_of(RailName::Near).await.unwrap().remove(0);
    world.engine.abort().await;
    (world, adrift)
}

/// The fences were lost, each of them, and decided while nobody could tell about the attempt.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_decided_by_a_later_one_however_many_sank_between_them() {
    let (mut world, adrift) = with_one_adrift().await;
    for _ in 0..100 {
        world.fence(Fate::Sunk(unknown_to_all())).await;
    }
    let landing =
        Landing { hash: None, block_height: 9, block_hash: "b9".into(), outcomes: Vec::new() };
    let passing = world.fence(Fate::Landed(landing)).await;
    *world.rail.state.lock().nonces.get_mut(&adrift.lane).unwrap() = passing.nonce.0;
    *world.rail.net.lock() = Net::Good;
    world.crash().await;
    world.sleep(60_000).await;
    let lanes = world.store.lanes().await.unwrap();
    assert_eq!(lanes[0].halted, None);
    assert_eq!((world.state("k").await, world.paid("alice.near")), ("COMPLETED", 1));
    assert!(world.trail("k").await.contains(&"SUNK"));
}

/// An operator calls sunk what was reverted, too: its nonce is used then, and by nobody else.
#[tokio::test(start_paused = true)]
async fn an_operators_word_on_a_later_attempt_makes_no_stranger_of_who_used_its_nonce() {
    let (mut world, adrift) = with_one_adrift().await;
    let reverted = world.fence(Fate::Sunk(unknown_to_all())).await;
    *world.rail.state.lock().nonces.get_mut(&adrift.lane).unwrap() = reverted.nonce.0;
    *world.rail.net.lock() = Net::Good;
    world.crash().await;
    world.sleep(60_000).await;
    assert_eq!(world.store.lanes().await.unwrap()[0].halted, None);
    assert_eq!((world.state("k").await, world.paid("alice.near")), ("QUEUED_VERIFICATION", 0));
    world.engine.decide(adrift.id, Fate::Sunk(unknown_to_all())).await.unwrap();
    world.sleep(60_000).await;
    assert_eq!((world.state("k").await, world.paid("alice.near")), ("COMPLETED", 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_restored_from_a_backup_halts_the_lanes_and_pays_nobody_again() {
    let mut world = World::new(2).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    world.sleep(1_000).await;
    world.submit("k", "alice.near", 10).await;
    let backup = world.store.snapshot();
    *world.rail.net.lock() = Net::LoseRequest;
    world.sleep(1_000).await;
    let forgotten = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(forgotten.len(), 1);
    world.engine.abort().await;
    world.store.restore(backup);
    *world.rail.net.lock() = Net::Good;
    world.crash().await;
    world.sleep(60_000).await;
    world.rail.land_only(&forgotten[0]);
    world.sleep(60_000).await;
    assert_eq!(world.paid("alice.near"), 1, "only the forgotten attempt paid");
    let lanes = world.store.lanes().await.unwrap();
    assert!(lanes.iter().all(|lane| lane.halted.is_some()));
}

#[tokio::test(start_paused = true)]
async fn lanes_go_on_after_an_operator_adopted_them() {
    let world = World::new(1).await;
    let lane = world.rail.lanes[0].clone();
    world.sleep(1_000).await;
    *world.rail.state.lock().nonces.get_mut(&lane).unwrap() += 5;
    world.sleep(100).await;
    let mut world = world;
    world.crash().await;
    world.sleep(5_000).await;
    assert!(world.store.lanes().await.unwrap()[0].halted.is_some());
    let used = world.rail.state.lock().nonces[&lane];
    world.store.adopt(&lane, landfall_core::Nonce(used)).await.unwrap();
    world.submit("k", "alice.near", 10).await;
    world.sleep(30_000).await;
    assert_eq!(world.state("k").await, "COMPLETED");
}

/// Somebody else may have stored and sent what a store has forgotten that was replaced meanwhile,
/// and says so within a lease.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_never_looked_over_is_signed_on_when_others_had_the_time_to_object() {
    let mut world = World::new(1).await;
    world.submit("a", "alice.near", 10).await;
    world.sleep(3_000).await;
    assert_eq!(world.state("a").await, "COMPLETED");
    let lease_ms = world.settings.lanes.lease_ms;

    // It knows the store in this life.
    world.crash().await;
    world.submit("b", "alice.near", 10).await;
    world.sleep(3_000).await;
    assert_eq!(world.state("b").await, "COMPLETED");

    let another_life = |world: &mut World| world.store.restore(world.store.snapshot());
    let another_folder = |world: &mut World| world.high_water = Arc::new(HighWater::in_memory());
    for (key, change) in [("c", another_life as fn(&mut World)), ("d", another_folder)] {
        world.engine.abort().await;
        change(&mut world);
        world.crash().await;
        world.submit(key, "alice.near", 10).await;
        world.sleep(lease_ms - 100).await;
        let opened = world.store.open_attempts_of(RailName::Near).await.unwrap();
        assert_eq!((opened, world.state(key).await), (vec![], "QUEUED_TRANSFER"), "{key}");
        world.sleep(lease_ms).await;
        assert_eq!(world.state(key).await, "COMPLETED");
    }
    assert_eq!(world.paid("alice.near"), 4);
}

/// Looked over before anybody had signed, then emptied: what others have signed since is in no mark
/// of this instance, and no lane of the store has a past.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_emptied_is_signed_on_when_others_had_the_time_to_object() {
    let mut world = World::new(1).await;
    world.sleep(1_000).await;
    let lease_ms = world.settings.lanes.lease_ms;
    world.engine.abort().await;
    world.store.restore(MemoryStore::new(world.clock.clone()).snapshot());
    world.crash().await;
    world.submit("k", "alice.near", 10).await;
    world.sleep(lease_ms - 100).await;
    let opened = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!((opened, world.state("k").await), (vec![], "QUEUED_REGISTRATION"));
    world.sleep(lease_ms).await;
    assert_eq!(world.state("k").await, "COMPLETED");
}

/// The store goes back between the two reads of a recovery.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_not_pursued_with_members_that_were_read_at_another_time() {
    let mut world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    world.sleep(1_000).await;
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("k", "alice.near", 10).await;
    let backup = world.store.snapshot();
    world.sleep(500).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    world.engine.abort().await;
    world.rail.land_only(&open[0]);
    let slow = Arc::new(SlowStore::on(world.store.clone()));
    slow.open_attempts_ms.store(1_000, Ordering::Relaxed);
    world.crash_and_reach(slow).await;
    world.sleep(500).await;
    world.store.restore(backup);
    world.sleep(60_000).await;
    let metrics = world.metrics().await;
    let restarts = metrics.lines().find(|line| line.starts_with("landfall_task_restarts"));
    assert_eq!(restarts, Some("landfall_task_restarts{} 0"), "no task died");
    assert_eq!(world.paid("alice.near"), 1);
}

/// Epochs that were lost before the store went back are greater than those it gives now.
#[tokio::test(start_paused = true)]
async fn a_store_that_has_forgotten_epochs_is_not_asked_for_leases_on_and_on() {
    let world = World::new(1).await;
    let (lane, instance) = (world.rail.lanes[0].clone(), world.settings.instance.clone());
    world.sleep(1_000).await;
    let backup = world.store.snapshot();
    for _ in 0..100 {
        world.store.lease(&lane, RailName::Near, &instance, 10_000).await.unwrap();
    }
    world.sleep(10_000).await;
    world.store.lease(&lane, RailName::Near, &instance, 10_000).await.unwrap();
    world.sleep(10_000).await;
    world.store.restore(backup);
    world.sleep(10_000).await;
    let epoch = world.store.lanes().await.unwrap()[0].epoch;
    assert!(epoch.0 < 10, "{epoch}");
}

/// The operator adopts with the data folder of another instance, whose marks are older.
#[tokio::test(start_paused = true)]
async fn an_adoption_that_knows_less_than_this_instance_does_not_let_it_sign() {
    let mut world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    let lane = world.rail.lanes[0].clone();
    world.sleep(1_000).await;
    world.submit("k", "alice.near", 10).await;
    let backup = world.store.snapshot();
    *world.rail.net.lock() = Net::LoseRequest;
    world.sleep(1_000).await;
    let forgotten = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(forgotten.len(), 1);
    world.store.restore(backup);
    world.sleep(60_000).await;
    assert!(world.store.lanes().await.unwrap()[0].halted.is_some());

    let used = world.rail.state.lock().nonces[&lane];
    world.store.adopt(&lane, landfall_core::Nonce(used)).await.unwrap();
    world.sleep(60_000).await;
    let opened = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(opened, [], "the forgotten attempt may still land");
    assert!(world.store.lanes().await.unwrap()[0].halted.is_some(), "halted again");

    // As docs/operating.md tells: stopped, adopted with its own folder, started.
    world.engine.abort().await;
    *world.rail.net.lock() = Net::Good;
    let fenced = forgotten[0].nonce.next();
    *world.rail.state.lock().nonces.get_mut(&lane).unwrap() = fenced.0;
    world.store.adopt(&lane, fenced).await.unwrap();
    let stored = world.store.lanes().await.unwrap();
    let identity = world.store.identity().await.unwrap();
    world.high_water.accept(&identity.id, &stored).unwrap();
    world.crash().await;
    world.sleep(60_000).await;
    assert_eq!(world.paid("alice.near"), 1);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_slept_past_its_lease_settles_nothing() {
    let world = World::new(1).await;
    world.rail.state.lock().registered.insert("alice.near".into());
    *world.rail.net.lock() = Net::LoseRequest;
    world.submit("k", "alice.near", 10).await;
    world.sleep(500).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    let taken =
        world.store.lease(&world.rail.lanes[0], RailName::Near, "landfall", 60_000).await.unwrap();
    assert!(matches!(taken, landfall_core::store::Leased::Yours(_)));
    world.rail.land_only(&open[0]);
    world.sleep(100).await;
    // The engine notices, takes its own lane back under a newer epoch and settles once.
    world.sleep(30_000).await;
    assert_eq!(world.state("k").await, "COMPLETED");
    assert_eq!(world.paid("alice.near"), 1);
}

/// `landfall adrift decide`: the relay was stopped, or killed; on a shared store another may run.
#[tokio::test(start_paused = true)]
async fn an_operator_decides_on_a_lane_that_nobody_else_holds() {
    for orderly in [true, false] {
        let world = World::new(1).await;
        world.rail.state.lock().registered.insert("alice.near".into());
        *world.rail.net.lock() = Net::LoseRequest;
        world.submit("k", "alice.near", 10).await;
        world.sleep(500).await;
        let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
        match orderly {
            true => world.engine.stop(Duration::from_secs(1)).await,
            false => world.engine.abort().await,
        }
        let lane = async || world.store.lanes().await.unwrap().remove(0);
        assert_eq!(lane().await.holder.is_none(), orderly);

        let word = unknown_to_all();
        let as_instance = async |name: &'static str| {
            let (store, rail) = (world.store.as_ref(), world.rail.as_ref());
            let (fate, now_ms) = (Fate::Sunk(word.clone()), world.clock.now_ms());
            decide(store, rail, name, open[0].id, fate, &word, now_ms).await
        };
        let id = &world.rail.lanes[0];
        if orderly {
            world.store.lease(id, RailName::Near, "landfall", 5_000).await.unwrap();
        }
        let held = as_instance("another").await;
        assert!(
            matches!(&held, Err(OperateError::LaneHeld { holder, .. }) if holder == "landfall")
        );
        assert!(held.unwrap_err().to_string().contains("stop that relay"));
        let before = lane().await.epoch;
        if orderly {
            world.store.release(&[(id.clone(), before)]).await.unwrap();
        }

        assert_eq!(as_instance("landfall").await, Ok(vec![world.find("k").await.id]));
        let left = lane().await;
        assert!(left.epoch > before && left.holder.is_none(), "leased, and given back: {left:?}");
        assert_eq!(world.state("k").await, "QUEUED_TRANSFER");
        assert_eq!(as_instance("landfall").await, Err(OperateError::Decided(open[0].id)));
    }
}
