//! The engine's limits and times, each with its reason. Values are milliseconds unless named.

use landfall_core::rail::Backoff;
use landfall_lanes::LaneSettings;

/// Everything about the engine that can be set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This process's name in leases. Two processes that run at once need two names.
    pub instance: String,
    /// How often the sweeper looks for what lost its hint.
    pub sweep_ms: u64,
    /// How long a hint may take before the sweeper doubts it.
    pub hint_grace_ms: u64,
    /// How far a sweep pushes a transfer's due time on, so that two sweeps do not find it twice.
    pub sweep_push_ms: u64,
    /// Transfers held in memory per stage, ready to go. Bounds memory; the rest waits in the store.
    pub pool_capacity: usize,
    /// Failed looks before an attempt is called out to operators. Nothing is ever given up for it.
    pub verification_retries: u32,
    /// First wait after a charged failure, of a rail that has no backoff of its own; doubles, with
    /// jitter, up to `backoff_max_ms`.
    pub backoff_ms: u64,
    pub backoff_max_ms: u64,
    /// The longest wait that a rail has of its own.
    pub rails_backoff_max_ms: u64,
    /// First wait of a transfer that was set aside because it fails alone; doubles up to
    /// `aside_max_ms`. Whoever set things right waits no longer than that.
    pub aside_ms: u64,
    pub aside_max_ms: u64,
    /// First pause of a rail that can pay nobody, before it looks or tries again; doubles up to
    /// `pause_max_ms`: a minute late is soon, and an attempt a minute costs next to nothing.
    pub pause_ms: u64,
    pub pause_max_ms: u64,
    /// Submissions waiting for their commit before the API says 503: a second's worth of work.
    pub intake_max: usize,
    /// Unfinished transfers before the API says 503.
    pub backlog_max: u64,
    /// Clients that wait for a transfer to become final; one more is answered at once. Each holds a
    /// connection, and about a kilobyte.
    pub waits_max: usize,
    /// How long a client's wait trusts this process alone: another one may finish the transfer.
    pub recheck_ms: u64,
    /// Transfers of a rail of services that are driven at once: each is a call in flight.
    pub calls_max: usize,
    /// Retries, or age of a transfer that is being retried, from which operators are told.
    pub alert_after_retries: u32,
    pub alert_after_ms: u64,
    pub lanes: LaneSettings,
}

impl Settings {
    /// A due time further away than this was never meant: the clock has jumped. Beyond the longest
    /// wait that is, for whoever claims what is due.
    pub fn horizon_ms(&self) -> u64 {
        let backoff_max_ms = self.backoff_max_ms.max(self.rails_backoff_max_ms);
        let waits = [backoff_max_ms, self.sweep_push_ms, self.aside_max_ms];
        2 * waits.into_iter().fold(self.pause_max_ms, u64::max)
    }

    /// The backoff of a rail, where it may have its own.
    pub(crate) fn backoff_of(&self, own: Option<Backoff>) -> Backoff {
        own.unwrap_or(Backoff { first_ms: self.backoff_ms, max_ms: self.backoff_max_ms })
    }

    /// The same, with a horizon that lies beyond the waits of these rails.
    pub(crate) fn beyond(self, own: impl Iterator<Item = Option<Backoff>>) -> Settings {
        let longest_ms = own.flatten().map(|backoff| backoff.max_ms).max().unwrap_or(0);
        let rails_backoff_max_ms = self.rails_backoff_max_ms.max(longest_ms);
        Settings { rails_backoff_max_ms, ..self }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            instance: "landfall".to_owned(),
            sweep_ms: 1_000,
            hint_grace_ms: 2_000,
            sweep_push_ms: 30_000,
            pool_capacity: 20_000,
            verification_retries: 20,
            backoff_ms: 500,
            backoff_max_ms: 60_000,
            rails_backoff_max_ms: 0,
            aside_ms: 5_000,
            aside_max_ms: 300_000,
            pause_ms: 2_000,
            pause_max_ms: 60_000,
            intake_max: 20_000,
            backlog_max: 1_000_000,
            waits_max: 10_000,
            recheck_ms: 1_000,
            calls_max: 256,
            alert_after_retries: 10,
            alert_after_ms: 300_000,
            lanes: LaneSettings::default(),
        }
    }
}
