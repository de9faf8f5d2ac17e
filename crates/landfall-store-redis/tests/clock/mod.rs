//! The server's own time, which cannot be moved: the same machine's clock, and real waits.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use landfall_conformance::Time;
use landfall_core::Clock;

pub struct ServerTime;

#[async_trait]
impl Clock for ServerTime {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.expect("after 1970").as_millis() as u64
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[async_trait]
impl Time for ServerTime {
    async fn advance(&self, by_ms: u64) {
        self.sleep(Duration::from_millis(by_ms)).await;
    }
}
