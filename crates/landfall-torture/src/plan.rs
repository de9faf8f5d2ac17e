//! What goes wrong in a run, drawn from its seed.
//!
//! Swarm style: each run switches on a random half of the faults, each at a random rate, so that
//! some runs are nothing but crashes and others nothing but lies. What goes wrong with one rail
//! alone is in the plan of its part.
//! **Rule:** the order in which things are drawn is kept: a seed is a world, for ever. What is new
//! is drawn last.

use rand::Rng;
use rand::rngs::StdRng;

use crate::evm::{self, EvmPlan};
use crate::internal::{self, InternalPlan};
use crate::near::{self, NearPlan};
use crate::part::KINDS;

/// A request may arrive as late as this, unless a part cannot do with it.
const LATE_MAX_MS: u64 = 300_000;
/// How often hints come twice at least where the store forgets in the middle of work.
const TWICE_IN_PLACE: f64 = 0.5;

/// Rates are chances per call (wire, store) or per second (everything else).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub seed: u64,
    pub instances: usize,
    /// Clients come together, every so many milliseconds, where it is not nothing.
    pub bursts_ms: u64,
    /// How long the faults last.
    pub storm_ms: u64,

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
    /// A client without an answer asks for something else under the same key, per try.
    pub mind_changed: f64,
    /// The store goes back between the two reads of a recovery, per recovery; more rarely before
    /// an attempt is opened, and after any read.
    pub store_back_at_call: f64,
    /// Going back, the store stays in its life: a backup is played into the running server.
    pub store_back_in_place: f64,

    pub near: NearPlan,
    pub internal: InternalPlan,
    pub evm: EvmPlan,
}

/// A fault that can be switched off.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    /// As `--without` names it.
    pub name: &'static str,
    /// For people.
    pub words: &'static str,
    /// Its rate, or, above 1, some other measure of it.
    pub rate: fn(&mut Plan) -> &mut f64,
}

impl Fault {
    pub const fn new(
        name: &'static str,
        words: &'static str,
        rate: fn(&mut Plan) -> &mut f64,
    ) -> Fault {
        Fault { name, words, rate }
    }

    /// Those of the world and of every part.
    pub fn all() -> impl Iterator<Item = &'static Fault> {
        FAULTS.iter().chain(KINDS.iter().flat_map(|kind| kind.faults))
    }
}

const FAULTS: [Fault; 19] = [
    Fault::new("crash", "crash", |plan| &mut plan.crash),
    Fault::new("crash-at-call", "crash at a call", |plan| &mut plan.crash_at_call),
    Fault::new("freeze", "freeze", |plan| &mut plan.freeze),
    Fault::new("clock-jump", "clock jumps", |plan| &mut plan.clock_jump),
    Fault::new("store-fails-before", "store fails before", |plan| &mut plan.store_fails_before),
    Fault::new("store-fails-after", "store fails after", |plan| &mut plan.store_fails_after),
    Fault::new("store-slow", "store slow", |plan| &mut plan.store_slow),
    Fault::new("store-rollback", "store goes back", |plan| &mut plan.store_rollback),
    Fault::new("hint-lost", "hints lost", |plan| &mut plan.hint_lost),
    Fault::new("hint-twice", "hints twice", |plan| &mut plan.hint_twice),
    Fault::new("request-lost", "requests lost", |plan| &mut plan.request_lost),
    Fault::new("answer-lost", "answers lost", |plan| &mut plan.answer_lost),
    Fault::new("request-late", "requests late", |plan| &mut plan.request_late),
    Fault::new("rate-limited", "429", |plan| &mut plan.rate_limited),
    Fault::new("server-error", "5xx", |plan| &mut plan.server_error),
    Fault::new("garbage", "garbage", |plan| &mut plan.garbage),
    Fault::new("mind-changed", "clients change their minds", |plan| &mut plan.mind_changed),
    Fault::new("store-back-at-call", "store goes back at calls", |plan| {
        &mut plan.store_back_at_call
    }),
    Fault::new("store-back-in-place", "in the same life", |plan| &mut plan.store_back_in_place),
];

