//! `landfall audit internal`: the transfers of the store against the services' own records.
//!
//! Funds are conserved per request, also while everything runs: `conservation` tells how the cut is
//! made. Services without a statement (only the built-in one has it) are named, and what they took
//! part in is not proven.
//! Not here: the rules (`conservation`), reading a service (`statement`).

mod conservation;
mod statement;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;

use landfall_core::internal::{Order, State};
use landfall_core::store::Store;
use landfall_core::{RailName, Transfer, machine};
use landfall_ledger::{AccountId, Kind, ReqId, Terms};
use landfall_rpc::HttpTransport;
use serde_json::{Value, json};

use crate::audit::{Audited, each_transfer, print_differences};
use crate::config::{Config, ServiceSpec};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, Table, counted};
use crate::wire;
use conservation::{Asked, End, Facts, Records, Verdict};
use statement::{Reader, Unread};

pub async fn audit(config: &Config, store: &Arc<dyn Store>, show: &Show) -> Result<Audited> {
    let (facts, silent) = gather(config, store).await?;
    let verdict = conservation::compare(&facts);
    if !show.json {
        print(show, &facts, &verdict, &silent);
    }
    let unproven = (!silent.is_empty() || verdict.unproven > 0).then(|| {
        format!(
            "no difference was found, but {} transfers are not proven: only the built-in account \
             service keeps a statement that can be read ({})",
            verdict.unproven,
            match silent.is_empty() {
                true => "their services are not configured any more".to_owned(),
                false => format!("{} does not", silent.join(" and ")),
            }
        )
    });
    let differences = verdict.differences.len();
    let report = report(&facts, &verdict, &silent);
    Ok(Audited { rail: RailName::Internal, report, differences, unproven })
}

/// The transfers, the records, and the services that keep none.
async fn gather(config: &Config, store: &Arc<dyn Store>) -> Result<(Facts, Vec<String>)> {
    let mut transfers = read_transfers(store).await?;
    let transport = Arc::new(HttpTransport::new());
    let (mut readers, mut silent) = (Vec::new(), Vec::new());
    for spec in &config.internal.services {
        let reader = Reader::new(spec, transport.clone(), wire::clock()).map_err(unable)?;
        match reader.head().await {
            Ok(deposits_until) => readers.push((spec, reader, deposits_until)),
            Err(Unread::NoStatement { name }) => silent.push(name),
            Err(error) => return Err(unable(error)),
        }
    }
    let mut cut = Vec::with_capacity(readers.len());
    for (spec, reader, deposits_until) in readers {
        let until = reader.head().await.map_err(unable)?;
        cut.push((spec, reader, deposits_until, until));
    }
    let mut services = Vec::with_capacity(cut.len());
    for (spec, reader, deposits_until, until) in cut {
        let lines = reader.lines(until).await.map_err(unable)?;
        let balances = reader.balances().await.map_err(unable)?;
        let (name, kind) = (spec.name.clone(), kind(spec));
        services.push(Records { name, kind, deposits_until, until, lines, balances });
    }
    let requests = conservation::requests(&services);
    if requests.iter().any(|req_id| !transfers.contains_key(req_id)) {
        add_the_meanwhile(store, &requests, &mut transfers).await?;
    }
    Ok((Facts { transfers, services }, silent))
}

fn unable(error: Unread) -> Failure {
    Failure::Unable(format!("{error}; try again, or see `landfall check`"))
}

fn kind(spec: &ServiceSpec) -> Kind {
    if spec.freezes { Kind::Freeze } else { Kind::Direct }
}

async fn read_transfers(store: &Arc<dyn Store>) -> Result<BTreeMap<ReqId, Asked>> {
    let mut transfers = BTreeMap::new();
    each_transfer(store, RailName::Internal, |transfer| transfers.extend(asked(transfer))).await?;
    Ok(transfers)
}

/// Transfers that were taken while the services were read: theirs, and not final then.
async fn add_the_meanwhile(
    store: &Arc<dyn Store>,
    requests: &BTreeSet<ReqId>,
    transfers: &mut BTreeMap<ReqId, Asked>,
) -> Result<()> {
    for (req_id, asked) in read_transfers(store).await? {
        if requests.contains(&req_id) {
            transfers.entry(req_id).or_insert(Asked { end: None, ..asked });
        }
    }
    Ok(())
}

