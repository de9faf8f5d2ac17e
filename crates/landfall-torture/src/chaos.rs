//! The weather: what strikes instances, nodes, the ledger and the services, tick by tick.

use std::collections::BTreeMap;
use std::sync::Arc;

use near_crypto::SecretKey;

use super::instance::Instance;
use super::past::Past;
use super::plan::Plan;
use super::seat::Dice;
use crate::internal::services::{NAMES, Services};
use crate::near::network::{Network, Switch};
use crate::near::weather::NearChaos;
use landfall_sim_near::keys;
use landfall_sim_near::ledger::{Decree, Refusals};
use landfall_sim_near::server::RELAY;

/// Ticks a crashed instance stays down, a frozen one frozen, a bad node bad: at most so many.
const DOWN_TICKS: u64 = 40;
const FROZEN_TICKS: u64 = 120;
const TROUBLE_TICKS: u64 = 80;
const AMNESIA_TICKS: u64 = 160;
/// A node lags at most so many blocks behind.
const LAG_BLOCKS: u64 = 600;
/// A service is not heard for at most so many ticks: longer than any window.
const MUTE_TICKS: u64 = 480;

/// What is wrong with an instance, and until which tick.
#[derive(Default, Clone, Copy)]
pub struct Ailing {
    pub down_until: Option<u64>,
    pub frozen_until: Option<u64>,
}

/// The weather and what it has done.
pub struct Chaos {
    pub plan: Arc<Plan>,
    pub dice: Arc<Dice>,
    pub network: Arc<Network>,
    pub services: Arc<Services>,
    pub past: Arc<Past>,
    pub keys: Vec<SecretKey>,
    pub ailing: Vec<Ailing>,
    node_until: Vec<Option<u64>>,
    black_out_until: Option<u64>,
    amnesia_until: Option<u64>,
    service_until: Vec<Option<u64>>,
    mute_until: Vec<Option<u64>>,
    /// Blocked accounts by service and user, and until when.
    blocked: BTreeMap<(usize, u64), u64>,
    pub near: NearChaos,
    /// How often somebody else used one of the relay's keys.
    pub keys_used: u64,
}

impl Chaos {
    pub fn new(
        plan: Arc<Plan>,
        dice: Arc<Dice>,
        network: Arc<Network>,
        services: Arc<Services>,
        past: Arc<Past>,
        keys: Vec<SecretKey>,
        near: NearChaos,
    ) -> Chaos {
        Chaos {
            ailing: vec![Ailing::default(); plan.instances],
            node_until: vec![None; plan.nodes],
            black_out_until: None,
            amnesia_until: None,
            service_until: vec![None; NAMES.len()],
            mute_until: vec![None; NAMES.len()],
            blocked: BTreeMap::new(),
            keys_used: 0,
            near,
            plan,
            dice,
            network,
            services,
            past,
            keys,
        }
    }

    pub async fn tick(&mut self, tick: u64, instances: &mut [Instance]) {
        for (index, instance) in instances.iter_mut().enumerate() {
            self.strike_instance(tick, index, instance).await;
        }
        self.strike_nodes(tick);
        self.strike_ledger();
        self.near.tick(tick);
        self.strike_services(tick).await;
        self.past.tick(tick);
    }

    async fn strike_instance(&mut self, tick: u64, index: usize, instance: &mut Instance) {
        let (dice, plan) = (&self.dice, &self.plan);
        let ailing = &mut self.ailing[index];
        // Once: who has died at a call stays doomed until it is started again.
        let has_died = instance.seat.is_doomed() && instance.engine().is_some();
        if has_died || dice.strikes(plan.crash / 4.0) {
            instance.crash().await;
            // The dead are not frozen.
            instance.seat.freeze(false);
            ailing.frozen_until = None;
            ailing.down_until = Some(tick + dice.between(1, DOWN_TICKS));
        }
        let may_run = ailing.down_until.is_none_or(|until| tick >= until);
        if may_run && instance.engine().is_none() {
            instance.start().await;
            // A start that failed is tried again soon.
            ailing.down_until = instance.engine().is_none().then_some(tick + 2);
        }
        if ailing.frozen_until.is_some_and(|until| tick >= until) {
            instance.seat.log("thaws");
            instance.seat.freeze(false);
            ailing.frozen_until = None;
        } else if instance.engine().is_some()
            && ailing.frozen_until.is_none()
            && dice.strikes(plan.freeze / 4.0)
        {
            instance.seat.log("freezes");
            instance.seat.freeze(true);
            ailing.frozen_until = Some(tick + dice.between(4, FROZEN_TICKS));
        }
        if dice.strikes(plan.clock_jump / 4.0) {
            let ms = dice.between(0, 600_000) as i64 - 300_000;
            instance.seat.log(&format!("clock jumps by {ms} ms"));
            instance.seat.jump_clock(ms);
        }
    }

    fn strike_nodes(&mut self, tick: u64) {
        for node in (0..self.plan.nodes).filter(|node| !self.plan.shelters(*node)) {
            if self.node_until[node].is_some_and(|until| tick >= until) {
                self.network.node(node, |switch| *switch = switch.untroubled());
                self.node_until[node] = None;
            } else if self.node_until[node].is_none()
                && self.dice.strikes(self.plan.node_trouble / 4.0)
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
        } else if self.black_out_until.is_none() && self.dice.strikes(self.plan.black_out / 4.0) {
            self.unsheltered(|switch| switch.down = true);
            self.black_out_until = Some(tick + self.dice.between(4, DOWN_TICKS));
        }
        if self.amnesia_until.is_some_and(|until| tick >= until) {
            self.unsheltered(|switch| (switch.amnesic, switch.without_outcomes) = (false, false));
            self.amnesia_until = None;
        } else if self.amnesia_until.is_none() && self.dice.strikes(self.plan.amnesia / 4.0) {
            let all = self.dice.between(0, 1) == 0;
            self.unsheltered(|switch| (switch.amnesic, switch.without_outcomes) = (all, !all));
            self.amnesia_until = Some(tick + self.dice.between(4, AMNESIA_TICKS));
        }
    }

