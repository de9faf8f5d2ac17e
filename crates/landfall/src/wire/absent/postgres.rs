//! This build was made without postgres.

use std::sync::Arc;

use landfall_core::store::Store;

use crate::config::Config;
use crate::failure::Result;

pub async fn store(_: &Config, _: &str, _: bool) -> Result<Arc<dyn Store>> {
    Err(super::absent("postgres"))
}
