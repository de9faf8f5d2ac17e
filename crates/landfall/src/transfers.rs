//! `landfall transfers get|list|watch` and `landfall lanes`: what the store says, read directly.
//!
//! They read the store and not the API, so that they work when the relay does not run, which is
//! when somebody needs them. They write nothing.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::{ListFilter, Store};
use landfall_core::{Clock, Lane, RailName, State, TrailEntry, Transfer, TransferId};
use serde_json::{Value, json};

use crate::cli::{KeyArguments, ListArguments, WatchArguments};
use crate::examine::{self, Description};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, Table, short, time};

/// How often a watched store is read again: as often as a person can follow.
const WATCH: Duration = Duration::from_millis(500);
/// Characters that tell keys and accounts apart on a narrow terminal.
const NAME_WIDTH: usize = 10;
/// The same of lanes, which end with their key.
const LANE_WIDTH: usize = 20;
/// The same of assets.
const ASSET_WIDTH: usize = 7;
/// Characters of a hash that tell it from others.
const HASH_WIDTH: usize = 12;

/// Shows every transfer with the key: each rail has keys of its own.
pub async fn get(store: &Arc<dyn Store>, show: &Show, asked: &KeyArguments) -> Result<()> {
    for transfer in find(store, asked).await? {
        let trail = store.trail(transfer.id).await?;
        print_story(show, &transfer, &trail);
    }
    Ok(())
}

