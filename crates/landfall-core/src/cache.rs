//! The seam of what is remembered beside the store: final states, so that reading them again costs
//! the store nothing.
//!
//! The store decides; a cache that is down, slow or empty only makes reads slower. Only what is
//! final is given to it, with its version: a failure may be reopened by a replay, and nothing else
//! leaves a final state. Whoever reopens a transfer has it forgotten first.

use async_trait::async_trait;
use serde_json::{Map, Value};

/// A cache that could not be told to forget: it may show what is about to be untrue.
#[derive(Debug, Clone, thiserror::Error)]
#[error("cache unavailable: {0}")]
pub struct CacheError(pub String);

/// Remembers what final transfers came to, for a while.
#[async_trait]
pub trait StatusCache: Send + Sync + 'static {
    /// What is remembered of `id`; none where nothing is, or the cache cannot be asked. MUST end
    /// within a short time.
    async fn get(&self, id: &str) -> Option<Map<String, Value>>;
    /// Remembers what `id` came to in `version`. MUST NOT replace what is of a later version, nor
    /// bring back what was forgotten. Whether it did matters to nobody.
    async fn put(&self, id: &str, version: u64, body: Map<String, Value>);
    /// Forgets `id` as it was in `version` and before, also if somebody who has read it so puts it
    /// later.
    async fn forget(&self, id: &str, version: u64) -> Result<(), CacheError>;
}
