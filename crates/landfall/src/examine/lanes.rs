//! Transactions that somebody else builds, as operators' commands ask of them: the keys and the
//! nodes are the builder's, so nothing of it is ever configured here, and what only a ledger could
//! tell is refused.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::store::Store;
use landfall_core::{Payload, RailName};
use serde_json::json;

use super::{Description, Examiner, LedgerExaminer, Secrets, not_configured};
use crate::audit::Audited;
use crate::check::Finding;
use crate::config::Config;
use crate::failure::Result;
use crate::folder::Folder;
use crate::show::Show;

pub struct Lanes;

#[async_trait]
impl Examiner for Lanes {
    fn rail(&self) -> RailName {
        RailName::Lanes
    }

    fn is_configured(&self, _: &Config) -> bool {
        false
    }

    fn secrets<'c>(&self, _: &'c Config) -> Secrets<'c> {
        Secrets::default()
    }

    async fn check(&self, _: &Config) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }

    async fn audit(&self, _: &Config, _: &Arc<dyn Store>, _: &Show) -> Result<Audited> {
        Err(not_configured(RailName::Lanes))
    }

    async fn ledgers(&self, _: &Config, _: &Folder) -> Result<Vec<Arc<dyn LedgerExaminer>>> {
        Ok(Vec::new())
    }

    fn describe(&self, payload: &Payload) -> Description {
        let Payload::Lanes(execution) = payload else { return Description::default() };
        let digest = execution.digest.clone();
        Description {
            lines: vec![("payload", format!("SHA-256 {digest}"))],
            fields: vec![("payload_digest", json!(digest))],
            ..Description::default()
        }
    }
}
