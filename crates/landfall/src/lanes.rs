//! `landfall lanes serve`: the lane contract over HTTP, on the configured store, until it is told
//! to leave. It has no keys and no ledger: whoever asks signs, sends and looks.

use std::time::Duration;

use landfall_lanes_http::{Lanes, Secret, router};
use tokio::sync::watch;

use crate::cli::{LanesServeArguments, ReadArguments};
use crate::config::{self, Need};
use crate::dev::ground::store_sources;
use crate::doors::{Doors, Patience};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::serve::{Leave, listen};
use crate::{show, wire};

/// How long answers under way may take to finish. One takes milliseconds.
const GRACE: Duration = Duration::from_secs(10);
/// As the relay's own doors have it, unless they are told otherwise.
const PATIENCE: Patience = Patience { head_ms: 10_000, body_ms: Some(30_000), idle_ms: 75_000 };
const CONNECTIONS: u64 = 10_000;

pub async fn serve(arguments: &LanesServeArguments, read: &ReadArguments) -> Result<()> {
    let secrets = Secret::several(arguments.secret.expose())
        .map_err(|error| Failure::Mistaken(format!("LANDFALL_LANES_SECRET: {error}")))?;
    let config = config::load(&store_sources(&read.config, &read.data)?, Need::Store)?;
    wire::start_log(&config);
    let mut leave = Leave::new()?;
    // Of a store that is shared, others may have the folder's name and marks: none are needed here.
    let _folder = match config.store_url().is_shared() {
        true => None,
        false => Some(Folder::take(&config.instance.data)?),
    };
    let listener = listen(arguments.listen).await?;
    let address = listener.local_addr().unwrap_or(arguments.listen);
    let clock = wire::clock();
    let store = tokio::select! {
        opened = wire::open_patiently(&config, &clock) => opened?,
        () = leave.asked() => return Ok(()),
    };
    let lanes = Lanes { store, clock: clock.clone(), secrets };
    let (stop, stopped) = watch::channel(false);
    let doors = Doors::new(clock.clone(), PATIENCE, CONNECTIONS);
    let mut serving = tokio::spawn(doors.serve(listener, router(lanes), stopped));
    show::say(&format!("lanes at http://{address}/v1"));
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
