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
    now: watch::Sender<Now>,
}

/// The two times of a clock: one may jump, the other only goes on.
#[derive(Debug, Clone, Copy)]
struct Now {
    wall_ms: u64,
    monotonic_ms: u64,
}

impl ManualClock {
    pub fn new() -> ManualClock {
        ManualClock::at(START_MS)
    }

    pub fn at(wall_ms: u64) -> ManualClock {
        ManualClock { now: watch::Sender::new(Now { wall_ms, monotonic_ms: 0 }) }
    }

    /// Moves on and wakes the sleepers whose time has come.
    pub fn advance_ms(&self, by_ms: u64) {
        self.now.send_modify(|now| {
            now.wall_ms += by_ms;
            now.monotonic_ms += by_ms;
        });
    }

    /// Jumps, as wall clocks do, forwards or backwards. Wakes nobody.
    pub fn set_ms(&self, wall_ms: u64) {
        self.now.send_modify(|now| now.wall_ms = wall_ms);
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
        self.now.borrow().wall_ms
    }

    fn monotonic_ms(&self) -> u64 {
        self.now.borrow().monotonic_ms
    }

    async fn sleep(&self, duration: Duration) {
        let wake_ms = self.monotonic_ms().saturating_add(duration.as_millis() as u64);
        let reached = |now: &Now| now.monotonic_ms >= wake_ms;
        // The sender lives in self, so the wait ends by the clock alone.
        let _ = self.now.subscribe().wait_for(reached).await;
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
    async fn sleepers_wake_by_the_time_that_passed_not_by_a_jump() {
        let clock = Arc::new(ManualClock::new());
        let mut sleeper = Box::pin(clock.sleep(Duration::from_millis(100)));
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance_ms(99);
        clock.set_ms(0);
        clock.set_ms(u64::MAX / 2);
        assert!(futures::poll!(&mut sleeper).is_pending());
        clock.advance_ms(1);
        sleeper.await;
    }
}
