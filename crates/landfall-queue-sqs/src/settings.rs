//! What can be set. The defaults are seed 002's.

use std::fmt;

/// Which queues, and how hints are handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub queue: String,
    /// Where SQS puts what was received too often.
    pub dead_queue: String,
    /// None: as the environment says.
    pub region: Option<String>,
    /// Another address than AWS's own, for servers that speak its protocol.
    pub endpoint: Option<String>,
    /// None: as the environment says (variables, profile, container or instance role).
    pub credentials: Option<AccessKey>,
    /// How long one receive waits at the server.
    pub wait_s: u32,
    /// How long a hint stays with a worker that does not delete it.
    pub visibility_s: u32,
    /// How often a hint is handed out before SQS puts it aside.
    pub receives_max: u32,
    /// How long SQS keeps a hint that nobody takes.
    pub retention_s: u32,
    /// Hints kept per stage that were received and not yet pulled; what exceeds it is deleted, and
    /// found by the sweeper.
    pub buffer: usize,
    /// How long SQS may take to answer before it counts as unreachable.
    pub timeout_ms: u64,
}

/// A key of its own instead of the environment's.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessKey {
    pub id: String,
    pub secret: String,
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            queue: "relay-transactions".to_owned(),
            dead_queue: "relay-transactions-dlq".to_owned(),
            region: None,
            endpoint: None,
            credentials: None,
            wait_s: 20,
            visibility_s: 60,
            receives_max: 3,
            retention_s: 4 * 24 * 3_600,
            buffer: 1_000,
            timeout_ms: 3_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_shown() {
        let key = AccessKey { id: "AKIA".into(), secret: "hush".into() };
        let settings = Settings { credentials: Some(key), ..Settings::default() };
        let shown = format!("{settings:?}");
        assert!(shown.contains("AKIA") && !shown.contains("hush"), "{shown}");
    }
}
