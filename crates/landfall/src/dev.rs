//! `landfall dev`: everything on this machine, in one process and one folder.
//!
//! The relay is the real one; only the ledger is simulated, and it speaks the real protocol over
//! loopback; the account services are the built-in ones. Nothing is read from `landfall.toml`, and
//! of the environment only `LANDFALL_ENGINE__…` and `LANDFALL_LOG__…`, so that a trial never
//! reaches a real network.

use std::net::SocketAddr;
use std::num::NonZeroU64;

use landfall_engine::Role;
use landfall_ledger::{AccountId, Faults, Operation, SimServices, Terms};
use landfall_sim::near::{SimConfig, SimNear};
use serde_json::json;

use crate::cli::DevArguments;
use crate::config::{self, Config, Need, Sources};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::serve::{Leave, listen, until_told};
use crate::{ledger as accounts, show, sim, wire};

/// Lanes of the relay: enough to see several at work.
const KEYS: usize = 5;
/// Half of NEAR's own, for people who wait.
const BLOCK_MS: u64 = 300;
/// The ledger's own file in the data folder.
const LEDGER_FILE: &str = "near.sim";
/// A user with something to move, and what: 10 BTC and 50,000 USDT.
const USER: u64 = 4001;
const FUNDS: [(u32, NonZeroU64); 2] =
    [(1, NonZeroU64::new(1_000_000_000).unwrap()), (2, NonZeroU64::new(50_000_000_000).unwrap())];
const ASSETS: &str = r#"[{"id": 1, "symbol": "BTC", "decimals": 8},
    {"id": 2, "symbol": "USDT", "decimals": 6}]"#;
/// Settings that may come from the environment.
const VARIABLES: [&str; 2] = ["LANDFALL_ENGINE__", "LANDFALL_LOG__"];

pub async fn run(arguments: &DevArguments) -> Result<()> {
    if !arguments.listen.ip().is_loopback() {
        return Err(Failure::Mistaken(format!(
            "dev has no API keys and listens on loopback only, not on {}; use `landfall serve` to \
             be reached by others",
            arguments.listen
        )));
    }
    let mut leave = Leave::new()?;
    let folder = Folder::take(&arguments.data)?;
    let listener = listen(arguments.listen).await?;
    let ledger = sim::start(SimConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        keys: KEYS,
        block_ms: BLOCK_MS,
        state: Some(arguments.data.join(LEDGER_FILE)),
        ..SimConfig::default()
    })
    .await?;
    let services = services(arguments).await?;
    let config = configuration(arguments, &ledger, &services)?;
    wire::start_log(&config);
    let clock = wire::clock();
    let relay = tokio::select! {
        started = wire::start(&config, Role::Both, &folder, clock.clone()) => started?,
        () = leave.asked() => return Ok(()),
    };
    let address = listener.local_addr().unwrap_or(arguments.listen);
    show::say(&welcome(address, (&ledger, &services), arguments, clock.now_ms()));
    until_told(relay, listener, &config, clock, leave).await?;
    ledger.shutdown().await;
    services.shutdown().await;
    Ok(())
}

/// Two account services, and a user with something to move. Funded once: the reference is the same
/// on every start.
async fn services(arguments: &DevArguments) -> Result<SimServices> {
    let clock = wire::clock();
    let books = accounts::both(&arguments.data).await?;
    let fund = |(asset_id, amount): (u32, NonZeroU64)| Operation::Fund {
        reference: format!("dev-{USER}-{asset_id}"),
        terms: Terms { account: AccountId { user_id: USER, asset_id }, amount },
    };
    let funds = FUNDS.map(fund).to_vec();
    let funded = books[0].apply(funds, clock.now_ms()).await;
    funded.map_err(|error| Failure::Unable(error.to_string()))?;
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    Ok(SimServices::start(listener, books, clock, Faults::default(), 1)?)
}

fn configuration(
    arguments: &DevArguments,
    ledger: &SimNear,
    services: &SimServices,
) -> Result<Config> {
    let urls = &services.announcement()["services"];
    let internal = json!([
        {"name": "funding", "url": urls["funding"], "freezes": true, "dedupe_window_s": "forever"},
        {"name": "trading", "url": urls["trading"], "freezes": false, "dedupe_window_s": "forever"},
    ]);
    let said = ledger.announcement();
    let text = |name: &str| said[name].as_str().map(str::to_owned);
    let mut sources = Sources::surroundings(None)
        .with_flag("api.listen", "--listen", Some(arguments.listen.to_string()))
        .with_flag("api.auth", "dev", Some("off".into()))
        .with_flag("instance.data", "--data", Some(arguments.data.display().to_string()))
        .with_flag("near.rpc_urls", "dev", text("rpc_url"))
        .with_flag("near.token", "dev", text("token"))
        .with_flag("near.relay_account", "dev", text("relay_account"))
        .with_flag("near.access_keys", "dev", Some(said["access_keys"].to_string()))
        .with_flag("internal.services", "dev", Some(internal.to_string()))
        .with_flag("internal.assets", "dev", Some(ASSETS.to_owned()));
    sources.folder = None;
    sources.file = None;
    sources.variables.retain(|name, _| VARIABLES.iter().any(|prefix| name.starts_with(prefix)));
    if !sources.variables.contains_key("LANDFALL_LOG__FORMAT") {
        sources = sources.with_flag("log.format", "dev", Some("pretty".into()));
    }
    Ok(config::load(&sources, Need::Serve)?)
}

/// Where everything is, and a line to try that works as printed: its key is new on every start.
fn welcome(
    address: SocketAddr,
    (ledger, services): (&SimNear, &SimServices),
    arguments: &DevArguments,
    now_ms: u64,
) -> String {
    let said = ledger.announcement();
    let accounts = services.announcement()["services"].clone();
    let url = |name: &str| accounts[name].as_str().unwrap_or_default().to_owned();
    let (funding, trading) = (url("funding"), url("trading"));
    let rpc = said["rpc_url"].as_str().unwrap_or_default();
    let key = format!("try-{}", now_ms / 1_000);
    let data = arguments.data.display();
    format!(
        "\
Landfall dev: a real relay on a simulated NEAR and two account services, all on this machine.

  API     http://{address}  (try it in a browser: http://{address}/docs)
  NEAR    {rpc}  simulated; what was paid: {rpc}/sim/transfers
  funds   {funding}/accounts/{USER} and {trading}/accounts/{USER}
  data    {data}  (start again and it goes on; delete it and it begins anew)

Pay somebody:

  curl -i http://{address}/transfer -H 'X-Idempotency-Key: {key}' \
-H 'Content-Type: application/json' -d '{{\"receiver_id\":\"alice.near\",\"amount\":\"1000000\"}}'

and see it land:

  curl 'http://{address}/transfer/{key}?wait=30s'
  landfall transfers list --data {data}

Move 1.5 of the 10 BTC that user {USER} has in funding to trading:

  curl -i http://{address}/api/v1/transfer -H 'Idempotency-Key: {key}' \
-H 'Content-Type: application/json' -d '{{\"from\":\"funding\",\"to\":\"trading\",\
\"user_id\":{USER},\"asset\":\"BTC\",\"amount\":\"1.5\"}}'
"
    )
}
