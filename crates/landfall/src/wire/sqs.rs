//! AWS SQS as the queue. Region, endpoint and credentials are the environment's.

use std::sync::Arc;

use landfall_core::Clock;
use landfall_core::queue::Queue;
use landfall_queue_sqs::{Settings, SqsQueue};

use crate::failure::{Failure, Result};

pub async fn queue(name: &str, clock: Arc<dyn Clock>) -> Result<Arc<dyn Queue>> {
    Ok(Arc::new(SqsQueue::new(settings(name), clock).await))
}

/// Makes the queue and its dead letter queue, or says what is wrong with those that are there.
pub async fn migrate(name: &str, clock: Arc<dyn Clock>) -> Result<()> {
    let queue = SqsQueue::new(settings(name), clock).await;
    queue.create_if_absent().await.map_err(|error| Failure::Unable(error.to_string()))
}

fn settings(name: &str) -> Settings {
    let (queue, dead_queue) = (name.to_owned(), format!("{name}-dlq"));
    Settings { queue, dead_queue, ..Settings::default() }
}
