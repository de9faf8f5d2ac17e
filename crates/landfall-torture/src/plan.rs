//! What goes wrong in a run, drawn from its seed.
//!
//! Swarm style: each run switches on a random half of the faults, each at a random rate, so that
//! some runs are nothing but crashes and others nothing but lies.

mod near;

use rand::Rng;
use rand::rngs::StdRng;

pub use near::{Lies, NearFaults};

/// The node that stays honest and in reach where others have forgotten transactions: a quorum that
/// lies with nobody to contradict it is believed by design. The last one, because whoever stops
/// asking at a quorum never comes to it.
pub const HONEST: usize = 2;
/// How many nodes such a run has.
const WITH_AMNESIA: usize = HONEST + 1;

/// A request may arrive as late as this, and a service work on it for so long.
const LATE_MAX_MS: u64 = 300_000;
const WORKS_MAX_MS: u64 = 60_000;
/// The same where requests are remembered for a minute: both together must be shorter than the time
/// before the end of a window in which nothing is repeated any more, half a minute.
const LATE_IN_WINDOW_MS: u64 = 20_000;
const WORKS_IN_WINDOW_MS: u64 = 8_000;
/// How often broadcasts are late where it matters that they are, and by how much at most: about as
/// long as what they outlast.
const SENT_LATE: f64 = 0.4;
/// The same where the ledger's limits are low: most must be refused in time, by a quorum.
const SENT_LATE_AND_REFUSED: f64 = 0.2;
const LATE_WHEN_SENT_MS: u64 = 60_000;
/// How often instances crash at least where the store forgets what they have just sent.
const CRASH_WITH_PAST: f64 = 0.06;
/// How often requests to services that forget are lost, and how often late, at least. Calls are
/// late more often than questions about them, or nobody would ask in time.
const LOST_IN_WINDOW: f64 = 0.1;
const CALLED_LATE: f64 = 0.4;
/// How often blocks fall off the chain at least where one node forgets.
const REORG_WITH_FORGETFUL: f64 = 0.4;
/// How far apart clients come there, many at once, so that several attempts of a lane are on their
/// way together.
const BURSTS_MS: u64 = 15_000;
/// How often a receiver blinks, where one does: at least so. And how long a block is there at
/// least: several ticks, or the blink is over before the weather has noticed it.
const BLINK_LEAST: f64 = 0.2;
const BLINK_BLOCK_MS: u64 = 600;
/// How often hints come twice at least where the store forgets in the middle of work, and how many
/// keys there are.
const TWICE_IN_PLACE: f64 = 0.5;
const KEYS_IN_PLACE: usize = 4;
/// How many of the worlds in which all but one node forget are quiet otherwise.
const QUIET_WITH_AMNESIA: f64 = 0.4;
/// A storm outlasts so many windows, or nothing would be forgotten in it.
const STORM_WINDOWS: u64 = 3;

/// Rates are chances per call (wire, store) or per chaos tick (everything else).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub seed: u64,
    pub instances: usize,
    pub nodes: usize,
    pub keys: usize,
    /// Attempts of one key on their way at once.
    pub window: usize,
    /// Payouts on the ledger.
    pub transfers: usize,
    pub receivers: usize,
    /// Orders to move funds between the two services, and whose funds.
    pub moves: usize,
    pub users: usize,
    pub block_ms: u64,
    /// Clients come together, every so many milliseconds, where it is not nothing.
    pub bursts_ms: u64,
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
    /// All nodes but [`HONEST`] forget which transactions there were, or what became of them, for a
    /// while.
    pub amnesia: f64,
    pub reorg: f64,
    pub foreign: f64,
    pub included_invalid: f64,
    pub unregister: f64,
    pub drain: f64,
    pub near: NearFaults,
    /// A service ends after it has acted and before it has answered, per call.
    pub service_crash: f64,
    pub service_down: f64,
    pub account_blocked: f64,
    /// A service refuses to roll back and changes its mind later, per call.
    pub rollback_refused: f64,
    /// The same of a commit.
    pub commit_refused: f64,
    /// A service takes a call and works on it for a while, per call.
    pub service_works: f64,
    /// A request to a service is delivered twice, and the second answer counts, per call.
    pub request_twice: f64,
    /// A service refuses to do twice what it has done, instead of saying so again, per call.
    pub duplicate_refused: f64,
    /// A service acts and is not heard, for a while.
    pub service_mute: f64,
    /// A call to a service arrives when its sender has given up, per call.
    pub called_late: f64,
    /// How long the services remember requests, in seconds; 0 is for ever.
    pub dedupe_window_s: f64,
    /// A client without an answer asks for something else under the same key, per try.
    pub mind_changed: f64,
    /// The store goes back between the two reads of a recovery, per recovery; more rarely before
    /// an attempt is opened, and after any read.
    pub store_back_at_call: f64,
    /// Going back, the store stays in its life: a backup is played into the running server.
    pub store_back_in_place: f64,
}

