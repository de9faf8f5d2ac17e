//! This build was made without sqs.

use std::sync::Arc;

use landfall_core::Clock;
use landfall_core::queue::Queue;

use crate::failure::Result;

pub async fn queue(_: &str, _: Arc<dyn Clock>) -> Result<Arc<dyn Queue>> {
    Err(super::absent("sqs"))
}

pub async fn migrate(_: &str, _: Arc<dyn Clock>) -> Result<()> {
    Err(super::absent("sqs"))
}
