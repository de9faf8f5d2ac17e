//! A value that many watch, waking them in the order in which they began to wait.
//!
//! Tokio's own `watch` wakes its receivers in a random order; a simulated world must give the same
//! history for the same seed, so order matters here.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The value's owner.
pub struct Watched<T>(Arc<Inner<T>>);

impl<T> Clone for Watched<T> {
    fn clone(&self) -> Watched<T> {
        Watched(self.0.clone())
    }
}

struct Inner<T> {
    /// The value, and how often it was changed.
    state: Mutex<(T, u64)>,
    changed: Notify,
}

/// One who watches.
pub struct Watcher<T> {
    inner: Arc<Inner<T>>,
    seen: u64,
}

impl<T: Clone> Watched<T> {
    pub fn new(value: T) -> Watched<T> {
        Watched(Arc::new(Inner { state: Mutex::new((value, 0)), changed: Notify::new() }))
    }

    pub fn get(&self) -> T {
        self.0.state.lock().0.clone()
    }

    pub fn set(&self, value: T) {
        self.change(|held| {
            *held = value;
            true
        });
    }

    /// Changes the value in place; watchers are told if `change` says so.
    pub fn change(&self, change: impl FnOnce(&mut T) -> bool) {
        let mut state = self.0.state.lock();
        if change(&mut state.0) {
            state.1 += 1;
            drop(state);
            self.0.changed.notify_waiters();
        }
    }

    /// A watcher that has seen the present value.
    pub fn watch(&self) -> Watcher<T> {
        Watcher { inner: self.0.clone(), seen: self.0.state.lock().1 }
    }
}

impl<T: Clone> Watcher<T> {
    /// The present value, seen now.
    pub fn see(&mut self) -> T {
        let state = self.inner.state.lock();
        self.seen = state.1;
        state.0.clone()
    }

    /// Returns when the value was changed since it was last seen, having seen it.
    pub async fn changed(&mut self) -> T {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            // Enlisted before the value is compared, so that no change falls in between.
            changed.as_mut().enable();
            {
                let state = self.inner.state.lock();
                if state.1 != self.seen {
                    self.seen = state.1;
                    return state.0.clone();
                }
            }
            changed.await;
        }
    }

    /// Returns when the value is as wanted.
    pub async fn until(&mut self, wanted: impl Fn(&T) -> bool) -> T {
        loop {
            let value = self.see();
            if wanted(&value) {
                return value;
            }
            self.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn watchers_are_woken_in_the_order_in_which_they_came() {
        let watched = Arc::new(Watched::new(0));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for name in 0..50 {
            let (mut watcher, order) = (watched.watch(), order.clone());
            tasks.spawn(async move {
                watcher.until(|value| *value == 1).await;
                order.lock().push(name);
            });
            tokio::task::yield_now().await;
        }
        watched.set(1);
        while tasks.join_next().await.is_some() {}
        assert_eq!(*order.lock(), (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_between_two_looks_is_not_missed() {
        let watched = Watched::new(0);
        let mut watcher = watched.watch();
        watched.set(7);
        assert_eq!(watcher.changed().await, 7);
    }
}
