//! The real clock: the only place that reads the time or sleeps.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use landfall_core::Clock;

/// The host's wall clock, with tokio's timers.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_millis() as u64)
            .unwrap_or_default()
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Time that follows tokio's timers alone, from a given moment on. Under paused time it is a
/// simulated clock: it moves only when everybody waits.
#[derive(Debug, Clone)]
pub struct TimerClock {
    start_ms: u64,
    started: tokio::time::Instant,
}

impl TimerClock {
    /// MUST be called inside a runtime.
    pub fn starting_at(start_ms: u64) -> TimerClock {
        TimerClock { start_ms, started: tokio::time::Instant::now() }
    }
}

#[async_trait]
impl Clock for TimerClock {
    fn now_ms(&self) -> u64 {
        self.start_ms + self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
