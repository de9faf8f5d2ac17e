//! What goes wrong among the services, and what is moved between them.

use rand::Rng;
use rand::rngs::StdRng;

use crate::plan::{Fault, Plan, rate};

/// A request may arrive as late as this, and a service work on it for so long, where requests are
/// remembered for a minute: both together must be shorter than the time before the end of a window
/// in which nothing is repeated any more, half a minute.
const LATE_IN_WINDOW_MS: u64 = 20_000;
const WORKS_IN_WINDOW_MS: u64 = 8_000;
/// A service works on a call for so long elsewhere.
const WORKS_MAX_MS: u64 = 60_000;
/// How often requests to services that forget are lost, and how often late, at least. Calls are
/// late more often than questions about them, or nobody would ask in time.
const LOST_IN_WINDOW: f64 = 0.1;
const CALLED_LATE: f64 = 0.4;
/// A storm outlasts so many windows, or nothing would be forgotten in it.
const STORM_WINDOWS: u64 = 3;

/// Rates are chances per call (calls) or per second (services and accounts).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InternalPlan {
    /// Orders to move funds between the two services, and whose funds.
    pub moves: usize,
    pub users: usize,
    /// A service ends after it has acted and before it has answered, per call.
    pub crash: f64,
    pub down: f64,
    pub account_blocked: f64,
    /// A service refuses to roll back and changes its mind later, per call.
    pub rollback_refused: f64,
    /// The same of a commit.
    pub commit_refused: f64,
    /// A service takes a call and works on it for a while, per call.
    pub works: f64,
    /// A request to a service is delivered twice, and the second answer counts, per call.
    pub request_twice: f64,
    /// A service refuses to do twice what it has done, instead of saying so again, per call.
    pub duplicate_refused: f64,
    /// A service acts and is not heard, for a while.
    pub mute: f64,
    /// A call to a service arrives when its sender has given up, per call.
    pub called_late: f64,
    /// How long the services remember requests, in seconds; 0 is for ever.
    pub dedupe_window_s: f64,
}

pub const FAULTS: [Fault; 11] = [
    Fault::new("service-crash", "services die acting", |plan| &mut plan.internal.crash),
    Fault::new("service-down", "services down", |plan| &mut plan.internal.down),
    Fault::new("account-blocked", "accounts blocked", |plan| &mut plan.internal.account_blocked),
    Fault::new("rollback-refused", "rollbacks refused", |plan| &mut plan.internal.rollback_refused),
    Fault::new("commit-refused", "commits refused", |plan| &mut plan.internal.commit_refused),
    Fault::new("service-works", "services work for long", |plan| &mut plan.internal.works),
    Fault::new("request-twice", "requests delivered twice", |plan| {
        &mut plan.internal.request_twice
    }),
    Fault::new("duplicate-refused", "duplicates refused", |plan| {
        &mut plan.internal.duplicate_refused
    }),
    Fault::new("service-mute", "services mute", |plan| &mut plan.internal.mute),
    Fault::new("called-late", "calls late", |plan| &mut plan.internal.called_late),
    Fault::new("dedupe-window", "services forget", |plan| &mut plan.internal.dedupe_window_s),
];

/// Half of the worlds have payouts alone, a quarter orders alone, the rest both.
pub fn draw(plan: &mut Plan, rng: &mut StdRng) {
    let rails = rng.random_range(0..4);
    if rails < 2 {
        return;
    }
    let internal = &mut plan.internal;
    internal.moves = rng.random_range(5..=60);
    internal.users = rng.random_range(1..=6);
    internal.crash = rate(rng, 0.1);
    internal.down = rate(rng, 0.08);
    internal.account_blocked = rate(rng, 0.8);
    internal.rollback_refused = rate(rng, 0.8);
    if rails == 2 {
        plan.near.payouts = 0;
    }
    internal.commit_refused = rate(rng, 0.8);
    internal.works = rate(rng, 0.3);
    internal.request_twice = rate(rng, 0.2);
    internal.duplicate_refused = rate(rng, 0.8);
    internal.mute = rate(rng, 0.08);
    let (forgets, window_s) = (rng.random_bool(0.3), rng.random_range(34.0..74.0));
    let mute = rng.random_range(0.02..0.2);
    if forgets {
        draw_window(plan, window_s, mute);
    }
}

/// Services that remember requests for a minute, and are not heard for longer. The contract wants a
/// window to be long against all that holds a request back, and clocks to agree.
fn draw_window(plan: &mut Plan, window_s: f64, mute: f64) {
    plan.internal.dedupe_window_s = window_s;
    plan.internal.mute = mute;
    (plan.freeze, plan.clock_jump) = (0.0, 0.0);
    // What store and service have both forgotten is done twice if its client asks again.
    plan.store_rollback = 0.0;
    plan.storm_ms = plan.storm_ms.max(STORM_WINDOWS * (window_s * 1_000.0) as u64);
}

/// A call that is on its way when the window ends must be the first to arrive.
pub fn sharpen(plan: &mut Plan) {
    if plan.internal.dedupe_window_s > 0.0 && !plan.signs() {
        plan.request_lost = plan.request_lost.max(LOST_IN_WINDOW);
        plan.request_late = plan.request_late.max(LOST_IN_WINDOW);
        plan.internal.called_late = CALLED_LATE;
    }
}

impl InternalPlan {
    /// For how long the services remember requests.
    pub fn dedupe_window_ms(&self) -> Option<u64> {
        let ms = (self.dedupe_window_s * 1_000.0) as u64;
        (ms > 0).then_some(ms)
    }

    /// A request may arrive as late as this, where that matters.
    pub fn late_max_ms(&self) -> Option<u64> {
        self.dedupe_window_ms().map(|_| LATE_IN_WINDOW_MS)
    }

    /// A service works on a call for at most this long.
    pub fn works_max_ms(&self) -> u64 {
        match self.dedupe_window_ms() {
            Some(_) => WORKS_IN_WINDOW_MS,
            None => WORKS_MAX_MS,
        }
    }

    pub fn describe(&self) -> String {
        format!("{} moves", self.moves)
    }
}
