//! The rail against three small nodes, each of which may lag, forget, lie or be silent.

use landfall_core::attempt::{Shortage, Sighting};
use landfall_core::wound::{self, Wound};
use landfall_core::{CertificateKind, Outcome};
use serde_json::{Value, json};

use super::world::*;
use super::*;

mod edges;
mod liars;

fn adrift(look: &Look) -> (&str, Option<&Sighting>) {
    match look {
        Look::Adrift { why, sightings } => (why, sightings.first()),
        other => panic!("not adrift: {other:?}"),
    }
}

fn sunk(look: Look) -> landfall_core::Certificate {
    match look {
        Look::Sunk(certificate) => certificate,
        other => panic!("not sunk: {other:?}"),
    }
}

fn outcomes(look: Look) -> Vec<Outcome> {
    match look {
        Look::Landed(landing) => landing.outcomes,
        other => panic!("not landed: {other:?}"),
    }
}

fn sighting(endpoint: &str, block_hash: &str, was_final: bool) -> Sighting {
    let (endpoint, block_hash) = (endpoint.into(), block_hash.into());
    Sighting { endpoint, block_hash, block_height: None, was_final, at_ms: 0 }
}

fn done(hash: &str) -> Value {
    tx_result(hash, "FINAL", &block_hash(110), json!({"SuccessValue": ""}))
}

#[tokio::test]
async fn a_broadcast_answered_final_is_landed_by_one_call_for_each_of_a_quorum() {
    let world = world();
    let attempt = world.attempt().await;
    assert_eq!((base_height(&attempt), attempt.expires_height), (100, Some(100 + VALIDITY)));
    world.each(|node| {
        node.final_height = 115;
        node.send = Some((200, json!({"result": done(&attempt.hash)})));
        node.txs.insert(attempt.hash.clone(), done(&attempt.hash));
    });
    let Broadcast::Sent(Some(Look::Landed(landing))) = world.rail.broadcast(&attempt, 0).await
    else {
        panic!("landed")
    };
    assert_eq!((landing.block_height, landing.block_hash), (110, block_hash(110)));
    assert_eq!(landing.outcomes, vec![Outcome::Done; 3]);
    assert_eq!((world.count("send_tx"), world.count("tx")), (1, 1));
}

#[tokio::test]
async fn a_lost_answer_is_unsure_after_one_post() {
    let world = world();
    let attempt = world.attempt().await;
    assert!(matches!(world.rail.broadcast(&attempt, 0).await, Broadcast::Unsure { .. }));
    assert_eq!(world.count("send_tx"), 1);
}

#[tokio::test]
async fn an_answer_about_another_transaction_is_unsure() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| node.send = Some((200, json!({"result": done("another")}))));
    assert!(matches!(world.rail.broadcast(&attempt, 0).await, Broadcast::Unsure { .. }));
}

#[tokio::test]
async fn expired_and_invalid_nonce_prove_nothing() {
    let world = world();
    let attempt = world.attempt().await;
    for reason in [json!("Expired"), json!({"InvalidNonce": {"tx_nonce": 5, "ak_nonce": 6}})] {
        let error = json!({"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION",
            "info": {}}, "code": -32000, "message": "Server error",
            "data": {"TxExecutionError": {"InvalidTxError": reason}}});
        world.each(|node| node.send = Some((200, json!({"error": error.clone()}))));
        assert!(matches!(world.rail.broadcast(&attempt, 0).await, Broadcast::Unsure { .. }));
    }
    // It had landed all the while.
    world.each(|node| {
        node.final_height = 130;
        node.txs.insert(attempt.hash.clone(), done(&attempt.hash));
    });
    assert_eq!(outcomes(world.look(&attempt, &[]).await), vec![Outcome::Done; 3]);
}

#[tokio::test]
async fn a_known_and_final_attempt_is_looked_up_by_one_call_for_each_of_a_quorum() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| {
        node.final_height = 130;
        node.txs.insert(attempt.hash.clone(), done(&attempt.hash));
    });
    world.look(&attempt, &[]).await;
    world.net.asked.lock().clear();
    world.look(&attempt, &[]).await;
    assert_eq!(*world.net.asked.lock(), ["tx", "tx"]);
}

#[tokio::test]
async fn an_unknown_attempt_is_adrift_while_its_nonce_and_block_are_good() {
    let world = world();
    let attempt = world.attempt().await;
    let look = world.look(&attempt, &[]).await;
    assert_eq!(adrift(&look).1, None);
}

#[tokio::test]
async fn a_landed_fence_sinks_what_no_node_has() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    let certificate = sunk(world.look(&attempt, &later).await);
    assert_eq!(certificate.kind, CertificateKind::NoncePassed);
    assert_eq!(certificate.evidence["witnesses"].as_array().unwrap().len(), 3);
    assert_eq!(certificate.evidence["witnesses"][0]["nonce_before"], 4);
    assert_eq!(certificate.evidence["passed_by"]["tx_hash"], "fence");
}