/// None of what no service can ever have been asked: an id that is no UUID, an amount of nothing.
fn asked(transfer: &Transfer) -> Option<(ReqId, Asked)> {
    let Order { source, target, user_id, asset_id, amount, .. } = transfer.payload.internal()?;
    let account = AccountId { user_id: *user_id, asset_id: *asset_id };
    let end = match transfer.state {
        machine::State::Internal(State::Committed) => Some(End::Committed),
        machine::State::Internal(State::RolledBack) => Some(End::RolledBack),
        machine::State::Internal(State::Failed) => Some(End::Failed),
        _ => None,
    };
    let asked = Asked {
        source: source.clone(),
        target: target.clone(),
        terms: Terms { account, amount: NonZeroU64::new(*amount)? },
        end,
    };
    Some((transfer.key.parse().ok()?, asked))
}

fn ended(facts: &Facts, end: Option<End>) -> usize {
    facts.transfers.values().filter(|asked| asked.end == end).count()
}

fn print(show: &Show, facts: &Facts, verdict: &Verdict, silent: &[String]) {
    show.line(&format!(
        "{} ({} committed, {} rolled back, {} failed, {} unfinished, of which {} are under way)",
        counted(facts.transfers.len(), "transfer"),
        ended(facts, Some(End::Committed)),
        ended(facts, Some(End::RolledBack)),
        ended(facts, Some(End::Failed)),
        ended(facts, None),
        verdict.in_flight,
    ));
    let mut table = Table::new(&["SERVICE", "KIND", "OPERATIONS", "ACCOUNTS", "STATEMENT"]);
    for records in &facts.services {
        let (style, word) = match adds_up(verdict, &records.name) {
            true => (Style::Good, "adds up"),
            false => (Style::Bad, "does not add up"),
        };
        table.row(vec![
            (Style::Bold, records.name.clone()),
            (Style::Plain, records.kind.name().to_owned()),
            (Style::Plain, records.until.to_string()),
            (Style::Plain, records.balances.len().to_string()),
            (style, word.to_owned()),
        ]);
    }
    for name in silent {
        let dash = || (Style::Dim, "-".to_owned());
        let word = (Style::Warn, "has none that can be read".to_owned());
        table.row(vec![(Style::Bold, name.clone()), dash(), dash(), dash(), word]);
    }
    show.table(&table);
    let differences: Vec<(&str, &str)> =
        verdict.differences.iter().map(|one| (one.kind, one.message.as_str())).collect();
    print_differences(show, &differences, "store and services");
}

fn adds_up(verdict: &Verdict, service: &str) -> bool {
    !verdict.differences.iter().any(|one| one.service.as_deref() == Some(service))
}

fn report(facts: &Facts, verdict: &Verdict, silent: &[String]) -> Value {
    let service = |records: &Records| {
        json!({
            "name": records.name,
            "kind": records.kind.name(),
            "operations": records.until,
            "accounts": records.balances.len(),
            "adds_up": adds_up(verdict, &records.name),
        })
    };
    let differences = verdict.differences.iter().map(|difference| {
        json!({
            "kind": difference.kind,
            "message": difference.message,
            "req_id": difference.req_id.map(|req_id| req_id.to_string()),
            "service": difference.service,
        })
    });
    json!({
        "rail": RailName::Internal.as_str(),
        "ok": verdict.differences.is_empty() && verdict.unproven == 0 && silent.is_empty(),
        "transfers": facts.transfers.len(),
        "committed": ended(facts, Some(End::Committed)),
        "rolled_back": ended(facts, Some(End::RolledBack)),
        "failed": ended(facts, Some(End::Failed)),
        "unfinished": ended(facts, None),
        "in_flight": verdict.in_flight,
        "unproven": verdict.unproven,
        "services": facts.services.iter().map(service).collect::<Vec<Value>>(),
        "without_statement": silent,
        "differences": differences.collect::<Vec<Value>>(),
    })
}
