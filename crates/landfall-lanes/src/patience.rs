//! How long to wait before a question that was not answered is asked again.

use std::time::Duration;

/// First wait before an unanswered question is repeated: most are lost alone, and a process that
/// has just started should not sit out the full wait for one.
const FIRST_RETRY_MS: u64 = 50;

/// Waits that double up to the setting.
pub(crate) struct Patience {
    next_ms: u64,
    max_ms: u64,
}

impl Patience {
    pub fn up_to(max_ms: u64) -> Patience {
        Patience { next_ms: FIRST_RETRY_MS, max_ms }
    }

    pub fn next_wait(&mut self) -> Duration {
        let wait_ms = self.next_ms.min(self.max_ms);
        self.next_ms = wait_ms * 2;
        Duration::from_millis(wait_ms)
    }
}