/// Behind one name there may be many nodes, of which the one asked for the transaction lags.
#[tokio::test]
async fn what_landed_in_the_block_of_the_fence_is_not_sunk_by_nodes_that_lag() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    world.each(|node| {
        node.chunks.insert(120, attempt.hash.clone());
    });
    assert_eq!(adrift(&world.look(&attempt, &later).await).1, None);
    world.each(|node| {
        node.chunks.insert(120, "another".into());
    });
    sunk(world.look(&attempt, &later).await);
}

#[tokio::test]
async fn one_node_that_saw_it_outweighs_two_that_did_not() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    let seen = tx_result(&attempt.hash, "INCLUDED", &block_hash(119), json!("Unknown"));
    world.node(2, |node| {
        node.txs.insert(attempt.hash.clone(), seen.clone());
    });
    for _ in 0..4 {
        let look = world.look(&attempt, &later).await;
        let (_, sighting) = adrift(&look);
        let sighting = sighting.expect("a sighting");
        assert_eq!((sighting.endpoint.as_str(), sighting.was_final), ("http://n2", false));
        assert_eq!(sighting.block_hash, block_hash(119));
    }
}

#[tokio::test]
async fn a_node_without_the_history_is_no_witness() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    world.node(0, |node| node.earliest = 101);
    assert_eq!(sunk(world.look(&attempt, &later).await).kind, CertificateKind::NoncePassed);
    world.node(1, |node| node.earliest = 101);
    assert_eq!(adrift(&world.look(&attempt, &later).await).1, None);
}

#[tokio::test]
async fn nodes_that_lag_or_are_silent_do_not_count() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    world.node(0, |node| (node.final_height, node.nonces) = (110, vec![(0, 4)]));
    assert_eq!(sunk(world.look(&attempt, &later).await).kind, CertificateKind::NoncePassed);
    world.node(1, |node| node.down = true);
    adrift(&world.look(&attempt, &later).await);
}

#[tokio::test]
async fn a_transaction_level_failure_is_adrift_until_the_nonce_is_passed() {
    let world = world();
    let attempt = world.attempt().await;
    let failure = json!({"Failure": {"InvalidTxError": {"NotEnoughBalance":
        {"signer_id": RELAY, "balance": "1", "cost": "2"}}}});
    let invalid = json!({"final_execution_status": "FINAL", "status": failure,
        "transaction": {"hash": attempt.hash}, "receipts_outcome": [],
        "transaction_outcome": {"id": attempt.hash, "block_hash": block_hash(105),
            "outcome": {"status": failure}}});
    world.each(|node| {
        node.final_height = 110;
        node.txs.insert(attempt.hash.clone(), invalid.clone());
    });
    assert_eq!(adrift(&world.look(&attempt, &[]).await).1, None);
    let later = world.fence_lands();
    assert_eq!(sunk(world.look(&attempt, &later).await).kind, CertificateKind::NoncePassed);
}

#[tokio::test]
async fn an_expired_block_hash_sinks_it_at_a_final_block_only() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| node.final_height = 100 + VALIDITY);
    adrift(&world.look(&attempt, &[]).await);
    world.each(|node| node.final_height = 101 + VALIDITY);
    assert_eq!(sunk(world.look(&attempt, &[]).await).kind, CertificateKind::Expired);
}

/// Whoever was asked when it was signed may have been wrong: the witnesses' own count decides.
#[tokio::test]
async fn a_node_that_takes_transactions_for_short_lived_expires_none_by_itself() {
    let world = world();
    world.each(|node| node.validity = 10);
    let attempt = world.attempt().await;
    assert_eq!(attempt.expires_height, Some(110));
    world.each(|node| node.validity = VALIDITY);
    world.node(0, |node| node.validity = 10);
    world.each(|node| node.final_height = 100 + VALIDITY);
    adrift(&world.look(&attempt, &[]).await);
    world.each(|node| node.final_height = 101 + VALIDITY);
    assert_eq!(sunk(world.look(&attempt, &[]).await).kind, CertificateKind::Expired);
}

/// What is noted may be one node's mistake; an operator is told what a quorum says.
#[tokio::test]
async fn until_when_an_attempt_can_land_is_told_by_a_quorum() {
    let world = world();
    world.each(|node| node.validity = 10);
    let attempt = world.attempt().await;
    world.node(1, |node| node.validity = VALIDITY);
    world.node(2, |node| node.validity = VALIDITY);
    assert_eq!(world.rail.expiry(&attempt).await, Ok(100 + VALIDITY));
    world.node(0, |node| node.earliest = 101);
    assert_eq!(world.rail.expiry(&attempt).await, Ok(100 + VALIDITY));
    world.node(1, |node| node.earliest = 101);
    assert!(world.rail.expiry(&attempt).await.is_err(), "one node is no quorum");
}

