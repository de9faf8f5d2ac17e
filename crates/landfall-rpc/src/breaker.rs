//! When to stop asking an endpoint, as data.
//!
//! ```text
//!            failures_to_open in a row             open_ms passed
//!  Closed ────────────────────────────▶ Open ─────────────────────▶ HalfOpen
//!    ▲                                   ▲                             │ │
//!    │                                   └── any failure, time doubled ┘ │
//!    └────────────── successes_to_close, of half_open_calls at a time ───┘
//! ```
//!
//! Pure: the caller brings the time. Every call that was admitted MUST be reported once, by
//! [`Breaker::succeeded`], [`Breaker::failed`] or [`Breaker::abandoned`].
//!
//! When *every* endpoint is open there is nobody to prefer, and a relay that waits out the whole
//! time would sleep through the ledger's return: then [`Breaker::probe`] lets single calls through.

/// The breaker's thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that open it. Ten: a node that restarts fails a few calls, not ten.
    pub failures_to_open: u32,
    /// How long it stays open the first time, in milliseconds. Half a minute: a node's restart.
    pub open_ms: u64,
    /// The longest it stays open, in milliseconds: doubling stops here, or a day-long outage would
    /// be followed by another day of silence.
    pub open_max_ms: u64,
    /// Calls let through at a time while half open.
    pub half_open_calls: u32,
    /// Successes while half open that close it.
    pub successes_to_close: u32,
    /// Least time between two probes while every endpoint is open, in milliseconds.
    pub probe_ms: u64,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            failures_to_open: 10,
            open_ms: 30_000,
            open_max_ms: 300_000,
            half_open_calls: 3,
            successes_to_close: 3,
            probe_ms: 1_000,
        }
    }
}

/// Where a breaker stands; also what metrics show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

/// One endpoint's breaker.
#[derive(Clone, Debug)]
pub struct Breaker {
    settings: BreakerSettings,
    state: BreakerState,
    /// Failures in a row while closed.
    failures: u32,
    /// While half open: calls not yet reported, and successes so far.
    testing: u32,
    successes: u32,
    open_until_ms: u64,
    /// How long the next opening lasts.
    next_open_ms: u64,
    last_probe_ms: Option<u64>,
}

impl Breaker {
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            state: BreakerState::Closed,
            failures: 0,
            testing: 0,
            successes: 0,
            open_until_ms: 0,
            next_open_ms: settings.open_ms,
            last_probe_ms: None,
        }
    }

    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Failures in a row since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Would a call be let through now? Changes nothing.
    pub fn admits(&self, now_ms: u64) -> bool {
        match self.state {
            BreakerState::Closed => true,
            BreakerState::Open => now_ms >= self.open_until_ms,
            BreakerState::HalfOpen => self.testing < self.settings.half_open_calls,
        }
    }

    /// Lets a call through, or not.
    pub fn admit(&mut self, now_ms: u64) -> bool {
        if !self.admits(now_ms) {
            return false;
        }
        if self.state == BreakerState::Open {
            self.half_open();
        }
        if self.state == BreakerState::HalfOpen {
            self.testing += 1;
        }
        true
    }

    /// Lets one call through although open, at most one per `probe_ms`. For when all are open.
    pub fn probe(&mut self, now_ms: u64) -> bool {
        let rested = self
            .last_probe_ms
            .is_none_or(|last| now_ms.saturating_sub(last) >= self.settings.probe_ms);
        if self.state != BreakerState::Open || !rested {
            return false;
        }
        self.last_probe_ms = Some(now_ms);
        true
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
        match self.state {
            BreakerState::Closed => {}
            // A probe came back, or a call from before it opened: the endpoint lives, test it.
            BreakerState::Open => {
                self.half_open();
                self.successes = 1;
            }
            BreakerState::HalfOpen => {
                self.testing = self.testing.saturating_sub(1);
                self.successes += 1;
            }
        }
        if self.state == BreakerState::HalfOpen
            && self.successes >= self.settings.successes_to_close
        {
            *self = Self::new(self.settings);
        }
    }

    pub fn failed(&mut self, now_ms: u64) {
        self.failures = self.failures.saturating_add(1);
        match self.state {
            BreakerState::Closed if self.failures < self.settings.failures_to_open => {}
            BreakerState::Closed | BreakerState::HalfOpen => self.open(now_ms),
            // Calls from before it opened, and probes: the time already runs.
            BreakerState::Open => {}
        }
    }

    /// The call was dropped before it came to anything.
    pub fn abandoned(&mut self) {
        self.testing = self.testing.saturating_sub(1);
    }

    fn half_open(&mut self) {
        self.state = BreakerState::HalfOpen;
        self.testing = 0;
        self.successes = 0;
    }

    fn open(&mut self, now_ms: u64) {
        self.state = BreakerState::Open;
        self.open_until_ms = now_ms.saturating_add(self.next_open_ms);
        self.next_open_ms = self.next_open_ms.saturating_mul(2).min(self.settings.open_max_ms);
        self.last_probe_ms = Some(now_ms);
    }
}
