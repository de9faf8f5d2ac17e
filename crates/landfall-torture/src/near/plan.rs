//! What is paid on NEAR, on how many nodes and keys, and what goes wrong there: who lies and how,
//! who forgets, what the ledger refuses.
//!
//! **Rule:** nodes that lie and nodes that have forgotten transactions are together fewer than a
//! quorum; more than that is believed by design. (Amnesia is the exception, with a node that stays
//! honest and in reach.)

use rand::Rng;
use rand::rngs::StdRng;

use crate::internal::InternalPlan;
use crate::plan::{Fault, Plan, rate};

/// The node that stays honest and in reach where others have forgotten transactions: a quorum that
/// lies with nobody to contradict it is believed by design. The last one, because whoever stops
/// asking at a quorum never comes to it.
const HONEST: usize = 2;
/// How many nodes such a run has.
const WITH_AMNESIA: usize = HONEST + 1;
/// How many of the worlds in which all but one node forget are quiet otherwise.
const QUIET_WITH_AMNESIA: f64 = 0.4;
/// How often broadcasts are late where it matters that they are, and by how much at most: about as
/// long as what they outlast.
const SENT_LATE: f64 = 0.4;
/// The same where the ledger's limits are low: most must be refused in time, by a quorum.
const SENT_LATE_AND_REFUSED: f64 = 0.2;
const LATE_WHEN_SENT_MS: u64 = 60_000;
/// How often instances crash at least where the store forgets what they have just sent.
const CRASH_WITH_PAST: f64 = 0.06;
/// How often blocks fall off the chain at least where one node forgets.
const REORG_WITH_FORGETFUL: f64 = 0.4;
/// How far apart clients come there, many at once, so that several attempts of a lane are on their
/// way together.
const BURSTS_MS: u64 = 15_000;
/// How often a receiver blinks, where one does: at least so. And how long a block is there at
/// least: several ticks, or the blink is over before the weather has noticed it.
const BLINK_LEAST: f64 = 0.2;
const BLINK_BLOCK_MS: u64 = 600;
/// Nodes that hold something back do so for at most about so many ticks.
const HELD_BACK_TICKS: u64 = 40;
/// How many keys there are where the store forgets in the middle of work.
const KEYS_IN_PLACE: usize = 4;

/// How often liars tell which lie, per question that it fits (`liars` has the table).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lies {
    pub refused: f64,
    pub done: f64,
    pub reverted: f64,
    pub included: f64,
    pub unknown: f64,
    pub other: f64,
    pub nonces: f64,
    pub heights: f64,
    pub chunks: f64,
    pub contract: f64,
    pub chain: f64,
    pub replay: f64,
}

/// Rates are chances per second, but for the lies and where something else is said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NearPlan {
    pub nodes: usize,
    pub keys: usize,
    /// Attempts of one key on their way at once.
    pub window: usize,
    pub payouts: usize,
    pub receivers: usize,
    pub block_ms: u64,
    pub validity_blocks: u64,
    pub node_trouble: f64,
    pub black_out: f64,
    /// All nodes but one forget which transactions there were, or what became of them, for a while.
    pub amnesia: f64,
    pub reorg: f64,
    pub foreign: f64,
    pub included_invalid: f64,
    pub unregister: f64,
    pub drain: f64,
    /// How many nodes lie, from which one on. The next one is the forgetful.
    pub liars: usize,
    pub first_liar: usize,
    /// They lie from the first moment to the last, in the calm too; else for a while.
    pub for_good: bool,
    /// They begin to lie. None lies if it is nothing.
    pub lying: f64,
    pub lies: Lies,
    /// The node after them forgets which transactions there were, or what became of them, for a
    /// while.
    pub forgetful: f64,
    /// A node collects all but its newest `history_blocks` blocks, until the calm: then somebody
    /// puts in an archival node, or nobody does.
    pub collected: f64,
    pub history_blocks: u64,
    pub archival: bool,
    /// A transaction that landed is included again, as invalid.
    pub included_again: f64,
    /// The relay's tokens are taken away, for a while.
    pub tokens_drained: f64,
    /// A transaction may attach less gas than the relay is told, until the limit is raised.
    pub gas_low: f64,
    /// A signature goes bad after it was checked, per transaction: every node refuses it, for ever.
    pub spoilt: f64,
    /// A broadcast arrives when its sender has given up, per broadcast.
    pub sent_late: f64,
    /// Nodes answer before a transaction that they were given is final: so many milliseconds later,
    /// where it is not nothing.
    pub impatient_ms: u64,
    /// A node holds back what it is given, per node and tick, and passes it on after about so many
    /// ticks.
    pub held_back: f64,
    pub held_back_ticks: u64,
    /// A receiver is unregistered for one block, and often that block falls off the chain.
    pub blink: f64,
    /// A payout goes to somebody whom the contract refuses, per payout.
    pub spurned: f64,
}

