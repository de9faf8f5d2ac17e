//! One of three nodes says whatever it likes.

use super::*;
use crate::audit::{Auditor, Seen};
use landfall_core::rail::Caught;
use landfall_rpc::Url;

/// A refusal of a broadcast, for this reason.
fn refusing(reason: Value) -> Option<(u16, Value)> {
    let error = json!({"name": "HANDLER_ERROR", "cause": {"name": "INVALID_TRANSACTION",
        "info": {}}, "code": -32000, "message": "Server error",
        "data": {"TxExecutionError": {"InvalidTxError": reason}}});
    Some((200, json!({"error": error})))
}

fn invalid_signature() -> Option<(u16, Value)> {
    refusing(json!("InvalidSignature"))
}

fn too_much_gas() -> Option<(u16, Value)> {
    let error = json!({"TotalPrepaidGasExceeded": {"total_prepaid_gas": 2, "limit": 1}});
    refusing(json!({"ActionsValidation": error}))
}

fn caught(world: &World, node: usize) -> Option<Caught> {
    let caught: Vec<_> = world.rail.endpoints().into_iter().map(|one| one.caught).collect();
    for (other, caught) in caught.iter().enumerate().filter(|(other, _)| *other != node) {
        assert_eq!(*caught, None, "node {other} has not lied");
    }
    caught[node].clone()
}

/// The attempt has landed in block 110, as all nodes but the liar show.
fn lands(world: &World, attempt: &Attempt, liar: usize) {
    world.each(|node| node.final_height = 130);
    for index in (0..3).filter(|index| *index != liar) {
        world.node(index, |node| {
            node.txs.insert(attempt.hash.clone(), done(&attempt.hash));
            node.send = Some((200, json!({"result": done(&attempt.hash)})));
        });
    }
}

#[tokio::test]
async fn one_nodes_refusal_is_no_refusal() {
    for liar in 0..3 {
        let world = world();
        let attempt = world.attempt().await;
        lands(&world, &attempt, liar);
        world.node(liar, |node| node.send = invalid_signature());
        for round in 0..3 {
            let answer = world.rail.broadcast(&attempt, round).await;
            assert!(matches!(answer, Broadcast::Sent(Some(Look::Landed(_)))), "{answer:?}");
        }
        let caught = caught(&world, liar).expect("who contradicts a quorum is caught");
        assert!(caught.said.contains("not signed"), "{caught:?}");
        assert!(caught.quorum_says.contains(&block_hash(110)), "{caught:?}");
    }
}

#[tokio::test]
async fn a_refusal_is_the_word_of_a_quorum_each_asked_once() {
    let world = world();
    let attempt = world.attempt().await;
    world.node(0, |node| node.send = invalid_signature());
    world.node(1, |node| node.send = invalid_signature());
    // Whoever the third is, it does not answer: unsure, unless two had refused by then.
    let answers = [0, 1, 2].map(async |round| {
        world.net.asked.lock().clear();
        let answer = world.rail.broadcast(&attempt, round).await;
        (matches!(answer, Broadcast::Refused(_)), world.count("send_tx"))
    });
    let mut refused = 0;
    for answer in answers {
        match answer.await {
            (true, 2) => refused += 1,
            (false, 1 | 2) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(refused > 0, "where the two are asked first");
    world.node(2, |node| node.down = true);
    world.node(1, |node| node.down = true);
    let answer = world.rail.broadcast(&attempt, 0).await;
    assert!(matches!(answer, Broadcast::Unsure { .. }), "one refusal alone: {answer:?}");
}

#[tokio::test]
async fn what_a_quorum_refuses_for_a_limit_may_land_when_it_is_raised() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| node.send = too_much_gas());
    let told = world.rail.broadcast(&attempt, 0).await;
    let shortage = Some(Shortage::Refused);
    assert!(matches!(&told, Broadcast::Unsure { shortage: told, .. } if *told == shortage));
    assert_eq!(world.count("send_tx"), 2, "a quorum is enough");
}

#[tokio::test]
async fn what_one_node_refuses_for_a_limit_stops_nobody() {
    let world = world();
    let attempt = world.attempt().await;
    for liar in 0..3 {
        // The others lose the answer.
        world.each(|node| node.send = None);
        world.node(liar, |node| node.send = too_much_gas());
        let told = world.rail.broadcast(&attempt, 0).await;
        assert!(matches!(told, Broadcast::Unsure { shortage: None, .. }), "{liar}: {told:?}");
    }
}

