//! What is called on an EVM chain, on how many nodes and by how many signers, and what goes wrong
//! there: whose pools forget, which blocks fall off, who lies and how.
//!
//! **Rule:** nodes that lie are fewer than a quorum.

use rand::Rng;
use rand::rngs::StdRng;

use crate::internal::InternalPlan;
use crate::plan::{Fault, Plan, rate};

/// How often a bump is forgotten as soon as it is stored, where a store may forget.
const FORGOTTEN_AT_ONCE: f64 = 0.5;
/// How often the store fails, and instances crash at calls, at least in some of the worlds in which
/// fees leap.
const STORE_FAILS: f64 = 0.05;
const CRASHES: f64 = 0.005;
/// How often fees leap at least where it matters what becomes of other bytes.
const SPIKES: f64 = 0.2;

/// How often liars tell which lie, per question that it fits (`liars` has the table).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lies {
    pub refused: f64,
    pub done: f64,
    pub reverted: f64,
    pub unknown: f64,
    pub finality: f64,
    pub nonces: f64,
    pub fees: f64,
    pub tried: f64,
    pub chain: f64,
}

/// Rates are chances per second, but for the lies and where something else is said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EvmPlan {
    pub nodes: usize,
    pub signers: usize,
    /// Attempts of one signer on their way at once.
    pub window: usize,
    pub calls: usize,
    pub block_ms: u64,
    /// Final is what is so many blocks deep, rather than what nodes call finalized.
    pub by_depth: bool,
    /// Calls are tried before they are signed.
    pub preflight: bool,
    /// A call is a user's request, per call.
    pub gasless: f64,
    /// A call's contract refuses it, per call.
    pub reverts: f64,
    pub node_trouble: f64,
    pub black_out: f64,
    /// A pool drops a transaction, per transaction and block.
    pub dropped: f64,
    /// Nodes do not tell each other of what they have, per block.
    pub silent: f64,
    pub reorg: f64,
    /// The base fee leaps.
    pub spike: f64,
    pub foreign: f64,
    /// A broadcast arrives when its sender has given up, per broadcast.
    pub sent_late: f64,
    /// A signature goes bad after it was made, per transaction: every node refuses it, for ever.
    pub spoilt: f64,
    /// The store goes back as soon as other bytes for an attempt are stored, once, per time.
    pub bump_forgotten: f64,
    /// How many nodes lie, from which one on.
    pub liars: usize,
    pub first_liar: usize,
    /// They lie from the first moment to the last, in the calm too; else for a while.
    pub for_good: bool,
    /// They begin to lie. None lies if it is nothing.
    pub lying: f64,
    pub lies: Lies,
}

pub const FAULTS: [Fault; 21] = [
    Fault::new("evm-gasless", "users' requests", |plan| &mut plan.evm.gasless),
    Fault::new("evm-reverts", "calls that revert", |plan| &mut plan.evm.reverts),
    Fault::new("evm-node-trouble", "EVM node trouble", |plan| &mut plan.evm.node_trouble),
    Fault::new("evm-black-out", "EVM black-outs", |plan| &mut plan.evm.black_out),
    Fault::new("evm-dropped", "pools drop", |plan| &mut plan.evm.dropped),
    Fault::new("evm-silent", "pools keep to themselves", |plan| &mut plan.evm.silent),
    Fault::new("evm-reorg", "EVM reorganisations", |plan| &mut plan.evm.reorg),
    Fault::new("evm-spike", "fees leap", |plan| &mut plan.evm.spike),
    Fault::new("evm-foreign", "foreign EVM nonces", |plan| &mut plan.evm.foreign),
    Fault::new("evm-sent-late", "EVM broadcasts late", |plan| &mut plan.evm.sent_late),
    Fault::new("evm-spoilt", "EVM signatures spoilt", |plan| &mut plan.evm.spoilt),
    Fault::new("evm-bump-forgotten", "bumps forgotten", |plan| &mut plan.evm.bump_forgotten),
    Fault::new("evm-lying", "EVM lies", |plan| &mut plan.evm.lying),
    Fault::new("evm-lie-refused", "EVM lies: refused", |plan| &mut plan.evm.lies.refused),
    Fault::new("evm-lie-done", "EVM lies: done", |plan| &mut plan.evm.lies.done),
    Fault::new("evm-lie-reverted", "EVM lies: reverted", |plan| &mut plan.evm.lies.reverted),
    Fault::new("evm-lie-unknown", "EVM lies: unknown", |plan| &mut plan.evm.lies.unknown),
    Fault::new("evm-lie-finality", "EVM lies: finality", |plan| &mut plan.evm.lies.finality),
    Fault::new("evm-lie-nonces", "EVM lies: nonces", |plan| &mut plan.evm.lies.nonces),
    Fault::new("evm-lie-fees", "EVM lies: fees", |plan| &mut plan.evm.lies.fees),
    Fault::new("evm-lie-chain", "EVM lies: chain", |plan| &mut plan.evm.lies.chain),
];

