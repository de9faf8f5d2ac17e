//! Rules over several settings: what a command needs, and what contradicts what.
//!
//! Not here: whether a key is a well-formed key of its ledger (the rail says so when it is made).

use super::kinds::Auth;
use super::secret::SigningKeysFile;
use super::{Config, Need, Nodes, Reading, Retries, keys_of_file};

/// Completes the configuration (keys from their file) and finds what is missing or contradictory.
pub(super) fn complete(config: &mut Config, reading: &mut Reading, need: Need) {
    if need == Need::Store {
        return;
    }
    keys_from_file(config, reading);
    let wants_services = config.has_internal() || reading.is_mistaken("internal.services");
    let wants_others = wants_services || config.has_evm() || config.has_solana();
    if config.has_near() || !wants_others {
        ledger(config, reading, need);
    }
    if config.has_evm() {
        super::chains::complete(config, reading, need);
    }
    if config.has_solana() {
        super::pools::complete(config, reading, need);
    }
    services(config, reading);
    if matches!(need, Need::Take | Need::Serve) {
        callers(config, reading);
        timing(config, reading);
        log_level(config, reading);
    }
}

fn log_level(config: &Config, reading: &mut Reading) {
    let level = &config.log.level;
    if tracing_subscriber::EnvFilter::try_new(level).is_err() {
        reading.mistake(
            "log.level",
            format!("is {level:?}"),
            "give error, warn, info, debug or trace, or directives such as \
             \"info,landfall_engine=debug\"",
        );
    }
}

fn keys_from_file(config: &mut Config, reading: &mut Reading) {
    let Some(SigningKeysFile(path)) = config.near.access_keys_file.clone() else {
        return;
    };
    let setting = "near.access_keys_file";
    if !config.near.access_keys.is_empty() {
        reading.mistake(
            setting,
            "is given beside near.access_keys",
            "give one of the two (the variables are RELAY_ACCESS_KEYS and \
             LANDFALL_NEAR__ACCESS_KEYS)",
        );
        return;
    }
    match keys_of_file(&path) {
        Ok(keys) if !keys.is_empty() => config.near.access_keys = keys,
        Ok(_) => reading.mistake(setting, "names a file without keys", "put one on each line"),
        Err(why) => reading.mistake(
            setting,
            format!("({}) {why}", path.display()),
            "name a file of keys, one to a line, that this user may read",
        ),
    }
}

fn ledger(config: &Config, reading: &mut Reading, need: Need) {
    let near = &config.near;
    let no_keys = near.access_keys.is_empty() && need != Need::Take;
    let missing = [
        ("near.rpc_urls", near.rpc_urls.is_empty(), "NEAR_RPC_URL", "https://rpc.testnet.near.org"),
        ("near.token", near.token.is_none(), "FT_TOKEN_ADDRESS", "token.testnet"),
        ("near.relay_account", near.relay_account.is_none(), "RELAY_ACCOUNT_ID", "relay.testnet"),
        (
            "near.access_keys",
            no_keys && !reading.is_mistaken("near.access_keys_file"),
            "RELAY_ACCESS_KEYS",
            "[\"ed25519:…\"]",
        ),
    ];
    for (setting, is_missing, seed, example) in missing {
        if is_missing && !reading.is_mistaken(setting) {
            reading.mistake(
                setting,
                "is missing",
                format!("set it in the file or as {seed}, such as {example}"),
            );
        }
    }
    malformed_keys(config, reading);
    repeated_keys(config, reading);
    nodes("near", &near.nodes, near.rpc_urls.len() as u64, reading);
    if near.gas_per_transfer_tgas > near.gas_per_transaction_tgas {
        reading.mistake(
            "near.gas_per_transfer_tgas",
            "is more than near.gas_per_transaction_tgas",
            "one transfer has to fit one transaction",
        );
    }
}

/// Of any ledger's section that has so many in its `rpc_urls`.
pub(super) fn nodes(section: &str, nodes: &Nodes, count: u64, reading: &mut Reading) {
    if let Some(quorum) = nodes.quorum
        && count > 0
        && !(1..=count).contains(&quorum)
    {
        let message = format!("is {quorum}, of {count} in {section}.rpc_urls");
        let remedy = format!("give a number from 1 to {count}");
        reading.mistake(&format!("{section}.quorum"), message, remedy);
    }
    if nodes.breaker_open_ms > nodes.breaker_open_max_ms {
        reading.mistake(
            &format!("{section}.breaker_open_max_ms"),
            format!("is less than {section}.breaker_open_ms"),
            "give at least as much",
        );
    }
}

