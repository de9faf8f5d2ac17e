//! What strikes instances and the store, tick by tick, and has the parts struck.

use std::sync::Arc;

use super::instance::Instance;
use super::part::Part;
use super::past::Past;
use super::plan::Plan;
use super::seat::Dice;

/// Ticks a crashed instance stays down, a frozen one frozen: at most so many.
const DOWN_TICKS: u64 = 40;
const FROZEN_TICKS: u64 = 120;

/// What is wrong with an instance, and until which tick.
#[derive(Default, Clone, Copy)]
pub struct Ailing {
    pub down_until: Option<u64>,
    pub frozen_until: Option<u64>,
}

/// Chance at work, and what it has done.
pub struct Chaos {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    past: Arc<Past>,
    ailing: Vec<Ailing>,
}

impl Chaos {
    pub fn new(plan: Arc<Plan>, dice: Arc<Dice>, past: Arc<Past>) -> Chaos {
        Chaos { ailing: vec![Ailing::default(); plan.instances], plan, dice, past }
    }

    pub async fn tick(
        &mut self,
        tick: u64,
        instances: &mut [Instance],
        parts: &mut [Box<dyn Part>],
    ) {
        for one in instances.iter_mut().enumerate() {
            self.strike_instance(tick, one, parts).await;
        }
        for part in parts {
            part.strike(tick).await;
        }
        self.past.tick(tick);
    }

    async fn strike_instance(
        &mut self,
        tick: u64,
        (index, instance): (usize, &mut Instance),
        parts: &[Box<dyn Part>],
    ) {
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
            instance.start(parts).await;
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

    /// Everything is well again.
    pub async fn calm(&mut self, instances: &mut [Instance], parts: &mut [Box<dyn Part>]) {
        for part in parts.iter_mut() {
            part.calm().await;
        }
        for instance in instances {
            instance.seat.freeze(false);
            instance.seat.straighten_clock();
            if instance.seat.is_doomed() {
                instance.crash().await;
            }
            instance.start(parts).await;
        }
    }
}
