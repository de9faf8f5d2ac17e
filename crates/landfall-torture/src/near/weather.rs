//! The weather on NEAR: nodes that are behind or away, blocks that fall off, keys that others use,
//! liars, lost memories, limits, funds.
//!
//! Not here: what liars say (`liars`).

use std::sync::Arc;

use landfall_sim_near::keys;
use landfall_sim_near::ledger::fees::TGAS;
use landfall_sim_near::ledger::token::Spurned;
use landfall_sim_near::ledger::{Decree, Refusals, Settings};
use landfall_sim_near::server::RELAY;
use near_crypto::SecretKey;
use near_primitives::types::AccountId;

use super::RELAY_NEAR;
use super::liars::Liars;
use super::network::{Network, Switch};
use crate::plan::Plan;
use crate::seat::Dice;

/// Ticks for which nodes are away, or in trouble, or without memory, and all else lasts: at most so
/// many.
const DOWN_TICKS: u64 = 40;
const TROUBLE_TICKS: u64 = 80;
const AMNESIA_TICKS: u64 = 160;
const LASTING_TICKS: u64 = 160;
/// A node lags at most so many blocks behind.
const LAG_BLOCKS: u64 = 600;
/// What the relay is left with when its tokens are taken: a few payouts' worth.
const TOKENS_LEFT: u64 = 3_000;
/// Gas that a transaction may attach before the limit is raised: too little for a single member.
const LOW_GAS: u64 = TGAS;

/// Whom the contract refuses, and what. Their payouts fail, and theirs alone.
pub const SPURNED: [(&str, Spurned); 2] =
    [("unwanted.near", Spurned::Registration), ("unpayable.near", Spurned::Payment)];

pub fn relay() -> AccountId {
    RELAY.parse().expect("a well-formed account id")
}

/// The weather on NEAR, and what it has done.
pub struct Weather {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    network: Arc<Network>,
    pub liars: Arc<Liars>,
    keys: Vec<SecretKey>,
    /// How often somebody else used one of them.
    pub keys_used: u64,
    node_until: Vec<Option<u64>>,
    black_out_until: Option<u64>,
    amnesia_until: Option<u64>,
    lying_until: Option<u64>,
    forgetful_until: Option<u64>,
    settings: Settings,
    /// Who was unregistered, at which height.
    blinking: Option<(AccountId, u64)>,
    /// Tokens that are taken away, and until when.
    drained: Option<(u128, u64)>,
    /// Tokens given to and taken from the relay by decree.
    pub gained: u128,
    pub lost: u128,
}

impl Weather {
    pub fn new(
        plan: Arc<Plan>,
        dice: Arc<Dice>,
        network: Arc<Network>,
        liars: Arc<Liars>,
        keys: Vec<SecretKey>,
    ) -> Weather {
        for (account, spurned) in SPURNED {
            let account_id = account.parse().expect("a well-formed account id");
            network.ledger.lock().decree(Decree::Spurn { account_id, spurned });
        }
        let settings = network.ledger.lock().genesis().settings.clone();
        if plan.near.gas_low > 0.0 {
            let low = Settings { max_transaction_gas: LOW_GAS, ..settings.clone() };
            network.ledger.lock().set_settings(low);
        }
        if plan.near.impatient_ms > 0 {
            network.set_patience(plan.near.impatient_ms);
        }
        Weather {
            node_until: vec![None; plan.near.nodes],
            black_out_until: None,
            amnesia_until: None,
            plan,
            dice,
            network,
            liars,
            keys,
            keys_used: 0,
            lying_until: None,
            forgetful_until: None,
            settings,
            blinking: None,
            drained: None,
            gained: 0,
            lost: 0,
        }
    }

    pub fn tick(&mut self, tick: u64) {
        self.strike_nodes(tick);
        self.strike_chain();
        self.strike_liars(tick);
        self.strike_memories(tick);
        self.strike_ledger(tick);
        self.strike_receivers();
        self.strike_pools();
    }