pub const FAULTS: [Fault; 31] = [
    Fault::new("node-trouble", "node trouble", |plan| &mut plan.near.node_trouble),
    Fault::new("black-out", "black-outs", |plan| &mut plan.near.black_out),
    Fault::new("amnesia", "amnesia", |plan| &mut plan.near.amnesia),
    Fault::new("reorg", "reorganisations", |plan| &mut plan.near.reorg),
    Fault::new("foreign", "foreign nonces", |plan| &mut plan.near.foreign),
    Fault::new("included-invalid", "included but invalid", |plan| &mut plan.near.included_invalid),
    Fault::new("unregister", "receivers unregister", |plan| &mut plan.near.unregister),
    Fault::new("drain", "relay drained", |plan| &mut plan.near.drain),
    Fault::new("forgetful", "one node forgets", |plan| &mut plan.near.forgetful),
    Fault::new("collected", "histories end", |plan| &mut plan.near.collected),
    Fault::new("included-again", "included again", |plan| &mut plan.near.included_again),
    Fault::new("blink", "receivers blink", |plan| &mut plan.near.blink),
    Fault::new("tokens-drained", "tokens drained", |plan| &mut plan.near.tokens_drained),
    Fault::new("gas-low", "gas limit low", |plan| &mut plan.near.gas_low),
    Fault::new("spoilt", "signatures spoilt", |plan| &mut plan.near.spoilt),
    Fault::new("sent-late", "broadcasts late", |plan| &mut plan.near.sent_late),
    Fault::new("held-back", "broadcasts held back", |plan| &mut plan.near.held_back),
    Fault::new("spurned", "receivers refused", |plan| &mut plan.near.spurned),
    Fault::new("lying", "lies", |plan| &mut plan.near.lying),
    Fault::new("lie-refused", "lies: refused", |plan| &mut plan.near.lies.refused),
    Fault::new("lie-done", "lies: done", |plan| &mut plan.near.lies.done),
    Fault::new("lie-reverted", "lies: reverted", |plan| &mut plan.near.lies.reverted),
    Fault::new("lie-included", "lies: included", |plan| &mut plan.near.lies.included),
    Fault::new("lie-unknown", "lies: unknown", |plan| &mut plan.near.lies.unknown),
    Fault::new("lie-other", "lies: other", |plan| &mut plan.near.lies.other),
    Fault::new("lie-nonces", "lies: nonces", |plan| &mut plan.near.lies.nonces),
    Fault::new("lie-heights", "lies: heights", |plan| &mut plan.near.lies.heights),
    Fault::new("lie-chunks", "lies: chunks", |plan| &mut plan.near.lies.chunks),
    Fault::new("lie-contract", "lies: contract", |plan| &mut plan.near.lies.contract),
    Fault::new("lie-chain", "lies: chain", |plan| &mut plan.near.lies.chain),
    Fault::new("lie-replay", "lies: replay", |plan| &mut plan.near.lies.replay),
];

impl NearPlan {
    /// How much there is of everything.
    pub fn draw_size(rng: &mut StdRng) -> NearPlan {
        NearPlan {
            nodes: [1, 3, 3, 3, 3, 5][rng.random_range(0..6)],
            keys: rng.random_range(1..=4),
            payouts: rng.random_range(5..=60),
            receivers: rng.random_range(1..=20),
            block_ms: rng.random_range(100..=1_200),
            ..NearPlan::default()
        }
    }

    /// How many blocks a transaction lives: on some chains so few that its expiry decides.
    pub fn draw_validity(&mut self, rng: &mut StdRng) {
        self.validity_blocks = match rng.random_bool(0.35) {
            true => rng.random_range(20..=60),
            false => rng.random_range(60..=2_000),
        };
    }

    pub fn draw_weather(&mut self, foreign: f64, rng: &mut StdRng) {
        self.node_trouble = rate(rng, 0.3);
        self.black_out = rate(rng, 0.08);
        self.reorg = rate(rng, 0.3);
        self.foreign = foreign;
        self.included_invalid = rate(rng, 0.2);
        self.unregister = rate(rng, 0.1);
        self.drain = rate(rng, 0.1);
        let may_forget = rng.random_bool(0.35);
        let amnesia = rng.random_range(0.1..0.5);
        if may_forget && self.nodes == WITH_AMNESIA {
            self.amnesia = amnesia;
            // Blocks that fall off the chain bring two attempts of a lane into one block: the
            // nonces alone do not tell then which of them is dead.
            self.reorg = self.reorg.max(rng.random_range(0.1..0.4));
        }
    }

