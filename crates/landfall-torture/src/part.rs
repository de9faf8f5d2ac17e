//! A rail as a part of a world: its ledger or services, its clients, its weather, and what must
//! hold of it.
//!
//! The world, its clients, its operator and the checks that are common to all know no rail. What
//! is particular to one is behind [`Part`], in a folder of its own; [`KINDS`] is the one list.
//! **Rule:** a part draws all its chance from the world's dice, or its runs would not repeat.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::courier::Courier;
use landfall_core::rail::Rail;
use landfall_core::store::Store;
use landfall_core::{Attempt, Clock, Fate, LaneId, Nonce, RailName, Transfer};

use crate::checkers::{Broken, Evidence, Payment};
use crate::clients::Wish;
use crate::enumerate::Scenario;
use crate::plan::{Fault, Plan};
use crate::seat::{Dice, Seat};
use crate::{evm, internal, near};

/// What is known of a part without a world.
pub struct Kind {
    /// How many wishes its clients have.
    pub wishes: fn(&Plan) -> usize,
    /// What can be switched off.
    pub faults: &'static [Fault],
    /// A request may arrive as late as this at most, where that matters.
    pub late_max_ms: fn(&Plan) -> Option<u64>,
    /// How much there is of it, for people.
    pub describe: fn(&Plan) -> String,
    /// Small worlds whose every crash is enumerated.
    pub scenarios: &'static [Scenario],
    /// MUST be called inside the world's runtime.
    pub build: fn(&Ground) -> Box<dyn Part>,
}

/// Every kind, in the order in which their dice fall.
pub const KINDS: [&Kind; 3] = [&near::KIND, &internal::KIND, &evm::KIND];

/// What a world gives to its parts.
pub struct Ground {
    pub plan: Arc<Plan>,
    pub dice: Arc<Dice>,
    pub clock: Arc<dyn Clock>,
}

/// What an instance has of a part in one of its lives.
pub enum Fitted {
    Rail(Arc<dyn Rail>),
    Courier(Arc<dyn Courier>),
}

#[async_trait(?Send)]
pub trait Part {
    fn rail(&self) -> RailName;

    /// Right before its clients come.
    fn prepare(&self) {}

    /// What one of its clients wants.
    fn wish(&self, number: usize) -> Wish;

    /// The way to it from a seat; none in worlds in which nobody wants anything of it.
    fn fit(&self, seat: &Arc<Seat>, clock: &Arc<dyn Clock>) -> Option<Fitted>;

    /// What goes wrong in this tick.
    async fn strike(&mut self, tick: u64);

    /// Everything is well again, but for what the plan has for good.
    async fn calm(&mut self);

    /// What happens in a scenario in this tick, by the scenario's name.
    async fn play(&mut self, _: &str, _: u64) {}

    /// How much is on its way whose senders have given up: nothing is at rest before it is there.
    fn on_their_way(&self) -> usize;

    /// Where the operator looks attempts up; none where there are none.
    fn explorer(&self) -> Option<&dyn Explorer> {
        None
    }

    /// The operator decides requests that the relay has set aside. Returns their keys.
    async fn decide(&self, _: &dyn Store, _: &Arc<Seat>, _: u64) -> Vec<String> {
        Vec::new()
    }

    /// What was paid, by the ledger's own books: no node is asked. None where payments are legs
    /// between services, which [`Part::check`] looks into.
    fn payments(&self) -> Option<Vec<Payment>>;

    /// How often somebody else used one of the relay's keys.
    fn keys_used(&self) -> u64 {
        0
    }

    /// Whether a node of this address lies, now and then or always.
    fn lies_at(&self, _: &str) -> bool {
        false
    }

    /// Whether a transfer may fail here by no fault of the relay.
    fn may_fail(&self, transfer: &Transfer) -> bool;

    /// What must hold at every step, beside what is common.
    async fn check(&self, _: &Evidence) -> Result<(), Broken> {
        Ok(())
    }

    /// What must hold when everything has come to rest.
    async fn check_at_rest(&self, evidence: &Evidence) -> Result<(), Broken>;

    /// What it knows of a transfer, for people; `seconds` reads its times.
    async fn tell(&self, _: &Transfer, _: &dyn Fn(u64) -> f64) -> Vec<String> {
        Vec::new()
    }
}

/// A ledger's own books, on which an operator looks up what no node tells.
pub trait Explorer {
    /// The last nonce that a lane's key has used, at finality.
    fn nonce_of(&self, lane: &LaneId) -> Option<Nonce>;

    /// Whether the attempt's nonce is used, and not by it.
    fn is_overtaken(&self, attempt: &Attempt) -> bool;

    /// Why no evidence that the relay can gather decides it, if so.
    fn excuse(&self, attempt: &Attempt) -> Option<&'static str>;

    /// What became of it, if that is settled for ever.
    fn truth(&self, attempt: &Attempt) -> Option<Fate>;
}