/// Worlds that pay nobody on NEAR, and whose services forget nothing, have calls: half of them
/// nothing else.
pub fn draw(plan: &mut Plan, rng: &mut StdRng) {
    if plan.near.payouts > 0 || plan.internal.dedupe_window_s > 0.0 {
        return;
    }
    if rng.random_bool(0.5) {
        plan.internal = InternalPlan { users: 1, ..InternalPlan::default() };
    }
    plan.evm = EvmPlan {
        nodes: [1, 3, 3, 5][rng.random_range(0..4)],
        signers: rng.random_range(1..=3),
        window: [1, 2, 6, 16][rng.random_range(0..4)],
        calls: rng.random_range(5..=60),
        block_ms: [300, 600, 1_000, 2_000][rng.random_range(0..4)],
        by_depth: rng.random_bool(0.3),
        preflight: rng.random_bool(0.5),
        gasless: rate(rng, 0.5),
        reverts: rate(rng, 0.3),
        node_trouble: rate(rng, 0.1),
        black_out: rate(rng, 0.05),
        dropped: rate(rng, 0.3),
        silent: rate(rng, 0.9),
        reorg: rate(rng, 0.3),
        spike: if rng.random_bool(0.7) { rng.random_range(0.1..0.6) } else { 0.0 },
        foreign: if rng.random_bool(0.2) { 0.03 } else { 0.0 },
        sent_late: rate(rng, 0.3),
        spoilt: if rng.random_bool(0.3) { rng.random_range(0.02..0.4) } else { 0.0 },
        ..EvmPlan::default()
    };
    plan.evm.draw_liars(rng);
    if plan.evm.spike > 0.0 && rng.random_bool(0.4) {
        // Who stores a bump and fails, or ends, may have sent it.
        plan.store_fails_before = plan.store_fails_before.max(STORE_FAILS);
        plan.crash_at_call = plan.crash_at_call.max(CRASHES);
    }
    if plan.store_rollback > 0.0 && rng.random_bool(0.7) {
        // What was forgotten in the same life nobody but the one that signed it could tell.
        (plan.store_back_in_place, plan.instances) = (1.0, 1);
        (plan.store_rollback, plan.store_back_at_call) = (plan.store_rollback / 100.0, 0.0);
        plan.evm.bump_forgotten = FORGOTTEN_AT_ONCE;
        plan.evm.spike = plan.evm.spike.max(SPIKES);
    }
}

impl EvmPlan {
    fn draw_liars(&mut self, rng: &mut StdRng) {
        let minority = self.nodes.div_ceil(2) - 1;
        self.first_liar = rng.random_range(0..self.nodes);
        if minority == 0 || rng.random_bool(0.4) {
            return;
        }
        self.liars = rng.random_range(1..=minority);
        self.for_good = rng.random_bool(0.5);
        self.lying = rng.random_range(0.05..0.5);
        self.lies = Lies {
            refused: rate(rng, 1.0),
            done: rate(rng, 1.0),
            reverted: rate(rng, 1.0),
            unknown: rate(rng, 1.0),
            finality: rate(rng, 1.0),
            nonces: rate(rng, 1.0),
            fees: rate(rng, 1.0),
            tried: rate(rng, 1.0),
            chain: rate(rng, 1.0),
        };
    }

    /// Whether this node lies, now and then or always.
    pub fn lies_at(&self, node: usize) -> bool {
        let after = |first: usize| (node + self.nodes - first) % self.nodes;
        node < self.nodes && self.lying > 0.0 && after(self.first_liar) < self.liars
    }

    pub fn describe(&self) -> String {
        let EvmPlan { nodes, liars, signers, window, calls, block_ms, .. } = self;
        if *calls == 0 {
            return "no calls".to_owned();
        }
        let lying = match self.for_good {
            _ if self.lying == 0.0 => String::new(),
            true => format!(" ({liars} lie for good)"),
            false => format!(" ({liars} lie for a while)"),
        };
        format!(
            "{calls} calls on {nodes} EVM nodes{lying}, {signers} signers with windows of \
             {window}, blocks of {block_ms} ms"
        )
    }
}