/// At least one.
async fn find(store: &Arc<dyn Store>, asked: &KeyArguments) -> Result<Vec<Transfer>> {
    let (tenant, key) = (asked.tenant.as_str(), asked.key.as_str());
    let named = asked.rail;
    let mut found = Vec::new();
    for examiner in examine::all().filter(|one| named.is_none_or(|named| named == one.rail())) {
        for key in examiner.stored_keys(tenant, key) {
            found.extend(store.by_key(examiner.rail(), tenant, &key).await?);
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let whose = if tenant.is_empty() { String::new() } else { format!(" of tenant {tenant:?}") };
    Err(Failure::No(format!(
        "no transfer{whose} has the key {key:?}; with API keys in use, name its tenant by --tenant"
    )))
}

/// What it asks for, as its rail tells it.
pub fn described(transfer: &Transfer) -> Description {
    examine::of(transfer.payload.rail()).describe(&transfer.payload)
}

pub async fn list(store: &Arc<dyn Store>, show: &Show, asked: &ListArguments) -> Result<()> {
    let mut transfers = Vec::new();
    for filter in filters(asked)? {
        transfers.extend(store.list(filter).await?);
    }
    transfers.sort_by_key(|transfer| std::cmp::Reverse(transfer.id));
    transfers.truncate(asked.limit as usize);
    if show.json {
        show.value(&transfers.iter().map(|one| transfer_json(one, None)).collect());
        return Ok(());
    }
    show.table(&table_of(&transfers));
    if transfers.len() == asked.limit as usize {
        let last = transfers.last().map_or(0, |transfer| transfer.id.0);
        show.line(&show.paint(Style::Dim, &format!("more: add --before {last}")));
    }
    Ok(())
}

/// Amounts are in the asset's own units, and never cut: half of one would be another.
fn table_of(transfers: &[Transfer]) -> Table {
    // Without API keys nobody has one.
    let tenants = transfers.iter().any(|transfer| !transfer.tenant.is_empty());
    let mut head = vec!["ID", "RAIL", "KEY", "STATUS", "RECEIVER", "AMOUNT", "ASSET", "TX"];
    head.extend(["RETRIES", "CREATED"]);
    head.extend(tenants.then_some("TENANT"));
    let names = ["KEY", "RECEIVER", "TENANT"].map(|name| (name, NAME_WIDTH));
    let cuts = [names.as_slice(), &[("ASSET", ASSET_WIDTH)]].concat();
    let spares = ["RETRIES", "TX", "CREATED", "ID", "TENANT", "RAIL", "RECEIVER"];
    let mut table = Table::new(&head).narrowing(&cuts, &spares);
    for transfer in transfers {
        let Description { client_key, amount, asset, .. } = described(transfer);
        let mut row = vec![
            (Style::Dim, transfer.id.to_string()),
            (Style::Plain, transfer.payload.rail().to_string()),
            (Style::Bold, client_key.unwrap_or_else(|| transfer.key.clone())),
            (style_of(transfer.state), transfer.state.name().to_owned()),
            (Style::Plain, transfer.payload.receiver().into_owned()),
            (Style::Plain, amount),
            (Style::Plain, asset),
            (Style::Dim, short(transfer.tx_hash.as_deref().unwrap_or("-"), HASH_WIDTH)),
            (Style::Plain, transfer.retry_count.to_string()),
            (Style::Dim, time(transfer.created_ms)),
        ];
        row.extend(tenants.then(|| (Style::Plain, transfer.tenant.clone())));
        table.row(row);
    }
    table
}

/// One for every state of that name: rails may share a name.
fn filters(asked: &ListArguments) -> Result<Vec<ListFilter>> {
    let states = match &asked.state {
        None => vec![None],
        Some(name) => states_named(name)?.into_iter().map(Some).collect(),
    };
    let filter = |state| ListFilter {
        rail: asked.rail,
        tenant: asked.tenant.clone(),
        state,
        receiver: asked.receiver.clone(),
        before: asked.before.map(TransferId),
        limit: asked.limit as usize,
        ..ListFilter::default()
    };
    Ok(states.into_iter().map(filter).collect())
}

fn states_named(name: &str) -> Result<Vec<State>> {
    let all: Vec<State> = RailName::ALL.into_iter().flat_map(State::all).collect();
    let wanted = name.replace('-', "_");
    let is_wanted = |state: &State| state.name().eq_ignore_ascii_case(&wanted);
    let found: Vec<State> = all.iter().copied().filter(is_wanted).collect();
    if found.is_empty() {
        let names: Vec<&str> = all.iter().map(|state| state.name()).collect();
        let message = format!("{name:?} is no state; there are {}", names.join(", "));
        return Err(Failure::Mistaken(message));
    }
    Ok(found)
}

/// Follows one transfer until it is final, or the whole store until it is interrupted.
pub async fn watch(
    store: &Arc<dyn Store>,
    clock: &dyn Clock,
    show: &Show,
    asked: &WatchArguments,
) -> Result<()> {
    match &asked.key {
        Some(key) => {
            let (key, tenant, rail) = (key.clone(), asked.tenant.clone(), asked.rail);
            watch_one(store, clock, show, &KeyArguments { key, tenant, rail }).await
        }
        None => watch_counts(store, clock, show).await,
    }
}

async fn watch_one(
    store: &Arc<dyn Store>,
    clock: &dyn Clock,
    show: &Show,
    asked: &KeyArguments,
) -> Result<()> {
    let mut shown = 0;
    loop {
        let found = find(store, asked).await?;
        let [transfer] = found.as_slice() else {
            let key = &asked.key;
            let message = format!("{key:?} is a key on several rails; name one by --rail");
            return Err(Failure::Mistaken(message));
        };
        let trail = store.trail(transfer.id).await?;
        for entry in trail.iter().skip(shown) {
            match show.json {
                true => show.line(&event_json(entry).to_string()),
                false => show.line(&event_line(show, entry)),
            }
        }
        shown = trail.len();
        if transfer.state.is_final() {
            return Ok(());
        }
        clock.sleep(WATCH).await;
    }
}

async fn watch_counts(store: &Arc<dyn Store>, clock: &dyn Clock, show: &Show) -> Result<()> {
    let mut last = Vec::new();
    loop {
        let counts = store.counts().await?;
        if counts != last {
            let now = time(clock.now_ms());
            if show.json {
                let states: serde_json::Map<String, Value> =
                    counts.iter().map(|(state, n)| (state.name().into(), (*n).into())).collect();
                show.line(&json!({"time": now, "counts": states}).to_string());
            } else {
                let words: Vec<String> = counts
                    .iter()
                    .map(|(state, n)| {
                        show.paint(style_of(*state), &format!("{} {n}", state.name()))
                    })
                    .collect();
                show.line(&format!("{}  {}", show.paint(Style::Dim, &now), words.join("  ")));
            }
            last = counts;
        }
        clock.sleep(WATCH).await;
    }
}

/// Lanes, their holders and what is in flight on them.
pub async fn lanes(store: &Arc<dyn Store>, show: &Show, now_ms: u64) -> Result<()> {
    let lanes = store.lanes().await?;
    let mut rows = Vec::with_capacity(lanes.len());
    for lane in &lanes {
        rows.push((lane, store.open_attempts(&lane.id).await?.len()));
    }
    if show.json {
        show.value(&rows.iter().map(|(lane, open)| lane_json(lane, *open)).collect());
        return Ok(());
    }
    let head = ["LANE", "HOLDER", "EPOCH", "NEXT NONCE", "OPEN", "STATUS"];
    let cuts = [("LANE", LANE_WIDTH), ("HOLDER", NAME_WIDTH)];
    let mut table = Table::new(&head).narrowing(&cuts, &["EPOCH", "NEXT NONCE"]);
    for (lane, open) in rows {
        let (style, status) = lane_status(lane, now_ms);
        table.row(vec![
            (Style::Bold, lane.id.to_string()),
            (Style::Plain, lane.holder.clone().unwrap_or_else(|| "-".into())),
            (Style::Dim, lane.epoch.to_string()),
            (Style::Plain, lane.next_nonce.map_or("-".into(), |nonce| nonce.to_string())),
            (Style::Plain, open.to_string()),
            (style, status),
        ]);
    }
    show.table(&table);
    Ok(())
}

fn lane_status(lane: &Lane, now_ms: u64) -> (Style, String) {
    match (&lane.halted, &lane.holder) {
        (Some(halt), _) => (Style::Bad, format!("halted: {}", halt.reason)),
        (None, Some(_)) if lane.lease_until_ms > now_ms => (Style::Good, "held".into()),
        (None, _) => (Style::Warn, "free".into()),
    }
}

fn lane_json(lane: &Lane, open: usize) -> Value {
    let mut value = serde_json::to_value(lane).unwrap_or_default();
    value["open_attempts"] = open.into();
    value
}

pub fn print_story(show: &Show, transfer: &Transfer, trail: &[TrailEntry]) {
    if show.json {
        show.value(&transfer_json(transfer, Some(trail)));
        return;
    }
    let described = described(transfer);
    let own_key = described.client_key.as_deref().unwrap_or(&transfer.key);
    show.line(&format!(
        "{}  {}",
        show.paint(Style::Bold, own_key),
        show.paint(style_of(transfer.state), transfer.state.name()),
    ));
    let line = |name: &str, text: &str| {
        show.line(&format!("  {}  {text}", show.paint(Style::Dim, &format!("{name:<9}"))));
    };
    line("id", &transfer.id.to_string());
    if own_key != transfer.key {
        line("req_id", &transfer.key);
    }
    for (name, text) in described.lines {
        line(name, &text);
    }
    if let Some(hash) = &transfer.tx_hash {
        line("tx", hash);
    }
    line("retries", &transfer.retry_count.to_string());
    if let Some(aside) = &transfer.aside {
        line("set aside", aside);
    }
    for entry in trail {
        show.line(&format!("  {}", event_line(show, entry)));
    }
}

fn event_line(show: &Show, entry: &TrailEntry) -> String {
    let style = match entry.event {
        landfall_core::TrailEvent::Entered(state) => style_of(state),
        landfall_core::TrailEvent::Noted(_) => Style::Warn,
    };
    let mut text = format!(
        "{}  {}",
        show.paint(Style::Dim, &time(entry.at_ms)),
        show.paint(style, entry.event.name())
    );
    if let Some(hash) = &entry.tx_hash {
        text.push_str(&format!("  {hash}"));
    }
    if let Some(error) = &entry.error {
        text.push_str(&format!("  {}: {}", error.error_type, error.message));
    }
    if let Some(certificate) = &entry.certificate {
        text.push_str(&format!("  {}", certificate.summary));
    }
    text
}

fn style_of(state: State) -> Style {
    match (state.is_completed(), state.is_failed()) {
        (true, _) => Style::Good,
        (_, true) => Style::Bad,
        _ => Style::Warn,
    }
}

/// The fields and names of the API.
pub fn transfer_json(transfer: &Transfer, trail: Option<&[TrailEntry]>) -> Value {
    let mut value = json!({
        "id": transfer.id.0,
        "rail": transfer.payload.rail(),
        "transfer_id": transfer.key,
        "tenant": transfer.tenant,
        "status": transfer.state.name(),
        "receiver_id": transfer.payload.receiver(),
        "amount": transfer.payload.amount().to_string(),
        "tx_hash": transfer.tx_hash,
        "created_at": time(transfer.created_ms),
        "updated_at": time(transfer.updated_ms),
        "completed_at": transfer.completed_ms.map(time),
        "retry_count": transfer.retry_count,
        "error": transfer.error,
        "aside": transfer.aside,
    });
    for (name, field) in described(transfer).fields {
        value[name] = field;
    }
    if let Some(trail) = trail {
        value["events"] = trail.iter().map(event_json).collect();
    }
    value
}

fn event_json(entry: &TrailEntry) -> Value {
    json!({
        "time": time(entry.at_ms),
        "event": entry.event.name(),
        "tx_hash": entry.tx_hash,
        "error": entry.error,
        "certificate": entry.certificate,
    })
}
