//! The relay as users run it, against a lossy ledger, killed every second.
//!
//! Real processes: `landfall sim near` with three nodes, `landfall serve`, and a client that does
//! not give up. Whatever happens, each payout is on the ledger exactly once.
//!
//! `LANDFALL_CHAOS_MINUTES` makes it longer: `cargo xtask soak backends`.

#[cfg(feature = "sqs")]
mod apart;
mod backends;
mod calls;
mod chain;
mod internal;
#[cfg(feature = "sqs")]
mod lossy;
mod processes;
mod withdraws;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use processes::{Client, Relay, Sim, pause};
use serde_json::json;

/// For each kill, once a second: a thousand in a run of the usual length.
const PAYOUTS_PER_KILL: f64 = 1_000.0 / 30.0;
const RECEIVERS: usize = 400;
const KILLS: usize = 30;
/// Between the submissions of two chunks. A soak's are spread over most of its length.
const CHUNK_PAUSE: Duration = Duration::from_millis(200);
const SOAK_CHUNK_PAUSE: Duration = Duration::from_millis(450);
/// How long everything may take to settle once the faults have stopped.
const SETTLE: Duration = Duration::from_secs(90);

/// How long a soak lasts.
fn minutes() -> Option<usize> {
    let given = std::env::var("LANDFALL_CHAOS_MINUTES").ok()?;
    Some(given.parse().expect("LANDFALL_CHAOS_MINUTES is a number"))
}

/// One a second.
fn kills() -> usize {
    minutes().map_or(KILLS, |minutes| 60 * minutes)
}

fn payouts() -> usize {
    (kills() as f64 * PAYOUTS_PER_KILL).round() as usize
}

fn key(n: usize) -> String {
    format!("payout-{n:04}")
}

fn receiver(n: usize) -> String {
    format!("r{}.near", n % RECEIVERS)
}

/// Each probability at 5 %, one node three blocks behind.
fn all_faults() -> serde_json::Value {
    json!({
        "lose_request": 0.05, "lose_answer": 0.05, "slow": 0.05, "slow_ms": 400,
        "rate_limited": 0.05, "server_error": 0.05, "garbage": 0.05, "forget": 0.05,
    })
}

fn no_faults() -> serde_json::Value {
    json!({
        "lose_request": 0.0, "lose_answer": 0.0, "slow": 0.0, "rate_limited": 0.0,
        "server_error": 0.0, "garbage": 0.0, "forget": 0.0, "lag_blocks": 0, "down": false,
    })
}

/// Down for two seconds in every ten.
async fn black_out(sim: Sim) {
    loop {
        pause(Duration::from_secs(8)).await;
        sim.post("/sim/faults", json!({"down": true})).await;
        pause(Duration::from_secs(2)).await;
        sim.post("/sim/faults", json!({"down": false})).await;
    }
}

/// Submits every payout, each until it is acknowledged.
async fn submit_all(client: Client) {
    let chunk_pause = if minutes().is_some() { SOAK_CHUNK_PAUSE } else { CHUNK_PAUSE };
    for chunk in (0..payouts()).collect::<Vec<_>>().chunks(20) {
        let posts = chunk.iter().map(|n| client.submit_until_taken(key(*n), receiver(*n)));
        futures::future::join_all(posts).await;
        pause(chunk_pause).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_every_second_on_a_lossy_ledger_every_payout_lands_exactly_once() {
    let _alone = processes::machine().await;
    let sim = Sim::start(3, 4, 100).await;
    let registered: Vec<String> = (0..RECEIVERS).step_by(2).map(receiver).collect();
    sim.post("/sim/register", json!({"account_ids": registered})).await;
    sim.post("/sim/faults", all_faults()).await;
    sim.post("/sim/faults", json!({"node": 2, "lag_blocks": 3})).await;
    let mut relay = Relay::new(&sim);
    let client = Client::new(&relay);
    let black_outs = tokio::spawn(black_out(sim.clone()));
    let submitting = tokio::spawn(submit_all(client.clone()));

    for _ in 0..kills() {
        relay.start();
        pause(Duration::from_secs(1)).await;
        relay.kill();
    }
    relay.start();
    let completed_meanwhile = client.completed_eventually().await;
    black_outs.abort();
    sim.post("/sim/faults", no_faults()).await;
    submitting.await.expect("the client got every payout acknowledged");
    assert!(completed_meanwhile >= payouts() / 2, "only {completed_meanwhile} completed meanwhile");

    let deadline = Instant::now() + SETTLE;
    while client.completed_eventually().await < payouts() && Instant::now() < deadline {
        pause(Duration::from_millis(200)).await;
    }
    let unsettled = client.not_completed().await;
    assert!(unsettled.is_empty(), "not completed: {unsettled:#?}\n{}", relay.log_tail());
    assert_paid_exactly_once(&sim).await;
    relay.assert_audit_is_clean();
    let payouts = payouts();
    println!("{completed_meanwhile} of {payouts} completed while the relay was being killed");
}

async fn assert_paid_exactly_once(sim: &Sim) {
    let mut paid: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for transfer in sim.get("/sim/transfers").await.as_array().expect("an array") {
        let memo = transfer["memo"].as_str().unwrap_or("(no memo)").to_owned();
        paid.entry(memo).or_default().push(transfer.to_string());
    }
    for n in 0..payouts() {
        let times = paid.remove(&key(n)).unwrap_or_default();
        assert_eq!(times.len(), 1, "{} was paid {} times: {times:#?}", key(n), times.len());
        assert!(times[0].contains(&format!("\"{}\"", receiver(n))), "{}", times[0]);
    }
    assert!(paid.is_empty(), "paid what nobody asked for: {paid:#?}");
}
