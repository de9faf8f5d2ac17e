//! Time, injected.
//!
//! **Rule:** nothing outside an implementation of [`Clock`] reads the time or sleeps, so a
//! simulated world can own both.

use std::time::Duration;

use async_trait::async_trait;

/// The only source of time.
#[async_trait]
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since the Unix epoch. May jump, as real clocks do.
    fn now_ms(&self) -> u64;
    /// Milliseconds since some moment of the process's own; never jumps. For waits and patience. A
    /// clock that cannot jump may leave it as it is.
    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }
    /// Returns after `duration` of this clock's own time, whatever the wall clock does.
    async fn sleep(&self, duration: Duration);
}
