//! EVM chains, as settings: one in its own section, others in a list.

use landfall_core::evm::Address;
use landfall_rail_evm::Finality;
use landfall_rpc::Url;
use serde_json::Value;

use super::check::{nodes, repeated};
use super::secret::SigningKeysFile;
use super::services::Item;
use super::value::{Parse, Raw, Wrongs, choice, each, items, keep, text, wrong};
use super::{Config, Need, Reading, Secret, SigningKeys, keys_of_file};

const FIELDS: [&str; 8] =
    ["name", "rpc_urls", "chain_id", "signers", "signers_file", "forwarder", "finality", "window"];
const REMEDY: &str = "write {name = \"base\", rpc_urls = [\"https://…\"], signers = [\"0x…\"]}";

/// A chain beside the first.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainSpec {
    pub name: String,
    pub rpc_urls: Vec<Url>,
    pub chain_id: Option<u64>,
    pub signers: SigningKeys,
    pub signers_file: Option<SigningKeysFile>,
    pub forwarder: Option<Address>,
    pub finality: Option<Finality>,
    pub window: Option<u64>,
}

impl Parse for Address {
    const KIND: &'static str = "address of a contract";
    fn parse(raw: &Raw) -> Result<Address, Wrongs> {
        let text = text(raw, "an address in quotes")?;
        Address::parse(&text).or_else(|why| wrong(why, "give it as 0x and 40 hex digits"))
    }
}

impl Parse for Finality {
    const KIND: &'static str = "\"finalized\", \"safe\" or a number";
    fn parse(raw: &Raw) -> Result<Finality, Wrongs> {
        let text = text(raw, "finalized, safe or a number of confirmations")?;
        let remedy = "give \"finalized\", \"safe\", or a number of confirmations from 1";
        Finality::parse(&text).map_or_else(|| wrong(format!("is {text:?}"), remedy), Ok)
    }
}

/// Who signs and sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Executor {
    Native,
    OpenZeppelin,
}

impl Parse for Executor {
    const KIND: &'static str = "\"native\" or \"openzeppelin\"";
    fn parse(raw: &Raw) -> Result<Executor, Wrongs> {
        let choices = [("native", Executor::Native), ("openzeppelin", Executor::OpenZeppelin)];
        choice(raw, &choices)
    }
}

/// A relayer to which calls are handed over.
#[derive(Debug, Clone, PartialEq)]
pub struct RelayerSpec {
    pub name: String,
    pub url: Url,
    /// Which of those that it holds; empty where its routes name none.
    pub id: String,
    pub api_key: Option<Secret>,
    pub address: Option<Address>,
    /// Whether it has the routes of a service in front of one.
    pub bare: bool,
    /// How long one call to it may take, unless that is as long as usual.
    pub timeout_ms: Option<u64>,
}

const RELAYER_FIELDS: [&str; 7] =
    ["name", "url", "id", "api_key", "address", "routes", "timeout_ms"];
const RELAYER_REMEDY: &str = "write {url = \"http://10.0.0.5:8080\", id = \"relayer-1\"}";

impl Parse for Vec<RelayerSpec> {
    const KIND: &'static str = "list of {url, id, …}";
    fn parse(raw: &Raw) -> Result<Vec<RelayerSpec>, Wrongs> {
        each(&items(raw)?, relayer)
    }
}

fn relayer(number: usize, item: &Value) -> Result<RelayerSpec, Wrongs> {
    let mut found = Wrongs::new();
    let fields = Item::new(&mut found, number, item, (&RELAYER_FIELDS, RELAYER_REMEDY))?;
    let url = fields.needed("url", Item::filled, "has no url");
    let url = keep(
        &mut found,
        url.and_then(|url| Url::parse(&url).or_else(|error| fields.wrong(&format!("url {error}")))),
    );
    let bare = keep(
        &mut found,
        fields.filled("routes").and_then(|routes| match routes.as_deref() {
            None | Some("openzeppelin") => Ok(false),
            Some("bare") => Ok(true),
            Some(_) => fields.wrong("routes must be openzeppelin or bare"),
        }),
    );
    let id = keep(&mut found, fields.filled("id")).flatten();
    if bare == Some(false) && id.is_none() {
        keep(&mut found, fields.missing::<()>("has no id"));
    }
    let name = keep(&mut found, fields.filled("name")).flatten();
    let api_key = keep(&mut found, fields.filled("api_key")).flatten();
    let address: Option<Option<Address>> = keep(&mut found, fields.typed("address"));
    let timeout_ms = keep(&mut found, fields.number("timeout_ms")).flatten();
    if timeout_ms == Some(0) {
        keep(&mut found, fields.wrong::<()>("timeout_ms must be more than 0"));
    }
    match (url, bare, found.is_empty()) {
        (Some(url), Some(bare), true) => Ok(RelayerSpec {
            name: name.or(id.clone()).unwrap_or_else(|| format!("relayer-{number}")),
            url,
            id: id.unwrap_or_default(),
            api_key: api_key.map(Secret::new),
            address: address.flatten(),
            bare,
            timeout_ms,
        }),
        _ => Err(found),
    }
}

