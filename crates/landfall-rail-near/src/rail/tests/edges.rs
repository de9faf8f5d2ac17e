//! The edges of a look: the very block that decides, what is not asked where nothing is decided,
//! and what an operator or a run of torture is told of it.

use landfall_core::guard::{self, Guard};

use super::*;

/// The key is not on the account any more.
fn without_key(_: &str, result: &mut Value) {
    if result.get("nonce").is_some() {
        result["error"] = json!("access key K does not exist while viewing");
    }
}

fn optimistic(hash: &str, receipt: Value) -> Value {
    tx_result(hash, "EXECUTED_OPTIMISTIC", &block_hash(110), receipt)
}

fn shown(world: &World, nodes: &[usize], hash: &str, result: &Value) {
    for index in nodes {
        world.node(*index, |node| {
            node.txs.insert(hash.to_owned(), result.clone());
        });
    }
}

/// How often a method is asked in one look.
async fn asked(world: &World, attempt: &Attempt, later: &[Later], method: &str) -> usize {
    let before = world.count(method);
    world.look(attempt, later).await;
    world.count(method) - before
}

#[tokio::test]
async fn while_nothing_is_decided_neither_expiry_nor_passing_block_is_asked_for() {
    let world = world();
    let attempt = world.attempt().await;
    let fence = world.fence_lands();
    // Landed, as the store has it; these nodes have not reached that block.
    world.each(|node| (node.final_height, node.nonces) = (119, vec![(0, 4)]));
    assert_eq!(asked(&world, &attempt, &fence, "block").await, 0);
    // Nor do they where the nonce is not used at a block that they have reached.
    world.each(|node| node.final_height = 130);
    assert_eq!(asked(&world, &attempt, &fence, "block").await, 0);
    for final_height in [130, 100 + VALIDITY] {
        world.each(|node| node.final_height = final_height);
        assert_eq!(asked(&world, &attempt, &[], "genesis_config").await, 0);
    }
    world.each(|node| node.final_height = 101 + VALIDITY);
    assert_eq!(asked(&world, &attempt, &[], "genesis_config").await, 3);
}

#[tokio::test]
async fn what_passed_at_a_block_that_is_not_final_here_is_not_read() {
    let world = world();
    let attempt = world.attempt().await;
    let fence = world.fence_lands();
    world.each(|node| (node.final_height, node.nonces) = (119, vec![(0, 4), (118, 6)]));
    assert_eq!(asked(&world, &attempt, &fence, "block").await, 0);
}

#[tokio::test]
async fn a_nodes_shorter_life_of_transactions_expires_nothing_before_its_noted_end() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| (node.validity, node.final_height) = (10, 500));
    adrift(&world.look(&attempt, &[]).await);
}

#[tokio::test]
async fn a_node_without_the_history_is_heard_while_nothing_is_decided() {
    let world = world();
    let attempt = world.attempt().await;
    world.each(|node| (node.final_height, node.earliest) = (130, 101));
    let look = world.look(&attempt, &[]).await;
    assert!(!adrift(&look).0.contains('('), "nobody was silent: {look:?}");
    world.node(1, |node| node.down = true);
    let look = world.rail.inquest(&attempt, &[]).await.unwrap();
    assert!(adrift(&look).0.contains("connection refused"), "who was silent: {look:?}");
}

#[tokio::test]
async fn a_transaction_that_a_node_has_in_no_block_is_unknown_to_it() {
    let world = world();
    let attempt = world.attempt().await;
    let fence = world.fence_lands();
    shown(&world, &[0, 1, 2], &attempt.hash, &json!({"final_execution_status": "NONE"}));
    sunk(world.look(&attempt, &fence).await);
}

#[tokio::test]
async fn where_the_key_is_gone_an_unnamed_sighting_is_refuted_by_whoever_told_it() {
    let world = world();
    let mut attempt = world.attempt().await;
    attempt.sightings = vec![sighting("http://n0", "", false)];
    world.each(|node| {
        node.final_height = 101 + VALIDITY;
        node.lie = Some(without_key);
    });
    world.node(0, |node| node.down = true);
    adrift(&world.rail.inquest(&attempt, &[]).await.unwrap());
    world.node(0, |node| node.down = false);
    sunk(world.rail.inquest(&attempt, &[]).await.unwrap());
}

