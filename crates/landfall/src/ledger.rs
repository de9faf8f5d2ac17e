//! `landfall ledger`, the built-in account service, and `landfall sim services`, two of them with
//! faults. Each leaves when it is told to; `kill -9` is just a slower shutdown.
//!
//! The account service has the relay's own doors. The simulators have none: they cut connections
//! on purpose, end all of them at a stop, and are for whoever started them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use landfall_ledger::faults::Switch;
use landfall_ledger::{Book, Contract, Faults, FaultsPatch, Kind, SimServices};
use tokio::sync::watch;

use crate::cli::{AccountKind, FaultArguments, LedgerArguments, ServicesArguments};
use crate::doors::{Doors, Patience};
use crate::failure::{Failure, Result};
use crate::serve::{Leave, listen};
use crate::{show, wire};

/// How long answers under way may take to finish. One takes milliseconds.
const GRACE: Duration = Duration::from_secs(10);
/// As the relay's own doors have it, unless they are told otherwise.
const PATIENCE: Patience = Patience { head_ms: 10_000, body_ms: Some(30_000), idle_ms: 75_000 };
const CONNECTIONS: u64 = 10_000;

pub async fn run(arguments: &LedgerArguments) -> Result<()> {
    let mut leave = Leave::new()?;
    let kind = match arguments.kind {
        AccountKind::Freeze => Kind::Freeze,
        AccountKind::Direct => Kind::Direct,
    };
    let opening = open(arguments, Contract::new(&arguments.name, kind));
    let book = tokio::select! {
        opened = opening => opened?,
        () = leave.asked() => return Ok(()),
    };
    let listener = listen(arguments.listen).await?;
    let address = listener.local_addr().unwrap_or(arguments.listen);
    let clock = wire::clock();
    let (stop, stopped) = watch::channel(false);
    let doors = Doors::new(clock.clone(), PATIENCE, CONNECTIONS);
    let routes = landfall_ledger::router(book, clock.clone());
    let mut serving = tokio::spawn(doors.serve(listener, routes, stopped));
    let (name, kind) = (&arguments.name, kind.name());
    show::say(&format!("account service {name} ({kind}) at http://{address}"));
    if !address.ip().is_loopback() {
        eprintln!("warning: whoever reaches {address} can move these accounts; guard the port");
    }
    tokio::select! {
        ended = &mut serving => {
            let why = ended.map_or_else(|error| error.to_string(), |ended| format!("{ended:?}"));
            return Err(Failure::Unable(format!("the server ended by itself: {why}")));
        }
        () = leave.asked() => {}
    }
    stop.send_replace(true);
    tokio::select! {
        _ = serving => {}
        () = clock.sleep(GRACE) => {}
        () = leave.asked() => {}
    }
    Ok(())
}

pub async fn simulate(arguments: &ServicesArguments) -> Result<()> {
    let mut leave = Leave::new()?;
    let faults = faults(&arguments.faults)?;
    let books = both(&arguments.data).await?;
    let listener = listen(arguments.listen).await?;
    let services = SimServices::start(listener, books, wire::clock(), faults, arguments.seed)?;
    show::say(&services.announcement().to_string());
    leave.asked().await;
    services.shutdown().await;
    Ok(())
}

/// A freezing service and a direct one, in the data folder.
pub async fn both(data: &Path) -> Result<Vec<Arc<dyn Book>>> {
    let funding = wire::book_in(data, Contract::new("funding", Kind::Freeze)).await?;
    Ok(vec![funding, wire::book_in(data, Contract::new("trading", Kind::Direct)).await?])
}

/// The book that the command names.
async fn open(arguments: &LedgerArguments, contract: Contract) -> Result<Arc<dyn Book>> {
    match (&arguments.store, &arguments.data) {
        (Some(url), _) => {
            let ca = arguments.store_ca.as_deref();
            wire::book_on(url.expose(), ca, contract, &wire::clock()).await
        }
        (None, Some(data)) => wire::book_in(data, contract).await,
        // The command line has one of them, or it would have been refused.
        (None, None) => Err(Failure::Mistaken("give --data FOLDER or --store URL".into())),
    }
}

fn faults(given: &FaultArguments) -> Result<Faults> {
    let patch = FaultsPatch {
        service: None,
        lose_request: Some(given.lose_request),
        lose_answer: Some(given.lose_answer),
        slow: Some(given.slow),
        slow_ms: Some(given.slow_ms),
        rate_limited: Some(given.rate_limited),
        server_error: Some(given.server_error),
        garbage: Some(given.garbage),
        late: Some(given.late),
        late_ms: Some(given.late_ms),
        refuse_deposit: Some(given.refuse_deposit),
        refuse_rollback: Some(given.refuse_rollback),
        down: Some(Switch::Bool(given.down)),
    };
    patch.check().map_err(Failure::Mistaken)?;
    let mut faults = Faults::default();
    patch.apply(&mut faults);
    Ok(faults)
}
