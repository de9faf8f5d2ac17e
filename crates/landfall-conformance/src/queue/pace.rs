//! How fast a queue is: the same work for each, for their examples.

use std::sync::Arc;

use landfall_core::queue::{Hint, Queue};
use landfall_core::{TransferId, near};

/// Hints in one push and at most in one pull: the engine's own batch.
const BATCH: usize = 500;

/// Pushes hints of these transfers with one end, and pulls and deletes them with the other at the
/// same time. Returns when all have come.
pub async fn pass_hints(from: Arc<dyn Queue>, to: Arc<dyn Queue>, ids: Vec<TransferId>) {
    let wanted = ids.len();
    let pushing = tokio::spawn(async move {
        for batch in ids.chunks(BATCH) {
            let hint = |id: &TransferId| Hint { transfer: *id, stage: near::TRANSFER };
            let hints: Vec<Hint> = batch.iter().map(hint).collect();
            assert_eq!(from.push(&hints).await.expect("push"), 0);
        }
    });
    let mut come = std::collections::HashSet::new();
    while come.len() < wanted {
        let pulled = to.pull(near::TRANSFER, BATCH).await.expect("pull");
        come.extend(pulled.iter().map(|one| one.hint.transfer));
        to.ack(&pulled).await.expect("ack");
    }
    pushing.await.expect("pushed");
}