    /// Whether a fault of so many chances per second strikes in this tick.
    fn strikes(&self, rate: f64) -> bool {
        self.dice.strikes(rate / 4.0)
    }

    fn lasting(&self, tick: u64) -> u64 {
        tick + self.dice.between(4, LASTING_TICKS)
    }

    fn strike_nodes(&mut self, tick: u64) {
        for node in (0..self.plan.near.nodes).filter(|node| !self.plan.near.shelters(*node)) {
            if self.node_until[node].is_some_and(|until| tick >= until) {
                self.network.node(node, |switch| *switch = switch.untroubled());
                self.node_until[node] = None;
            } else if self.node_until[node].is_none()
                && self.dice.strikes(self.plan.near.node_trouble / 4.0)
            {
                let lag_blocks = self.dice.between(0, LAG_BLOCKS);
                let forgets = self.dice.between(0, 2) == 0;
                let down = self.dice.between(0, 3) == 0;
                self.network.node(node, |switch| {
                    *switch = Switch { lag_blocks, forgets, down, ..switch.untroubled() };
                });
                self.node_until[node] = Some(tick + self.dice.between(4, TROUBLE_TICKS));
            }
        }
        if self.black_out_until.is_some_and(|until| tick >= until) {
            self.unsheltered(|switch| switch.down = false);
            self.black_out_until = None;
        } else if self.black_out_until.is_none()
            && self.dice.strikes(self.plan.near.black_out / 4.0)
        {
            self.unsheltered(|switch| switch.down = true);
            self.black_out_until = Some(tick + self.dice.between(4, DOWN_TICKS));
        }
        if self.amnesia_until.is_some_and(|until| tick >= until) {
            self.unsheltered(|switch| (switch.amnesic, switch.without_outcomes) = (false, false));
            self.amnesia_until = None;
        } else if self.amnesia_until.is_none() && self.dice.strikes(self.plan.near.amnesia / 4.0) {
            let all = self.dice.between(0, 1) == 0;
            self.unsheltered(|switch| (switch.amnesic, switch.without_outcomes) = (all, !all));
            self.amnesia_until = Some(tick + self.dice.between(4, AMNESIA_TICKS));
        }
    }

    /// A node that holds back what it is given does so in this tick, and perhaps not in the next:
    /// so a later nonce may overtake an earlier one on its way through the same node.
    fn strike_pools(&self) {
        let near = &self.plan.near;
        if near.held_back == 0.0 {
            return;
        }
        for node in 0..near.nodes {
            let holds_back = self.dice.strikes(near.held_back);
            self.network.node(node, |switch| switch.holds_back = holds_back);
        }
        self.network.pass_on(|| self.dice.between(1, near.held_back_ticks) == 1);
    }

    fn unsheltered(&self, change: impl Fn(&mut Switch)) {
        for node in (0..self.plan.near.nodes).filter(|node| !self.plan.near.shelters(*node)) {
            self.network.node(node, &change);
        }
    }

    fn strike_chain(&mut self) {
        let (dice, plan) = (self.dice.clone(), self.plan.clone());
        if dice.strikes(plan.near.reorg / 4.0) {
            self.network.reorg(dice.between(1, 2), dice.between(0, 1) == 0);
        }
        if dice.strikes(plan.near.included_invalid / 4.0) {
            let refusals = Refusals { count: dice.between(1, 2), again: dice.between(0, 1) == 0 };
            self.network.ledger.lock().refuse_included(refusals);
        }
        if dice.strikes(plan.near.unregister / 4.0) {
            let account = format!("r{}.near", dice.between(0, plan.near.receivers as u64 - 1));
            let account_id = account.parse().expect("a well-formed account id");
            self.network.ledger.lock().decree(Decree::Unregister { account_id });
        }
        if dice.strikes(plan.near.foreign / 4.0) {
            let index = dice.between(0, plan.near.keys as u64 - 1) as usize;
            self.use_key(index);
            self.keys_used += 1;
        }
        if dice.strikes(plan.near.drain / 4.0) {
            let near = dice.between(0, 1) * 10u64.pow(18);
            let amount = u128::from(near) * 10u128.pow(3);
            self.network.ledger.lock().decree(Decree::SetNear { account_id: relay(), amount });
        }
    }

