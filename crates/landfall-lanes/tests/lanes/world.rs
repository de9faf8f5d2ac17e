//! A ledger, a store, and processes that pay with them, on paused time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use landfall_core::ledger::{Manner, Order};
use landfall_core::near::{Payout, Terms};
use landfall_core::store::{Accepted, LaneStore, Store};
use landfall_core::{
    Attempt, AttemptId, Clock, Event, Fingerprint, NewTransfer, Payload, RailName, State, Transfer,
    TransferId,
};
use landfall_lanes::{Fleet, FleetParts, HighWater, LaneSettings, LedgerParts, TimerClock};
use landfall_store_memory::MemoryStore;

use crate::chain::Chain;
use crate::perils::{PerilousLedger, PerilousStore, Perils};
use crate::till::Till;

/// One process.
pub struct Process {
    pub fleet: Arc<Fleet>,
    pub till: Arc<Till>,
}

pub struct World {
    pub clock: Arc<dyn Clock>,
    pub store: Arc<MemoryStore>,
    pub chain: Arc<Chain>,
    /// Of the process called `one`.
    pub high_water: Arc<HighWater>,
    pub transfers: Vec<TransferId>,
}

pub fn manner(order: Order, window: usize) -> Manner {
    Manner {
        order,
        window,
        inclusion_ms: 1_000,
        finality_ms: 5_000,
        fence_after_ms: 1_500,
        replace_after_ms: 500,
        rebroadcast_ms: 200,
        rebroadcast_max_ms: 1_000,
        look_ms: 100,
        pulse_ms: 50,
        ..Manner::OVERTAKES
    }
}

impl World {
    pub fn new(manner: Manner) -> World {
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(1_700_000_000_000));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let chain = Arc::new(Chain::new(manner, clock.clone(), store.clone()));
        let high_water = Arc::new(HighWater::in_memory());
        World { clock, store, chain, high_water, transfers: Vec::new() }
    }

    /// Starts a process that takes up everything that waits to be paid. None if it stands still
    /// before it has begun.
    pub async fn start(&self, instance: &str, perils: Arc<Perils>) -> Option<Process> {
        let high_water = match instance {
            "one" => self.high_water.clone(),
            _ => Arc::new(HighWater::in_memory()),
        };
        let till = Arc::new(Till::new(self.chain.clone()));
        let store = PerilousStore { inner: self.store.clone(), perils: perils.clone() };
        let ledger = PerilousLedger { inner: self.chain.clone(), perils: perils.clone() };
        let parts = FleetParts {
            store: Arc::new(store),
            ledgers: vec![LedgerParts { ledger: Arc::new(ledger), owner: till.clone() }],
            clock: self.clock.clone(),
            high_water,
            settings: LaneSettings {
                lease_ms: 1_000,
                renew_ms: 300,
                retry_ms: 100,
                halted_poll_ms: 200,
            },
            instance: instance.to_owned(),
        };
        let mut stuck = perils.reached.watch();
        let fleet = tokio::select! {
            biased;
            fleet = Fleet::start(parts) => fleet.unwrap(),
            _ = stuck.until(|stuck| *stuck) => return None,
        };
        *till.lanes.lock() = Some(fleet.lanes_of(0));
        let process = Process { fleet, till };
        self.offer(&process).await;
        Some(process)
    }

    /// Starts a process that nothing befalls.
    pub async fn launch(&self, instance: &str) -> Process {
        self.start(instance, Perils::none()).await.unwrap()
    }

    /// Hands a process whatever no attempt carries and is not final, as a sweeper would.
    pub async fn offer(&self, process: &Process) {
        let known: Vec<TransferId> =
            process.till.waiting.lock().iter().map(|transfer| transfer.id).collect();
        for transfer in self.all().await {
            let idle = transfer.attempt.is_none() && !transfer.state.is_final();
            if idle && !known.contains(&transfer.id) {
                process.till.wait(transfer);
            }
        }
    }

    /// Accepts so many transfers.
    pub async fn accept(&mut self, count: usize) {
        for index in self.transfers.len()..self.transfers.len() + count {
            let terms =
                Terms { network: "test".into(), token: "token".into(), sender: "key".into() };
            let payout = Payout::new(&terms, &format!("user{index}"), "1", None).unwrap();
            let events = [Event::Enqueued, Event::Prepared, Event::Enqueued];
            let now_ms = self.clock.now_ms();
            let (key, print) = (format!("key {index}"), Fingerprint::of(&[&index.to_string()]));
            let payload = Payload::Near(payout);
            let first = State::all(RailName::Near)[0];
            let scope = (String::new(), key);
            let new = NewTransfer::begin(scope, print, payload, first, &events, now_ms).unwrap();
            let accepted = self.store.accept(vec![new]).await.unwrap().pop().unwrap();
            let Accepted::Created(transfer) = accepted else { panic!("{accepted:?}") };
            self.transfers.push(transfer.id);
        }
    }

    pub async fn all(&self) -> Vec<Transfer> {
        self.store.transfers(&self.transfers).await.unwrap()
    }

    /// Every attempt that was ever stored, by id.
    pub async fn attempts(&self) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        for id in 1.. {
            match self.store.attempt(AttemptId(id)).await.unwrap() {
                Some(attempt) => attempts.push(attempt),
                None => return attempts,
            }
        }
        unreachable!()
    }

    /// All attempts, each in a line.
    pub async fn story(&self) -> String {
        let tell = |one: &Attempt| {
            let hashes: Vec<&str> = one.hashes().collect();
            format!("{} epoch {} {hashes:?}: {:?}", one.id, one.epoch, one.fate)
        };
        self.attempts().await.iter().map(tell).collect::<Vec<_>>().join("\n")
    }

    pub async fn is_done(&self) -> bool {
        let open = self.store.open_attempts_of(RailName::Near).await.unwrap();
        open.is_empty() && self.all().await.iter().all(|transfer| transfer.state.is_final())
    }

    /// Lets the processes work until everything is paid or so much time has passed.
    pub async fn run(&self, processes: &[&Process], ms: u64) -> bool {
        let until_ms = self.clock.monotonic_ms() + ms;
        while self.clock.monotonic_ms() < until_ms {
            if self.is_done().await {
                return true;
            }
            for process in processes {
                process.till.dispatch();
            }
            self.pass(10).await;
        }
        self.is_done().await
    }

    pub async fn pass(&self, ms: u64) {
        self.clock.sleep(Duration::from_millis(ms)).await;
    }

    /// Everybody was paid, once, by what was stored.
    pub async fn check(&self) {
        let mut paid = self.chain.paid();
        paid.sort_unstable();
        let owed: Vec<u64> = self.transfers.iter().map(|id| id.0).collect();
        assert_eq!(paid, owed, "paid once each:\n{}", self.story().await);
        let all = self.all().await;
        assert!(all.iter().all(|one| one.state.name() == "COMPLETED"), "{all:?}");
        let mut nonces: Vec<_> = self.attempts().await.iter().map(|one| one.nonce).collect();
        let count = nonces.len();
        nonces.sort_unstable();
        nonces.dedup();
        assert_eq!(nonces.len(), count, "a nonce is used by one attempt");
    }
}

impl Process {
    /// What a transaction costs from here on.
    pub fn pay_fee(&self, fee: u64) {
        self.till.fee.store(fee, Ordering::Relaxed);
    }

    /// kill -9.
    pub async fn kill(self) {
        self.till.lanes.lock().take();
        self.fleet.abort().await;
    }

    pub fn halts(&self) -> Vec<String> {
        self.till.halts.lock().clone()
    }
}