#[tokio::test]
async fn one_nodes_success_is_not_believed_and_its_block_is_heard_of_elsewhere() {
    for liar in 0..3 {
        let world = world();
        let mut attempt = world.attempt().await;
        world.each(|node| node.final_height = 130);
        let forged = tx_result(&attempt.hash, "FINAL", "forged", json!({"SuccessValue": ""}));
        world.node(liar, |node| {
            node.txs.insert(attempt.hash.clone(), forged.clone());
            node.send = Some((200, json!({"result": forged.clone()})));
        });
        let look = world.look(&attempt, &[]).await;
        let sighting = adrift(&look).1.expect("what it says is kept").clone();
        assert_eq!((sighting.block_hash.as_str(), sighting.was_final), ("forged", true));
        attempt.sightings.push(sighting);
        let sent = world.rail.broadcast(&attempt, 1).await;
        assert!(!matches!(sent, Broadcast::Sent(Some(Look::Landed(_)))), "{sent:?}");
        assert_eq!(caught(&world, liar), None, "nobody contradicts it yet");

        lands(&world, &attempt, liar);
        for _ in 0..3 {
            let Look::Landed(landing) = world.look(&attempt, &[]).await else { panic!("landed") };
            assert_eq!(landing.block_hash, block_hash(110));
        }
        assert!(caught(&world, liar).unwrap().said.contains("forged"));
    }
}

#[tokio::test]
async fn done_told_as_reverted_and_reverted_as_done_are_not_believed() {
    let text = "Smart contract panicked: The account bob.near is not registered";
    for liar in 0..3 {
        for lie_is_revert in [true, false] {
            let world = world();
            let attempt = world.attempt().await;
            let reverted = tx_result(&attempt.hash, "FINAL", &block_hash(110), panic_at(1, text));
            let (truth, lie) = match lie_is_revert {
                true => (done(&attempt.hash), reverted),
                false => (reverted, done(&attempt.hash)),
            };
            world.each(|node| {
                node.final_height = 130;
                node.txs.insert(attempt.hash.clone(), truth.clone());
            });
            world.node(liar, |node| {
                node.txs.insert(attempt.hash.clone(), lie.clone());
            });
            for _ in 0..3 {
                let outcomes = outcomes(world.look(&attempt, &[]).await);
                assert_eq!(outcomes == vec![Outcome::Done; 3], lie_is_revert, "{outcomes:?}");
            }
            caught(&world, liar).expect("who contradicts a quorum is caught");
        }
    }
}

#[tokio::test]
async fn a_forged_success_of_what_is_dead_delays_and_does_not_decide() {
    let world = world();
    let mut attempt = world.attempt().await;
    let later = world.fence_lands();
    let forged = tx_result(&attempt.hash, "FINAL", "forged", json!({"SuccessValue": ""}));
    world.node(1, |node| {
        node.txs.insert(attempt.hash.clone(), forged.clone());
    });
    let look = world.look(&attempt, &later).await;
    attempt.sightings.push(adrift(&look).1.expect("stored first").clone());
    for _ in 0..3 {
        let look = world.look(&attempt, &later).await;
        // Whoever is asked first may be the liar, who is heard before the others are.
        if !matches!(look, Look::Adrift { .. }) {
            sunk(look);
        }
    }
    sunk(world.look(&attempt, &later).await);
    assert!(caught(&world, 1).unwrap().said.contains("forged"));
}

#[tokio::test]
async fn one_nodes_nonces_neither_halt_nor_hide() {
    for lie in [
        |_: &str, result: &mut Value| {
            let higher = |nonce: &mut Value| *nonce = json!(nonce.as_u64().unwrap() + 5_000);
            if let Some(nonce) = result.get_mut("nonce") {
                higher(nonce);
            }
            for key in result["keys"].as_array_mut().into_iter().flatten() {
                higher(&mut key["access_key"]["nonce"]);
            }
        },
        |_: &str, result: &mut Value| {
            if result.get("nonce").is_some() {
                result["nonce"] = json!(1);
            }
            for key in result["keys"].as_array_mut().into_iter().flatten() {
                key["access_key"]["nonce"] = json!(1);
            }
        },
    ] as [fn(&str, &mut Value); 2]
    {
        let world = world();
        world.node(1, |node| node.lie = Some(lie));
        let lane = world.rail.lanes().remove(0);
        let expected = LedgerNonce { nonce: Nonce(4), final_height: 100 };
        assert_eq!(world.rail.nonce(&lane).await, Ok(Some(expected)));
        assert_eq!(world.rail.nonces().await, Ok(vec![(lane, expected)]));
        let caught = caught(&world, 1).expect("who contradicts a quorum is caught");
        assert!(caught.quorum_says.contains("4"), "{caught:?}");
    }
}

#[tokio::test]
async fn one_nodes_heights_are_not_signed_on_and_are_noticed() {
    let world = world();
    world.node(0, |node| {
        node.lie = Some(|method, result| {
            let higher = |height: &mut Value| {
                *height = json!(height.as_u64().unwrap() + 10_000_000);
            };
            match method {
                "block" => higher(&mut result["header"]["height"]),
                "query" => higher(&mut result["block_height"]),
                _ => {}
            }
        });
    });
    let attempt = world.attempt().await;
    assert_eq!((base_height(&attempt), attempt.expires_height), (100, Some(100 + VALIDITY)));
    assert!(caught(&world, 0).unwrap().said.contains("10000100"));
}

