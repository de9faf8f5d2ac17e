//! The database's own clock cannot be moved: time passes.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use landfall_conformance::Time;
use landfall_core::Clock;

/// The clock of this machine, which is the server's too.
pub struct RealTime;

#[async_trait]
impl Clock for RealTime {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic_ms(&self) -> u64 {
        self.now_ms()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[async_trait]
impl Time for RealTime {
    async fn advance(&self, by_ms: u64) {
        tokio::time::sleep(Duration::from_millis(by_ms)).await;
    }
}
