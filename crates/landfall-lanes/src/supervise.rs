//! Keeps a task alive: one that panics is started again, and counted.

use std::time::Duration;

use landfall_core::Clock;
use tokio::task::JoinSet;

/// Wait before a task that died is started again: a bug that strikes at once must not spin.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Runs what `make` makes until it ends by itself. `died` is told of every panic.
pub async fn supervise<F>(
    clock: &dyn Clock,
    name: &str,
    mut died: impl FnMut(),
    mut make: impl FnMut() -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        let mut life = JoinSet::new();
        life.spawn(make());
        match life.join_next().await {
            Some(Err(error)) if error.is_panic() => {
                tracing::error!(task = name, %error, "a task died; it is started again");
                died();
                clock.sleep(AGAIN_AFTER).await;
            }
            _ => return,
        }
    }
}