#[tokio::test]
async fn a_sighting_needs_a_block_once_it_is_called_final() {
    let world = world();
    let attempt = world.attempt().await;
    let hash = json!({"hash": attempt.hash});
    let seen = json!({"final_execution_status": "INCLUDED", "transaction": hash});
    shown(&world, &[0, 1, 2], &attempt.hash, &seen);
    let look = world.look(&attempt, &[]).await;
    assert_eq!(adrift(&look).1.expect("in some block").block_hash, "");
    let ended = json!({"final_execution_status": "FINAL", "transaction": hash});
    shown(&world, &[0, 1, 2], &attempt.hash, &ended);
    world.rail.look(&attempt, false).await.unwrap_err();
}

#[tokio::test]
async fn which_sighting_still_stands_is_told_to_an_operator() {
    let world = world();
    let mut attempt = world.attempt().await;
    world.fence_lands();
    attempt.sightings = vec![sighting("http://n0", &block_hash(119), false)];
    assert_eq!(world.rail.standing_sighting(&attempt).await, Ok(None));
    world.each(|node| {
        node.chunks.insert(119, attempt.hash.clone());
    });
    let standing = world.rail.standing_sighting(&attempt).await.unwrap().expect("it stands");
    assert!(standing.contains("http://n0"), "{standing}");
}

#[tokio::test]
async fn a_nonce_doubted_before_and_explained_since_is_not_foreign() {
    let world = world();
    let attempt = world.attempt().await;
    world.fence_lands();
    adrift(&world.look(&attempt, &[]).await);
    world.each(|node| node.nonces.push((125, 8)));
    let open = |nonce| Later { nonce: Nonce(nonce), hash: "H".into(), landed_height: None };
    adrift(&world.look(&attempt, &[open(6), open(9)]).await);
    let look = world.look(&attempt, &[open(6), open(9)]).await;
    assert!(matches!(look, Look::Foreign(_)), "doubted twice: {look:?}");
}

#[tokio::test]
async fn a_block_that_was_not_asked_for_tells_no_height() {
    let world = world_of(1);
    let attempt = world.attempt().await;
    shown(&world, &[0], &attempt.hash, &done(&attempt.hash));
    world.node(0, |node| {
        node.final_height = 130;
        node.lie = Some(|method, result| {
            if method == "block" {
                result["header"]["hash"] = json!("another");
            }
        });
    });
    world.rail.look(&attempt, false).await.unwrap_err();
    world.node(0, |node| node.lie = None);
    assert_eq!(outcomes(world.look(&attempt, &[]).await), vec![Outcome::Done; 3]);
}

#[tokio::test]
async fn an_action_that_is_not_there_is_nobodys_fault() {
    for (index, is_there) in [(2, true), (3, false)] {
        let world = world();
        let attempt = world.attempt().await;
        let text = "Smart contract panicked: The account carol.near is not registered";
        let result = tx_result(&attempt.hash, "FINAL", &block_hash(110), panic_at(index, text));
        world.each(|node| node.final_height = 130);
        shown(&world, &[0, 1, 2], &attempt.hash, &result);
        assert_eq!(world.rail.look(&attempt, false).await.is_ok(), is_there, "{index}");
    }
}

#[tokio::test]
async fn what_the_contract_says_counts_over_what_the_ledger_shows_later() {
    let world = world();
    world.each(|node| node.registered.push("bob.near".into()));
    let text = "Smart contract panicked: The account bob.near is not registered";
    let told = outcomes(reverted(&world, text, 3).await);
    assert!(matches!(told[1], Outcome::Unprepared { .. }), "{told:?}");
    // Without words: nobody is short who has just what is asked for, alice's and bob's.
    for (tokens, is_short) in [(20, false), (19, true)] {
        world.each(|node| node.tokens = tokens);
        let told = outcomes(reverted(&world, "WebAssembly trap", 3).await);
        assert_eq!(matches!(told[1], Outcome::RelayFault { .. }), is_short, "{told:?}");
    }
}

