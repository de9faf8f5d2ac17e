//! Configuration: one TOML file and the environment, read once at start.
//!
//! A flag beats a `LANDFALL_` variable, that beats a variable of the relay Landfall replaces, that
//! beats the file, that beats the default. Every mistake is found before any is told, each with its
//! place and its remedy. All settings are one list ([`settings`]), from which the sections, the
//! reader and `docs/configuration.md` are made.
//!
//! Not here: opening what is configured (`wire`), the flags themselves (`cli`).

mod chains;
mod check;
mod kinds;
mod mistake;
mod pools;
mod reference;
mod secret;
mod services;
mod settings;
mod source;
mod table;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use chains::{Executor, RelayerSpec};
pub use kinds::{
    ApiKey, Auth, CacheUrl, DIGEST_PREFIX, LogFormat, Metrics, QueueUrl, Scope, StoreUrl,
};
pub use mistake::{Mistake, Mistakes, Place};
pub use reference::{json as reference_json, markdown as reference_markdown};
pub use secret::{Secret, SigningKeys};
pub use services::ServiceSpec;
pub use settings::{Config, Nodes, Retries, SETTINGS};

use source::Given;
use table::{Reader, Setting};
use value::{Parse, Raw, Wrongs};

/// The file that is read when none is named, if it exists.
pub const DEFAULT_FILE: &str = "landfall.toml";
/// The store's file in the data folder.
pub const STORE_FILE: &str = "landfall.db";

/// What a command needs to be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Only to read the store: mistakes elsewhere are nobody's business at 3 am.
    Store,
    /// The store and the ledger, to compare them.
    Ledger,
    /// Everything but signing keys, which are not even read: for a process that takes transfers and
    /// leaves the signing to others.
    Take,
    /// Everything.
    Serve,
}

/// All there is to read a configuration from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Named by a flag; then it must exist.
    pub file: Option<PathBuf>,
    /// Where the default file is looked for, if anywhere.
    pub folder: Option<PathBuf>,
    pub variables: BTreeMap<String, String>,
    /// `section.key`, the flag's name, its text.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

impl Sources {
    /// The process's own surroundings.
    pub fn surroundings(file: Option<PathBuf>) -> Sources {
        // A variable that is not Unicode cannot be one of ours with a value we could take.
        let variables = std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
            .collect();
        let file = file.or_else(|| std::env::var_os("LANDFALL_CONFIG").map(PathBuf::from));
        Sources { file, folder: Some(PathBuf::new()), variables, flags: Vec::new() }
    }

    pub fn with_flag(
        mut self,
        setting: &'static str,
        flag: &'static str,
        text: Option<String>,
    ) -> Sources {
        self.flags.extend(text.map(|text| (setting, flag, text)));
        self
    }
}

/// Reads, checks, and returns either a configuration without mistakes or all of them.
pub fn load(sources: &Sources, need: Need) -> Result<Config, Mistakes> {
    let mut mistakes = Vec::new();
    let mut unread = Vec::new();
    let mut given = read_file(sources, &mut mistakes, &mut unread);
    let (own, seeds) = source::from_environment(&sources.variables, &mut mistakes);
    given.extend(seeds);
    given.extend(own);
    for (setting, flag, text) in &sources.flags {
        given.insert((*setting).to_owned(), (Place::Flag(flag), Raw::Text(text.clone())));
    }
    let mut reading = Reading { given, mistakes, need };
    let mut config = Config::read(&mut reading);
    check::complete(&mut config, &mut reading, need);
    // What an unreadable file leaves out is not missing.
    let relevant = |mistake: &Mistake| {
        (need != Need::Store || concerns_store(mistake))
            && (unread.is_empty() || mistake.place != Place::Missing)
    };
    let found: Vec<Mistake> = reading.mistakes.into_iter().filter(relevant).collect();
    let mistakes: Vec<Mistake> = unread.into_iter().chain(found).collect();
    if mistakes.is_empty() { Ok(config) } else { Err(Mistakes(mistakes)) }
}

/// Reading the store needs to know where it is, no more.
fn concerns_store(mistake: &Mistake) -> bool {
    let setting = mistake.setting.as_deref().unwrap_or_default();
    setting.starts_with("store.") || setting.starts_with("instance.")
}

fn read_file(sources: &Sources, mistakes: &mut Vec<Mistake>, unread: &mut Vec<Mistake>) -> Given {
    let default = sources.folder.as_ref().map(|folder| folder.join(DEFAULT_FILE));
    let Some(path) = sources.file.clone().or_else(|| default.filter(|path| path.exists())) else {
        return Given::new();
    };
    let read = match std::fs::read_to_string(&path) {
        Ok(text) => source::from_file(&path, &text, mistakes),
        Err(error) => Err(Mistake {
            place: Place::Flag("--config"),
            setting: None,
            message: format!("{} cannot be read ({error})", path.display()),
            remedy: "name a file that exists and may be read".into(),
        }),
    };
    read.unwrap_or_else(|mistake| {
        unread.push(mistake);
        Given::new()
    })
}

