//! `landfall dead list|show|replay`: what failed, proven unmoved, and reopening it.
//!
//! **Rule:** before anything is reopened it is shown what its client was told, and what was asked
//! for again since.
//! Not here: what may be replayed (`landfall_engine::dead`).

use std::sync::Arc;

use landfall_core::store::Store;
use landfall_core::{Transfer, TransferId};
use landfall_engine::dead::{self, Replay, ReplayError};
use serde_json::json;

use crate::cli::{DeadListArguments, ReadArguments, ReplayArguments};
use crate::config::{self, Need};
use crate::dev::ground::store_sources;
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, Table, time};
use crate::transfers::{described, print_story, transfer_json};
use crate::wire;

pub async fn list(store: &Arc<dyn Store>, show: &Show, asked: &DeadListArguments) -> Result<()> {
    let limit = asked.limit as usize;
    let before = asked.before.map(TransferId);
    let found = dead::list(&**store, asked.rail, before, limit).await?;
    if show.json {
        show.value(&found.iter().map(|one| transfer_json(one, None)).collect());
        return Ok(());
    }
    if found.is_empty() {
        show.line(&show.paint(Style::Good, "no dead letters"));
        return Ok(());
    }
    let head = ["ID", "RAIL", "KEY", "RECEIVER", "AMOUNT", "ASSET", "FAILED", "WHY"];
    let mut table = Table::new(&head);
    for transfer in &found {
        let told = described(transfer);
        table.row(vec![
            (Style::Bold, transfer.id.to_string()),
            (Style::Plain, transfer.payload.rail().to_string()),
            (Style::Plain, told.client_key.unwrap_or_else(|| transfer.key.clone())),
            (Style::Plain, transfer.payload.receiver().into_owned()),
            (Style::Plain, told.amount),
            (Style::Plain, told.asset),
            (Style::Dim, transfer.completed_ms.map_or("-".into(), time)),
            (Style::Warn, why(transfer).to_owned()),
        ]);
    }
    show.table(&table);
    if found.len() == limit {
        let last = found.last().map_or(0, |transfer| transfer.id.0);
        show.line(&show.paint(Style::Dim, &format!("more: add --before {last}")));
    }
    Ok(())
}

fn why(transfer: &Transfer) -> &str {
    transfer.error.as_ref().map_or("-", |fault| &fault.message)
}

pub async fn show(store: &Arc<dyn Store>, show: &Show, id: u64) -> Result<()> {
    let id = TransferId(id);
    let found = store.transfers(&[id]).await?.pop();
    let none = || Failure::No(format!("there is no dead letter {id}; see `landfall dead list`"));
    let transfer = found.filter(|found| found.state.is_failed()).ok_or_else(none)?;
    let trail = store.trail(id).await?;
    let others = dead::look_alikes(&**store, &transfer).await?;
    if show.json {
        let mut value = transfer_json(&transfer, Some(&trail));
        value["look_alikes"] = others.iter().map(|other| transfer_json(other, None)).collect();
        value["replayable"] = dead::is_replayable(&transfer).into();
        show.value(&value);
        return Ok(());
    }
    print_story(show, &transfer, &trail);
    let since = transfer.completed_ms.map_or("-".into(), time);
    show.line(&format!("its client is told {} since {since}", transfer.state.name()));
    for other in &others {
        let (key, state) = (&other.key, other.state.name());
        let again = format!("asked for again: transfer {} ({key:?}), {state}", other.id);
        show.line(&show.paint(Style::Warn, &again));
    }
    if !dead::is_replayable(&transfer) {
        let rail = transfer.payload.rail();
        show.line(&show.paint(Style::Dim, &format!("the rail {rail} reopens nothing")));
    }
    Ok(())
}

/// Beside running relays, but for SQLite, whose one writer they are: there by their API.
pub async fn replay(asked: &ReplayArguments, read: &ReadArguments) -> Result<()> {
    let sources = store_sources(&read.config, &read.data)?;
    let config = config::load(&sources, Need::Store)?;
    let clock = wire::clock();
    let store = wire::open_existing_store_to_write(&config, clock.clone()).await;
    let store = store.map_err(|failure| {
        let id = asked.id;
        Failure::Unable(format!("{failure}; a relay that runs does it: POST /dead/{id}/replay"))
    })?;
    let cache = wire::open_cache(&config, &store, &clock).await?;
    let wish = Replay { reason: asked.reason.clone(), anyway: asked.anyway };
    let (id, now_ms) = (TransferId(asked.id), clock.now_ms());
    let reopened = dead::replay(&*store, cache.as_deref(), id, &wish, now_ms).await;
    let reopened = reopened.map_err(|error| match error {
        ReplayError::Store(error) => error.into(),
        ReplayError::Cache(_) | ReplayError::Moved => Failure::Unable(error.to_string()),
        ReplayError::LookAlikes(_) => Failure::No(format!("{error}: add --anyway")),
        _ => Failure::No(error.to_string()),
    })?;
    let show = Show::on_stdout(read.json);
    let state = reopened.state.name();
    match show.json {
        true => show.value(&json!({"transfer": id.0, "state": state})),
        false => show.line(&format!("transfer {id} is {state} again; the relay goes on with it")),
    }
    Ok(())
}
