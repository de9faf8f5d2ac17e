//! What the API is told when it starts.
//!
//! **Rule:** an API key is held as its SHA-256 digest from here on; neither is ever shown, not even
//! by `Debug`.
//! Not here: files and environment variables (the binary reads them).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::cache::StatusCache;
use landfall_core::near::Terms;
use landfall_core::solana::Door;
use landfall_core::{BadField, Clock, evm, internal};
use sha2::{Digest, Sha256};

/// Everything about the API that can be set.
#[derive(Clone)]
pub struct ApiConfig {
    /// What every NEAR payout has in common; none where that rail is switched off.
    pub near: Option<Terms>,
    /// Whether transfers are taken here at all; a process that only works on them says so.
    pub takes: bool,
    /// The gateway between services; none where that rail is switched off.
    pub internal: Option<Gateway>,
    /// The chains on which calls are relayed; none where that rail is switched off.
    pub evm: Option<EvmTerms>,
    /// Reads withdraws on Solana; none where that rail is switched off.
    pub solana: Option<Arc<dyn Door>>,
    pub auth: Auth,
    /// Largest body of one transfer. 64 KiB is two hundred times what one needs.
    pub body_limit_bytes: usize,
    /// Largest body of many transfers: 1,000 of about 4 KiB each.
    pub many_limit_bytes: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// Transfers in one request: one commit's worth, so that no request holds up the others.
    pub many_max: usize,
    /// Requests per second and API key, each transfer of many counting as one; none is no limit.
    pub rate_limit_per_s: Option<u32>,
    /// Asked for final statuses before the store is; none where every read is the store's.
    pub cache: Option<Arc<dyn StatusCache>>,
    /// Whether `/metrics` is for everybody; else it wants a key that may operate.
    pub metrics_open: bool,
    /// How long an attempt is open before `GET /transfers?adrift=true` shows its members. The
    /// default is when a fence is sent, far beyond what a healthy ledger takes.
    pub adrift_after_ms: u64,
    /// Shown in `/health` and `/openapi.json`.
    pub version: String,
    pub clock: Arc<dyn Clock>,
}

impl ApiConfig {
    /// The defaults: no rail, no API keys, no rate limit.
    pub fn new(version: impl Into<String>, clock: Arc<dyn Clock>) -> ApiConfig {
        ApiConfig {
            near: None,
            takes: true,
            internal: None,
            evm: None,
            solana: None,
            auth: Auth::Off,
            body_limit_bytes: 64 * 1024,
            many_limit_bytes: 4 * 1024 * 1024,
            body_timeout: Duration::from_secs(30),
            many_max: 1_000,
            rate_limit_per_s: None,
            cache: None,
            metrics_open: false,
            adrift_after_ms: 60_000,
            version: version.into(),
            clock,
        }
    }
}

/// What the gateway between services is told.
#[derive(Debug, Clone)]
pub struct Gateway {
    /// Services and assets.
    pub terms: internal::Terms,
    /// Whether every request must bring an idempotency key.
    pub key_required: bool,
    /// How long a request waits for its transfer to be final.
    pub patience: Duration,
}

/// What the EVM rail is told: its chains.
#[derive(Debug, Clone)]
pub struct EvmTerms {
    /// Meant where a request names none.
    pub default: evm::Terms,
    pub others: Vec<evm::Terms>,
}

impl EvmTerms {
    /// The chain that a request means.
    pub fn chain(&self, name: Option<&str>) -> Result<&evm::Terms, BadField> {
        let Some(name) = name else { return Ok(&self.default) };
        let known = || {
            let names = self.names().join(", ");
            BadField::new("chain", format!("unknown chain {name:?}; known are: {names}"))
        };
        self.all().find(|terms| terms.chain == name).ok_or_else(known)
    }

    /// By name, the default one first.
    pub fn names(&self) -> Vec<&str> {
        self.all().map(|terms| terms.chain.as_str()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &evm::Terms> {
        std::iter::once(&self.default).chain(&self.others)
    }
}

/// Who is let in.
#[derive(Debug, Clone)]
pub enum Auth {
    /// Everybody, as one nameless tenant. For loopback, and for those who said so by name.
    Off,
    Keys(Vec<ApiKey>),
}

/// What an API key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Submit,
    Read,
    /// See what concerns all tenants (alerts, metrics, dead letters), and reopen those.
    Operate,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Submit, Scope::Read, Scope::Operate];

    pub fn name(self) -> &'static str {
        match self {
            Scope::Submit => "submit",
            Scope::Read => "read",
            Scope::Operate => "operate",
        }
    }

    pub fn parse(name: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// One API key: its digest, whose it is and what it may do.
#[derive(Clone)]
pub struct ApiKey {
    pub(crate) digest: [u8; 32],
    /// Scope of the idempotency keys sent with it.
    pub tenant: String,
    pub scopes: Vec<Scope>,
}

/// A digest that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not the SHA-256 of an API key: give 64 hexadecimal digits")]
pub struct BadApiKey;

impl ApiKey {
    /// Of the key itself, which is forgotten at once.
    pub fn from_secret(secret: &str, tenant: &str, scopes: &[Scope]) -> ApiKey {
        let digest = Sha256::digest(secret.as_bytes()).into();
        ApiKey { digest, tenant: tenant.to_owned(), scopes: scopes.to_vec() }
    }

    /// Of the key's SHA-256 in hexadecimal, as configurations keep it.
    pub fn from_sha256_hex(hex: &str, tenant: &str, scopes: &[Scope]) -> Result<ApiKey, BadApiKey> {
        let digits = hex.as_bytes();
        let mut digest = [0; 32];
        if digits.len() != 2 * digest.len() {
            return Err(BadApiKey);
        }
        for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(ApiKey { digest, tenant: tenant.to_owned(), scopes: scopes.to_vec() })
    }
}

fn nibble(digit: u8) -> Result<u8, BadApiKey> {
    let value = char::from(digit).to_digit(16).ok_or(BadApiKey)?;
    Ok(value as u8)
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiKey")
            .field("tenant", &self.tenant)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}