    fn unsheltered(&self, change: impl Fn(&mut Switch)) {
        for node in (0..self.plan.nodes).filter(|node| !self.plan.shelters(*node)) {
            self.network.node(node, &change);
        }
    }

    fn strike_ledger(&mut self) {
        let (dice, plan) = (self.dice.clone(), self.plan.clone());
        if dice.strikes(plan.reorg / 4.0) {
            self.network.reorg(dice.between(1, 2), dice.between(0, 1) == 0);
        }
        if dice.strikes(plan.included_invalid / 4.0) {
            let refusals = Refusals { count: dice.between(1, 2), again: dice.between(0, 1) == 0 };
            self.network.ledger.lock().refuse_included(refusals);
        }
        if dice.strikes(plan.unregister / 4.0) {
            let account = format!("r{}.near", dice.between(0, plan.receivers as u64 - 1));
            let account_id = account.parse().expect("a well-formed account id");
            self.network.ledger.lock().decree(Decree::Unregister { account_id });
        }
        if dice.strikes(plan.foreign / 4.0) {
            let index = dice.between(0, plan.keys as u64 - 1) as usize;
            self.use_key(index);
            self.keys_used += 1;
        }
        if dice.strikes(plan.drain / 4.0) {
            let near = dice.between(0, 1) * 10u64.pow(18);
            let relay = RELAY.parse().expect("a well-formed account id");
            let amount = u128::from(near) * 10u128.pow(3);
            self.network.ledger.lock().decree(Decree::SetNear { account_id: relay, amount });
        }
    }

    /// Somebody else signs with one of the relay's keys.
    fn use_key(&self, index: usize) {
        let mut ledger = self.network.ledger.lock();
        let relay = RELAY.parse().expect("a well-formed account id");
        let key = &self.keys[index];
        let Some(nonce) = ledger.next_nonce(&relay, &key.public_key()) else { return };
        let base = ledger.chain().head().hash;
        let actions = keys::transfer_of_nothing();
        let signed = keys::sign(&relay, key, nonce, &relay, base, actions);
        ledger.submit_first(Arc::new(signed));
    }

    async fn strike_services(&mut self, tick: u64) {
        for service in 0..NAMES.len() {
            if self.service_until[service].is_some_and(|until| tick >= until) {
                self.services.set_down(service, false);
                self.service_until[service] = None;
            } else if self.service_until[service].is_none()
                && self.dice.strikes(self.plan.service_down / 4.0)
            {
                self.services.crash(service);
                self.services.set_down(service, true);
                self.service_until[service] = Some(tick + self.dice.between(4, DOWN_TICKS));
            }
            if self.mute_until[service].is_some_and(|until| tick >= until) {
                self.services.set_mute(service, false);
                self.mute_until[service] = None;
            } else if self.mute_until[service].is_none()
                && self.dice.strikes(self.plan.service_mute / 4.0)
            {
                self.services.set_mute(service, true);
                self.mute_until[service] = Some(tick + self.dice.between(4, MUTE_TICKS));
            }
        }
        for (service, user) in self.overdue_blocks(tick) {
            self.services.block(service, user, false).await;
        }
        if self.dice.strikes(self.plan.account_blocked / 4.0) {
            let service = self.dice.between(0, NAMES.len() as u64 - 1) as usize;
            let user = self.dice.between(1, self.plan.users as u64);
            self.services.block(service, user, true).await;
            self.blocked.insert((service, user), tick + self.dice.between(4, TROUBLE_TICKS));
        }
    }

    /// Takes those out that are to be freed by now.
    fn overdue_blocks(&mut self, tick: u64) -> Vec<(usize, u64)> {
        let due = self.blocked.iter().filter(|(_, until)| tick >= **until);
        let due: Vec<(usize, u64)> = due.map(|(account, _)| *account).collect();
        self.blocked.retain(|_, until| tick < *until);
        due
    }

    /// Everything is well again: nodes, services, clocks, funds.
    pub async fn calm(&mut self, instances: &mut [Instance]) {
        for service in 0..NAMES.len() {
            self.services.set_down(service, false);
            self.services.set_mute(service, false);
        }
        for (service, user) in self.overdue_blocks(u64::MAX) {
            self.services.block(service, user, false).await;
        }
        self.network.all(|switch| {
            *switch = Switch { amnesic: false, without_outcomes: false, ..switch.untroubled() };
        });
        self.near.calm();
        self.network.ledger.lock().refuse_included(Refusals::default());
        let relay: near_primitives::types::AccountId =
            RELAY.parse().expect("a well-formed account id");
        let amount = 1_000_000 * 10u128.pow(24);
        self.network.ledger.lock().decree(Decree::SetNear { account_id: relay, amount });
        for instance in instances {
            instance.seat.freeze(false);
            instance.seat.straighten_clock();
            if instance.seat.is_doomed() {
                instance.crash().await;
            }
            instance.start().await;
        }
    }
}
