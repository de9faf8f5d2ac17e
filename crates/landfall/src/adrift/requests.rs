//! Transfers between services that wait for an operator: a service has forgotten whether it acted.
//!
//! **Rule:** a word is taken only of a transfer that the relay itself has set aside as adrift, or
//! has tried for long at a call that no late one can contradict; of any other the services are
//! still asked, and they know better.
//! Not here: what a word comes to (`landfall_rail_internal`, by [`Courier::ruled`]).

use std::sync::Arc;

use landfall_core::courier::Courier;
use landfall_core::store::{ListFilter, Store};
use landfall_core::{Certificate, CertificateKind, RailName, State, Transfer, TransferId};
use landfall_engine::operate::{self, OperateError};
use serde_json::{Value, json};

use super::{Opened, age};
use crate::cli::{DecideArguments, Decided, ReadArguments};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, Table, time};
use crate::wire;

/// Rows read from the store at a time.
const PAGE: usize = 1_000;

/// Those that wait, oldest first.
pub async fn waiting(store: &Arc<dyn Store>) -> Result<Vec<Transfer>> {
    let mut found = Vec::new();
    let open = State::all(RailName::Internal).into_iter().filter(|state| !state.is_final());
    for state in open {
        let mut before: Option<TransferId> = None;
        loop {
            let (rail, state) = (Some(RailName::Internal), Some(state));
            let filter = ListFilter { rail, state, before, limit: PAGE, ..ListFilter::default() };
            let page = store.list(filter).await?;
            before = page.last().map(|last| last.id);
            let full = page.len() == PAGE;
            found.extend(page.into_iter().filter(|one| one.aside.is_some()));
            if !full {
                break;
            }
        }
    }
    found.sort_by_key(|transfer| transfer.id);
    Ok(found)
}

pub fn print(show: &Show, waiting: &[Transfer], now_ms: u64) {
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

pub fn json(transfer: &Transfer, now_ms: u64) -> Value {
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

pub async fn decide(req_id: &str, asked: &DecideArguments, read: &ReadArguments) -> Result<()> {
    let Opened { config, store, home: _held } = Opened::to_write(read).await?;
    let transfer = find(&store, req_id, &asked.tenant).await?;
    let rail = wire::internal_rail(&config, wire::clock())?;
    let (took_effect, word) = (asked.fate == Decided::Landed, word(asked));
    let now_ms = wire::clock().now_ms();
    let courier: &dyn Courier = &rail;
    let ruled = operate::rule(&*store, courier, &transfer, took_effect, &word, now_ms).await;
    let ruled = ruled.map_err(|error| match error {
        OperateError::Store(error) => error.into(),
        other => Failure::No(other.to_string()),
    })?;
    let show = Show::on_stdout(read.json);
    let (was, is) = (transfer.state.name(), ruled.state.name());
    match show.json {
        true => show.value(&json!({"req_id": req_id, "was": was, "state": is})),
        false if ruled.state.is_final() => show.line(&format!("{req_id} was {was}, is {is}")),
        false => show.line(&format!("{req_id} was {was}, is {is}; start the relay, it goes on")),
    }
    Ok(())
}

async fn find(store: &Arc<dyn Store>, req_id: &str, tenant: &str) -> Result<Transfer> {
    let found = store.by_key(RailName::Internal, tenant, req_id).await?;
    found.ok_or_else(|| {
        Failure::No(format!(
            "there is no transfer {req_id}; see `landfall adrift list`, and with API keys in use \
             name its tenant by --tenant"
        ))
    })
}

fn word(asked: &DecideArguments) -> Certificate {
    let who = std::env::var("USER").unwrap_or_default();
    Certificate {
        kind: CertificateKind::Operator,
        summary: format!("by an operator's word: {}", asked.evidence),
        evidence: json!({"operator": who, "evidence": asked.evidence}),
    }
}