/// Values that were given, and the mistakes found on the way.
struct Reading {
    given: Given,
    mistakes: Vec<Mistake>,
    need: Need,
}

impl Reading {
    /// Where a setting was given.
    fn place(&self, setting: &str) -> Place {
        self.given.get(setting).map_or(Place::Missing, |(place, _)| place.clone())
    }

    fn mistake(&mut self, setting: &str, message: impl Into<String>, remedy: impl Into<String>) {
        self.mistakes.push(Mistake {
            place: self.place(setting),
            setting: Some(setting.to_owned()),
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    fn is_mistaken(&self, setting: &str) -> bool {
        self.mistakes.iter().any(|mistake| mistake.setting.as_deref() == Some(setting))
    }
}

impl Reader for Reading {
    fn given<T: Parse>(&mut self, setting: &Setting) -> Option<T> {
        if setting.signs && self.need == Need::Take {
            return None;
        }
        let name = setting.name();
        let raw = self.given.get(&name)?.1.clone();
        match T::parse(&raw) {
            Ok(value) if self.in_range(setting, &raw) => Some(value),
            Ok(_) => None,
            Err(wrongs) => {
                for wrong in wrongs {
                    self.mistake(&name, wrong.message, wrong.remedy);
                }
                None
            }
        }
    }
}

impl Reading {
    fn in_range(&mut self, setting: &Setting, raw: &Raw) -> bool {
        let (Some((least, most)), Ok(number)) = (setting.range, u64::parse(raw)) else {
            return true;
        };
        let fits = (least..=most).contains(&number);
        if !fits {
            let remedy = format!("give a number from {least} to {most}");
            self.mistake(&setting.name(), format!("is {number}, out of range"), remedy);
        }
        fits
    }
}

impl Config {
    /// Whether anything of the NEAR rail is configured.
    pub fn has_near(&self) -> bool {
        let near = &self.near;
        !near.rpc_urls.is_empty()
            || near.token.is_some()
            || near.relay_account.is_some()
            || !near.access_keys.is_empty()
            || near.access_keys_file.is_some()
    }

    /// Whether anything of the EVM rail is configured.
    pub fn has_evm(&self) -> bool {
        let evm = &self.evm;
        !evm.rpc_urls.is_empty() || !evm.signers.is_empty() || !evm.chains.is_empty()
    }

    /// Whether anything of the Solana rail is configured.
    pub fn has_solana(&self) -> bool {
        let solana = &self.solana;
        !solana.rpc_urls.is_empty() || solana.keypair_path.is_some() || !solana.keypairs.is_empty()
    }

    /// Whether users' funds can be moved between services.
    pub fn has_internal(&self) -> bool {
        !self.internal.services.is_empty()
    }

    /// First and longest pause of a rail's failed steps: its own, or the engine's.
    pub fn retries_of(&self, own: &Retries) -> (u64, u64) {
        let engine = &self.engine;
        (own.retry_ms.unwrap_or(engine.retry_ms), own.retry_max_ms.unwrap_or(engine.retry_max_ms))
    }

    /// Where hints go: as configured, or as fits the store.
    pub fn queue_url(&self) -> QueueUrl {
        match (&self.queue.url, self.store_url()) {
            (Some(url), _) => url.clone(),
            (None, StoreUrl::Redis(url)) => QueueUrl::Redis(url),
            (None, StoreUrl::Postgres(_) | StoreUrl::Mysql(_)) => QueueUrl::Store,
            (None, StoreUrl::Sqlite(_) | StoreUrl::Memory) => QueueUrl::Ring,
        }
    }

    /// Where final statuses are kept at hand; not before a store that is that Redis itself.
    pub fn cache_url(&self) -> Option<&Secret> {
        let CacheUrl(url) = self.cache.url.as_ref()?;
        (self.store_url() != StoreUrl::Redis(url.clone())).then_some(url)
    }

    /// Where the store is: as configured, or in the data folder.
    pub fn store_url(&self) -> StoreUrl {
        let in_data_folder = || StoreUrl::Sqlite(self.instance.data.join(STORE_FILE));
        self.store.url.clone().unwrap_or_else(in_data_folder)
    }
}

/// Reads keys: one to a line (empty lines and `#` comments aside), or a JSON array.
fn keys_of_file(path: &Path) -> Result<SigningKeys, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot be read ({error})"))?;
    if text.trim_start().starts_with('[') {
        let raw = Raw::Text(text);
        let told = |wrongs: Wrongs| wrongs.into_iter().map(|wrong| wrong.message);
        return SigningKeys::parse(&raw)
            .map_err(|wrongs| told(wrongs).collect::<Vec<_>>().join(", "));
    }
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(SigningKeys(lines.map(Secret::new).collect()))
}

#[cfg(test)]
mod tests;
