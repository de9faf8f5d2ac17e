//! What is counted, by the names that dashboards and alert rules use.
//!
//! Counters are bumped where things happen; gauges are set when somebody asks.

use landfall_core::{Attempt, Fate, RailName, Stage, State, Transfer};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::status::{RailStatus, Snapshot};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;
type Histograms = Family<Labels, Histogram>;

/// The engine's counters.
pub struct Metrics {
    registry: Registry,
    accepted: Counters,
    completed: Counters,
    failed: Counters,
    attempts: Counters,
    fates: Counters,
    swept: Counters,
    transfer_seconds: Histograms,
    attempt_seconds: Histograms,
    states: Gauges,
    depth: Gauges,
    put_aside: Gauges,
    adrift: Gauges,
    aside: Gauges,
    stuck: Gauges,
    halted: Gauges,
    lanes: Gauges,
    paused: Gauges,
    rpc_calls: Gauges,
    rpc_errors: Gauges,
    breaker: Gauges,
    caught: Gauges,
    alerts: Gauges,
    restarts: Gauges,
}

fn seconds() -> Histogram {
    // From 50 ms, faster than any block, to about 100 s.
    Histogram::new(exponential_buckets(0.05, 2.0, 12))
}

impl Metrics {
    pub fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::default(),
            accepted: Counters::default(),
            completed: Counters::default(),
            failed: Counters::default(),
            attempts: Counters::default(),
            fates: Counters::default(),
            swept: Counters::default(),
            transfer_seconds: Histograms::new_with_constructor(seconds),
            attempt_seconds: Histograms::new_with_constructor(seconds),
            states: Gauges::default(),
            depth: Gauges::default(),
            put_aside: Gauges::default(),
            adrift: Gauges::default(),
            aside: Gauges::default(),
            stuck: Gauges::default(),
            halted: Gauges::default(),
            lanes: Gauges::default(),
            paused: Gauges::default(),
            rpc_calls: Gauges::default(),
            rpc_errors: Gauges::default(),
            breaker: Gauges::default(),
            caught: Gauges::default(),
            alerts: Gauges::default(),
            restarts: Gauges::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let registry = &mut self.registry;
        let mut counter = |name: &str, help: &str, family: &Counters| {
            registry.register(name, help, family.clone());
        };
        counter("landfall_accepted", "Transfers accepted", &self.accepted);
        counter("landfall_completed", "Transfers landed and final", &self.completed);
        counter("landfall_failed", "Transfers proven unmoved", &self.failed);
        counter("landfall_attempts", "Attempts stored, by purpose", &self.attempts);
        counter("landfall_fates", "Attempts decided, by fate", &self.fates);
        counter("landfall_swept", "Transfers found by the sweeper", &self.swept);
        let mut histogram = |name: &str, help: &str, family: &Histograms| {
            registry.register(name, help, family.clone());
        };
        histogram("landfall_transfer_seconds", "Acceptance to finality", &self.transfer_seconds);
        histogram("landfall_attempt_seconds", "Opening to fate", &self.attempt_seconds);
        let mut gauge = |name: &str, help: &str, family: &Gauges| {
            registry.register(name, help, family.clone());
        };
        gauge("landfall_transfers", "Transfers by state", &self.states);
        gauge("landfall_queue_depth", "Hints waiting, by stage", &self.depth);
        gauge("landfall_queue_put_aside", "Hints nobody could handle", &self.put_aside);
        gauge("landfall_adrift_attempts", "Attempts of unknown fate", &self.adrift);
        gauge("landfall_aside_transfers", "Transfers set aside", &self.aside);
        gauge("landfall_stuck_transfers", "Transfers retried for too long", &self.stuck);
        gauge("landfall_halted_lanes", "Lanes waiting for an operator", &self.halted);
        gauge("landfall_held_lanes", "Lanes held by this process", &self.lanes);
        gauge("landfall_paused", "1 while the rail pays nobody", &self.paused);
        gauge("landfall_rpc_calls", "Calls by endpoint since start", &self.rpc_calls);
        gauge("landfall_rpc_errors", "Failed calls by endpoint", &self.rpc_errors);
        gauge("landfall_rpc_caught", "Times caught contradicting a quorum", &self.caught);
        gauge("landfall_breaker_open", "1 while the endpoint is avoided", &self.breaker);
        gauge("landfall_alerts", "Alerts standing", &self.alerts);
        gauge("landfall_task_restarts", "Tasks that died and were restarted", &self.restarts);
        self
    }

    pub fn accepted(&self, rail: RailName, count: u64) {
        self.accepted.get_or_create(&of(rail)).inc_by(count);
    }

    pub fn opened(&self, attempt: &Attempt) {
        let mut labels = of(attempt.rail);
        labels.push(("purpose", attempt.purpose.as_str().to_owned()));
        self.attempts.get_or_create(&labels).inc();
    }

    pub fn settled(&self, attempt: &Attempt, fate: &Fate, now_ms: u64) {
        let mut labels = of(attempt.rail);
        let name = match fate {
            Fate::Landed(_) => "landed",
            Fate::Sunk(_) => "sunk",
        };
        labels.push(("fate", name.to_owned()));
        self.fates.get_or_create(&labels).inc();
        let took = now_ms.saturating_sub(attempt.opened_ms) as f64 / 1_000.0;
        self.attempt_seconds.get_or_create(&of(attempt.rail)).observe(took);
    }

    pub fn finished(&self, transfer: &Transfer) {
        let labels = of(transfer.payload.rail());
        match transfer.state.is_completed() {
            true => self.completed.get_or_create(&labels).inc(),
            false => self.failed.get_or_create(&labels).inc(),
        };
        let took = transfer.updated_ms.saturating_sub(transfer.created_ms) as f64 / 1_000.0;
        self.transfer_seconds.get_or_create(&labels).observe(took);
    }

    pub fn swept(&self, stage: Stage, count: u64) {
        self.swept.get_or_create(&vec![("stage", stage.to_string())]).inc_by(count);
    }

    /// Sets the gauges and writes everything down.
    pub fn render(&self, snapshot: &Snapshot, restarts: u64) -> String {
        let Snapshot { status, counts, depths, put_aside } = snapshot;
        for state in status.rails.iter().flat_map(|rail| State::all(rail.rail)) {
            // A store may leave out the states that nobody is in; those have 0.
            let counted = counts.iter().find(|(counted, _)| *counted == state);
            let mut labels = of(state.rail());
            labels.push(("state", state.name().to_owned()));
            let count = counted.map_or(0, |(_, count)| *count);
            self.states.get_or_create(&labels).set(count as i64);
        }
        for (stage, depth) in depths {
            self.depth.get_or_create(&vec![("stage", stage.to_string())]).set(*depth as i64);
        }
        self.put_aside.get_or_create(&Vec::new()).set(*put_aside as i64);
        for rail in &status.rails {
            let labels = of(rail.rail);
            // Several ledgers may share a rail's name.
            let of_name = || status.rails.iter().filter(|other| other.rail == rail.rail);
            let sum = |of: fn(&RailStatus) -> usize| of_name().map(of).sum::<usize>() as i64;
            self.adrift.get_or_create(&labels).set(sum(|one| one.adrift));
            self.aside.get_or_create(&labels).set(sum(|one| one.aside));
            self.stuck.get_or_create(&labels).set(sum(|one| one.stuck));
            self.halted.get_or_create(&labels).set(sum(|one| one.lanes_halted));
            self.lanes.get_or_create(&labels).set(sum(|one| one.lanes_held));
            let paused = of_name().any(|one| one.paused.is_some());
            self.paused.get_or_create(&labels).set(paused as i64);
            for endpoint in &rail.endpoints {
                let mut labels = of(rail.rail);
                labels.push(("name", endpoint.name.clone()));
                labels.push(("endpoint", endpoint.endpoint.clone()));
                self.rpc_calls.get_or_create(&labels).set(endpoint.calls as i64);
                self.rpc_errors.get_or_create(&labels).set(endpoint.errors as i64);
                self.breaker.get_or_create(&labels).set(endpoint.breaker_open as i64);
                let times = endpoint.caught.as_ref().map_or(0, |caught| caught.times);
                self.caught.get_or_create(&labels).set(times as i64);
            }
        }
        self.alerts.get_or_create(&Vec::new()).set(status.alerts.len() as i64);
        self.restarts.get_or_create(&Vec::new()).set(restarts as i64);
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

fn of(rail: RailName) -> Labels {
    vec![("rail", rail.as_str().to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn ledgers_that_share_a_rails_name_are_added_up() {
        let rail = |adrift, paused: Option<&str>| RailStatus {
            rail: RailName::Evm,
            endpoints: Vec::new(),
            paused: paused.map(str::to_owned),
            lanes_held: 1,
            lanes_halted: 0,
            adrift,
            aside: 0,
            stuck: 0,
        };
        let rails = vec![rail(2, Some("no funds")), rail(1, None)];
        let status = Status { store_error: None, rails, alerts: Vec::new(), ready: true };
        let snapshot = Snapshot { status, counts: Vec::new(), depths: Vec::new(), put_aside: 0 };
        let text = Metrics::new().render(&snapshot, 0);
        for line in ["adrift_attempts{rail=\"evm\"} 3", "held_lanes{rail=\"evm\"} 2"] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let paused = text.lines().find(|line| line.contains("paused{rail=\"evm\"}"));
        assert!(paused.is_some_and(|line| line.ends_with(" 1")), "{text}");
    }
}
