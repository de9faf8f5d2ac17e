//! `landfall dev`: everything on this machine, in one process and one folder.
//!
//! The relay is the real one; only the ledger is simulated, and it speaks the real protocol over
//! loopback; the account services are the built-in ones.
//! Not here: what they are and where that is written down ([`ground`]).

pub mod chain;
pub mod ground;
pub mod pool;

use std::net::SocketAddr;

use landfall_engine::Role;

use crate::cli::DevArguments;
use crate::config::{self, Config, Need};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::serve::{Leave, listen, until_told};
use crate::{show, wire};
use ground::{Chosen, Ground, USER};

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
    let ground = Ground::lay(folder, &arguments.data, Chosen::By(arguments.evm.as_deref())).await?;
    let config = configuration(arguments)?;
    wire::start_log(&config);
    let clock = wire::clock();
    let relay = tokio::select! {
        started = wire::start(&config, Role::Both, &ground.folder, clock.clone()) => started?,
        () = leave.asked() => return Ok(()),
    };
    let address = listener.local_addr().unwrap_or(arguments.listen);
    show::say(&welcome(address, &ground, arguments, clock.now_ms()));
    until_told(relay, listener, &config, clock, leave).await?;
    ground.shutdown().await;
    Ok(())
}

fn configuration(arguments: &DevArguments) -> Result<Config> {
    let listen = Some(arguments.listen.to_string());
    let mut sources = ground::sources(&arguments.data).with_flag("api.listen", "--listen", listen);
    if !sources.variables.contains_key("LANDFALL_LOG__FORMAT") {
        sources = sources.with_flag("log.format", "dev", Some("pretty".into()));
    }
    Ok(config::load(&sources, Need::Serve)?)
}

/// As it was called: what works from this directory.
fn program() -> String {
    let name = std::env::args_os().next().map(|name| name.to_string_lossy().into_owned());
    in_shell(&name.unwrap_or_else(|| "landfall".into()))
}

/// A word as a shell wants it.
fn in_shell(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "/._-+:@%,=".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Where everything is, and lines to try that work as printed: their key is new on every start.
fn welcome(address: SocketAddr, ground: &Ground, arguments: &DevArguments, now_ms: u64) -> String {
    let said = ground.ledger.announcement();
    let accounts = ground.services.announcement()["services"].clone();
    let url = |name: &str| accounts[name].as_str().unwrap_or_default().to_owned();
    let (funding, trading) = (url("funding"), url("trading"));
    let rpc = said["rpc_url"].as_str().unwrap_or_default();
    let key = format!("try-{}", now_ms / 1_000);
    let data = in_shell(&arguments.data.display().to_string());
    let program = program();
    let (what, evm) = (ground.chain.kind(), ground.chain.shown());
    let calls = ground.chain.lines(address, &key);
    let (solana, withdraws) = (ground.pool.shown(), ground.pool.lines(address, &key));
    format!(
        "\
Landfall dev: a real relay on a simulated NEAR, {what},
a simulated Solana with a shield pool and two account services, all here.

  API     http://{address}  (in a browser: http://{address}/docs)
  NEAR    {rpc}  (simulated)
  paid    {rpc}/sim/transfers
  EVM     {evm}
  Solana  {solana}
  funds   {funding}/accounts/{USER}
          {trading}/accounts/{USER}
  data    {data}  (start again: it goes on; delete it: it begins anew)

Pay somebody:

  curl -i http://{address}/transfer -H 'X-Idempotency-Key: {key}' \
-H 'Content-Type: application/json' -d '{{\"receiver_id\":\"alice.near\",\"amount\":\"1000000\"}}'

and see it land:

  curl 'http://{address}/transfer/{key}?wait=30s'

Move 1.5 of the 10 BTC that user {USER} has in funding to trading:

  curl -i http://{address}/api/v1/transfer -H 'Idempotency-Key: {key}' \
-H 'Content-Type: application/json' -d '{{\"from\":\"funding\",\"to\":\"trading\",\
\"user_id\":{USER},\"asset\":\"BTC\",\"amount\":\"1.5\"}}'

{calls}
{withdraws}
Look into the folder, from this directory, now or after it was stopped:

  {program} transfers list --data {data}
  {program} lanes --data {data}
  {program} check --data {data}
  {program} audit --data {data}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_word_is_one_word_to_a_shell() {
        assert_eq!(in_shell("target/debug/landfall"), "target/debug/landfall");
        assert_eq!(in_shell("my data/it's"), r"'my data/it'\''s'");
    }
}