#[tokio::test]
async fn a_sighting_vetoes_until_a_quorum_shows_that_its_block_does_not_hold_it() {
    a_sighting_vetoes().await;
}

/// No simulated world shows this wound: whoever can tell the nonces can tell the block as well.
#[tokio::test]
#[should_panic(expected = "not adrift")]
async fn a_veto_that_is_ignored_sinks_what_was_seen_in_a_final_block() {
    wound::inflict(Some(Wound::VetoIgnored));
    a_sighting_vetoes().await;
}

async fn a_sighting_vetoes() {
    let world = world();
    let mut attempt = world.attempt().await;
    let later = world.fence_lands();
    for was_final in [false, true] {
        attempt.sightings = vec![sighting("http://n0", &block_hash(119), was_final)];
        for index in [0, 2] {
            world.node(index, |node| {
                node.chunks.insert(119, attempt.hash.clone());
            });
        }
        adrift(&world.look(&attempt, &later).await);
        world.node(2, |node| {
            node.chunks.insert(119, "another".into());
        });
        sunk(world.look(&attempt, &later).await);
    }
}

#[tokio::test]
async fn a_sighting_vetoes_until_a_quorum_shows_that_its_block_is_off_the_final_chain() {
    let world = world();
    let mut attempt = world.attempt().await;
    let later = world.fence_lands();
    attempt.sightings = vec![sighting("http://n0", "orphan", false)];
    sunk(world.look(&attempt, &later).await);
    world.each(|node| {
        node.orphans.insert("orphan".into(), 119);
    });
    sunk(world.look(&attempt, &later).await);
    attempt.sightings = vec![sighting("http://n0", "orphan", true)];
    sunk(world.look(&attempt, &later).await);
    // Two have collected the block's height: one node alone refutes nothing.
    for index in [0, 1] {
        world.node(index, |node| node.earliest = 121);
    }
    adrift(&world.look(&attempt, &later).await);
}

/// The key's nonce just before the block that passed it tells that no block executed it.
#[tokio::test]
async fn a_sighting_in_an_unnamed_block_is_refuted_by_the_nonces() {
    let world = world();
    let mut attempt = world.attempt().await;
    let later = world.fence_lands();
    attempt.sightings = vec![sighting("http://n0", "", false)];
    world.rail.check().await.unwrap();
    world.node(0, |node| node.down = true);
    sunk(world.look(&attempt, &later).await);
    world.node(1, |node| node.nonces = vec![(0, 4), (110, 5), (120, 6)]);
    adrift(&world.look(&attempt, &later).await);
}

#[tokio::test]
async fn a_nonce_used_by_somebody_else_is_foreign_at_the_second_look() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| {
        node.final_height = 130;
        node.nonces.push((120, 7));
    });
    adrift(&world.look(&attempt, &[]).await);
    assert!(matches!(world.look(&attempt, &[]).await, Look::Foreign(_)));
}

/// An attempt stored while a look was on its way is not taken for a stranger's.
#[tokio::test]
async fn an_attempt_stored_during_the_first_look_is_not_foreign() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    adrift(&world.look(&attempt, &[]).await);
    sunk(world.look(&attempt, &later).await);
}

#[tokio::test]
async fn a_nonce_gone_before_our_later_attempt_is_foreign() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| {
        node.final_height = 130;
        node.nonces = vec![(0, 4), (110, 5), (120, 6)];
    });
    let later = [Later { nonce: Nonce(6), hash: "L".into(), landed_height: Some(120) }];
    adrift(&world.look(&attempt, &later).await);
    assert!(matches!(world.look(&attempt, &later).await, Look::Foreign(_)));
}

/// All three nodes, or only the first, show the batch reverted.
async fn reverted(world: &World, text: &str, nodes: usize) -> Look {
    let attempt = world.attempt().await;
    let result = tx_result(&attempt.hash, "FINAL", &block_hash(110), panic_at(1, text));
    world.each(|node| node.final_height = 130);
    for index in 0..nodes {
        world.node(index, |node| {
            node.txs.insert(attempt.hash.clone(), result.clone());
        });
    }
    world.look(&attempt, &[]).await
}

#[tokio::test]
async fn a_revert_is_believed_of_a_quorum_only() {
    let text = "Smart contract panicked: The account bob.near is not registered";
    let look = reverted(&world(), text, 1).await;
    assert!(adrift(&look).1.is_some_and(|sighting| sighting.was_final));
    let outcomes = outcomes(reverted(&world(), text, 2).await);
    assert_eq!(outcomes[0], Outcome::Sibling);
    assert!(matches!(outcomes[1], Outcome::Unprepared { .. }));
    assert_eq!(outcomes[2], Outcome::Sibling);
}