fn services(config: &Config, reading: &mut Reading) {
    let internal = &config.internal;
    if !config.has_internal() {
        return;
    }
    if internal.services.len() < 2 {
        let remedy = "give two or more: funds move from one to another";
        reading.mistake("internal.services", "has one service", remedy);
    }
    if internal.assets.is_empty() && !reading.is_mistaken("internal.assets") {
        let remedy = "list what can be moved, such as [{id = 1, symbol = \"BTC\", decimals = 8}]";
        reading.mistake("internal.assets", "is missing", remedy);
    }
    let names = internal.services.iter().map(|service| service.name.clone());
    repeated(reading, "internal.services", "name", names.collect());
    let ids = internal.assets.iter().map(|asset| asset.id.to_string());
    repeated(reading, "internal.assets", "id", ids.collect());
    let symbols = internal.assets.iter().map(|asset| asset.symbol.clone());
    repeated(reading, "internal.assets", "symbol", symbols.collect());
}

pub(super) fn repeated(reading: &mut Reading, setting: &str, what: &str, values: Vec<String>) {
    for (index, value) in values.iter().enumerate() {
        if values[..index].contains(value) {
            let message = format!("item {} has the {what} of another item", index + 1);
            reading.mistake(setting, message, format!("give each a {what} of its own"));
        }
    }
}

/// The outer form only; the rail reads the key itself.
fn malformed_keys(config: &Config, reading: &mut Reading) {
    let keys = config.near.access_keys.iter();
    for (index, key) in keys.enumerate() {
        let (curve, rest) = key.expose().split_once(':').unwrap_or_default();
        if !matches!(curve, "ed25519" | "secp256k1") || rest.is_empty() {
            reading.mistake(
                "near.access_keys",
                format!("item {} is no NEAR key", index + 1),
                "give it as ed25519:… (the private key, in base58)",
            );
        }
    }
}

/// One key twice would be two lanes with one nonce.
fn repeated_keys(config: &Config, reading: &mut Reading) {
    let keys = &config.near.access_keys;
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            reading.mistake(
                "near.access_keys",
                format!("item {} is there before", index + 1),
                "give every key once",
            );
        }
    }
}

fn callers(config: &Config, reading: &mut Reading) {
    let api = &config.api;
    let is_mistaken = reading.is_mistaken("api.keys") || reading.is_mistaken("api.auth");
    if api.auth == Auth::Keys && api.keys.is_empty() && !is_mistaken {
        reading.mistake(
            "api.keys",
            "is missing: without keys nobody could be let in, or everybody would",
            "add a key under [api], such as keys = [{key = \"…\", tenant = \"acme\"}], or say \
             auth = \"off\" (LANDFALL_API__AUTH=off) if only trusted callers reach the port",
        );
    }
    for (index, key) in api.keys.iter().enumerate() {
        if api.keys[..index].iter().any(|other| other.key == key.key) {
            let message = format!("item {} has the key of another item", index + 1);
            reading.mistake("api.keys", message, "give every caller a key of its own");
        }
    }
}

/// First and last pause of a rail that says anything of them; the engine's are looked at already.
fn own_retries(setting: &'static str, config: &Config, own: &Retries) -> (&'static str, u64, u64) {
    let (first_ms, max_ms) = match (own.retry_ms, own.retry_max_ms) {
        (None, None) => (0, 0),
        _ => config.retries_of(own),
    };
    (setting, first_ms, max_ms)
}

fn timing(config: &Config, reading: &mut Reading) {
    let engine = &config.engine;
    if engine.renew_ms * 2 > engine.lease_ms {
        reading.mistake(
            "engine.renew_ms",
            format!("is {}, with leases of {} ms", engine.renew_ms, engine.lease_ms),
            "give at most half of engine.lease_ms, or one late renewal loses the lanes",
        );
    }
    let ordered = [
        ("engine.rebroadcast_max_ms", engine.rebroadcast_ms, engine.rebroadcast_max_ms),
        ("engine.retry_max_ms", engine.retry_ms, engine.retry_max_ms),
        own_retries("near.retry_max_ms", config, &config.near.retries),
        own_retries("internal.retry_max_ms", config, &config.internal.retries),
        own_retries("evm.retry_max_ms", config, &config.evm.retries),
    ];
    for (setting, first, last) in ordered {
        if first > last {
            let message = format!("is {last}, less than the first pause of {first}");
            reading.mistake(setting, message, "give at least as much");
        }
    }
}