impl Plan {
    pub fn draw(seed: u64, rng: &mut StdRng) -> Plan {
        let instances = rng.random_range(1..=3);
        // Of several instances each remembers only what it stored itself (docs/exactly-once.md),
        // and a store that goes back once is enough for a run.
        let may_go_back = rng.random_bool(0.4);
        let foreign_keys = rng.random_bool(0.2);
        let mut plan = Plan {
            seed,
            instances,
            nodes: [1, 3, 3, 3, 3, 5][rng.random_range(0..6)],
            keys: rng.random_range(1..=4),
            transfers: rng.random_range(5..=60),
            receivers: rng.random_range(1..=20),
            block_ms: rng.random_range(100..=1_200),
            storm_ms: rng.random_range(20_000..=180_000),
            validity_blocks: validity(rng),
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
            node_trouble: rate(rng, 0.3),
            black_out: rate(rng, 0.08),
            reorg: rate(rng, 0.3),
            foreign: if foreign_keys { 0.05 } else { 0.0 },
            included_invalid: rate(rng, 0.2),
            unregister: rate(rng, 0.1),
            drain: rate(rng, 0.1),
            users: 1,
            ..Plan::default()
        };
        let may_forget = rng.random_bool(0.35);
        let amnesia = rng.random_range(0.1..0.5);
        if may_forget && plan.nodes == WITH_AMNESIA {
            plan.amnesia = amnesia;
            // Blocks that fall off the chain bring two attempts of a lane into one block: the
            // nonces alone do not tell then which of them is dead.
            plan.reorg = plan.reorg.max(rng.random_range(0.1..0.4));
        }
        plan.draw_services(rng);
        if plan.transfers > 0 {
            plan.near = NearFaults::draw(plan.nodes, plan.amnesia > 0.0, rng);
        }
        if plan.near.liars > 0 || plan.near.forgetful > 0.0 {
            // As above: two attempts of a lane in one block.
            plan.reorg = plan.reorg.max(rng.random_range(0.0..0.3));
        }
        if plan.near.liars > 0 && rng.random_bool(0.7) {
            // The lanes halt for a store that went back: little would be seen of what liars do.
            plan.store_rollback = 0.0;
        }
        plan.mind_changed = rate(rng, 0.5);
        plan.draw_past(rng);
        plan.window = [1, 1, 1, 1, 2, 6][rng.random_range(0..6)];
        plan.quieten(rng);
        plan.draw_signatures(rng);
        plan.sharpen();
        plan
    }

    /// Where memories are lost, little else goes wrong on some ledgers: what tells two attempts of
    /// a lane in one block apart takes a while, and one key.
    fn quieten(&mut self, rng: &mut StdRng) {
        if self.amnesia == 0.0 || !rng.random_bool(QUIET_WITH_AMNESIA) {
            return;
        }
        let keep = self.clone();
        *self = Plan {
            seed: keep.seed,
            instances: keep.instances,
            nodes: keep.nodes,
            keys: 1,
            window: keep.window,
            transfers: keep.transfers,
            receivers: keep.receivers,
            moves: keep.moves,
            users: keep.users,
            block_ms: keep.block_ms,
            storm_ms: keep.storm_ms,
            validity_blocks: keep.validity_blocks,
            amnesia: keep.amnesia,
            reorg: keep.reorg,
            included_invalid: keep.included_invalid,
            mind_changed: keep.mind_changed,
            ..Plan::default()
        };
        self.near.included_again = keep.near.included_again;
    }

