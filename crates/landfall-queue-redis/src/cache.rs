//! Final states in Redis, each under `tx:{id}` for ten minutes, as JSON that others can read.
//!
//! **Rule:** what was forgotten does not come back: `{tx:ID}:floor` (on the same node of a cluster)
//! says up to which version nothing is taken any more, for as long as anybody could still hold it.
//! **Rule:** what another store has had written counts for nothing: ids come from clients' keys,
//! and a store that was begun anew would be given the same ones.
//! A Redis that does not answer is given a quarter of a second, by one caller at a time; the others
//! read the store at once.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::Clock;
use landfall_core::cache::{CacheError, StatusCache};
use redis::Script;
use serde_json::{Map, Value};

use crate::BadUrl;
use crate::link::Link;

/// How long a state is remembered.
const TTL_S: u64 = 600;
/// How long Redis may take. A read of the store takes less than a second that one would wait.
const TIMEOUT_MS: u64 = 250;

/// Names of fields beside the status: whose it is, and how new.
const STORE: &str = "store";
const VERSION: &str = "version";

/// What final transfers came to.
pub struct RedisStatusCache {
    link: Link,
    /// The identity of the store that the states are of.
    store: String,
    remember: Script,
}

impl RedisStatusCache {
    /// Connects when it is first used. `store` is the identity of the store that it stands before.
    pub fn new(url: &str, store: &str, clock: Arc<dyn Clock>) -> Result<RedisStatusCache, BadUrl> {
        let meaning = "final states are read from the store";
        let link = Link::meaning(crate::client(url)?, clock, TIMEOUT_MS, meaning);
        let remember = Script::new(include_str!("scripts/remember.lua"));
        Ok(RedisStatusCache { link, store: store.to_owned(), remember })
    }
}

fn key(id: &str) -> String {
    format!("tx:{id}")
}

fn floor(id: &str) -> String {
    format!("{{tx:{id}}}:floor")
}

#[async_trait]
impl StatusCache for RedisStatusCache {
    async fn get(&self, id: &str) -> Option<Map<String, Value>> {
        let mut get = redis::cmd("GET");
        get.arg(key(id));
        let held =
            self.link.ask(async |connection| get.query_async::<Option<String>>(connection).await);
        let held = held.await.ok()??;
        let Ok(Value::Object(mut body)) = serde_json::from_str(&held) else { return None };
        let ours = body.remove(STORE).is_some_and(|store| store == self.store.as_str());
        body.remove(VERSION);
        ours.then_some(body)
    }

    async fn put(&self, id: &str, version: u64, mut body: Map<String, Value>) {
        body.insert(VERSION.to_owned(), version.into());
        body.insert(STORE.to_owned(), self.store.as_str().into());
        let body = Value::Object(body).to_string();
        let put = self.link.ask(async |connection| {
            let mut put = self.remember.key(key(id));
            put.key(floor(id)).arg(version).arg(&body).arg(&self.store).arg(TTL_S);
            put.invoke_async::<()>(connection).await
        });
        // Whoever failed to remember has said so in the log; the store is read again.
        let _ = put.await;
    }

    async fn forget(&self, id: &str, version: u64) -> Result<(), CacheError> {
        let mut forget = redis::pipe();
        forget.atomic();
        forget.cmd("SET").arg(floor(id)).arg(version).arg("EX").arg(TTL_S).ignore();
        forget.cmd("DEL").arg(key(id)).ignore();
        let forgotten = self.link.ask(async |connection| forget.query_async(connection).await);
        forgotten.await.map_err(|error| CacheError(error.0))
    }
}