    /// Somebody else signs with one of the relay's keys.
    fn use_key(&self, index: usize) {
        let mut ledger = self.network.ledger.lock();
        let (relay, key) = (relay(), &self.keys[index]);
        let Some(nonce) = ledger.next_nonce(&relay, &key.public_key()) else { return };
        let base = ledger.chain().head().hash;
        let actions = keys::transfer_of_nothing();
        let signed = keys::sign(&relay, key, nonce, &relay, base, actions);
        ledger.submit_first(Arc::new(signed));
    }

    fn strike_liars(&mut self, tick: u64) {
        let near = &self.plan.near;
        if near.for_good {
            return;
        }
        if self.lying_until.is_some_and(|until| tick >= until) {
            self.liars.lie(false);
            self.lying_until = None;
        } else if self.lying_until.is_none() && near.liars > 0 && self.strikes(near.lying) {
            self.liars.lie(true);
            self.lying_until = Some(self.lasting(tick));
        }
    }

    fn strike_memories(&mut self, tick: u64) {
        let forgetful = self.plan.near.forgetful_at();
        if self.forgetful_until.is_some_and(|until| tick >= until) {
            self.network.node(forgetful, |switch| {
                (switch.amnesic, switch.without_outcomes) = (false, false);
            });
            self.forgetful_until = None;
        } else if self.forgetful_until.is_none() && self.strikes(self.plan.near.forgetful) {
            let all = self.dice.between(0, 1) == 0;
            self.network.node(forgetful, |switch| {
                (switch.amnesic, switch.without_outcomes) = (all, !all);
            });
            self.forgetful_until = Some(self.lasting(tick));
        }
        for node in (0..self.plan.near.nodes).filter(|node| !self.plan.near.shelters(*node)) {
            if self.strikes(self.plan.near.collected) {
                let blocks = self.plan.near.history_blocks;
                self.network.node(node, |switch| switch.history_blocks = Some(blocks));
            }
        }
    }

    fn strike_ledger(&mut self, tick: u64) {
        if self.strikes(self.plan.near.included_again) {
            self.network.ledger.lock().include_again(self.dice.between(1, 2));
        }
        if self.strikes(self.plan.near.gas_low) {
            self.raise_gas();
        }
        if self.drained.is_some_and(|(_, until)| tick >= until) {
            self.give_back();
        } else if self.drained.is_none() && self.strikes(self.plan.near.tokens_drained) {
            let left = u128::from(self.dice.between(0, TOKENS_LEFT));
            let amount = self.tokens().saturating_sub(left);
            let decree = Decree::Burn { account_id: relay(), amount };
            self.network.ledger.lock().decree(decree);
            self.lost += amount;
            self.drained = Some((amount, self.lasting(tick)));
        }
    }

    /// What was reverted in the block that falls off the chain pays in the one that takes its
    /// place: the receiver is registered again by then.
    fn strike_receivers(&mut self) {
        let height = self.network.ledger.lock().height();
        let Some((account_id, since)) = self.blinking.take() else {
            if self.strikes(self.plan.near.blink) {
                let number = self.dice.between(0, self.plan.near.receivers as u64 - 1);
                let account_id: AccountId =
                    format!("r{number}.near").parse().expect("a well-formed account id");
                let decree = Decree::Unregister { account_id: account_id.clone() };
                self.network.ledger.lock().decree(decree);
                self.blinking = Some((account_id, height));
            }
            return;
        };
        if height > since {
            self.register(&account_id);
        }
        if height <= since + 1 {
            self.blinking = Some((account_id, since));
        } else if self.dice.between(0, 2) > 0 {
            self.network.reorg(2, false);
        }
    }

    fn register(&self, account_id: &AccountId) {
        let account_ids = vec![account_id.clone()];
        self.network.ledger.lock().decree(Decree::Register { account_ids });
    }