#[tokio::test]
async fn a_registration_that_fails_is_never_for_lack_of_one() {
    let texts =
        ["WebAssembly trap", "Smart contract panicked: The account bob.near is not registered"];
    for text in texts {
        let world = world();
        let mut attempt = world.attempt().await;
        let payloads = ["bob.near", "carol.near"].map(|name| payout(name, 10));
        let payloads: Vec<&Payload> = payloads.iter().collect();
        let lane = attempt.lane.clone();
        let signed = world.rail.sign(Purpose::Prepare, &payloads, &lane, Nonce(5)).await.unwrap();
        (attempt.purpose, attempt.hash, attempt.bytes) =
            (Purpose::Prepare, signed.hash, signed.bytes);
        attempt.members.truncate(2);
        let result = tx_result(&attempt.hash, "FINAL", &block_hash(110), panic_at(0, text));
        world.each(|node| node.final_height = 130);
        shown(&world, &[0, 1, 2], &attempt.hash, &result);
        let told = outcomes(world.look(&attempt, &[]).await);
        assert!(matches!(told[0], Outcome::Unexplained { .. }), "{told:?}");
    }
}

#[tokio::test]
async fn the_guards_of_a_look_tell_what_was_held_off() {
    let world = world();
    let attempt = world.attempt().await;
    let (success, revert) = (json!({"SuccessValue": ""}), panic_at(1, "no"));
    let ended =
        |receipt: &Value| tx_result(&attempt.hash, "FINAL", &block_hash(110), receipt.clone());
    let early = |receipt: &Value| optimistic(&attempt.hash, receipt.clone());
    world.each(|node| node.final_height = 130);
    for (result, expected) in [
        (early(&success), Guard::NotFinalYet),
        (early(&revert), Guard::RevertNotFinalYet),
        (ended(&success), Guard::SuccessNotShared),
        (ended(&revert), Guard::RevertNotShared),
    ] {
        world.each(|node| node.txs.clear());
        shown(&world, &[1], &attempt.hash, &result);
        guard::take();
        adrift(&world.look(&attempt, &[]).await);
        assert_eq!(guard::take(), [expected]);
    }
    shown(&world, &[0, 1, 2], &attempt.hash, &ended(&success));
    world.look(&attempt, &[]).await;
    assert_eq!(guard::take(), []);
}

#[tokio::test]
async fn the_guards_of_a_certificate_tell_what_it_rests_on() {
    let world = world();
    let attempt = world.attempt().await;
    let fence = world.fence_lands();
    let met = async |later: &[Later]| {
        guard::take();
        let look = world.look(&attempt, later).await;
        (matches!(look, Look::Sunk(_)), guard::take())
    };
    assert_eq!(met(&fence).await, (true, vec![Guard::NoncePassed]));
    world.node(0, |node| node.down = true);
    assert_eq!(met(&fence).await, (true, vec![Guard::NoncePassed]), "two are a quorum");
    world.node(1, |node| node.down = true);
    assert_eq!(met(&fence).await, (false, vec![Guard::TooFewWitnesses]));
    world.node(2, |node| node.down = true);
    guard::take();
    adrift(&world.rail.inquest(&attempt, &fence).await.unwrap());
    assert_eq!(guard::take(), [], "nobody is no witness");
    world.each(|node| {
        (node.down, node.nonces) = (false, vec![(0, 4)]);
        (node.final_height, node.validity) = (101 + VALIDITY, VALIDITY + 1);
    });
    assert_eq!(met(&[]).await, (false, vec![Guard::NotExpiredYet]), "by the nodes' own count");
    world.each(|node| node.validity = VALIDITY);
    assert_eq!(met(&[]).await, (true, vec![Guard::Expired]));
    let certificate = sunk(world.look(&attempt, &[]).await);
    assert!(certificate.summary.contains("expired"), "{}", certificate.summary);
}