impl Plan {
    pub fn draw(seed: u64, rng: &mut StdRng) -> Plan {
        let instances = rng.random_range(1..=3);
        // Of several instances each remembers only what it stored itself (docs/exactly-once.md),
        // and a store that goes back once is enough for a run.
        let may_go_back = rng.random_bool(0.4);
        let foreign_keys = rng.random_bool(0.2);
        let mut near = NearPlan::draw_size(rng);
        let storm_ms = rng.random_range(20_000..=180_000);
        near.draw_validity(rng);
        let mut plan = Plan {
            seed,
            instances,
            storm_ms,
            crash: rate(rng, 0.15),
            crash_at_call: rate(rng, 0.01),
            freeze: rate(rng, 0.08),
            clock_jump: rate(rng, 0.1),
            store_fails_before: rate(rng, 0.05),
            store_fails_after: rate(rng, 0.05),
            store_slow: rate(rng, 0.1),
            store_rollback: if may_go_back { 0.03 } else { 0.0 },
            hint_lost: rate(rng, 0.3),
            hint_twice: rate(rng, 0.3),
            request_lost: rate(rng, 0.2),
            answer_lost: rate(rng, 0.2),
            request_late: rate(rng, 0.1),
            rate_limited: rate(rng, 0.2),
            server_error: rate(rng, 0.2),
            garbage: rate(rng, 0.1),
            near,
            internal: InternalPlan { users: 1, ..InternalPlan::default() },
            ..Plan::default()
        };
        plan.near.draw_weather(if foreign_keys { 0.05 } else { 0.0 }, rng);
        internal::plan::draw(&mut plan, rng);
        near::plan::draw(&mut plan, rng);
        plan.mind_changed = rate(rng, 0.5);
        plan.draw_past(rng);
        near::plan::draw_late(&mut plan, rng);
        near::plan::sharpen(&mut plan);
        internal::plan::sharpen(&mut plan);
        evm::plan::draw(&mut plan, rng);
        near::plan::draw_pools(&mut plan, rng);
        plan
    }

    /// How a store goes back that may.
    fn draw_past(&mut self, rng: &mut StdRng) {
        let (at_call, in_place) = (rate(rng, 1.0), rng.random_bool(0.5));
        if self.store_rollback == 0.0 {
            return;
        }
        self.store_back_at_call = at_call;
        if in_place && self.signs() {
            // What another instance has signed since it last looked nobody could tell then. What
            // was forgotten can be signed at once, if somebody is reminded of it. In a recovery it
            // would be noticed before: seldom there.
            (self.store_back_in_place, self.store_back_at_call) = (1.0, at_call.max(0.5) / 10.0);
            self.instances = 1;
            self.hint_twice = self.hint_twice.max(TWICE_IN_PLACE);
        }
        if self.store_back_at_call > 0.0 && self.signs() {
            // At most once in a run: seldom at a mere tick.
            self.store_rollback /= 10.0;
        }
    }

    /// Whether anything is paid by attempts, on a ledger.
    pub fn signs(&self) -> bool {
        self.near.payouts > 0 || self.evm.calls > 0
    }

    /// A request may arrive as late as this, long after its sender has given up.
    pub fn late_max_ms(&self) -> u64 {
        let parts = KINDS.iter().filter_map(|kind| (kind.late_max_ms)(self));
        parts.min().unwrap_or(LATE_MAX_MS)
    }

    /// Nothing goes wrong.
    pub fn calm(seed: u64) -> Plan {
        Plan {
            seed,
            instances: 1,
            storm_ms: 6_000,
            near: NearPlan {
                nodes: 3,
                keys: 1,
                window: 1,
                payouts: 1,
                receivers: 1,
                block_ms: 300,
                validity_blocks: 2_000,
                ..NearPlan::default()
            },
            internal: InternalPlan { users: 1, ..InternalPlan::default() },
            ..Plan::default()
        }
    }

    /// The faults that are on, for people.
    pub fn describe(&self) -> String {
        let mut plan = self.clone();
        let mut on = Vec::new();
        for fault in Fault::all() {
            match *(fault.rate)(&mut plan) {
                0.0 => {}
                rate if rate > 1.0 => on.push(fault.words.to_owned()),
                rate => on.push(format!("{} {:.1} %", fault.words, rate * 100.0)),
            }
        }
        let parts: Vec<String> = KINDS.iter().map(|kind| (kind.describe)(self)).collect();
        format!(
            "{} instances, {}, {} s of storm: {}",
            self.instances,
            parts.join(", "),
            self.storm_ms / 1_000,
            on.join(", ")
        )
    }
}

/// Off in half of the runs, else anything up to `most`.
pub fn rate(rng: &mut StdRng, most: f64) -> f64 {
    match rng.random_bool(0.5) {
        true => rng.random_range(0.0..most),
        false => 0.0,
    }
}
