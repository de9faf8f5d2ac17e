//! Transfers that no attempt carries and that wait for an operator: a service has forgotten whether
//! it acted.
//!
//! **Rule:** a word is taken only of a transfer that the relay itself has set aside as adrift, or
//! has tried for long at a call that no late one can contradict; of any other the services are
//! still asked, and they know better.
//! Not here: what a word comes to (the rail, by `Courier::ruled`), how they are shown (`examine`).

use std::sync::Arc;

use landfall_core::store::{ListFilter, Store};
use landfall_core::{Certificate, CertificateKind, RailName, State, Transfer, TransferId};
use landfall_engine::operate::{self, OperateError};
use serde_json::json;

use crate::cli::{DecideArguments, Decided, ReadArguments};
use crate::examine::{self, RequestExaminer};
use crate::failure::{Failure, Result};
use crate::show::Show;
use crate::stopped::StoppedRelay;
use crate::wire;

/// Rows read from the store at a time.
const PAGE: usize = 1_000;

/// Requests of one rail that wait, and whoever knows how to show them.
pub struct Waiting {
    pub examiner: &'static dyn RequestExaminer,
    pub transfers: Vec<Transfer>,
}

/// Those that wait, by rail, oldest first.
pub async fn waiting(store: &Arc<dyn Store>) -> Result<Vec<Waiting>> {
    let mut waiting = Vec::new();
    for (rail, examiner) in rails() {
        let transfers = set_aside(store, rail).await?;
        if !transfers.is_empty() {
            waiting.push(Waiting { examiner, transfers });
        }
    }
    Ok(waiting)
}

/// The rails that have such transfers.
fn rails() -> impl Iterator<Item = (RailName, &'static dyn RequestExaminer)> {
    examine::all().filter_map(|one| Some((one.rail(), one.requests()?)))
}

async fn set_aside(store: &Arc<dyn Store>, rail: RailName) -> Result<Vec<Transfer>> {
    let mut found = Vec::new();
    for state in State::all(rail).into_iter().filter(|state| !state.is_final()) {
        let mut before: Option<TransferId> = None;
        loop {
            let (rail, state) = (Some(rail), Some(state));
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

pub async fn decide(req_id: &str, asked: &DecideArguments, read: &ReadArguments) -> Result<()> {
    let relay = StoppedRelay::take(read).await?;
    let store = &relay.store;
    let (transfer, examiner) = find(store, req_id, &asked.tenant).await?;
    let courier = examiner.courier(&relay.config)?;
    let (took_effect, word) = (asked.fate == Decided::Landed, word(asked));
    let now_ms = wire::clock().now_ms();
    let ruled = operate::rule(&**store, &*courier, &transfer, took_effect, &word, now_ms).await;
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

async fn find(
    store: &Arc<dyn Store>,
    req_id: &str,
    tenant: &str,
) -> Result<(Transfer, &'static dyn RequestExaminer)> {
    for (rail, examiner) in rails() {
        if let Some(transfer) = store.by_key(rail, tenant, req_id).await? {
            return Ok((transfer, examiner));
        }
    }
    Err(Failure::No(format!(
        "there is no transfer {req_id}; see `landfall adrift list`, and with API keys in use name \
         its tenant by --tenant"
    )))
}

fn word(asked: &DecideArguments) -> Certificate {
    let who = std::env::var("USER").unwrap_or_default();
    Certificate {
        kind: CertificateKind::Operator,
        summary: format!("by an operator's word: {}", asked.evidence),
        evidence: json!({"operator": who, "evidence": asked.evidence}),
    }
}
