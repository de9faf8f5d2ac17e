//! Taking a lane's lease, and giving it back.
//!
//! Nothing is decided by it: whoever holds an old epoch is refused by the store.

use std::time::Duration;

use landfall_core::store::Leased;
use landfall_core::{Epoch, Lane};

use crate::driver::Driver;
use crate::keyless::Rest;
use crate::owner::Demand;

impl Driver {
    /// Waits until the lane is ours. None when stopping.
    pub async fn lease(&self) -> Option<Lane> {
        let mut stop = self.shared.stop.watch();
        loop {
            if stop.see() {
                return None;
            }
            let settings = &self.shared.settings;
            let (store, rail) = (&self.shared.store, self.handle.ledger.ledger.name());
            let before = self.shared.high_water.remembered();
            let leased =
                store.lease(&self.handle.id, rail, &self.shared.instance, settings.lease_ms).await;
            let wait_ms = match leased {
                Ok(Leased::Yours(lane)) => {
                    let marks = &self.shared.high_water;
                    if let Err(reason) = marks.check_lane(&before, &self.handle.id, Some(&lane)) {
                        self.shared.suspect(&reason);
                    }
                    return Some(lane);
                }
                Ok(Leased::Busy { .. }) if self.demand() == Demand::Nothing => {
                    self.handle.let_go();
                    self.rest(Rest::FIRST).await;
                    continue;
                }
                Ok(Leased::Busy { until_ms, .. }) => {
                    self.handle.let_go();
                    self.owner().contended(&self.handle.id);
                    let left_ms = until_ms.saturating_sub(self.shared.clock.now_ms());
                    match self.demand() {
                        // Whoever holds it may give it back at any time.
                        Demand::InTurns { .. } => settings.retry_ms,
                        _ => left_ms.min(settings.renew_ms).max(settings.retry_ms),
                    }
                }
                Err(_) => settings.retry_ms,
            };
            tokio::select! {
                biased;
                _ = stop.changed() => {}
                _ = self.shared.clock.sleep(Duration::from_millis(wait_ms)) => {}
            }
        }
    }

    pub async fn give_back(&self, epoch: Epoch) {
        // A lease that is not given back runs out by itself.
        let _ = self.shared.store.release(&[(self.handle.id.clone(), epoch)]).await;
    }
}
