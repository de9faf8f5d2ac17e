//! Transfers between services, as operators' commands ask of them. No attempt carries them.
//!
//! Not here: how they are audited (`audit`), how a word about one is taken (`adrift::requests`).

mod audit;

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::courier::Courier;
use landfall_core::internal::request_id;
use landfall_core::store::Store;
use landfall_core::{Payload, RailName, Transfer};
use serde_json::{Value, json};

use super::{Description, Examiner, LedgerExaminer, RequestExaminer, Secrets};
use crate::audit::Audited;
use crate::check::Finding;
use crate::config::Config;
use crate::failure::Result;
use crate::folder::Folder;
use crate::show::{Show, Style, Table, age, time};
use crate::wire;

pub struct Internal;

#[async_trait]
impl Examiner for Internal {
    fn rail(&self) -> RailName {
        RailName::Internal
    }

    fn is_configured(&self, config: &Config) -> bool {
        config.has_internal()
    }

    fn secrets<'c>(&self, config: &'c Config) -> Secrets<'c> {
        let in_settings = config.internal.services.iter().any(|service| service.auth.is_some());
        Secrets { in_settings, files: Vec::new() }
    }

    async fn check(&self, config: &Config) -> Result<Vec<Finding>> {
        let tried = match wire::internal_rail(config, wire::clock()) {
            Ok(rail) => rail.check().await.map_err(|error| error.to_string()),
            Err(failure) => Err(failure.to_string()),
        };
        Ok(vec![Finding::new("services", tried)])
    }

    async fn audit(&self, config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
        audit::audit(config, store, show).await
    }

    async fn ledgers(&self, _: &Config, _: &Folder) -> Result<Vec<Arc<dyn LedgerExaminer>>> {
        Ok(Vec::new())
    }

    /// The stored key is the request's id, which comes from the client's own.
    fn stored_keys(&self, tenant: &str, key: &str) -> Vec<String> {
        vec![key.to_owned(), request_id(tenant, key).to_string()]
    }

    fn describe(&self, payload: &Payload) -> Description {
        let Some(order) = payload.internal() else { return Description::default() };
        let moves = format!("{} {} of user {}", order.shown_amount(), order.asset, order.user_id);
        let way = format!("{} to {}", order.source, order.target);
        Description {
            client_key: order.client_key.clone(),
            amount: order.shown_amount(),
            asset: order.asset.to_string(),
            lines: vec![("moves", moves), ("from", way)],
            fields: vec![("order", json!(order))],
        }
    }

    fn requests(&self) -> Option<&dyn RequestExaminer> {
        Some(self)
    }
}

impl RequestExaminer for Internal {
    fn title(&self) -> &'static str {
        "transfers between services that wait for a decision:"
    }

    fn print(&self, show: &Show, waiting: &[Transfer], now_ms: u64) {
        let mut table = Table::new(&["REQ_ID", "STATE", "MOVES", "FROM", "TO", "AGE", "WHY"]);
        for transfer in waiting {
            let Some(order) = transfer.payload.internal() else { continue };
            let moves = format!("{} {} of {}", order.shown_amount(), order.asset, order.user_id);
            table.row(vec![
                (Style::Bold, transfer.key.clone()),
                (Style::Warn, transfer.state.name().to_owned()),
                (Style::Plain, moves),
                (Style::Plain, order.source.clone()),
                (Style::Plain, order.target.clone()),
                (Style::Warn, age(now_ms.saturating_sub(transfer.created_ms))),
                (Style::Plain, transfer.aside.clone().unwrap_or_default()),
            ]);
        }
        show.table(&table);
    }

    fn json(&self, transfer: &Transfer, now_ms: u64) -> Value {
        json!({
            "rail": transfer.payload.rail(),
            "req_id": transfer.key,
            "tenant": transfer.tenant,
            "state": transfer.state.name(),
            "order": transfer.payload.internal(),
            "why": transfer.aside,
            "created_at": time(transfer.created_ms),
            "age_ms": now_ms.saturating_sub(transfer.created_ms),
        })
    }

    fn courier(&self, config: &Config) -> Result<Arc<dyn Courier>> {
        Ok(Arc::new(wire::internal_rail(config, wire::clock())?))
    }
}