    fn draw_faults(&mut self, rng: &mut StdRng) {
        self.collected = if rng.random_bool(0.3) { rng.random_range(0.05..0.3) } else { 0.0 };
        self.history_blocks = rng.random_range(8..=80);
        self.archival = rng.random_bool(0.7);
        self.included_again = rate(rng, 0.1);
        self.tokens_drained = rate(rng, 0.06);
        self.gas_low = if rng.random_bool(0.2) { rng.random_range(0.02..0.2) } else { 0.0 };
        self.impatient_ms = if rng.random_bool(0.4) { rng.random_range(300..=3_000) } else { 0 };
        self.blink = if rng.random_bool(0.3) { rng.random_range(0.05..0.5) } else { 0.0 };
        self.spurned = if rng.random_bool(0.2) { rng.random_range(0.0..0.2) } else { 0.0 };
        let minority = self.nodes.div_ceil(2) - 1;
        if self.amnesia > 0.0 || minority == 0 {
            return;
        }
        self.first_liar = rng.random_range(0..self.nodes);
        if rng.random_bool(0.6) {
            self.liars = rng.random_range(1..=minority);
            self.for_good = rng.random_bool(0.5);
            self.lying = rng.random_range(0.05..0.5);
            self.lies = Lies::draw(rng);
        }
        if self.liars < minority {
            self.forgetful = rate(rng, 0.4);
        }
    }

    /// Whether nothing may go wrong with this node, or with questions on the way to it.
    pub fn shelters(&self, node: usize) -> bool {
        self.amnesia > 0.0 && node == HONEST
    }

    /// Whether this node lies, now and then or always.
    pub fn lies_at(&self, node: usize) -> bool {
        let after = |first: usize| (node + self.nodes - first % self.nodes) % self.nodes;
        node < self.nodes && self.lying > 0.0 && after(self.first_liar) < self.liars
    }

    /// The node that forgets which transactions there were, where one does. Always the same: one
    /// that has forgotten before and one that forgets now would be two to whoever asks both.
    pub fn forgetful_at(&self) -> usize {
        (self.first_liar + self.liars) % self.nodes
    }

    /// A request may arrive as late as this, where that matters.
    pub fn late_max_ms(&self) -> Option<u64> {
        (self.sent_late > 0.0).then_some(LATE_WHEN_SENT_MS)
    }

    pub fn describe(&self) -> String {
        let NearPlan { nodes, liars, keys, window, payouts, block_ms, .. } = self;
        let lying = match self.for_good {
            _ if self.lying == 0.0 => String::new(),
            true => format!(" ({liars} lie for good)"),
            false => format!(" ({liars} lie for a while)"),
        };
        let patience = match self.impatient_ms {
            0 => String::new(),
            ms => format!(" that wait for {ms} ms"),
        };
        format!(
            "{nodes} nodes{lying}{patience}, {keys} keys with windows of {window}, {payouts} \
             payouts, blocks of {block_ms} ms"
        )
    }
}

impl Lies {
    fn draw(rng: &mut StdRng) -> Lies {
        Lies {
            refused: rate(rng, 1.0),
            done: rate(rng, 1.0),
            reverted: rate(rng, 1.0),
            included: rate(rng, 1.0),
            unknown: rate(rng, 1.0),
            other: rate(rng, 1.0),
            nonces: rate(rng, 1.0),
            heights: rate(rng, 1.0),
            chunks: rate(rng, 1.0),
            contract: rate(rng, 1.0),
            chain: rate(rng, 1.0),
            replay: rate(rng, 1.0),
        }
    }
}

/// What goes wrong in worlds that pay anybody.
pub fn draw(plan: &mut Plan, rng: &mut StdRng) {
    if plan.near.payouts > 0 {
        plan.near.draw_faults(rng);
    }
    if plan.near.liars > 0 || plan.near.forgetful > 0.0 {
        // Two attempts of a lane in one block, as with amnesia.
        plan.near.reorg = plan.near.reorg.max(rng.random_range(0.0..0.3));
    }
    if plan.near.liars > 0 && rng.random_bool(0.7) {
        // The lanes halt for a store that went back: little would be seen of what liars do.
        plan.store_rollback = 0.0;
    }
}

/// What was thought of last.
pub fn draw_late(plan: &mut Plan, rng: &mut StdRng) {
    plan.near.window = [1, 1, 1, 1, 2, 6][rng.random_range(0..6)];
    quieten(plan, rng);
    let (may_spoil, spoilt) = (rng.random_bool(0.2), rng.random_range(0.05..0.3));
    if may_spoil && plan.near.payouts > 0 {
        plan.near.spoilt = spoilt;
    }
}

