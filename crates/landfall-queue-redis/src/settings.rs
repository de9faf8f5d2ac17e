//! What can be set, and what things are called in Redis.

use landfall_core::Stage;

/// Where the hints are and how they are handed out. Not to be printed: a URL may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// `redis://…`, or `rediss://…` with TLS.
    pub url: String,
    /// First part of every key.
    pub prefix: String,
    /// Second part of every key: one environment never sees another's hints. In a cluster, write it
    /// in braces.
    pub environment: String,
    /// This process's name; a random part is added, so that no two starts share a consumer.
    pub instance: String,
    /// Hints kept per stage. What exceeds it is dropped, and found by the sweeper.
    pub capacity: usize,
    /// How long a hint stays with a worker that neither deletes it nor dies.
    pub visibility_ms: u64,
    /// How often a hint is handed out before it is put aside.
    pub deliveries_max: u32,
    /// Dead letters kept per stage, roughly.
    pub dead_max: usize,
    /// A consumer that did nothing for so long and holds nothing is forgotten.
    pub gone_ms: u64,
    /// How long one read waits at the server. Also how late a hint held back may come when it was
    /// pushed meanwhile.
    pub block_ms: u64,
    /// How long Redis may take to answer before it counts as unreachable.
    pub timeout_ms: u64,
}

impl Settings {
    /// The defaults of seed 000's deployments, for a Redis and an environment.
    pub fn new(url: &str, environment: &str, instance: &str) -> Settings {
        Settings {
            url: url.to_owned(),
            prefix: "ftrelay".to_owned(),
            environment: environment.to_owned(),
            instance: instance.to_owned(),
            // About 10 MB; minutes of work for any rail.
            capacity: 100_000,
            // As long as a transfer may wait in a worker's pool before the sweeper doubts it.
            visibility_ms: 30_000,
            deliveries_max: 3,
            dead_max: 10_000,
            gone_ms: 3_600_000,
            block_ms: 1_000,
            timeout_ms: 1_000,
        }
    }

    pub(crate) fn keys(&self, stage: Stage) -> Keys {
        let stream = format!("{}:{}:{stage}", self.prefix, self.environment);
        Keys {
            delayed: format!("{stream}:delayed"),
            dead: format!("{stream}:dead"),
            group: format!("{stage}_workers"),
            stream,
        }
    }
}

/// The names of one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    pub stream: String,
    /// A sorted set of transfer ids by due time.
    pub delayed: String,
    /// A stream of what was put aside.
    pub dead: String,
    pub group: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_core::{internal, near};

    #[test]
    fn streams_and_groups_are_named_as_the_seed_names_them() {
        let settings = Settings::new("redis://localhost", "testnet", "one");
        let keys = settings.keys(near::REGISTRATION);
        assert_eq!(keys.stream, "ftrelay:testnet:registration");
        assert_eq!(keys.group, "registration_workers");
        assert_eq!(settings.keys(near::TRANSFER).group, "transfer_workers");
        assert_eq!(settings.keys(near::VERIFICATION).group, "verification_workers");
        assert_eq!(settings.keys(internal::STAGE).group, "internal_workers");
    }
}
