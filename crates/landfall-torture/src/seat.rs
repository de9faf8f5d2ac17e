//! Where one relay instance sits: its dice, its trace, and the gates that crash or freeze it.
//!
//! Everything an instance does to the world goes through its seat, so a crash or a pause can fall
//! before or after any store write, any request, any sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::Clock;
use landfall_lanes::watched::Watched;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use super::checkers::Broken;
use super::plan::Plan;

/// The world's one source of chance.
pub struct Dice {
    rng: Mutex<StdRng>,
    /// False once the storm is over: then nothing goes wrong any more.
    pub stormy: AtomicBool,
    /// Rules seen broken while it happened.
    pub broken: Mutex<Vec<Broken>>,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            stormy: AtomicBool::new(true),
            broken: Mutex::default(),
        }
    }

    /// Whether a fault of this rate strikes now.
    pub fn strikes(&self, rate: f64) -> bool {
        rate > 0.0 && self.stormy.load(Ordering::Relaxed) && self.rng.lock().random_bool(rate)
    }

    pub fn between(&self, least: u64, most: u64) -> u64 {
        self.rng.lock().random_range(least..=most)
    }
}

/// What happened, in order: a digest always, the lines when asked for.
pub struct Trace {
    digest: Mutex<Sha256>,
    lines: Option<Mutex<Vec<String>>>,
    count: AtomicU64,
}

impl Trace {
    pub fn new(keep: bool) -> Trace {
        Trace {
            digest: Mutex::new(Sha256::new()),
            lines: keep.then(Mutex::default),
            count: AtomicU64::new(0),
        }
    }

    pub fn line(&self, text: String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut digest = self.digest.lock();
        digest.update(text.as_bytes());
        digest.update(b"\n");
        if let Some(lines) = &self.lines {
            lines.lock().push(text);
        }
    }

    pub fn digest(&self) -> String {
        let bytes: [u8; 32] = self.digest.lock().clone().finalize().into();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.as_ref().map(|lines| lines.lock().clone()).unwrap_or_default()
    }
}

/// What enumeration does to the n-th call of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    CrashBefore(u64),
    CrashAfter(u64),
    /// The call is made twice, and the second answer counts.
    Repeat(u64),
}

/// The most calls of an instance within one millisecond: far more than it could want to make.
const CALLS_MAX: u64 = 10_000;

/// One instance's place in the world.
pub struct Seat {
    pub name: String,
    pub plan: Arc<Plan>,
    pub dice: Arc<Dice>,
    pub trace: Arc<Trace>,
    pub base: Arc<dyn Clock>,
    offset_ms: AtomicI64,
    frozen: Watched<bool>,
    /// Told when the instance must die here.
    pub dying: Notify,
    doomed: AtomicBool,
    pub strike: Mutex<Option<Strike>>,
    calls: AtomicU64,
    /// Calls within the present millisecond.
    at_once: Mutex<(u64, u64)>,
}

impl Seat {
    pub fn new(
        name: String,
        plan: Arc<Plan>,
        dice: Arc<Dice>,
        trace: Arc<Trace>,
        base: Arc<dyn Clock>,
    ) -> Seat {
        Seat {
            name,
            plan,
            dice,
            trace,
            base,
            offset_ms: AtomicI64::new(0),
            frozen: Watched::new(false),
            dying: Notify::new(),
            doomed: AtomicBool::new(false),
            strike: Mutex::new(None),
            calls: AtomicU64::new(0),
            at_once: Mutex::default(),
        }
    }

    pub fn log(&self, what: &str) {
        self.trace.line(format!("{} {} {what}", self.base.now_ms(), self.name));
    }

    pub fn jump_clock(&self, ms: i64) {
        self.offset_ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub fn straighten_clock(&self) {
        self.offset_ms.store(0, Ordering::Relaxed);
    }

    pub fn freeze(&self, frozen: bool) {
        self.frozen.set(frozen);
    }

    /// Calls made so far, for enumeration.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Whether it must be crashed and started again.
    pub fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Relaxed)
    }

    /// A new life: what doomed the last one is over.
    pub fn revive(&self) {
        self.doomed.store(false, Ordering::Relaxed);
    }

    /// Waits while the instance is frozen; never returns if it dies here.
    async fn pass(&self) {
        self.frozen.watch().until(|frozen| !frozen).await;
        if self.doomed.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    }

    async fn die(&self, where_to: &str) {
        self.log(&format!("dies {where_to}"));
        self.doomed.store(true, Ordering::Relaxed);
        self.dying.notify_one();
        std::future::pending::<()>().await;
    }

    fn spins(&self) -> bool {
        let now_ms = self.base.now_ms();
        let mut at_once = self.at_once.lock();
        let before = if at_once.0 == now_ms { at_once.1 } else { 0 };
        *at_once = (now_ms, before + 1);
        before >= CALLS_MAX
    }

    /// Before a call that changes something outside the instance.
    pub async fn before(&self, call: &str) -> u64 {
        self.pass().await;
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        self.log(call);
        if self.spins() {
            let what = format!("{} calls on and on, at last {call}", self.name);
            self.dice.broken.lock().push(Broken::new("nobody spins", None, what));
            self.die(&format!("spinning at {call}")).await;
        }
        let planned = *self.strike.lock() == Some(Strike::CrashBefore(number));
        if planned || self.dice.strikes(self.plan.crash_at_call) {
            self.die(&format!("before {call}")).await;
        }
        number
    }

    /// After such a call took effect.
    pub async fn after(&self, call: &str, number: u64) {
        let planned = *self.strike.lock() == Some(Strike::CrashAfter(number));
        if planned || self.dice.strikes(self.plan.crash_at_call) {
            self.die(&format!("after {call}")).await;
        }
        self.pass().await;
    }

    /// Whether this call is to be made twice.
    pub fn repeats(&self, number: u64) -> bool {
        *self.strike.lock() == Some(Strike::Repeat(number))
    }

    pub async fn delay(&self, most_ms: u64) {
        let ms = self.dice.between(1, most_ms);
        self.base.sleep(Duration::from_millis(ms)).await;
    }
}

/// The instance's own idea of the time.
pub struct SeatClock(pub Arc<Seat>);

#[async_trait]
impl Clock for SeatClock {
    fn now_ms(&self) -> u64 {
        self.0.base.now_ms().saturating_add_signed(self.0.offset_ms.load(Ordering::Relaxed))
    }

    fn monotonic_ms(&self) -> u64 {
        self.0.base.monotonic_ms()
    }

    async fn sleep(&self, duration: Duration) {
        self.0.base.sleep(duration).await;
        self.0.pass().await;
    }
}
