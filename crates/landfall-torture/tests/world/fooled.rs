//! One test per way in which a relay can be made to take paid for unpaid.

use std::sync::Arc;

use bytes::Bytes;
use landfall_core::store::{LaneStore, Store};
use landfall_core::wound::{self, Wound};
use landfall_core::{CertificateKind, Fate, Purpose, RailName};
use landfall_rail_near::{Auditor, Seen};
use landfall_rpc::{Endpoints, HttpAnswer, Url};
use landfall_sim_near::keys;
use landfall_sim_near::ledger::{Decree, Ledger, Refusals};
use landfall_sim_near::rpc;
use landfall_sim_near::server::{CHAIN_ID, RELAY, TOKEN};
use landfall_torture::near::{Lie, World, WorldConfig};
use near_crypto::SecretKey;
use near_primitives::transaction::SignedTransaction;
use parking_lot::Mutex;
use serde_json::{Value, json};

const MINUTE_MS: u64 = 60_000;

fn one_key() -> WorldConfig {
    WorldConfig { keys: 1, ..WorldConfig::default() }
}

/// A world whose receivers are registered, so that the first attempt pays.
async fn world(config: WorldConfig) -> World {
    let world = World::start(config).await;
    let accounts = ["alice.near", "bob.near", "carol.near"];
    let account_ids = accounts.iter().map(|account| account.parse().unwrap()).collect();
    world.decree(Decree::Register { account_ids });
    world.run_ms(3_000).await;
    world
}

fn answer(http_status: u16, body: Value) -> Option<HttpAnswer> {
    Some(HttpAnswer { status: http_status, body: Bytes::from(body.to_string()) })
}

/// Refuses every broadcast with this reason, after passing it on to nobody.
fn invalid_tx(reason: Value) -> Lie {
    Arc::new(move |request| {
        (request["method"] == "send_tx").then_some(())?;
        answer(
            200,
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {
                "name": "HANDLER_ERROR", "code": -32000, "message": "Server error",
                "cause": {"name": "INVALID_TRANSACTION", "info": {}},
                "data": {"TxExecutionError": {"InvalidTxError": reason}},
            }}),
        )
    })
}

/// Says of every transaction that it is unknown.
fn knows_nothing() -> Lie {
    Arc::new(|request| {
        (request["method"] == "tx").then_some(())?;
        let info = json!({"requested_transaction_hash": request["params"]["tx_hash"]});
        answer(
            200,
            json!({"jsonrpc": "2.0", "id": request["id"], "error": {
                "name": "HANDLER_ERROR", "code": -32000, "message": "Server error",
                "cause": {"name": "UNKNOWN_TRANSACTION", "info": info},
                "data": "Transaction doesn't exist",
            }}),
        )
    })
}

async fn check_paid_once(world: &World, key: &str) {
    assert_eq!(world.times_paid(key), 1, "{key} on the ledger");
    assert_eq!(world.state(key).await, "COMPLETED");
}

