//! This build was made without mysql.

use std::path::Path;
use std::sync::Arc;

use landfall_core::store::Store;
use landfall_ledger::{Book, Contract};

use crate::config::Config;
use crate::failure::Result;

pub async fn store(_: &Config, _: &str, _: bool) -> Result<Arc<dyn Store>> {
    Err(super::absent("mysql"))
}

pub async fn book(_: &str, _: Option<&Path>, _: Contract) -> Result<Arc<dyn Book>> {
    Err(super::absent("mysql"))
}
