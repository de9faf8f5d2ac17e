//! Each lie is told, in the ledger's own shapes; and nobody else lies.

use landfall_lanes::TimerClock;
use landfall_rpc::{Transport as _, Url};
use landfall_sim_near::keys;
use landfall_sim_near::ledger::{Genesis, Ledger};
use landfall_sim_near::server::{CHAIN_ID, RELAY, TOKEN};
use near_primitives::views::FinalExecutionOutcomeView;

use super::*;

const LIAR: usize = 1;

/// Three nodes, the middle one a liar who tells these lies and no others.
struct World {
    network: Arc<Network>,
    liars: Arc<Liars>,
    signed: SignedTransaction,
}

impl World {
    fn new(lies: Lies) -> World {
        let mut plan = Plan::calm(7);
        (plan.near.liars, plan.near.first_liar, plan.near.lying) = (1, LIAR, 1.0);
        (plan.near.for_good, plan.near.lies) = (true, lies);
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(0));
        let key = keys::secret_key(0, 0);
        let mut ledger = Ledger::new(Genesis {
            chain_id: CHAIN_ID.to_owned(),
            timestamp_ns: 0,
            token: TOKEN.parse().expect("well-formed"),
            relay: RELAY.parse().expect("well-formed"),
            relay_keys: vec![key.public_key()],
            relay_near: 10u128.pow(30),
            relay_tokens: 10,
            settings: Default::default(),
        });
        (1..200).for_each(|second| _ = ledger.produce(second));
        let (relay, base) = (RELAY.parse().expect("well-formed"), ledger.chain().head().hash);
        let actions = keys::transfer_of_nothing();
        let signed = keys::sign(&relay, &key, 1, &relay, base, actions);
        ledger.submit(Arc::new(signed.clone()));
        (200..210).for_each(|second| _ = ledger.produce(second));
        let (plan, dice) = (Arc::new(plan), Arc::new(Dice::new(3)));
        let network = Arc::new(Network::new(ledger, plan.near.nodes, clock.clone()));
        let liars = Liars::settle(&plan, &dice, &clock, &network);
        liars.remember(&Arc::new(signed.clone()));
        World { network, liars, signed }
    }

    async fn ask(&self, node: usize, method: &str, params: &Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let url = Url::parse(&format!("http://node{node}")).expect("well-formed");
        let patience = Duration::from_secs(60);
        let answer = self.network.post(&url, body.to_string().into(), patience).await;
        serde_json::from_slice(&answer.expect("nothing is lost").body).expect("JSON")
    }

    /// Whether the liar says something else than the others, who agree, in one of a few tries.
    async fn lies(&self, method: &str, params: Value) -> bool {
        for _ in 0..20 {
            let told = self.ask(LIAR, method, &params).await;
            let truth = self.ask(0, method, &params).await;
            assert_eq!(truth, self.ask(2, method, &params).await, "honest nodes agree");
            assert!(told["result"].is_object() || told["error"]["name"].is_string(), "{told}");
            if told["result"]["transaction"].is_object() {
                let view =
                    serde_json::from_value::<FinalExecutionOutcomeView>(told["result"].clone());
                assert!(view.is_ok(), "{told}");
            }
            if told != truth {
                return true;
            }
        }
        false
    }

    fn tx(&self) -> Value {
        json!({"tx_hash": self.signed.hash(), "sender_account_id": RELAY, "wait_until": "NONE"})
    }

    fn send(&self) -> Value {
        use base64::Engine as _;
        let bytes = near_primitives::borsh::to_vec(&self.signed).expect("it can be encoded");
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        json!({"signed_tx_base64": text, "wait_until": "INCLUDED"})
    }
}

fn view(method: &str) -> Value {
    json!({"request_type": "call_function", "finality": "final", "account_id": TOKEN,
        "method_name": method, "args_base64": "eyJhY2NvdW50X2lkIjoicjAubmVhciJ9"})
}

#[tokio::test(start_paused = true)]
async fn every_lie_about_a_transaction_is_told_to_looks_and_to_sends() {
    let about_it = [
        Lies { done: 1.0, ..Lies::default() },
        Lies { reverted: 1.0, ..Lies::default() },
        Lies { included: 1.0, ..Lies::default() },
        Lies { unknown: 1.0, ..Lies::default() },
    ];
    for lies in about_it {
        let world = World::new(lies.clone());
        let both = (world.lies("tx", world.tx()).await, world.lies("send_tx", world.send()).await);
        assert_eq!(both, (true, true), "{lies:?}");
    }
    let world = World::new(Lies { refused: 1.0, ..Lies::default() });
    assert!(world.lies("send_tx", world.send()).await);
    assert!(!world.lies("tx", world.tx()).await);
}

#[tokio::test(start_paused = true)]
async fn every_lie_about_the_chain_is_told() {
    let key = keys::secret_key(0, 0).public_key();
    let one_key = json!({"request_type": "view_access_key", "finality": "final",
        "account_id": RELAY, "public_key": key});
    let all_keys = json!({"request_type": "view_access_key_list", "finality": "optimistic",
        "account_id": RELAY});
    let balance = json!({"request_type": "view_account", "finality": "final", "account_id": RELAY});
    let newest = json!({"finality": "final"});
    let nonces = Lies { nonces: 1.0, ..Lies::default() };
    let heights = Lies { heights: 1.0, ..Lies::default() };
    let contract = Lies { contract: 1.0, ..Lies::default() };
    let chain = Lies { chain: 1.0, ..Lies::default() };
    let chunks = Lies { chunks: 1.0, ..Lies::default() };
    let unknown = Lies { unknown: 1.0, ..Lies::default() };
    let questions = [
        (&nonces, "query", one_key.clone()),
        (&nonces, "query", all_keys.clone()),
        (&heights, "query", all_keys),
        (&heights, "block", newest.clone()),
        (&heights, "status", json!([])),
        (&contract, "query", balance),
        (&contract, "query", view("storage_balance_of")),
        (&contract, "query", view("storage_balance_bounds")),
        (&contract, "query", view("ft_balance_of")),
        (&chain, "status", json!([])),
        (&chain, "genesis_config", Value::Null),
        (&chunks, "block", newest),
        (&unknown, "block", json!({"block_id": 5})),
    ];
    for (lies, method, params) in questions {
        let world = World::new(lies.clone());
        assert!(world.lies(method, params.clone()).await, "{lies:?} to {method} {params}");
        let honest = World::new(Lies::default());
        assert!(!honest.lies(method, params).await, "nobody lies about {method}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_answer_is_given_again() {
    let world = World::new(Lies { replay: 1.0, ..Lies::default() });
    let newest = json!({"finality": "optimistic"});
    assert!(!world.lies("block", newest.clone()).await, "the first answer is true");
    world.network.ledger.lock().produce(1_000);
    assert!(world.lies("block", newest).await);
}

#[tokio::test(start_paused = true)]
async fn a_liar_who_is_told_to_stop_is_as_good_as_any() {
    let world = World::new(Lies { done: 1.0, chain: 1.0, ..Lies::default() });
    world.liars.lie(false);
    assert!(!world.lies("tx", world.tx()).await);
    assert!(!world.lies("status", json!([])).await);
}