#[tokio::test(start_paused = true)]
async fn a_payout_lands_once_with_the_full_trail() {
    let world = World::start(WorldConfig::default()).await;
    world.pay("k", "dave.near", 7).await;
    world.run_until_final(&["k".into()], MINUTE_MS).await;
    check_paid_once(&world, "k").await;
    let names: Vec<_> = world.trail("k").await.iter().map(|entry| entry.event.name()).collect();
    assert_eq!(
        names,
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
}

#[tokio::test(start_paused = true)]
async fn nodes_that_take_and_never_answer_for_ten_minutes_lead_to_no_second_payment() {
    let world = world(one_key()).await;
    world.network.all(|node| node.lose_fates = true);
    for n in 0..20 {
        world.pay(&format!("k{n}"), "alice.near", 1).await;
    }
    world.run_ms(10 * MINUTE_MS).await;
    assert_eq!(world.times_paid("k0"), 1, "it landed long ago, unseen");
    assert_ne!(world.state("k0").await, "COMPLETED");
    world.network.all(|node| node.lose_fates = false);
    let keys: Vec<_> = (0..20).map(|n| format!("k{n}")).collect();
    world.run_until_final(&keys, 5 * MINUTE_MS).await;
    for key in &keys {
        check_paid_once(&world, key).await;
    }
}

/// A node passes on the second attempt of a lane before the first, whose nonce is used then: it can
/// never land, whenever it is passed on, and its payout goes with a new one.
#[tokio::test(start_paused = true)]
async fn a_payout_that_is_overtaken_in_its_window_is_paid_once() {
    let world = world(WorldConfig { window: 2, ..one_key() }).await;
    world.network.all(|node| node.holds_back = true);
    world.pay("first", "alice.near", 1).await;
    world.run_ms(200).await;
    let overtaken = world.store.open_attempts_of(RailName::Near).await.unwrap().remove(0);
    world.network.all(|node| node.holds_back = false);
    world.pay("second", "bob.near", 1).await;
    world.run_ms(2_000).await;
    assert_eq!((world.times_paid("first"), world.times_paid("second")), (0, 1));
    world.network.pass_on(|| true);
    world.run_until_final(&["first".into(), "second".into()], MINUTE_MS).await;
    check_paid_once(&world, "first").await;
    check_paid_once(&world, "second").await;
    let fate = world.store.attempt(overtaken.id).await.unwrap().unwrap().fate;
    let Some(Fate::Sunk(certificate)) = fate else { panic!("{fate:?}") };
    assert_eq!(certificate.kind, CertificateKind::NoncePassed, "{certificate:?}");
}

/// Requests vanish for good; the fence decides, and the certificate is in the trail.
#[tokio::test(start_paused = true)]
async fn the_fence_decides_what_vanished_and_leaves_its_certificate() {
    let world = world(one_key()).await;
    world.network.all(|node| node.forgets = true);
    world.pay("k", "alice.near", 1).await;
    world.run_ms(90_000).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert!(open.iter().any(|attempt| attempt.purpose == Purpose::Fence), "{open:?}");
    // Only the fence gets through: the payout itself is swallowed for ever.
    let lost = open[0].hash.clone();
    let swallow: Lie = Arc::new(move |request| {
        (request["method"] == "send_tx").then_some(())?;
        let signed = rpc::signed_in(request)?;
        let timeout = json!({"jsonrpc": "2.0", "id": request["id"], "error": {
            "name": "HANDLER_ERROR", "code": -32000, "cause": {"name": "TIMEOUT_ERROR"},
            "message": "Server error", "data": "Timeout",
        }});
        (signed.get_hash().to_string() == lost).then(|| answer(408, timeout)).flatten()
    });
    world.network.all(|node| {
        node.forgets = false;
        node.lie = Some(swallow.clone());
    });
    world.run_until_final(&["k".into()], 5 * MINUTE_MS).await;
    check_paid_once(&world, "k").await;
    let certificates: Vec<_> =
        world.trail("k").await.into_iter().filter_map(|entry| entry.certificate).collect();
    assert_eq!(certificates.len(), 1);
    assert_eq!(certificates[0].kind, CertificateKind::NoncePassed, "{certificates:?}");
}

/// Nodes refuse a transaction that is on its way, or landed, with reasons that prove nothing.
async fn refused_though_it_lands(reason: Value) {
    let world = world(one_key()).await;
    world.network.all(|node| node.lose_fates = true);
    world.pay("k", "alice.near", 1).await;
    world.run_ms(5_000).await;
    assert_eq!(world.times_paid("k"), 1, "it landed, unseen");
    // No look may settle the matter before the bytes are sent again, and refused.
    let refuse = invalid_tx(reason);
    let lie: Lie = Arc::new(move |request| {
        let looks = request["method"] == "tx";
        if looks { answer(503, json!("busy")) } else { refuse(request) }
    });
    world.network.all(|node| (node.lose_fates, node.lie) = (false, Some(lie.clone())));
    world.run_ms(3 * MINUTE_MS).await;
    assert_eq!(world.state("k").await, "QUEUED_VERIFICATION", "what may have landed is unknown");
    world.network.all(|node| node.lie = None);
    world.run_until_final(&["k".into()], 5 * MINUTE_MS).await;
    check_paid_once(&world, "k").await;
}

#[tokio::test(start_paused = true)]
async fn expired_given_for_a_transaction_that_landed_is_not_believed() {
    refused_though_it_lands(json!("Expired")).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_nonce_given_for_a_transaction_that_landed_is_not_believed() {
    refused_though_it_lands(json!({"InvalidNonce": {"tx_nonce": 1, "ak_nonce": 1}})).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_signature_is_not_believed_of_bytes_that_may_have_been_sent() {
    refused_though_it_lands(json!("InvalidSignature")).await;
}

/// A ledger whose limit is low for a while, and nodes of which one keeps what all of them refuse.
async fn refused_for_gas_and_kept(until_raised_ms: u64) {
    let mut config = WorldConfig::default();
    let raised = config.ledger.clone();
    config.ledger.max_transaction_gas = 1;
    let world = world(config).await;
    let kept: Arc<Mutex<Vec<SignedTransaction>>> = Arc::default();
    let keeps = kept.clone();
    let lie: Lie = Arc::new(move |request| {
        keeps.lock().extend(rpc::signed_in(request));
        None
    });
    world.network.all(|node| node.lie = Some(lie.clone()));
    world.pay("k", "alice.near", 1).await;
    world.run_ms(until_raised_ms).await;
    assert!(world.engine.status().await.rails[0].paused.is_some(), "and says why");
    assert_eq!(world.times_paid("k"), 0);
    world.network.ledger.lock().set_settings(raised);
    for signed in kept.lock().iter() {
        world.network.ledger.lock().submit(Arc::new(signed.clone()));
    }
    world.run_until_final(&["k".into()], 5 * MINUTE_MS).await;
    world.run_ms(MINUTE_MS).await;
    check_paid_once(&world, "k").await;
}

#[tokio::test(start_paused = true)]
async fn what_a_quorum_refuses_for_its_gas_may_land_when_the_limit_is_raised() {
    refused_for_gas_and_kept(5_000).await;
}

#[tokio::test(start_paused = true)]
#[should_panic = "k on the ledger"]
async fn a_refusal_for_gas_that_counts_as_certain_pays_twice() {
    wound::inflict(Some(Wound::RulesNeverChange));
    refused_for_gas_and_kept(5_000).await;
}

/// By then a fence has sunk it, and others were signed.
#[tokio::test(start_paused = true)]
async fn what_was_refused_for_its_gas_and_fenced_off_never_lands() {
    refused_for_gas_and_kept(5 * MINUTE_MS).await;
}

/// It landed while nobody could see it, and the history is gone: only an operator can say.
#[tokio::test(start_paused = true)]
async fn history_that_is_gone_proves_nothing() {
    let mut config = one_key();
    config.ledger.history_blocks = 200;
    config.ledger.validity_blocks = 60;
    let world = world(config).await;
    world.network.all(|node| node.lose_fates = true);
    world.pay("k", "alice.near", 1).await;
    world.run_ms(5 * MINUTE_MS).await;
    assert_eq!(world.times_paid("k"), 1);
    world.network.all(|node| node.lose_fates = false);
    world.run_ms(30 * MINUTE_MS).await;
    assert_eq!(world.times_paid("k"), 1, "never again");
    assert_eq!(world.state("k").await, "QUEUED_VERIFICATION", "unknown is neither");
}

#[tokio::test(start_paused = true)]
async fn what_one_node_saw_and_two_forgot_is_neither_paid_again_nor_completed() {
    let world = world(one_key()).await;
    world.network.all(|node| node.lose_fates = true);
    world.pay("k", "alice.near", 1).await;
    world.run_ms(5_000).await;
    assert_eq!(world.times_paid("k"), 1);
    world.network.all(|node| node.lose_fates = false);
    for node in 1..3 {
        world.network.node(node, |node| node.amnesic = true);
    }
    world.run_ms(10 * MINUTE_MS).await;
    assert_eq!(world.times_paid("k"), 1, "never again");
    assert_eq!(world.state("k").await, "QUEUED_VERIFICATION", "one node's word completes nothing");
    assert!(!world.lanes_halted().await, "nor do two that forgot halt anything");
    world.network.all(|node| node.amnesic = false);
    world.run_until_final(&["k".into()], 5 * MINUTE_MS).await;
    check_paid_once(&world, "k").await;
    assert!(world.trail("k").await.iter().all(|entry| entry.certificate.is_none()));
}

/// Two nodes have forgotten it, and whoever stops asking at a quorum never comes to the third.
#[tokio::test(start_paused = true)]
async fn an_auditor_asks_everybody_before_it_believes_in_nothing() {
    let world = world(one_key()).await;
    world.pay("k", "alice.near", 1).await;
    world.run_until_final(&["k".into()], MINUTE_MS).await;
    let hash = world.trail("k").await.iter().find_map(|entry| entry.tx_hash.clone());
    for node in 0..2 {
        world.network.node(node, |node| node.amnesic = true);
    }
    let url = |node: usize| Url::parse(&format!("http://node{node}")).expect("well-formed");
    let (wire, clock) = (world.network.clone(), world.clock.clone());
    let nodes = (0..3).map(url).collect();
    let endpoints = Endpoints::new(nodes, wire, clock.clone(), Default::default());
    let auditor = Auditor::new(endpoints.expect("three nodes"), clock, CHAIN_ID.to_owned());
    let seen = auditor.seen(&hash.expect("an attempt paid it"), RELAY, TOKEN).await;
    assert_eq!(seen.expect("all nodes answer"), Seen::Unsettled, "neither unknown nor done");
}

/// While the one that saw it cannot be reached, two that did not are a quorum of three; but a
/// stored sighting still stands against them.
#[tokio::test(start_paused = true)]
async fn a_sighting_vetoes_the_certificate_while_its_block_may_be_final() {
    let world = world(one_key()).await;
    for node in 1..3 {
        world.network.node(node, |node| node.lie = Some(knows_nothing()));
    }
    world.network.node(0, |node| node.lose_fates = true);
    world.pay("k", "alice.near", 1).await;
    world.run_ms(1_200).await;
    world.network.node(0, |node| node.lose_fates = false);
    world.run_ms(700).await;
    world.network.node(0, |node| node.down = true);
    world.run_ms(20 * MINUTE_MS).await;
    assert!(world.times_paid("k") <= 1);
    world.network.all(|node| (node.down, node.lie) = (false, None));
    world.run_until_final(&["k".into()], 10 * MINUTE_MS).await;
    check_paid_once(&world, "k").await;
}

/// Included as invalid in one block and landed in another, in either order. Nodes show one of the
/// two, by the blocks' hashes: what they show as invalid proves nothing and is paid to nobody anew.
async fn included_twice_is_paid_once(after_ms: u64, disturb: impl Fn(&mut Ledger)) {
    let mut completed = 0;
    for amount in 1..=8 {
        let world = world(one_key()).await;
        world.pay("k", "alice.near", amount).await;
        world.run_ms(after_ms).await;
        disturb(&mut world.network.ledger.lock());
        world.run_until_final(&["k".into()], 5 * MINUTE_MS).await;
        assert_eq!(world.times_paid("k"), 1, "{amount} on the ledger");
        let state = world.state("k").await;
        assert!(["COMPLETED", "QUEUED_VERIFICATION"].contains(&state), "{amount} is {state}");
        assert!(!world.lanes_halted().await, "nobody else used the key");
        completed += usize::from(state == "COMPLETED");
    }
    assert!(completed > 0, "what is shown as landed is completed");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_transaction_itself_is_not_the_end_of_it() {
    let refusals = Refusals { count: 2, again: true };
    included_twice_is_paid_once(0, |ledger| ledger.refuse_included(refusals)).await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_transaction_after_it_landed_undoes_nothing() {
    included_twice_is_paid_once(1_300, |ledger| ledger.include_again(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_sighting_whose_block_fell_off_the_chain_is_no_payment() {
    for drop in [true, false] {
        let world = world(one_key()).await;
        world.pay("k", "alice.near", 1).await;
        world.run_ms(1_900).await;
        world.network.reorg(2, drop);
        world.run_until_final(&["k".into()], 10 * MINUTE_MS).await;
        check_paid_once(&world, "k").await;
    }
}

/// Somebody else signs with the relay's key while an attempt of ours is adrift.
#[tokio::test(start_paused = true)]
async fn somebody_else_using_the_keys_nonce_halts_the_lanes() {
    let world = world(WorldConfig::default()).await;
    world.network.all(|node| node.forgets = true);
    world.pay("k", "alice.near", 1).await;
    world.run_ms(5_000).await;
    let open = world.store.open_attempts_of(RailName::Near).await.unwrap();
    let index = lane_index(&world.keys, open[0].lane.as_str());
    use_nonce(&world, index, open[0].nonce.0);
    world.run_ms(2_000).await;
    world.network.all(|node| node.forgets = false);
    world.run_ms(5 * MINUTE_MS).await;
    assert!(world.lanes_halted().await);
    assert_eq!(world.times_paid("k"), 0);
    assert_ne!(world.state("k").await, "FAILED");
    world.pay("later", "bob.near", 1).await;
    world.run_ms(5 * MINUTE_MS).await;
    assert_eq!(world.times_paid("later"), 0, "halted lanes pay nobody");
}

#[tokio::test(start_paused = true)]
async fn a_store_restored_from_a_backup_halts_the_lanes_while_a_forgotten_attempt_waits() {
    let mut world = world(WorldConfig::default()).await;
    let backup_before = {
        world.network.all(|node| node.down = true);
        world.pay("k", "alice.near", 1).await;
        world.store.snapshot()
    };
    world.network.all(|node| {
        node.down = false;
        node.forgets = true;
    });
    world.run_ms(10_000).await;
    let forgotten = world.store.open_attempts_of(RailName::Near).await.unwrap();
    assert_eq!(forgotten.len(), 1, "stored, sent, and in nobody's pool yet");
    world.engine.abort().await;
    world.store.restore(backup_before);
    world.network.all(|node| node.forgets = false);
    world.crash().await;
    world.run_ms(2 * MINUTE_MS).await;
    // The forgotten attempt lands at last.
    let signed = near_primitives::borsh::from_slice(&forgotten[0].bytes).unwrap();
    world.network.ledger.lock().submit(Arc::new(signed));
    world.run_ms(5 * MINUTE_MS).await;
    assert_eq!(world.times_paid("k"), 1);
    assert!(world.lanes_halted().await);
}

/// The same, on another machine that has no high-water marks: the ledger's nonces tell.
#[tokio::test(start_paused = true)]
async fn a_restored_store_is_noticed_by_the_ledgers_nonces_alone() {
    let mut world = world(WorldConfig::default()).await;
    world.pay("first", "bob.near", 1).await;
    world.run_ms(MINUTE_MS).await;
    world.network.all(|node| node.down = true);
    world.pay("k", "alice.near", 1).await;
    let backup = world.store.snapshot();
    world.network.all(|node| node.down = false);
    world.run_ms(MINUTE_MS).await;
    check_paid_once(&world, "k").await;
    world.engine.abort().await;
    world.store.restore(backup);
    world.high_water = Arc::new(landfall_lanes::HighWater::in_memory());
    world.crash().await;
    world.run_ms(5 * MINUTE_MS).await;
    assert_eq!(world.times_paid("k"), 1);
    assert!(world.lanes_halted().await);
}

/// Every decided attempt of a world that had a hard time tells why.
#[tokio::test(start_paused = true)]
async fn crashes_under_lossy_nodes_neither_lose_nor_repeat_a_payment() {
    let mut world = World::start(WorldConfig { keys: 3, ..WorldConfig::default() }).await;
    let mut keys = Vec::new();
    for round in 0..30u64 {
        world.network.node((round % 3) as usize, |node| {
            node.lose_answers = round % 4 == 1;
            node.lose_requests = round % 5 == 2;
            node.forgets = round % 3 == 0;
            node.lag_blocks = round % 4;
            node.down = round % 7 == 3;
        });
        for n in 0..5 {
            let key = format!("k{round}-{n}");
            world.pay(&key, &format!("r{}.near", (round + n) % 17), 1).await;
            keys.push(key);
        }
        world.run_ms(137 * (round % 9) + 50).await;
        world.crash().await;
    }
    world.network.all(|node| *node = Default::default());
    world.run_until_final(&keys, 20 * MINUTE_MS).await;
    for key in &keys {
        check_paid_once(&world, key).await;
    }
    let attempts = world.store.attempts_page(RailName::Near, Default::default(), 10_000).await;
    for attempt in attempts.unwrap() {
        if let Some(Fate::Sunk(certificate)) = attempt.fate {
            assert!(!certificate.summary.is_empty());
        }
    }
}

fn lane_index(keys: &[SecretKey], lane: &str) -> usize {
    keys.iter().position(|key| lane.ends_with(&key.public_key().to_string())).unwrap()
}

/// A transaction of somebody else with the relay's key and this nonce lands.
fn use_nonce(world: &World, index: usize, nonce: u64) {
    let mut ledger = world.network.ledger.lock();
    let relay = RELAY.parse().unwrap();
    let base = ledger.chain().head().hash;
    let actions = keys::transfer_of_nothing();
    let signed = keys::sign(&relay, &world.keys[index], nonce, &relay, base, actions);
    ledger.submit_first(Arc::new(signed));
}
