//! What goes wrong on NEAR itself: who lies and how, who forgets, what the ledger refuses.
//!
//! **Rule:** nodes that lie and nodes that have forgotten transactions are together fewer than a
//! quorum; more than that is believed by design. (The amnesia of the plan itself is the exception,
//! with a node that stays honest and in reach.)

use rand::Rng;
use rand::rngs::StdRng;

use super::rate;

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

/// The faults of the ledger and its nodes. Rates are chances per second but for the lies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NearFaults {
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
    /// A receiver is unregistered for one block, and often that block falls off the chain.
    pub blink: f64,
    /// A payout goes to somebody whom the contract refuses, per payout.
    pub spurned: f64,
}

impl NearFaults {
    /// `amnesic`: more nodes than a minority forget transactions in this run.
    pub fn draw(nodes: usize, amnesic: bool, rng: &mut StdRng) -> NearFaults {
        let mut faults = NearFaults {
            collected: if rng.random_bool(0.3) { rng.random_range(0.05..0.3) } else { 0.0 },
            history_blocks: rng.random_range(8..=80),
            archival: rng.random_bool(0.7),
            included_again: rate(rng, 0.1),
            tokens_drained: rate(rng, 0.06),
            gas_low: if rng.random_bool(0.2) { rng.random_range(0.02..0.2) } else { 0.0 },
            impatient_ms: if rng.random_bool(0.4) { rng.random_range(300..=3_000) } else { 0 },
            blink: if rng.random_bool(0.3) { rng.random_range(0.05..0.5) } else { 0.0 },
            spurned: if rng.random_bool(0.2) { rng.random_range(0.0..0.2) } else { 0.0 },
            ..NearFaults::default()
        };
        let minority = nodes.div_ceil(2) - 1;
        if amnesic || minority == 0 {
            return faults;
        }
        faults.first_liar = rng.random_range(0..nodes);
        if rng.random_bool(0.6) {
            faults.liars = rng.random_range(1..=minority);
            faults.for_good = rng.random_bool(0.5);
            faults.lying = rng.random_range(0.05..0.5);
            faults.lies = Lies::draw(rng);
        }
        if faults.liars < minority {
            faults.forgetful = rate(rng, 0.4);
        }
        faults
    }

    /// Each fault's rate, with its name for people.
    pub fn rates(&self) -> [(&'static str, f64); 23] {
        let lies = &self.lies;
        [
            ("one node forgets", self.forgetful),
            ("histories end", self.collected),
            ("included again", self.included_again),
            ("receivers blink", self.blink),
            ("nodes without patience", f64::from(self.impatient_ms > 0)),
            ("tokens drained", self.tokens_drained),
            ("gas limit low", self.gas_low),
            ("signatures spoilt", self.spoilt),
            ("broadcasts late", self.sent_late),
            ("receivers refused", self.spurned),
            ("lies", self.lying),
            ("lies: refused", lies.refused),
            ("lies: done", lies.done),
            ("lies: reverted", lies.reverted),
            ("lies: included", lies.included),
            ("lies: unknown", lies.unknown),
            ("lies: other", lies.other),
            ("lies: nonces", lies.nonces),
            ("lies: heights", lies.heights),
            ("lies: chunks", lies.chunks),
            ("lies: contract", lies.contract),
            ("lies: chain", lies.chain),
            ("lies: replay", lies.replay),
        ]
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

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::super::Plan;
    use super::*;

    #[test]
    fn liars_and_the_forgetful_are_together_fewer_than_a_quorum() {
        let (mut lying, mut both) = (0, 0);
        for seed in 0..2_000 {
            let plan = Plan::draw(seed, &mut StdRng::seed_from_u64(seed));
            let liars = (0..plan.nodes).filter(|node| plan.lies_at(*node)).count();
            let forgetful = usize::from(plan.near.forgetful > 0.0);
            let quorum = plan.nodes / 2 + 1;
            assert!(liars + forgetful < quorum, "seed {seed}: {}", plan.describe());
            assert!(plan.amnesia == 0.0 || liars + forgetful == 0, "seed {seed}");
            assert_eq!(liars, plan.near.liars, "seed {seed}");
            lying += usize::from(liars > 0);
            both += usize::from(liars > 0 && forgetful > 0);
        }
        assert!(lying > 500 && both > 10, "{lying} lying, {both} with a forgetful one");
    }
}