#[tokio::test]
async fn one_absurd_height_of_an_only_node_is_not_signed_on_for_ever() {
    let world = world_of(1);
    world.node(0, |node| {
        node.lie = Some(|method, result| {
            if method == "block" {
                result["header"]["height"] = json!(999_999_999);
            }
        });
    });
    assert_eq!(base_height(&world.attempt().await), 999_999_999, "the only node is believed");
    world.node(0, |node| node.lie = None);
    // Blocks count as 600 ms: a base block serves for a twentieth of a life, and four times that.
    let (fresh_ms, usable_ms) = (30_000, 120_000);
    world.clock.0.fetch_add(fresh_ms + 1, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(
        base_height(&world.attempt().await),
        999_999_999,
        "an old one may come from a lagger"
    );
    world.clock.0.fetch_add(usable_ms, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(base_height(&world.attempt().await), 100);
}

#[tokio::test]
async fn a_deposit_is_what_a_quorum_names_and_never_above_the_cap() {
    let world = world();
    let lane = world.rail.lanes().remove(0);
    let payload = payout("bob.near", 1);
    world.node(1, |node| node.deposit = u128::MAX);
    let signed = world.rail.sign(Purpose::Prepare, &[&payload], &lane, Nonce(5)).await;
    signed.expect("two agree");
    assert_eq!(world.rail.knowledge.last_deposit(), Some(1_250));

    let world = world_of(3);
    world.each(|node| node.deposit = crate::settings::DEPOSIT_MAX + 1);
    let Err(RailError::Misconfigured(why)) =
        world.rail.sign(Purpose::Prepare, &[&payload], &lane, Nonce(5)).await
    else {
        panic!("above the cap")
    };
    assert!(why.contains("near.deposit_max_millinear"), "{why}");
}

#[tokio::test]
async fn a_node_of_another_beginning_excludes_itself_and_nobody_else() {
    for liar in 0..3 {
        let world = world();
        world.node(liar, |node| node.genesis = "another".into());
        world.attempt().await;
        let mut up: Vec<bool> = world.rail.endpoints().iter().map(|one| one.up).collect();
        assert!(!up.remove(liar) && up.contains(&true), "{:?}", world.rail.endpoints());
    }
}

/// A node says that a receiver is registered, and a batch is reverted because it is not.
#[tokio::test]
async fn a_receiver_that_proved_unregistered_is_asked_of_a_quorum_next() {
    let world = world();
    world.node(0, |node| node.registered.push("bob.near".into()));
    let text = "Smart contract panicked: The account bob.near is not registered";
    outcomes(reverted(&world, text, 3).await);
    let payload = payout("bob.near", 1);
    for _ in 0..3 {
        // Doubted until it was asked once; the liar is asked last from then on.
        assert_eq!(world.rail.prepared(&[&payload]).await, [Ok(false)]);
    }
    assert!(caught(&world, 0).unwrap().said.contains("storage_balance_of"));
}

/// A node shows one outcome of a hash even where there were several.
#[tokio::test]
async fn an_outcome_as_invalid_is_not_believed_over_the_block_that_passed_the_nonce() {
    let world = world();
    let attempt = world.attempt().await;
    let later = world.fence_lands();
    let failure = json!({"Failure": {"InvalidTxError": {"NotEnoughBalance":
        {"signer_id": RELAY, "balance": "1", "cost": "2"}}}});
    let invalid = |height: u64| {
        json!({"final_execution_status": "FINAL", "status": failure,
            "transaction": {"hash": attempt.hash}, "receipts_outcome": [],
            "transaction_outcome": {"id": attempt.hash, "block_hash": block_hash(height),
                "outcome": {"status": failure}}})
    };
    world.each(|node| {
        node.txs.insert(attempt.hash.clone(), invalid(105));
        node.chunks.insert(120, attempt.hash.clone());
    });
    adrift(&world.look(&attempt, &later).await);
    // In that very block it was invalid: then it did not land there.
    world.each(|node| {
        node.txs.insert(attempt.hash.clone(), invalid(120));
    });
    sunk(world.look(&attempt, &later).await);
}

#[tokio::test]
async fn an_audit_takes_no_single_nodes_word() {
    let world = world();
    let attempt = world.attempt().await;
    let urls = (0..3).map(|n| Url::parse(&format!("http://n{n}")).unwrap()).collect();
    let (net, clock) = (world.net.clone(), world.clock.clone());
    let endpoints = Endpoints::new(urls, net, clock.clone(), Default::default()).unwrap();
    let auditor = Auditor::new(endpoints, clock, "localnet".into());
    let seen = async || auditor.seen(&attempt.hash, RELAY, TOKEN).await.unwrap();
    assert_eq!(seen().await, Seen::Unknown);
    world.node(1, |node| {
        node.txs.insert(attempt.hash.clone(), done(&attempt.hash));
    });
    assert_eq!(seen().await, Seen::Unsettled, "neither done nor unknown");
    world.node(2, |node| {
        node.txs.insert(attempt.hash.clone(), done(&attempt.hash));
    });
    assert!(matches!(seen().await, Seen::Done(_)));
    world.node(0, |node| node.final_height = 10_000_100);
    assert_eq!(auditor.final_height().await, Ok(100));
}
