//! Relays on the simulator: nodes that lie, lag and drop, forks, roots.

use landfall_core::solana;
use landfall_core::solana::Door as _;
use landfall_rail_solana::Key;
use landfall_rail_solana::request::PoolDoor;
use landfall_rail_solana::shield::PROGRAM;
use landfall_sim_solana::{SimConfig, SimSolana};
use serde_json::{Value, json};
use solana_address::Address;

use crate::chain::SOL;
use crate::relay::{NETWORK, Relay};

struct World {
    sim: SimSolana,
    relay: Relay,
}

impl World {
    async fn of(nodes: usize) -> World {
        let config = SimConfig { nodes, payers: 2, slot_ms: 20, ..SimConfig::default() };
        let sim = SimSolana::start(config).await.unwrap();
        let keys = sim.keypairs().iter().map(|file| Key::from_file(file).unwrap()).collect();
        let relay = Relay::start(&sim.rpc_urls(), keys).await;
        World { sim, relay }
    }

    async fn tell(&self, route: &str, what: Value) -> Value {
        let url = format!("{}/sim/{route}", self.sim.rpc_urls()[0]);
        let answer = reqwest::Client::new().post(url).json(&what).send().await.unwrap();
        assert!(answer.status().is_success(), "{route}: {}", answer.status());
        answer.json().await.unwrap_or_default()
    }

    async fn body(&self, number: u8) -> Value {
        let recipient = Address::new_from_array([number; 32]).to_string();
        self.tell("requests", json!({ "outputs": [{ "recipient": recipient, "amount": SOL }] }))
            .await
    }

    fn read(&self, body: &Value) -> solana::Withdraw {
        let door = PoolDoor { network: NETWORK.to_owned(), program: PROGRAM };
        door.read(&body.to_string()).unwrap()
    }

    /// Every spent nullifier that is final.
    async fn spent(&self) -> Vec<Value> {
        let url = format!("{}/sim/spent", self.sim.rpc_urls()[0]);
        let all: Vec<Value> = reqwest::get(url).await.unwrap().json().await.unwrap();
        all.into_iter().filter(|one| one["final"] == true).collect()
    }

    async fn submit_many(&self, count: u8) -> Vec<solana::Withdraw> {
        let mut all = Vec::new();
        for number in 1..=count {
            let withdraw = self.read(&self.body(number).await);
            self.relay.submit(&format!("w{number}"), withdraw.clone()).await;
            all.push(withdraw);
        }
        all
    }

    async fn complete(&self, count: u8) {
        for number in 1..=count {
            let done = self.relay.settled(&format!("w{number}")).await;
            assert_eq!(done.state.name(), "completed", "{:?}", done.error);
        }
        let spent = self.spent().await;
        assert_eq!(spent.len(), usize::from(count), "each once");
    }
}

#[tokio::test]
async fn one_of_three_nodes_that_lies_about_everything_decides_nothing() {
    let world = World::of(3).await;
    world.tell("faults", json!({ "node": 1, "lie": 1.0 })).await;
    world.submit_many(12).await;
    world.complete(12).await;
}

#[tokio::test]
async fn answers_lost_and_transactions_dropped_by_nodes_cost_time_alone() {
    let world = World::of(3).await;
    world.tell("faults", json!({ "lose_answer": 0.1, "drop": 0.3, "forget": 0.2 })).await;
    world.submit_many(12).await;
    world.complete(12).await;
}

#[tokio::test]
async fn what_a_fork_takes_back_after_it_was_confirmed_is_paid_once() {
    let world = World::of(1).await;
    world.submit_many(3).await;
    world.relay.in_state("w1", "confirmed").await;
    world.tell("fork", json!({ "depth": 8, "drop": true })).await;
    world.complete(3).await;
}

#[tokio::test]
async fn a_root_that_the_pool_does_not_know_is_refused_at_the_door() {
    let world = World::of(3).await;
    let known = world.read(&world.body(1).await);
    let screened = world.relay.engine.screen(&landfall_core::Payload::Solana(known.clone())).await;
    assert_eq!(screened, Ok(()));
    let unknown = solana::Withdraw { root: "09".repeat(32), ..known };
    let screened = world.relay.engine.screen(&landfall_core::Payload::Solana(unknown)).await;
    assert_eq!(screened.unwrap_err().field, "public_inputs");
}

#[tokio::test]
async fn a_root_that_has_left_the_ring_is_given_up_after_some_retries() {
    let world = World::of(1).await;
    let body = world.body(1).await;
    world.tell("roots", json!({ "count": 64 })).await;
    world.relay.submit("w1", world.read(&body)).await;
    let failed = world.relay.settled("w1").await;
    assert_eq!((failed.state.name(), failed.retry_count), ("failed", 4));
    assert!(failed.error.unwrap().message.contains("root"));
    assert_eq!(world.spent().await.len(), 0);
}

/// The pool looks for the root first: a spent nullifier hides behind one that has left the ring.
#[tokio::test]
async fn a_spent_nullifier_is_found_behind_a_root_that_has_left_the_ring() {
    let world = World::of(1).await;
    let body = world.body(1).await;
    let spender = world.tell("spend", body.clone()).await;
    while world.spent().await.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    world.tell("roots", json!({ "count": 64 })).await;
    world.relay.submit("w1", world.read(&body)).await;
    let done = world.relay.settled("w1").await;
    assert_eq!(done.state.name(), "completed", "{:?}", done.error);
    assert_eq!(done.tx_hash.as_deref(), spender["signature"].as_str());
}