impl Parse for Vec<ChainSpec> {
    const KIND: &'static str = "list of {name, rpc_urls, …}";
    fn parse(raw: &Raw) -> Result<Vec<ChainSpec>, Wrongs> {
        each(&items(raw)?, chain)
    }
}

fn chain(number: usize, item: &Value) -> Result<ChainSpec, Wrongs> {
    let mut found = Wrongs::new();
    let fields = Item::new(&mut found, number, item, (&FIELDS, REMEDY))?;
    let name = keep(&mut found, fields.needed("name", Item::filled, "has no name"));
    let rpc_urls: Option<Vec<Url>> = keep(&mut found, fields.typed("rpc_urls"));
    let chain_id = keep(&mut found, fields.number("chain_id"));
    let signers: Option<SigningKeys> = keep(&mut found, fields.typed("signers"));
    let file = keep(&mut found, fields.filled("signers_file"));
    let forwarder: Option<Option<Address>> = keep(&mut found, fields.typed("forwarder"));
    let finality: Option<Option<Finality>> = keep(&mut found, fields.typed("finality"));
    let window = keep(&mut found, fields.number("window"));
    match (name, found.is_empty()) {
        (Some(name), true) => Ok(ChainSpec {
            name,
            rpc_urls: rpc_urls.unwrap_or_default(),
            chain_id: chain_id.flatten(),
            signers: signers.unwrap_or_default(),
            signers_file: file.flatten().map(|file| SigningKeysFile(file.into())),
            forwarder: forwarder.flatten(),
            finality: finality.flatten(),
            window: window.flatten().map(|window| window.clamp(1, 1_024)),
        }),
        _ => Err(found),
    }
}

/// Completes the chains (keys from their files) and finds what is missing.
pub(super) fn complete(config: &mut Config, reading: &mut Reading, need: Need) {
    let takes_only = need == Need::Take;
    let evm = &mut config.evm;
    if let (Some(SigningKeysFile(path)), false) = (&evm.signers_file, takes_only) {
        match keys_of_file(path) {
            Ok(keys) => evm.signers.0.extend(keys.0),
            Err(why) => {
                let message = format!("({}) {why}", path.display());
                reading.mistake("evm.signers_file", message, "name a file of keys, one to a line");
            }
        }
    }
    for chain in &mut evm.chains {
        if takes_only {
            chain.signers = SigningKeys::default();
            continue;
        }
        let Some(SigningKeysFile(path)) = &chain.signers_file else { continue };
        match keys_of_file(path) {
            Ok(keys) => chain.signers.0.extend(keys.0),
            Err(why) => {
                let message = format!("{}: signers_file ({}) {why}", chain.name, path.display());
                reading.mistake("evm.chains", message, "name a file of keys, one to a line");
            }
        }
    }
    missing(config, reading, takes_only);
    let evm = &config.evm;
    nodes("evm", &evm.nodes, evm.rpc_urls.len() as u64, reading);
    let names = evm.chains.iter().map(|chain| chain.name.clone());
    repeated(
        reading,
        "evm.chains",
        "name",
        std::iter::once(evm.name.clone()).chain(names).collect(),
    );
}

fn missing(config: &Config, reading: &mut Reading, takes_only: bool) {
    let evm = &config.evm;
    if evm.rpc_urls.is_empty() && !reading.is_mistaken("evm.rpc_urls") {
        let remedy = "set it in the file or as LANDFALL_EVM__RPC_URLS, such as \
                      http://127.0.0.1:8545";
        reading.mistake("evm.rpc_urls", "is missing", remedy);
    }
    let has_signer = !evm.signers.is_empty() || evm.keystore.is_some();
    let is_mistaken =
        ["evm.signers", "evm.signers_file"].iter().any(|one| reading.is_mistaken(one));
    let names = evm.relayers.iter().map(|relayer| relayer.name.clone());
    repeated(reading, "evm.relayers", "name", names.collect());
    if evm.executor == Executor::OpenZeppelin {
        if evm.relayers.is_empty() && !reading.is_mistaken("evm.relayers") {
            reading.mistake("evm.relayers", "is missing", RELAYER_REMEDY);
        }
    } else if !has_signer && !takes_only && !is_mistaken {
        let remedy = "set it in the file or as LANDFALL_EVM__SIGNERS, such as [\"0x…\"]";
        reading.mistake("evm.signers", "is missing", remedy);
    }
    if evm.keystore.is_some() != evm.keystore_password_file.is_some() {
        let remedy = "give evm.keystore and evm.keystore_password_file, or neither";
        reading.mistake(
            "evm.keystore",
            "is given without its password, or that without it",
            remedy,
        );
    }
    for chain in &evm.chains {
        let lacks = match (chain.rpc_urls.is_empty(), chain.signers.is_empty() && !takes_only) {
            (true, _) => "has no rpc_urls",
            (_, true) => "has no signers",
            _ => continue,
        };
        reading.mistake("evm.chains", format!("{} {lacks}", chain.name), REMEDY);
    }
}
