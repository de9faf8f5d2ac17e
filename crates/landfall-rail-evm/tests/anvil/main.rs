//! The rail in an engine, on anvil: a real machine, OpenZeppelin's own forwarder.

#[path = "../chain/relay.rs"]
mod relay;

use std::time::Duration;

use alloy_primitives::{Address, Bytes, U256, hex};
use alloy_sol_types::SolValue;
use landfall_core::evm::{Call, DirectFields};
use landfall_core::store::Accepted;
use landfall_rail_evm::{Finality, Key};
use landfall_servers::{Anvil, AnvilOptions, contracts};
use relay::{INCREMENT, Relay, Shape, terms};
use serde_json::{Value, json};

const CHAIN_ID: u64 = 31_337;
/// The first of the accounts that anvil gives funds to.
const DEPLOYER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const SIGNERS: [&str; 2] = [
    "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
];
const FORWARDER_NAME: &str = "Forwarder";

/// A relay on an anvil with a forwarder and a counter.
struct World {
    anvil: Anvil,
    relay: Relay,
    counter: Address,
    mines: bool,
}

async fn ask(url: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = reqwest::Client::new().post(url).json(&body).send().await.unwrap();
    let answer: Value = answer.json().await.unwrap();
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

/// Creates a contract, and returns where it is.
async fn deploy(url: &str, code: &Value, arguments: Vec<u8>) -> Address {
    let code = code.as_str().unwrap();
    let code = format!("{code}{}", hex::encode(arguments));
    let sent = json!([{"from": DEPLOYER, "data": code, "gas": "0x4c4b40"}]);
    let hash = ask(url, "eth_sendTransaction", sent).await;
    ask(url, "evm_mine", json!([])).await;
    let receipt = ask(url, "eth_getTransactionReceipt", json!([hash])).await;
    receipt["contractAddress"].as_str().unwrap().parse().unwrap()
}

impl World {
    async fn new(block_ms: Option<u64>, shape: Shape) -> World {
        let options = AnvilOptions { block_ms, ..AnvilOptions::default() };
        let anvil = tokio::task::spawn_blocking(move || Anvil::start(options)).await.unwrap();
        let anvil = anvil.unwrap();
        let code = tokio::task::spawn_blocking(contracts).await.unwrap().unwrap();
        let url = anvil.url().to_owned();
        let named = FORWARDER_NAME.to_owned().abi_encode();
        let forwarder = deploy(&url, &code["forwarder"], named).await;
        let counter = deploy(&url, &code["counter"], forwarder.abi_encode()).await;
        let keys = SIGNERS.map(|key| Key::parse(key).unwrap()).to_vec();
        let terms = terms(CHAIN_ID, &forwarder.to_string());
        let relay = Relay::start(&[url], keys, terms, &shape).await;
        World { anvil, relay, counter, mines: block_ms.is_none() }
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        ask(self.anvil.url(), method, params).await
    }

    fn increment(&self) -> Call {
        let counter = self.counter.to_string();
        let fields = DirectFields { to: &counter, data: Some(INCREMENT), ..Default::default() };
        Call::direct(&self.relay.terms, &fields).unwrap()
    }

    /// What the contract has counted.
    async fn count(&self) -> u64 {
        let asked = json!([{"to": self.counter, "data": "0x06661abd"}, "latest"]);
        let count: U256 = serde_json::from_value(self.ask("eth_call", asked).await).unwrap();
        count.to()
    }

    /// Makes blocks until it is final.
    async fn land(&self, key: &str) -> &'static str {
        let settled = self.relay.settled(key);
        tokio::pin!(settled);
        loop {
            tokio::select! {
                settled = &mut settled => return settled.state.name(),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            if self.mines {
                self.ask("evm_mine", json!([])).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn value_calls_and_requests_of_a_user_without_ether_land_and_a_replay_does_nothing() {
    let world = World::new(Some(250), Shape::default()).await;
    let relay = &world.relay;
    let user = Key::parse(&"11".repeat(32)).unwrap();
    let alice = "0x00000000000000000000000000000000000A11cE".to_lowercase();
    let pays = DirectFields { to: &alice, value: Some("12345"), ..Default::default() };
    relay.submit("pay", Call::direct(&relay.terms, &pays).unwrap()).await;
    relay.submit("count", world.increment()).await;
    let counter = world.counter.to_string();
    let request = relay.by_user(&user, 0, &counter, FORWARDER_NAME);
    relay.submit("request", request.clone()).await;
    for key in ["pay", "count", "request"] {
        assert_eq!(world.land(key).await, "success", "{key}");
    }
    assert_eq!(world.ask("eth_getBalance", json!([alice, "latest"])).await, "0x3039");
    assert_eq!(world.count().await, 2);
    let claimed = relay.submit("again", request.clone()).await;
    assert!(matches!(claimed, Accepted::Claimed { owner: Some(_), .. }), "{claimed:?}");
    // Whoever has read it from the chain and sends it once more.
    let landfall_core::evm::Work::Gasless(asked) = &request.work else { panic!("a request") };
    let (asked, signature) = landfall_rail_evm::rail::forward_request(asked);
    let input: Bytes = landfall_rail_evm::forward::execution(&asked, &signature);
    let forwarder = relay.terms.forwarder.unwrap().to_string();
    let sent = json!([{"from": DEPLOYER, "to": forwarder, "data": input, "gas": "0x493e0"}]);
    world.ask("eth_sendTransaction", sent).await;
    let next = relay.by_user(&user, 1, &counter, FORWARDER_NAME);
    relay.submit("next", next).await;
    assert_eq!(world.land("next").await, "success");
    assert_eq!(world.count().await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_is_a_failure_with_the_contracts_own_reason() {
    let world = World::new(Some(250), Shape::default()).await;
    let counter = world.counter.to_string();
    let why = ("not today".to_owned(),).abi_encode_params();
    let selector = &alloy_primitives::keccak256("refuse(string)")[..4];
    let data = hex::encode_prefixed([selector, &why].concat());
    let fields = DirectFields { to: &counter, data: Some(&data), ..Default::default() };
    world.relay.submit("bad", Call::direct(&world.relay.terms, &fields).unwrap()).await;
    let settled = world.relay.settled("bad").await;
    let error = settled.error.unwrap();
    assert!(error.message.contains("not today"), "{error:?}");
    assert_eq!(settled.state.name(), "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_stuck_by_a_low_fee_is_outbid_and_lands_once() {
    let world = World::new(None, Shape { replace_after_ms: 500, ..Shape::default() }).await;
    world.relay.submit("stuck", world.increment()).await;
    world.relay.in_state("stuck", "submitted").await;
    // From here on blocks charge more than was offered.
    for _ in 0..3 {
        world.ask("anvil_setNextBlockBaseFeePerGas", json!(["0x2540be400"])).await;
        world.ask("evm_mine", json!([])).await;
    }
    assert_eq!(world.land("stuck").await, "success");
    assert_eq!(world.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_pool_drops_is_sent_again_and_lands_once() {
    let world = World::new(None, Shape::default()).await;
    world.relay.submit("dropped", world.increment()).await;
    let submitted = world.relay.in_state("dropped", "submitted").await;
    let hash = submitted.tx_hash.unwrap();
    for _ in 0..100 {
        if world.ask("anvil_dropTransaction", json!([hash])).await == json!(hash) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.land("dropped").await, "success");
    assert_eq!(world.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_block_falls_off_goes_back_and_lands_again_once() {
    let world = World::new(None, Shape::default()).await;
    world.relay.submit("call", world.increment()).await;
    world.relay.in_state("call", "submitted").await;
    for _ in 0..100 {
        world.ask("evm_mine", json!([])).await;
        if world.count().await == 1 {
            break;
        }
    }
    world.relay.in_state("call", "mined").await;
    world.ask("anvil_reorg", json!([1, []])).await;
    assert_eq!(world.count().await, 0, "it is on the chain no more");
    world.relay.in_state("call", "submitted").await;
    assert_eq!(world.land("call").await, "success");
    assert_eq!(world.count().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_calls_of_two_signers_are_counted_exactly() {
    let shape = Shape { finality: Finality::Blocks(1), ..Shape::default() };
    let world = World::new(Some(250), shape).await;
    for number in 0..300 {
        world.relay.submit(&number.to_string(), world.increment()).await;
    }
    for number in 0..300 {
        assert_eq!(world.land(&number.to_string()).await, "success");
    }
    assert_eq!(world.count().await, 300);
}
