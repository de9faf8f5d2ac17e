//! The weather among the services: they end, are down, are not heard, block accounts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::services::{NAMES, Services};
use crate::plan::Plan;
use crate::seat::Dice;

/// Ticks for which a service is down, an account blocked: at most so many.
const DOWN_TICKS: u64 = 40;
const TROUBLE_TICKS: u64 = 80;
/// A service is not heard for at most so many ticks: longer than any window.
const MUTE_TICKS: u64 = 480;

pub struct Weather {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    services: Arc<Services>,
    service_until: Vec<Option<u64>>,
    mute_until: Vec<Option<u64>>,
    /// Blocked accounts by service and user, and until when.
    blocked: BTreeMap<(usize, u64), u64>,
}

impl Weather {
    pub fn new(plan: Arc<Plan>, dice: Arc<Dice>, services: Arc<Services>) -> Weather {
        Weather {
            plan,
            dice,
            services,
            service_until: vec![None; NAMES.len()],
            mute_until: vec![None; NAMES.len()],
            blocked: BTreeMap::new(),
        }
    }

    pub async fn tick(&mut self, tick: u64) {
        for service in 0..NAMES.len() {
            if self.service_until[service].is_some_and(|until| tick >= until) {
                self.services.set_down(service, false);
                self.service_until[service] = None;
            } else if self.service_until[service].is_none()
                && self.dice.strikes(self.plan.internal.down / 4.0)
            {
                self.services.crash(service);
                self.services.set_down(service, true);
                self.service_until[service] = Some(tick + self.dice.between(4, DOWN_TICKS));
            }
            if self.mute_until[service].is_some_and(|until| tick >= until) {
                self.services.set_mute(service, false);
                self.mute_until[service] = None;
            } else if self.mute_until[service].is_none()
                && self.dice.strikes(self.plan.internal.mute / 4.0)
            {
                self.services.set_mute(service, true);
                self.mute_until[service] = Some(tick + self.dice.between(4, MUTE_TICKS));
            }
        }
        for (service, user) in self.overdue_blocks(tick) {
            self.services.block(service, user, false).await;
        }
        if self.dice.strikes(self.plan.internal.account_blocked / 4.0) {
            let service = self.dice.between(0, NAMES.len() as u64 - 1) as usize;
            let user = self.dice.between(1, self.plan.internal.users as u64);
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

    pub async fn calm(&mut self) {
        for service in 0..NAMES.len() {
            self.services.set_down(service, false);
            self.services.set_mute(service, false);
        }
        for (service, user) in self.overdue_blocks(u64::MAX) {
            self.services.block(service, user, false).await;
        }
    }
}
