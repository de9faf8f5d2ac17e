//! A rail in a process that only takes transfers: others work on them.
//!
//! Whatever is taken is hinted at; if the hint is lost, a worker's sweeper finds it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::rail::Rail;
use landfall_core::{
    BadField, Courier, Event, Payload, RailName, Stage, State, Transfer, TransferId,
};
use tokio::sync::Notify;

use crate::active_rail::{ActiveRail, Alerts};
use crate::engine::Core;
use crate::status::RailStatus;

/// Whom to ask whether a transfer can be taken at all.
pub(crate) enum Screen {
    Rail(Arc<dyn Rail>),
    Courier(Arc<dyn Courier>),
}

/// A rail that is worked on elsewhere.
pub(crate) struct Intake {
    core: Arc<Core>,
    screen: Screen,
    alerts: Alerts,
    sweep: Notify,
}

impl Intake {
    pub fn new(core: Arc<Core>, screen: Screen) -> Intake {
        let alerts = Alerts::new(core.clock.clone());
        Intake { core, screen, alerts, sweep: Notify::new() }
    }
}

#[async_trait]
impl ActiveRail for Intake {
    fn rail(&self) -> RailName {
        match &self.screen {
            Screen::Rail(rail) => rail.name(),
            Screen::Courier(courier) => courier.name(),
        }
    }

    fn takes(&self, payload: &Payload) -> bool {
        match &self.screen {
            Screen::Rail(rail) => rail.takes(payload),
            Screen::Courier(courier) => payload.rail() == courier.name(),
        }
    }

    fn first_events(&self, payload: &Payload) -> &'static [Event] {
        let needs_nothing = match &self.screen {
            Screen::Rail(rail) => rail.preparation(payload).is_none(),
            Screen::Courier(_) => true,
        };
        State::first_events(self.rail(), needs_nothing)
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        match &self.screen {
            Screen::Rail(rail) => rail.screen(payload).await,
            Screen::Courier(courier) => courier.screen(payload).await,
        }
    }

    async fn offer(self: Arc<Self>, transfers: Vec<Transfer>) {
        if let Err(error) = self.core.queue.announce(&transfers).await {
            tracing::warn!(%error, hints = transfers.len(), "not hinted at; a sweeper finds them");
        }
    }

    async fn fetch(self: Arc<Self>, _: &[TransferId]) {}

    fn stages(&self) -> Vec<Stage> {
        Vec::new()
    }

    fn capacity(&self) -> usize {
        0
    }

    fn room(&self) -> usize {
        0
    }

    fn is_able(&self) -> bool {
        false
    }

    fn sweep_now(&self) -> &Notify {
        &self.sweep
    }

    fn status(&self) -> RailStatus {
        RailStatus {
            rail: self.rail(),
            endpoints: Vec::new(),
            paused: None,
            lanes_held: 0,
            lanes_halted: 0,
            adrift: 0,
            aside: 0,
            stuck: 0,
        }
    }

    fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    fn suspect(&self, reason: &str) {
        self.alerts.raise("store_forgot", reason.to_owned());
    }

    async fn review(&self) {}

    async fn stop(&self, _: Duration) {}

    async fn abort(&self) {}
}
