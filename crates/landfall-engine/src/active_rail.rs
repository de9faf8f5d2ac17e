//! One rail at work, as the rest of the engine sees it.
//!
//! There are two kinds: [`crate::runner::Runner`] lands signed attempts on a ledger, and
//! [`crate::call_runner::CallRunner`] makes calls that may be repeated. Nothing else in the engine
//! knows which is which.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::BadField;
use landfall_core::{Clock, Event, Payload, RailName, Stage, Transfer, TransferId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::status::{Alert, RailStatus};

/// One rail at work.
#[async_trait]
pub(crate) trait ActiveRail: Send + Sync {
    fn rail(&self) -> RailName;

    /// Whether a transfer is its to work on: several ledgers may share a rail's name.
    fn takes(&self, payload: &Payload) -> bool;

    /// The events that go into the first commit of a transfer.
    fn first_events(&self, payload: &Payload) -> &'static [Event];

    /// Whether a new transfer can be taken at all.
    async fn screen(&self, payload: &Payload) -> Result<(), BadField>;

    /// Takes up what there is room for and hints at the rest.
    async fn offer(self: Arc<Self>, transfers: Vec<Transfer>);

    /// Loads transfers and takes up those that wait for a step.
    async fn fetch(self: Arc<Self>, ids: &[TransferId]);

    /// The stages in which a transfer can be due, in the order in which they are swept.
    fn stages(&self) -> Vec<Stage>;

    /// Transfers that it can hold at once, and for how many more there is room now.
    fn capacity(&self) -> usize;
    fn room(&self) -> usize;

    /// False while whatever is found could not be worked on: it is left to whoever can.
    fn is_able(&self) -> bool;

    /// Wakes the sweeper early: hints were dropped, or there is room again.
    fn sweep_now(&self) -> &Notify;

    fn status(&self) -> RailStatus;
    fn alerts(&self) -> &Alerts;

    /// The store may have forgotten something: nothing is signed before an operator has looked.
    fn suspect(&self, reason: &str);

    /// Looks again at what operators were told of: somebody else may have seen to it since.
    async fn review(&self);

    /// Lets what is being stored be stored, and leaves.
    async fn stop(&self, grace: Duration);

    /// Ends everything at once, as a crash would.
    async fn abort(&self);
}

/// What an operator should look at, by kind.
pub(crate) struct Alerts {
    clock: Arc<dyn Clock>,
    standing: Mutex<BTreeMap<String, Alert>>,
}

impl Alerts {
    pub fn new(clock: Arc<dyn Clock>) -> Alerts {
        Alerts { clock, standing: Mutex::default() }
    }

    pub fn raise(&self, kind: &str, message: String) {
        let mut alerts = self.standing.lock();
        let since_ms = alerts.get(kind).map_or(self.clock.now_ms(), |alert| alert.since_ms);
        if alerts.get(kind).is_none_or(|alert| alert.message != message) {
            tracing::error!(kind, message, "alert");
        }
        alerts.insert(kind.to_owned(), Alert { kind: kind.to_owned(), message, since_ms });
    }

    pub fn calm(&self, kind: &str) {
        if self.standing.lock().remove(kind).is_some() {
            tracing::info!(kind, "alert over");
        }
    }

    pub fn all(&self) -> Vec<Alert> {
        self.standing.lock().values().cloned().collect()
    }
}
