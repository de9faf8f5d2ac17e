//! Wakes those who wait for a transfer to become final.
//!
//! However many wait, one task reads for all of them: what became final in this process at once,
//! and all the others now and then, since another process may have finished them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use landfall_core::{Transfer, TransferId};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::engine::Core;

/// Transfers read at once for those who wait for them: a read of a few milliseconds.
const READ_MAX: usize = 500;

/// Who waits for what. Empty as long as nobody does.
#[derive(Default)]
pub struct Watch {
    waiting: Mutex<Waiting>,
    /// Somebody began to wait, or something became final.
    news: Notify,
}

#[derive(Default)]
struct Waiting {
    /// By transfer: how many, and as it was last read, none before the first time.
    transfers: HashMap<TransferId, (usize, watch::Sender<Option<Transfer>>)>,
    waiters: usize,
    /// To be read at once: somebody began to wait for it, or it became final in this process.
    ripe: HashSet<TransferId>,
}

impl Watch {
    /// Begins to wait; none if `most` wait already.
    pub fn enter(&self, id: TransferId, most: usize) -> Option<Waiter<'_>> {
        let mut waiting = self.waiting.lock();
        if waiting.waiters >= most {
            return None;
        }
        waiting.waiters += 1;
        let (count, seen) =
            waiting.transfers.entry(id).or_insert_with(|| (0, watch::Sender::new(None)));
        *count += 1;
        let seen = seen.subscribe();
        // It may have become final since it was read, when nobody waited for it.
        waiting.ripe.insert(id);
        drop(waiting);
        self.news.notify_one();
        Some(Waiter { watch: self, id, seen })
    }

    pub fn is_final(&self, id: TransferId) {
        let mut waiting = self.waiting.lock();
        if waiting.transfers.contains_key(&id) {
            waiting.ripe.insert(id);
            drop(waiting);
            self.news.notify_one();
        }
    }

    fn take_ripe(&self) -> Vec<TransferId> {
        self.waiting.lock().ripe.drain().collect()
    }

    fn all(&self) -> Vec<TransferId> {
        self.waiting.lock().transfers.keys().copied().collect()
    }

    fn read(&self, transfers: Vec<Transfer>) {
        let waiting = self.waiting.lock();
        for transfer in transfers {
            if let Some((_, seen)) = waiting.transfers.get(&transfer.id) {
                seen.send_replace(Some(transfer));
            }
        }
    }
}

/// Somebody who waits, until it is dropped.
pub struct Waiter<'a> {
    watch: &'a Watch,
    id: TransferId,
    seen: watch::Receiver<Option<Transfer>>,
}

impl Waiter<'_> {
    /// Returns when the transfer was seen to be final.
    pub async fn is_final(&mut self) {
        let is_final = |seen: &Option<Transfer>| {
            seen.as_ref().is_some_and(|transfer| transfer.state.is_final())
        };
        // The sender lives for as long as somebody waits.
        let _ = self.seen.wait_for(is_final).await;
    }

    /// As it was last read.
    pub fn last(&self) -> Option<Transfer> {
        self.seen.borrow().clone()
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.watch.waiting.lock();
        waiting.waiters -= 1;
        if let Some((count, _)) = waiting.transfers.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                waiting.transfers.remove(&self.id);
                waiting.ripe.remove(&self.id);
            }
        }
    }
}

/// Reads for all who wait.
pub(crate) async fn attend(core: Arc<Core>) {
    let recheck_ms = core.settings.recheck_ms;
    let mut read_ms = 0;
    while !core.is_stopping() {
        let now_ms = core.clock.monotonic_ms();
        let due_ms = read_ms + recheck_ms;
        let wanted = match now_ms >= due_ms {
            true => {
                read_ms = now_ms;
                core.watch.take_ripe();
                core.watch.all()
            }
            false => core.watch.take_ripe(),
        };
        for some in wanted.chunks(READ_MAX) {
            match core.store.transfers(some).await {
                Ok(transfers) => core.watch.read(transfers),
                // They are read again with all the others.
                Err(error) => tracing::debug!(%error, "not read for those who wait"),
            }
        }
        if core.watch.all().is_empty() {
            core.watch.news.notified().await;
            // Whoever waits has just been read.
            read_ms = core.clock.monotonic_ms();
            continue;
        }
        let left_ms = (read_ms + recheck_ms).saturating_sub(core.clock.monotonic_ms());
        tokio::select! {
            biased;
            () = core.watch.news.notified() => {}
            () = core.clock.sleep(Duration::from_millis(left_ms)) => {}
        }
    }
}