    /// Some faults show what they can do only together.
    fn sharpen(&mut self) {
        if self.near.gas_low > 0.0 {
            // What everybody refuses now may be on its way, and arrive when the limit is raised:
            // not before something was refused.
            self.near.sent_late = SENT_LATE_AND_REFUSED;
            self.near.gas_low /= 8.0;
            self.keys = self.keys.max(2);
        }
        if self.store_rollback > 0.0 && self.transfers > 0 && self.instances == 1 {
            // What is forgotten and has not landed yet nobody but the marks can tell. Of several
            // instances the one that has them may be down.
            self.near.sent_late = SENT_LATE;
            self.keys = self.keys.max(2);
            if self.store_back_in_place == 0.0 {
                self.crash = self.crash.max(CRASH_WITH_PAST);
            }
        }
        if self.near.forgetful > 0.0 && self.near.liars == 0 {
            // Of two attempts of a lane in one block the nonces do not tell which was executed.
            self.reorg = self.reorg.max(REORG_WITH_FORGETFUL);
            self.keys = self.keys.min(2);
        }
        if self.amnesia > 0.0 || self.near.forgetful > 0.0 && self.near.liars == 0 {
            // As above. What a node gives up waiting for before there is a block shares it with
            // what comes next.
            self.window = self.window.max(2);
            self.bursts_ms = BURSTS_MS;
            if self.near.blink == 0.0 {
                self.near.impatient_ms = self.block_ms / 4;
            }
        }
        if self.near.blink > 0.0 {
            // Somebody must be paid in that very block, and the relay be told of it before the
            // block falls off the chain: it asks when a node has waited in vain twice, for the
            // broadcast and for the end, and receipts run two to three blocks after a broadcast.
            self.near.blink = self.near.blink.max(BLINK_LEAST);
            self.receivers = self.receivers.min(2);
            self.block_ms = self.block_ms.max(BLINK_BLOCK_MS);
            self.near.impatient_ms = self.block_ms * 3 / 2;
        }
        if self.dedupe_window_s > 0.0 && self.transfers == 0 {
            // A call that is on its way when the window ends must be the first to arrive.
            self.request_lost = self.request_lost.max(LOST_IN_WINDOW);
            self.request_late = self.request_late.max(LOST_IN_WINDOW);
            self.called_late = CALLED_LATE;
        }
    }

    /// How a store goes back that may.
    fn draw_past(&mut self, rng: &mut StdRng) {
        let (at_call, in_place) = (rate(rng, 1.0), rng.random_bool(0.5));
        if self.store_rollback == 0.0 {
            return;
        }
        self.store_back_at_call = at_call;
        if in_place && self.transfers > 0 {
            // What another instance has signed since it last looked nobody could tell then. On
            // another lane what was forgotten can be signed at once, if somebody is reminded of it
            // and a lane is free. In a recovery it would be noticed before: seldom there.
            (self.store_back_in_place, self.store_back_at_call) = (1.0, at_call.max(0.5) / 10.0);
            (self.instances, self.keys) = (1, KEYS_IN_PLACE);
            self.hint_twice = self.hint_twice.max(TWICE_IN_PLACE);
        }
        if self.store_back_at_call > 0.0 && self.transfers > 0 {
            // At most once in a run: seldom at a mere tick.
            self.store_rollback /= 10.0;
        }
    }

    fn draw_signatures(&mut self, rng: &mut StdRng) {
        let (may_spoil, spoilt) = (rng.random_bool(0.2), rng.random_range(0.05..0.3));
        if may_spoil && self.transfers > 0 {
            self.near.spoilt = spoilt;
        }
    }

    /// Half of the worlds have payouts alone, a quarter orders alone, the rest both.
    fn draw_services(&mut self, rng: &mut StdRng) {
        let rails = rng.random_range(0..4);
        if rails < 2 {
            return;
        }
        self.moves = rng.random_range(5..=60);
        self.users = rng.random_range(1..=6);
        self.service_crash = rate(rng, 0.1);
        self.service_down = rate(rng, 0.08);
        self.account_blocked = rate(rng, 0.8);
        self.rollback_refused = rate(rng, 0.8);
        if rails == 2 {
            self.transfers = 0;
        }
        self.commit_refused = rate(rng, 0.8);
        self.service_works = rate(rng, 0.3);
        self.request_twice = rate(rng, 0.2);
        self.duplicate_refused = rate(rng, 0.8);
        self.service_mute = rate(rng, 0.08);
        let (forgets, window_s) = (rng.random_bool(0.3), rng.random_range(34.0..74.0));
        let mute = rng.random_range(0.02..0.2);
        if forgets {
            self.draw_window(window_s, mute);
        }
    }

    /// Services that remember requests for a minute, and are not heard for longer. The contract
    /// wants a window to be long against all that holds a request back, and clocks to agree.
    fn draw_window(&mut self, window_s: f64, mute: f64) {
        self.dedupe_window_s = window_s;
        self.service_mute = mute;
        (self.freeze, self.clock_jump) = (0.0, 0.0);
        // What store and service have both forgotten is done twice if its client asks again.
        self.store_rollback = 0.0;
        self.storm_ms = self.storm_ms.max(STORM_WINDOWS * (window_s * 1_000.0) as u64);
    }