    /// Limits are raised, never lowered: what is refused for one was refused by everybody. Liars
    /// have waited for it.
    fn raise_gas(&self) {
        self.network.ledger.lock().set_settings(self.settings.clone());
        self.liars.send_on();
    }

    fn give_back(&mut self) {
        if let Some((amount, _)) = self.drained.take() {
            let decree = Decree::Mint { account_id: relay(), amount };
            self.network.ledger.lock().decree(decree);
            self.gained += amount;
        }
    }

    /// The relay's tokens, with what is decreed and waits for a block: `gained` and `lost` count
    /// it already.
    pub fn tokens(&self) -> u128 {
        self.network.ledger.lock().tokens_decreed(&relay())
    }

    /// Everything is well again, but for liars who lie for good.
    pub fn calm(&mut self) {
        self.network.all(|switch| {
            let on_its_feet = switch.untroubled();
            *switch = Switch {
                holds_back: false,
                amnesic: false,
                without_outcomes: false,
                ..on_its_feet
            };
        });
        self.network.pass_on(|| true);
        self.liars.lie(self.plan.near.for_good);
        if self.plan.near.archival {
            self.network.all(|switch| switch.history_blocks = None);
        }
        self.network.ledger.lock().include_again(0);
        self.raise_gas();
        self.give_back();
        if let Some((account_id, _)) = self.blinking.take() {
            self.register(&account_id);
        }
        self.network.ledger.lock().refuse_included(Refusals::default());
        let decree = Decree::SetNear { account_id: relay(), amount: RELAY_NEAR };
        self.network.ledger.lock().decree(decree);
    }
}

#[cfg(test)]
mod tests {
    use landfall_core::Clock;
    use landfall_core::guard::Guard;
    use landfall_lanes::TimerClock;
    use landfall_sim_near::ledger::Ledger;

    use super::super::{RELAY_TOKENS, genesis};
    use super::*;
    use crate::run::{Options, START_MS, alone, run_plan};

    /// Where nothing else goes wrong: a later nonce passes one that is held back, and sinks it
    /// before a fence would.
    #[test]
    fn what_nodes_hold_back_is_overtaken_in_its_window() {
        let mut plan = Plan::calm(1);
        (plan.storm_ms, plan.bursts_ms) = (60_000, 5_000);
        (plan.near.window, plan.near.payouts, plan.near.receivers) = (6, 40, 4);
        (plan.near.held_back, plan.near.held_back_ticks) = (0.5, 8);
        let report = run_plan(plan, Options::default());
        assert_eq!(report.failure, None);
        assert!(report.guards.contains(&Guard::NoncePassed), "{:?}", report.guards);
        assert!(!report.guards.contains(&Guard::FenceOpened), "{:?}", report.guards);
    }

    /// A run may come to rest before the block that gives the tokens back: what is still to be
    /// obeyed is neither lost nor there twice.
    #[test]
    fn tokens_that_wait_for_a_block_are_counted_once() {
        alone(async {
            let mut plan = Plan::calm(1);
            plan.near.tokens_drained = 4.0;
            let (plan, dice) = (Arc::new(plan), Arc::new(Dice::new(1)));
            let base: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(START_MS));
            let ledger = Ledger::new(genesis(&plan, &[]));
            let network = Arc::new(Network::new(ledger, plan.near.nodes, base.clone()));
            let liars = Liars::settle(&plan, &dice, &base, &network);
            let mut chaos = Weather::new(plan, dice, network.clone(), liars, Vec::new());
            let is_conserved =
                |chaos: &Weather| RELAY_TOKENS + chaos.gained == chaos.tokens() + chaos.lost;
            let last_tick = 2 * LASTING_TICKS;
            for tick in 0..=last_tick {
                chaos.tick(tick);
                assert!(is_conserved(&chaos), "tick {tick}");
                if tick % 8 == 0 {
                    network.ledger.lock().produce(tick);
                }
            }
            assert!(chaos.gained > 0 && chaos.drained.is_some(), "drained twice, given back once");
            chaos.calm();
            assert_eq!(chaos.tokens(), RELAY_TOKENS);
        });
    }
}
