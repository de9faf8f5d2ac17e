//! A simulated chain, relayers in front of it, and their client.

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::{Bytes, U256};
use landfall_core::evm::Speed;
use landfall_lanes::SystemClock;
use landfall_rail_evm::relayer::handover::marked;
use landfall_rail_evm::relayer::{Handover, Relayer, RelayerSettings, Relayers, Routes};
use landfall_rpc::{HttpTransport, Transport, Url};
use landfall_sim_evm::ledger::natives::COUNTER;
use landfall_sim_evm::{SimConfig as ChainConfig, SimEvm};
use landfall_sim_relayer::{SimConfig, SimRelayer};

/// `increment()`.
pub const INCREMENT: [u8; 4] = [0xd0, 0x9d, 0xe0, 0x8a];
/// Long enough for what is taken here, short enough to wait for it.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Patience of these tests for what takes a few blocks of 20 ms.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct World {
    pub chain: SimEvm,
    pub sim: SimRelayer,
    pub relayers: Arc<Relayers>,
}

impl World {
    pub async fn new(relayers: usize) -> World {
        World::with(relayers, Routes::openzeppelin).await
    }

    pub async fn with(relayers: usize, routes: impl Fn(&str) -> Routes) -> World {
        let config = ChainConfig { signers: relayers, block_ms: 20, ..ChainConfig::default() };
        let chain = SimEvm::start(config).await.unwrap();
        let rpc = Url::parse(&chain.rpc_urls()[0]).unwrap();
        let config = SimConfig { round_ms: 10, ..SimConfig::new(rpc, chain.signers().to_vec()) };
        let sim = SimRelayer::start(config).await.unwrap();
        let relayers = relayers_of(&sim, routes);
        World { chain, sim, relayers }
    }

    /// The same relayers, as a process that begins knows them.
    pub fn fresh_relayers(&self) -> Arc<Relayers> {
        relayers_of(&self.sim, Routes::openzeppelin)
    }

    pub fn first(&self) -> &Relayer {
        self.relayers.get("relayer-1").unwrap()
    }
}

fn relayers_of(sim: &SimRelayer, routes: impl Fn(&str) -> Routes) -> Arc<Relayers> {
    let settings = sim.urls().into_iter().enumerate().map(|(index, url)| {
        let id = format!("relayer-{}", index + 1);
        let base = Url::parse(&url).unwrap();
        let settings = RelayerSettings::new(&id, base, routes(&id));
        let settings = settings.with_key("landfall-sim-relayer").unwrap();
        RelayerSettings { timeout: TIMEOUT, ..settings }
    });
    let transport: Arc<dyn Transport> = Arc::new(HttpTransport::new());
    let clock: Arc<dyn landfall_core::Clock> = Arc::new(SystemClock::default());
    Arc::new(Relayers::new(settings.collect(), &transport, &clock).unwrap())
}

/// The same call each time, with the mark of this number.
pub fn handover(number: u64) -> Handover {
    Handover {
        relayer: "relayer-1".to_owned(),
        to: COUNTER,
        value: U256::ZERO,
        data: Bytes::from_static(&INCREMENT),
        gas: marked(100_000, number),
        speed: Speed::Fast,
        request: None,
    }
}

pub fn now_ms() -> u64 {
    landfall_core::Clock::now_ms(&SystemClock::default())
}

/// Asks, one question after the other, until there is an answer.
pub async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it comes to that")
}