    /// For how long the services remember requests.
    pub fn dedupe_window_ms(&self) -> Option<u64> {
        let ms = (self.dedupe_window_s * 1_000.0) as u64;
        (ms > 0).then_some(ms)
    }

    /// A request may arrive as late as this, long after its sender has given up.
    pub fn late_max_ms(&self) -> u64 {
        match self.dedupe_window_ms() {
            Some(_) => LATE_IN_WINDOW_MS,
            None if self.near.sent_late > 0.0 => LATE_WHEN_SENT_MS,
            None => LATE_MAX_MS,
        }
    }

    /// A service works on a call for at most this long.
    pub fn works_max_ms(&self) -> u64 {
        match self.dedupe_window_ms() {
            Some(_) => WORKS_IN_WINDOW_MS,
            None => WORKS_MAX_MS,
        }
    }

    /// Whether nothing may go wrong with this node, or with questions on the way to it.
    pub fn shelters(&self, node: usize) -> bool {
        self.amnesia > 0.0 && node == HONEST
    }

    /// Whether this node lies, now and then or always.
    pub fn lies_at(&self, node: usize) -> bool {
        let NearFaults { liars, first_liar, lying, .. } = self.near;
        let turn = (node + self.nodes - first_liar % self.nodes) % self.nodes;
        lying > 0.0 && turn < liars
    }

    /// The node that forgets which transactions there were, where one does. Always the same: one
    /// that has forgotten before and one that forgets now would be two to whoever asks both.
    pub fn forgetful_at(&self) -> usize {
        (self.near.first_liar + self.near.liars) % self.nodes
    }

    /// Nothing goes wrong.
    pub fn calm(seed: u64) -> Plan {
        Plan {
            seed,
            instances: 1,
            nodes: 3,
            keys: 1,
            window: 1,
            transfers: 1,
            receivers: 1,
            block_ms: 300,
            storm_ms: 6_000,
            validity_blocks: 2_000,
            users: 1,
            ..Plan::default()
        }
    }

    fn describe_nodes(&self) -> String {
        let NearFaults { liars, for_good, lying, .. } = self.near;
        match (liars, for_good) {
            _ if lying == 0.0 => self.nodes.to_string(),
            (_, true) => format!("{} ({liars} lie for good)", self.nodes),
            (_, false) => format!("{} ({liars} lie for a while)", self.nodes),
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
            ("amnesia", self.amnesia),
            ("reorganisations", self.reorg),
            ("foreign nonces", self.foreign),
            ("included but invalid", self.included_invalid),
            ("receivers unregister", self.unregister),
            ("relay drained", self.drain),
            ("services die acting", self.service_crash),
            ("services down", self.service_down),
            ("accounts blocked", self.account_blocked),
            ("rollbacks refused", self.rollback_refused),
            ("commits refused", self.commit_refused),
            ("services work for long", self.service_works),
            ("requests delivered twice", self.request_twice),
            ("duplicates refused", self.duplicate_refused),
            ("services mute", self.service_mute),
            ("calls late", self.called_late),
            ("services forget", f64::from(self.dedupe_window_s > 0.0)),
            ("clients change their minds", self.mind_changed),
            ("store goes back at calls", self.store_back_at_call),
            ("in the same life", self.store_back_in_place),
        ];
        let rates = rates.into_iter().chain(self.near.rates());
        let on = rates.filter(|(_, rate)| *rate > 0.0);
        let on: Vec<String> =
            on.map(|(name, rate)| format!("{name} {:.1} %", rate * 100.0)).collect();
        format!(
            "{} instances, {} nodes, {} keys with windows of {}, {} payouts, {} moves, blocks of \
             {} ms, {} s of storm: {}",
            self.instances,
            self.describe_nodes(),
            self.keys,
            self.window,
            self.transfers,
            self.moves,
            self.block_ms,
            self.storm_ms / 1_000,
            on.join(", ")
        )
    }
}

/// How many blocks a transaction lives: on some chains so few that its expiry decides.
fn validity(rng: &mut StdRng) -> u64 {
    match rng.random_bool(0.35) {
        true => rng.random_range(20..=60),
        false => rng.random_range(60..=2_000),
    }
}

/// Off in half of the runs, else anything up to `most`.
fn rate(rng: &mut StdRng, most: f64) -> f64 {
    match rng.random_bool(0.5) {
        true => rng.random_range(0.0..most),
        false => 0.0,
    }
}