#[tokio::test]
async fn a_trap_without_words_is_diagnosed_on_the_ledger() {
    let trap = "WebAssembly trap: An `unreachable` opcode was executed.";
    let blamed = async |change: fn(&mut Node)| {
        let world = world();
        world.each(change);
        outcomes(reverted(&world, trap, 3).await).remove(1)
    };
    assert!(matches!(blamed(|_| {}).await, Outcome::Unprepared { .. }));
    let short = blamed(|node| {
        node.registered.push("bob.near".into());
        node.tokens = 19;
    });
    assert!(matches!(short.await, Outcome::RelayFault { shortage: Shortage::Tokens, .. }));
    let ours = blamed(|node| node.registered.clear()).await;
    assert!(matches!(ours, Outcome::RelayFault { shortage: Shortage::Contract, .. }));
    let unexplained = blamed(|node| node.registered.push("bob.near".into())).await;
    assert!(matches!(unexplained, Outcome::Unexplained { .. }));
}

#[tokio::test]
async fn a_payout_of_another_rail_is_never_signed() {
    let world = world();
    let lane = world.rail.lanes().remove(0);
    let changes: [fn(&mut Payout); 3] = [
        |payout| payout.network = "mainnet".into(),
        |payout| payout.token = "other.near".into(),
        |payout| payout.sender = "other.near".into(),
    ];
    for change in changes {
        let Payload::Near(mut other) = payout("alice.near", 1) else { panic!("a payout") };
        change(&mut other);
        let other = Payload::Near(other);
        let signed = world.rail.sign(Purpose::Pay, &[&other], &lane, Nonce(5)).await;
        assert!(matches!(signed, Err(RailError::Misconfigured(_))));
    }
}

#[tokio::test]
async fn an_endpoint_of_another_network_is_never_used() {
    let world = world();
    world.node(0, |node| {
        node.chain_id = "mainnet".into();
        node.final_height = 999_999;
    });
    assert_eq!(base_height(&world.attempt().await), 100);
    let Err(RailError::Misconfigured(why)) = world.rail.check().await else { panic!("refused") };
    assert_eq!(why, "http://n0: serves mainnet, not localnet");
    let health = world.rail.endpoints();
    assert!(!health[0].up && health[1].up, "{health:?}");
}

#[tokio::test]
async fn a_base_block_serves_for_its_time_and_is_then_renewed() {
    let world = world();
    world.attempt().await;
    world.each(|node| node.final_height = 200);
    world.clock.0.fetch_add(29_000, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(base_height(&world.attempt().await), 100);
    world.clock.0.fetch_add(2_000, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(base_height(&world.attempt().await), 200);
    assert_eq!((world.count("block"), world.count("genesis_config")), (2 * 3, 3));
}

#[tokio::test]
async fn many_receivers_are_looked_up_in_order() {
    let world = world();
    let payloads: Vec<Payload> =
        (0..100).map(|n| payout(if n % 3 == 0 { "alice.near" } else { "bob.near" }, 1)).collect();
    let asked: Vec<&Payload> = payloads.iter().collect();
    let answers = world.rail.prepared(&asked).await;
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, Ok(n % 3 == 0));
    }
}

#[tokio::test]
async fn nonces_come_from_the_newest_block_that_a_quorum_has_reached() {
    let world = world();
    world.node(2, |node| (node.final_height, node.nonces) = (90, vec![(0, 3)]));
    let lane = world.rail.lanes().remove(0);
    let expected = LedgerNonce { nonce: Nonce(4), final_height: 100 };
    assert_eq!(world.rail.nonce(&lane).await, Ok(Some(expected)));
    assert_eq!(world.rail.nonces().await, Ok(vec![(lane.clone(), expected)]));
    assert_eq!(world.rail.pulse(&[]).await.unwrap()[0].lane, lane);
    world.node(0, |node| node.down = true);
    world.node(1, |node| node.down = true);
    assert!(matches!(world.rail.nonce(&lane).await, Err(RailError::Unavailable(_))));
}

#[tokio::test]
async fn funds_leave_out_what_storage_locks() {
    let world = world();
    let funds = world.rail.funds(None).await.unwrap();
    assert_eq!(funds.tokens, 1_000);
    assert_eq!(funds.native, 5_000_000_000_000_000_000_000_000 - 182 * STORAGE_PRICE);
    assert_eq!(funds.native_floor, 400 * 1_000_000_000_000 * GAS_PRICE);
}

#[tokio::test]
async fn a_healthy_ledger_passes_the_check() {
    let said = world().rail.check().await.unwrap();
    assert!(said.contains("endpoints 3, keys 1"), "{said}");
}
