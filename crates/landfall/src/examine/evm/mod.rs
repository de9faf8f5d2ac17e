//! The EVM rail, as operators' commands ask it.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::evm::Work;
use landfall_core::store::Store;
use landfall_core::{Payload, RailName};
use serde_json::json;

use super::{Description, Examiner, LedgerExaminer, Secrets};
use crate::audit::Audited;
use crate::check::Finding;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::show::Show;

pub struct Evm;

fn off() -> Failure {
    Failure::Mistaken("no EVM chain is configured".into())
}

#[async_trait]
impl Examiner for Evm {
    fn rail(&self) -> RailName {
        RailName::Evm
    }

    fn is_configured(&self, _: &Config) -> bool {
        false
    }

    fn secrets<'c>(&self, _: &'c Config) -> Secrets<'c> {
        Secrets::default()
    }

    async fn check(&self, _: &Config) -> Result<Vec<Finding>> {
        Err(off())
    }

    async fn audit(&self, _: &Config, _: &Arc<dyn Store>, _: &Show) -> Result<Audited> {
        Err(off())
    }

    async fn ledgers(&self, _: &Config, _: &Folder) -> Result<Vec<Arc<dyn LedgerExaminer>>> {
        Err(off())
    }

    fn describe(&self, payload: &Payload) -> Description {
        let Some(call) = payload.evm() else { return Description::default() };
        let calls = format!("{} on {} with {} wei", call.to(), call.chain, call.value());
        let by = match &call.work {
            Work::Direct(_) => None,
            Work::Gasless(request) => {
                Some(("by", format!("{} through {}", request.from, request.forwarder)))
            }
        };
        Description {
            client_key: None,
            amount: call.value().to_string(),
            asset: "wei".to_owned(),
            lines: std::iter::once(("calls", calls)).chain(by).collect(),
            fields: vec![("chain", json!(call.chain)), ("type", json!(call.kind()))],
        }
    }
}
