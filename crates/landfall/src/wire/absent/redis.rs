//! This build was made without redis.

use std::sync::Arc;

use landfall_core::Clock;
use landfall_core::cache::StatusCache;
use landfall_core::queue::Queue;
use landfall_core::store::Store;

use crate::config::Config;
use crate::failure::Result;

pub async fn store(_: &Config, _: &str) -> Result<Arc<dyn Store>> {
    Err(super::absent("redis"))
}

pub fn queue(_: &Config, _: &str, _: &str, _: Arc<dyn Clock>) -> Result<Arc<dyn Queue>> {
    Err(super::absent("redis"))
}

pub fn cache(_: &str, _: &str, _: Arc<dyn Clock>) -> Result<Arc<dyn StatusCache>> {
    Err(super::absent("redis"))
}
