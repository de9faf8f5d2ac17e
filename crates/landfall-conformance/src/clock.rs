//! Time under the tests' control.

use std::time::Duration;

use async_trait::async_trait;
use landfall_core::Clock;
use tokio::sync::watch;

/// A moment like any other, so that times in tests look like times.
const START_MS: u64 = 1_700_000_000_000;

/// The store's own clock, as the checks move it. A backend whose clock cannot be moved implements
/// `advance` by letting that time pass.
#[async_trait]
pub trait Time: Clock {
    async fn advance(&self, by_ms: u64);
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    now_ms: watch::Sender<u64>,
}

impl ManualClock {
    pub fn new() -> ManualClock {
        ManualClock::at(START_MS)
    }

    pub fn at(now_ms: u64) -> ManualClock {
        ManualClock { now_ms: watch::Sender::new(now_ms) }
    }

    /// Moves on and wakes the sleepers whose time has come.
    pub fn advance_ms(&self, by_ms: u64) {
        self.now_ms.send_modify(|now_ms| *now_ms += by_ms);
    }

    /// Jumps, as real clocks do, forwards or backwards.
    pub fn set_ms(&self, now_ms: u64) {
        self.now_ms.send_replace(now_ms);
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        *self.now_ms.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let wake_ms = self.now_ms().saturating_add(duration.as_millis() as u64);
        let reached = |now_ms: &u64| *now_ms >= wake_ms;
        // The sender lives in self, so the wait ends by the clock alone.
        let _ = self.now_ms.subscribe().wait_for(reached).await;
    }
}

#[async_trait]
impl Time for ManualClock {
    async fn advance(&self, by_ms: u64) {
        self.advance_ms(by_ms);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn sleepers_wake_when_the_clock_is_moved_far_enough() {
        let clock = Arc::new(ManualClock::new());
        let mut sleeper = Box::pin(clock.sleep(Duration::from_millis(100)));
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance_ms(99);
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance_ms(1);
        sleeper.await;
    }
}
