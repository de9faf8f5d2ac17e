//! What goes wrong in a run, drawn from its seed.
//!
//! Swarm style: each run switches on a random half of the faults, each at a random rate, so that
//! some runs are nothing but crashes and others nothing but lies.

use rand::Rng;
use rand::rngs::StdRng;

/// Rates are chances per call (wire, store) or per chaos tick (everything else).
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub seed: u64,
    pub instances: usize,
    pub nodes: usize,
    pub keys: usize,
    pub transfers: usize,
    pub receivers: usize,
    pub block_ms: u64,
    /// How long the faults last.
    pub storm_ms: u64,
    pub validity_blocks: u64,

    pub crash: f64,
    /// Crash right before or after a store or wire call, per call.
    pub crash_at_call: f64,
    pub freeze: f64,
    pub clock_jump: f64,
    pub store_fails_before: f64,
    pub store_fails_after: f64,
    pub store_slow: f64,
    pub store_rollback: f64,
    pub hint_lost: f64,
    pub hint_twice: f64,
    pub request_lost: f64,
    pub answer_lost: f64,
    pub request_late: f64,
    pub rate_limited: f64,
    pub server_error: f64,
    pub garbage: f64,
    pub node_trouble: f64,
    pub black_out: f64,
    pub reorg: f64,
    pub foreign: f64,
    pub included_invalid: f64,
    pub unregister: f64,
    pub drain: f64,
}

impl Plan {
    pub fn draw(seed: u64, rng: &mut StdRng) -> Plan {
        let mut rate = |most: f64| match rng.random_bool(0.5) {
            true => rng.random_range(0.0..most),
            false => 0.0,
        };
        let rates = [
            rate(0.15),
            rate(0.01),
            rate(0.08),
            rate(0.1),
            rate(0.05),
            rate(0.05),
            rate(0.1),
            rate(0.2),
            rate(0.3),
            rate(0.3),
            rate(0.2),
            rate(0.2),
            rate(0.1),
            rate(0.2),
            rate(0.2),
            rate(0.1),
            rate(0.3),
            rate(0.08),
            rate(0.1),
            rate(0.1),
            rate(0.2),
            rate(0.1),
            rate(0.1),
        ];
        Plan {
            seed,
            instances: rng.random_range(1..=3),
            nodes: *[1, 3, 3, 3].get(rng.random_range(0..4)).unwrap_or(&3),
            keys: rng.random_range(1..=4),
            transfers: rng.random_range(5..=60),
            receivers: rng.random_range(1..=20),
            block_ms: rng.random_range(100..=1_200),
            storm_ms: rng.random_range(20_000..=180_000),
            validity_blocks: rng.random_range(60..=2_000),
            crash: rates[0],
            crash_at_call: rates[1],
            freeze: rates[2],
            clock_jump: rates[3],
            store_fails_before: rates[4],
            store_fails_after: rates[5],
            store_slow: rates[6],
            // A store that goes back is rare in life, and one is enough for a run.
            store_rollback: if rng.random_bool(0.15) { rates[7].min(0.05) } else { 0.0 },
            hint_lost: rates[8],
            hint_twice: rates[9],
            request_lost: rates[10],
            answer_lost: rates[11],
            request_late: rates[12],
            rate_limited: rates[13],
            server_error: rates[14],
            garbage: rates[15],
            node_trouble: rates[16],
            black_out: rates[17],
            reorg: rates[18],
            foreign: if rng.random_bool(0.2) { rates[19].min(0.05) } else { 0.0 },
            included_invalid: rates[20],
            unregister: rates[21],
            drain: rates[22],
        }
    }

    /// The faults that are on, for people.
    pub fn describe(&self) -> String {
        let rates = [
            ("crash", self.crash),
            ("crash at a call", self.crash_at_call),
            ("freeze", self.freeze),
            ("clock jumps", self.clock_jump),
            ("store fails before", self.store_fails_before),
            ("store fails after", self.store_fails_after),
            ("store slow", self.store_slow),
            ("store goes back", self.store_rollback),
            ("hints lost", self.hint_lost),
            ("hints twice", self.hint_twice),
            ("requests lost", self.request_lost),
            ("answers lost", self.answer_lost),
            ("requests late", self.request_late),
            ("429", self.rate_limited),
            ("5xx", self.server_error),
            ("garbage", self.garbage),
            ("node trouble", self.node_trouble),
            ("black-outs", self.black_out),
            ("reorganisations", self.reorg),
            ("foreign nonces", self.foreign),
            ("included but invalid", self.included_invalid),
            ("receivers unregister", self.unregister),
            ("relay drained", self.drain),
        ];
        let on = rates.iter().filter(|(_, rate)| *rate > 0.0);
        let on: Vec<String> =
            on.map(|(name, rate)| format!("{name} {:.1} %", rate * 100.0)).collect();
        format!(
            "{} instances, {} nodes, {} keys, {} transfers, blocks of {} ms, {} s of storm: {}",
            self.instances,
            self.nodes,
            self.keys,
            self.transfers,
            self.block_ms,
            self.storm_ms / 1_000,
            on.join(", ")
        )
    }
}
