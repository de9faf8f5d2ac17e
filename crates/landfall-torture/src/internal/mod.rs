//! Moves between services as a part of a world: two account services that keep their contract.
//!
//! | file | holds |
//! |---|---|
//! | [`plan`] | how much there is of everything, and what goes wrong |
//! | `services` | the books behind the real routes, and one instance's way to them |
//! | `weather` | what strikes them, tick by tick |
//! | `operator` | what is decided by hand |
//! | `books` | what must hold of their records |

pub mod plan;

mod books;
mod operator;
mod services;
mod weather;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use landfall_core::internal::Order;
use landfall_core::store::Store;
use landfall_core::{Clock, Payload, RailName, Transfer};
use landfall_ledger::{Key, ReqId};

pub use plan::InternalPlan;

use crate::checkers::{Broken, Evidence, Payment};
use crate::clients::Wish;
use crate::enumerate::Scenario;
use crate::part::{Fitted, Ground, Kind, Part};
use crate::plan::Plan;
use crate::seat::{Dice, Seat};
use services::{NAMES, Services};
use weather::Weather;

/// The most that a user has in each service to begin with: a few orders' worth, so that some are
/// refused.
const USER_FUNDS: u64 = 1_000;

pub const KIND: Kind = Kind {
    wishes: |plan| plan.internal.moves,
    faults: &plan::FAULTS,
    late_max_ms: |plan| plan.internal.late_max_ms(),
    describe: |plan| plan.internal.describe(),
    scenarios: &SCENARIOS,
    build: |ground| Box::new(InternalPart::new(ground)),
};

/// The target refuses, and the funds return.
const ROLLED_BACK: &str = "rolled back";

const SCENARIOS: [Scenario; 2] = [
    // Funds move from one service to the other.
    Scenario::new("committed", one_move),
    Scenario::new(ROLLED_BACK, one_move),
];

fn one_move() -> Plan {
    let mut plan = Plan::calm(7);
    (plan.near.payouts, plan.internal.moves) = (0, 1);
    plan
}

pub struct InternalPart {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    clock: Arc<dyn Clock>,
    services: Arc<Services>,
    weather: Weather,
}

impl InternalPart {
    fn new(ground: &Ground) -> InternalPart {
        let (plan, dice, clock) = (ground.plan.clone(), ground.dice.clone(), ground.clock.clone());
        let services = Arc::new(Services::new(plan.clone(), dice.clone(), clock.clone()));
        let weather = Weather::new(plan.clone(), dice.clone(), services.clone());
        InternalPart { plan, dice, clock, services, weather }
    }
}

#[async_trait(?Send)]
impl Part for InternalPart {
    fn rail(&self) -> RailName {
        RailName::Internal
    }

    /// Gives every user something to move.
    fn prepare(&self) {
        for user in 1..=self.plan.internal.users as u64 {
            for service in 0..NAMES.len() {
                let amount = NonZeroU64::MIN.saturating_add(self.dice.between(0, USER_FUNDS));
                self.services.fund(service, user, amount);
            }
        }
    }

    fn wish(&self, number: usize) -> Wish {
        let user = self.dice.between(1, self.plan.internal.users as u64);
        let amount = self.dice.between(1, USER_FUNDS / 2);
        let key = ReqId(u128::from(self.plan.seed) << 64 | number as u128).to_string();
        let order = services::order(number % NAMES.len(), user, amount);
        wish(key, order, self.plan.store_rollback > 0.0)
    }

    fn fit(&self, seat: &Arc<Seat>, clock: &Arc<dyn Clock>) -> Option<Fitted> {
        let courier = || services::rail(seat, &self.services, clock);
        (self.plan.internal.moves > 0).then(|| Fitted::Courier(Arc::new(courier())))
    }

    async fn strike(&mut self, tick: u64) {
        self.weather.tick(tick).await;
    }

    async fn calm(&mut self) {
        self.weather.calm().await;
    }

    async fn play(&mut self, scenario: &str, tick: u64) {
        if (scenario, tick) == (ROLLED_BACK, 0) {
            self.services.block(1, 1, true).await;
        }
    }

    fn on_their_way(&self) -> usize {
        self.services.late.load(Ordering::Relaxed)
    }

    /// What services have forgotten, by their statements.
    async fn decide(&self, store: &dyn Store, seat: &Arc<Seat>, now_ms: u64) -> Vec<String> {
        if self.plan.internal.dedupe_window_ms().is_none() {
            return Vec::new();
        }
        let courier = services::rail(seat, &self.services, &self.clock);
        operator::decide(store, &self.services, &courier, now_ms).await
    }

    fn payments(&self) -> Option<Vec<Payment>> {
        None
    }

    /// Services refuse; whether one did is in their books.
    fn may_fail(&self, _: &Transfer) -> bool {
        true
    }

    async fn check(&self, evidence: &Evidence) -> Result<(), Broken> {
        books::check(evidence, &self.services.books().await)
    }

    async fn check_at_rest(&self, evidence: &Evidence) -> Result<(), Broken> {
        books::at_rest(evidence, &self.services.books().await)
    }

    async fn tell(&self, transfer: &Transfer, seconds: &dyn Fn(u64) -> f64) -> Vec<String> {
        let Ok(req_id) = transfer.key.parse::<ReqId>() else { return Vec::new() };
        let mut lines = Vec::new();
        for book in self.services.books().await {
            for entry in book.entries.iter().filter(|entry| entry.key == Key::Request(req_id)) {
                let (when, name) = (seconds(entry.at_ms), book.name);
                lines.push(format!("{when:9.3} s  {name} {}: {:?}", entry.verb, entry.outcome));
            }
        }
        lines
    }
}

/// A move between services. Its key is the id of its request. A store that forgets the key must
/// not take one the other way round in its place: the services would take it for another leg.
fn wish(key: String, order: Order, may_be_forgotten: bool) -> Wish {
    let second = Order { user_id: order.user_id + 1, ..order.clone() };
    let mut others = vec![
        Order { amount: order.amount + 1, ..order.clone() },
        Order { asset_id: order.asset_id + 1, ..order.clone() },
        second.clone(),
    ];
    if !may_be_forgotten {
        let (source, target) = (order.target.clone(), order.source.clone());
        others.push(Order { source, target, ..order.clone() });
    }
    let others = others.into_iter().map(Payload::Internal).collect();
    let (payload, second) = (Payload::Internal(order), Payload::Internal(second));
    Wish { key, payload, second, others }
}
