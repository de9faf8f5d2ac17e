//! How the relay is, asked once a second for everybody who wants to know.
//!
//! **Rule:** telling how the relay is costs the store nothing, however many ask.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::Clock;
use landfall_engine::Snapshot;
use parking_lot::RwLock;

use crate::relay::Relay;

/// Between two looks: as old as an answer may be without anybody minding.
const BEAT: Duration = Duration::from_secs(1);
/// A look that takes longer than this says that the store does not answer. Longer than a store's
/// own patience usually is, so that it is the store's own word that is told.
const OVERDUE_MS: u64 = 15_000;

/// The last look at the relay.
pub struct Pulse {
    relay: Arc<dyn Relay>,
    clock: Arc<dyn Clock>,
    taken: RwLock<Option<(u64, Arc<Snapshot>)>>,
}

impl Pulse {
    pub(crate) fn new(relay: Arc<dyn Relay>, clock: Arc<dyn Clock>) -> Pulse {
        Pulse { relay, clock, taken: RwLock::default() }
    }

    /// Looks once.
    pub async fn look(&self) {
        let snapshot = Arc::new(self.relay.snapshot().await);
        *self.taken.write() = Some((self.clock.monotonic_ms(), snapshot));
    }

    /// Looks again and again, until it is dropped.
    pub async fn beat(self: Arc<Pulse>) {
        loop {
            self.clock.sleep(BEAT).await;
            self.look().await;
        }
    }

    /// What was last seen, if anything was.
    pub(crate) fn last(&self) -> Option<Arc<Snapshot>> {
        self.taken.read().as_ref().map(|(_, snapshot)| snapshot.clone())
    }

    /// The same, unless it is too long ago to be believed.
    pub(crate) fn present(&self) -> Option<Arc<Snapshot>> {
        let taken = self.taken.read();
        let (at_ms, snapshot) = taken.as_ref()?;
        let age_ms = self.clock.monotonic_ms().saturating_sub(*at_ms);
        (age_ms <= OVERDUE_MS).then(|| snapshot.clone())
    }
}
