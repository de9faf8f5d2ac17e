//! Wakes those who wait for a transfer to become final.

use std::collections::HashMap;
use std::sync::Arc;

use landfall_core::TransferId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Who waits for what. Empty as long as nobody does.
#[derive(Default)]
pub struct Watch {
    waiting: Mutex<HashMap<TransferId, (usize, Arc<Notify>)>>,
}

impl Watch {
    /// Returns when the transfer became final in this process, or when `patience` ends.
    pub async fn final_or(&self, id: TransferId, patience: impl Future<Output = ()>) {
        let notify = {
            let mut waiting = self.waiting.lock();
            let entry = waiting.entry(id).or_default();
            entry.0 += 1;
            entry.1.clone()
        };
        let _leave = Leave { watch: self, id };
        tokio::select! {
            biased;
            _ = notify.notified() => {}
            _ = patience => {}
        }
    }

    pub fn is_final(&self, id: TransferId) {
        if let Some((waiters, notify)) = self.waiting.lock().get(&id) {
            (0..*waiters).for_each(|_| notify.notify_one());
            notify.notify_waiters();
        }
    }
}

/// Takes a waiter out again, also when its client has gone away.
struct Leave<'a> {
    watch: &'a Watch,
    id: TransferId,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let mut waiting = self.watch.waiting.lock();
        if let Some(entry) = waiting.get_mut(&self.id) {
            entry.0 -= 1;
            if entry.0 == 0 {
                waiting.remove(&self.id);
            }
        }
    }
}