/// What was thought of after the calls on EVM chains.
pub fn draw_pools(plan: &mut Plan, rng: &mut StdRng) {
    let (may_hold_back, held_back) = (rng.random_bool(0.3), rng.random_range(0.1..0.6));
    let held_back_ticks = rng.random_range(2..=HELD_BACK_TICKS);
    // Where all but one node forget, what that one was given must be on the ledger soon; where a
    // receiver blinks, somebody must be paid in that very block.
    let in_time = plan.near.amnesia > 0.0 || plan.near.blink > 0.0;
    if may_hold_back && plan.near.payouts > 0 && !in_time {
        (plan.near.held_back, plan.near.held_back_ticks) = (held_back, held_back_ticks);
        // Overtaken is what has something behind it.
        plan.near.window = plan.near.window.max(2);
        plan.bursts_ms = BURSTS_MS;
    }
}

/// Where memories are lost, little else goes wrong on some ledgers: what tells two attempts of a
/// lane in one block apart takes a while, and one key.
fn quieten(plan: &mut Plan, rng: &mut StdRng) {
    if plan.near.amnesia == 0.0 || !rng.random_bool(QUIET_WITH_AMNESIA) {
        return;
    }
    let Plan { near, internal, .. } = &*plan;
    let quiet = NearPlan {
        nodes: near.nodes,
        keys: 1,
        window: near.window,
        payouts: near.payouts,
        receivers: near.receivers,
        block_ms: near.block_ms,
        validity_blocks: near.validity_blocks,
        amnesia: near.amnesia,
        reorg: near.reorg,
        included_invalid: near.included_invalid,
        included_again: near.included_again,
        ..NearPlan::default()
    };
    *plan = Plan {
        seed: plan.seed,
        instances: plan.instances,
        storm_ms: plan.storm_ms,
        mind_changed: plan.mind_changed,
        internal: InternalPlan {
            moves: internal.moves,
            users: internal.users,
            ..InternalPlan::default()
        },
        near: quiet,
        ..Plan::default()
    };
}

/// Some faults show what they can do only together.
pub fn sharpen(plan: &mut Plan) {
    let near = &mut plan.near;
    if plan.store_back_in_place > 0.0 {
        // On another lane what was forgotten can be signed at once, if a lane is free.
        near.keys = KEYS_IN_PLACE;
    }
    if near.gas_low > 0.0 {
        // What everybody refuses now may be on its way, and arrive when the limit is raised: not
        // before something was refused.
        near.sent_late = SENT_LATE_AND_REFUSED;
        near.gas_low /= 8.0;
        near.keys = near.keys.max(2);
    }
    if plan.store_rollback > 0.0 && near.payouts > 0 && plan.instances == 1 {
        // What is forgotten and has not landed yet nobody but the marks can tell. Of several
        // instances the one that has them may be down.
        near.sent_late = SENT_LATE;
        near.keys = near.keys.max(2);
        if plan.store_back_in_place == 0.0 {
            plan.crash = plan.crash.max(CRASH_WITH_PAST);
        }
    }
    if near.forgetful > 0.0 && near.liars == 0 {
        // Of two attempts of a lane in one block the nonces do not tell which was executed.
        near.reorg = near.reorg.max(REORG_WITH_FORGETFUL);
        near.keys = near.keys.min(2);
    }
    if near.amnesia > 0.0 || near.forgetful > 0.0 && near.liars == 0 {
        // As above. What a node gives up waiting for before there is a block shares it with what
        // comes next.
        near.window = near.window.max(2);
        plan.bursts_ms = BURSTS_MS;
        if near.blink == 0.0 {
            near.impatient_ms = near.block_ms / 4;
        }
    }
    if near.blink > 0.0 {
        // Somebody must be paid in that very block, and the relay be told of it before the block
        // falls off the chain: it asks when a node has waited in vain twice, for the broadcast and
        // for the end, and receipts run two to three blocks after a broadcast.
        near.blink = near.blink.max(BLINK_LEAST);
        near.receivers = near.receivers.min(2);
        near.block_ms = near.block_ms.max(BLINK_BLOCK_MS);
        near.impatient_ms = near.block_ms * 3 / 2;
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn liars_and_the_forgetful_are_together_fewer_than_a_quorum() {
        let (mut lying, mut both) = (0, 0);
        for seed in 0..2_000 {
            let plan = Plan::draw(seed, &mut StdRng::seed_from_u64(seed));
            let liars = (0..plan.near.nodes).filter(|node| plan.near.lies_at(*node)).count();
            let forgetful = usize::from(plan.near.forgetful > 0.0);
            let quorum = plan.near.nodes / 2 + 1;
            assert!(liars + forgetful < quorum, "seed {seed}: {}", plan.describe());
            assert!(plan.near.amnesia == 0.0 || liars + forgetful == 0, "seed {seed}");
            assert_eq!(liars, plan.near.liars, "seed {seed}");
            lying += usize::from(liars > 0);
            both += usize::from(liars > 0 && forgetful > 0);
        }
        assert!(lying > 500 && both > 10, "{lying} lying, {both} with a forgetful one");
    }
}
