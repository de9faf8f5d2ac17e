//! Taking a lane's lease, and giving it back.
//!
//! Nothing is decided by it: whoever holds an old epoch is refused by the store.

use std::time::Duration;

use landfall_core::store::Leased;
use landfall_core::{Epoch, Lane};

use crate::driver::Driver;
use crate::keyless::Rest;

impl Driver {
    /// Waits until the lane is ours. None when stopping.
    pub async fn lease(&self) -> Option<Lane> {
        let mut stop = self.shared.stop.watch();
        loop {
            if stop.see() {
                return None;
            }
            let settings = &self.shared.settings;
            let (store, rail) = (&self.shared.store, self.shared.rail.name());
            let before = self.shared.high_water.remembered();
            let leased =
                store.lease(&self.face.id, rail, &self.shared.instance, settings.lease_ms).await;
            let wait_ms = match leased {
                Ok(Leased::Yours(lane)) => {
                    let marks = &self.shared.high_water;
                    if let Err(reason) = marks.check_lane(&before, &self.face.id, Some(&lane)) {
                        self.shared.suspect(&reason);
                    }
                    return Some(lane);
                }
                Ok(Leased::Busy { .. }) if !self.face.signing => {
                    self.face.let_go();
                    self.rest(Rest::FIRST).await;
                    continue;
                }
                Ok(Leased::Busy { until_ms, .. }) => {
                    self.face.let_go();
                    let left_ms = until_ms.saturating_sub(self.shared.clock.now_ms());
                    left_ms.clamp(settings.retry_ms, settings.renew_ms)
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
        let _ = self.shared.store.release(&[(self.face.id.clone(), epoch)]).await;
    }
}
