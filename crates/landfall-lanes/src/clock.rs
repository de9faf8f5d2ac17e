//! The real clock: the only place that reads the time or sleeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use landfall_core::Clock;

/// The host's wall clock, with tokio's timers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_millis() as u64)
            .unwrap_or_default()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
