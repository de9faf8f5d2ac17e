//! This build was made without postgres.

use std::sync::Arc;

use landfall_core::store::Store;
use landfall_ledger::{Book, Contract};

use crate::config::Config;
use crate::failure::Result;

pub async fn store(_: &Config, _: &str, _: bool) -> Result<Arc<dyn Store>> {
    Err(super::absent("postgres"))
}

pub async fn book(_: &str, _: Contract) -> Result<Arc<dyn Book>> {
    Err(super::absent("postgres"))
}
