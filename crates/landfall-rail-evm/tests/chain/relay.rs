//! A relay with the EVM rail, on whatever nodes.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::evm::{Address, Call, GaslessFields, Terms, Work};
use landfall_core::store::{Accepted, Store};
use landfall_core::{Clock, Payload, RailName, Transfer};
use landfall_engine::{Engine, Parts, Role, Settings, Submission};
use landfall_lanes::{HighWater, SystemClock};
use landfall_queue_ring::RingQueue;
use landfall_rail_evm::forward::Forwarder;
use landfall_rail_evm::{EvmRail, EvmSettings, Finality, Key};
use landfall_rpc::{Endpoints, HttpTransport, Url};
use landfall_store_memory::MemoryStore;

/// Long beyond what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// `increment()` of the counter.
pub const INCREMENT: &str = "0xd09de08a";

pub struct Shape {
    pub finality: Finality,
    pub replace_after_ms: u64,
    /// In wei.
    pub fee_max: u128,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { finality: Finality::Finalized, replace_after_ms: 30_000, fee_max: 500_000_000_000 }
    }
}

/// A deadline that nothing here meets, in seconds.
const FAR_AWAY: u64 = 99_999_999_999;

pub struct Relay {
    pub engine: Arc<Engine>,
    pub store: Arc<MemoryStore>,
    pub terms: Terms,
}

impl Relay {
    pub async fn start(urls: &[String], keys: Vec<Key>, terms: Terms, shape: &Shape) -> Relay {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let urls = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
        let transport = Arc::new(HttpTransport::new());
        let endpoints = Endpoints::new(urls, transport, clock.clone(), Default::default()).unwrap();
        let mut settings = EvmSettings::new("sim", terms.chain_id, keys);
        settings.finality = shape.finality;
        settings.caps.fee_max = shape.fee_max;
        settings.manner.pulse_ms = 40;
        settings.manner.replace_after_ms = shape.replace_after_ms;
        settings.manner.rebroadcast_ms = 200;
        settings.manner.rebroadcast_max_ms = 1_000;
        settings.manner.inclusion_ms = 2_000;
        settings.manner.look_ms = 100;
        settings.market_ms = 100;
        let rail = EvmRail::new(settings, endpoints, clock.clone()).unwrap();
        let engine = Engine::start(Parts {
            store: store.clone(),
            queue: Arc::new(RingQueue::new(10_000)),
            rails: vec![Arc::new(rail)],
            couriers: Vec::new(),
            clock,
            high_water: Arc::new(HighWater::in_memory()),
            role: Role::Both,
            settings: Settings::default(),
            seed: 1,
        });
        Relay { engine: engine.await.unwrap(), store, terms }
    }

    pub async fn submit(&self, key: &str, call: Call) -> Accepted {
        let payload = Payload::Evm(call);
        let submission = Submission { tenant: String::new(), key: key.into(), payload };
        self.engine.submit(vec![submission]).await.unwrap().remove(0)
    }

    /// A call of `increment()` by a user who owns nothing.
    pub fn by_user(&self, user: &Key, nonce: u64, to: &str, forwarder_name: &str) -> Call {
        self.by_user_until(FAR_AWAY, user, nonce, (to, forwarder_name))
    }

    /// The same, which may be executed up to this second.
    pub fn by_user_until(
        &self,
        deadline: u64,
        user: &Key,
        nonce: u64,
        (to, forwarder_name): (&str, &str),
    ) -> Call {
        let fields = |signature: &str| {
            let (from, nonce) = (user.address().to_string(), nonce.to_string());
            let deadline = deadline.to_string();
            Call::gasless(
                &self.terms,
                &GaslessFields {
                    from: &from,
                    to,
                    value: "0",
                    gas: "100000",
                    nonce: &nonce,
                    deadline: &deadline,
                    data: INCREMENT,
                    signature,
                    forwarder: None,
                    speed: Some("fast"),
                },
            )
        };
        let unsigned = fields(&format!("0x{}", "00".repeat(65))).unwrap();
        let Work::Gasless(request) = &unsigned.work else { panic!("a request") };
        let (asked, _) = landfall_rail_evm::rail::forward_request(request);
        let forwarder = Forwarder {
            address: landfall_rail_evm::rail::address(request.forwarder),
            chain_id: self.terms.chain_id,
            name: forwarder_name.to_owned(),
        };
        let signature = user.sign(&forwarder.digest(&asked));
        fields(&format!("0x{}", alloy_primitives::hex::encode(signature.as_bytes()))).unwrap()
    }

    /// Waits until it is final.
    pub async fn settled(&self, key: &str) -> Transfer {
        let found = self.store.by_key(RailName::Evm, "", key).await.unwrap().unwrap();
        let settled = self.engine.wait_final(found, PATIENCE).await.unwrap();
        assert!(settled.state.is_final(), "{settled:?}");
        settled
    }

    pub async fn in_state(&self, key: &str, name: &str) -> Transfer {
        for _ in 0..2_000 {
            let found = self.store.by_key(RailName::Evm, "", key).await.unwrap().unwrap();
            if found.state.name() == name {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key} never became {name}");
    }
}

pub fn terms(chain_id: u64, forwarder: &str) -> Terms {
    let forwarder = Some(Address::parse(forwarder).unwrap());
    Terms { chain: "sim".into(), chain_id, forwarder }
}
