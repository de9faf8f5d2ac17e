//! The connection: one, shared and pipelined, made anew after it was lost.
//!
//! **Rule:** every call ends within `call_timeout`, whatever the server does. A call that timed out
//! or lost its connection drops it; the next call makes another, and has the server checked
//! (`server`) before anything is sent over it.
//! **Rule:** nothing is sent twice here. A call whose answer was lost may have been committed; the
//! caller knows what to do about it. (A script that the server does not know has not run: it is
//! loaded and called once more.)
//! **Rule:** no message shows a password: the server is named by its address alone.

use std::collections::HashMap;
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, Value};
use tokio::sync::Mutex;

use crate::fault::{self, Done, unavailable};
use crate::keys::Keys;
use crate::open::OpenError;
use crate::script::{Args, SCRIPTS, Script};
use crate::server::Facts;

/// One connection to the server that was found fit.
#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    number: u64,
}

/// The connection that calls share, if there is one at the moment.
#[derive(Default)]
struct Shared {
    live: Option<Live>,
    made: u64,
}

pub(crate) struct Link {
    client: Client,
    config: AsyncConnectionConfig,
    call_timeout: Duration,
    accepted: Vec<String>,
    /// The server's address, without secrets.
    pub place: String,
    pub keys: Keys,
    identity: OnceLock<String>,
    shared: Mutex<Shared>,
}

impl Link {
    pub(crate) fn new(
        client: Client,
        keys: Keys,
        call_timeout: Duration,
        accepted: Vec<String>,
    ) -> Link {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(call_timeout))
            // Calls are timed here as a whole.
            .set_response_timeout(None);
        let place = client.get_connection_info().addr().to_string();
        Link {
            client,
            config,
            call_timeout,
            accepted,
            place,
            keys,
            identity: OnceLock::new(),
            shared: Mutex::default(),
        }
    }

    /// Ties all later scripts to the store that was found.
    pub(crate) fn tie(&self, identity: String) {
        // Opened once, before anybody else has it.
        let _ = self.identity.set(identity);
    }

    /// Makes the first connection, and says why there can be none.
    pub(crate) async fn connect(&self) -> Result<(), OpenError> {
        let late = || OpenError::Unavailable {
            place: self.place.clone(),
            cause: format!("no answer within {:?}", self.call_timeout),
        };
        let live = tokio::time::timeout(self.call_timeout, self.live()).await;
        live.map_err(|_| late())?.map(|_| ())
    }

    /// Runs a script, which checks that this is still the store that was opened.
    pub(crate) async fn run(&self, script: &Script, args: Args) -> Done<Value> {
        let mut all = Vec::with_capacity(args.len() + 1);
        all.push(self.identity.get().map_or(Vec::new(), |id| id.clone().into_bytes()));
        all.extend(args);
        self.run_untied(script, &all).await
    }

    /// Runs a script that does not check.
    pub(crate) async fn run_untied(&self, script: &Script, args: &[Vec<u8>]) -> Done<Value> {
        let command = script.call(&self.keys.store(), args);
        self.call(|connection| evaluate(connection, &command)).await
    }

    pub(crate) async fn command(&self, command: &Cmd) -> Done<Value> {
        let ask = |mut connection: MultiplexedConnection| async move {
            command.query_async::<Value>(&mut connection).await
        };
        self.call(ask).await
    }

    /// Runs commands in one round trip; one answer each.
    pub(crate) async fn pipeline(&self, pipeline: &Pipeline) -> Done<Vec<Value>> {
        if pipeline.is_empty() {
            return Ok(Vec::new());
        }
        let ask = |mut connection: MultiplexedConnection| async move {
            pipeline.query_async::<Vec<Value>>(&mut connection).await
        };
        self.call(ask).await
    }

    async fn call<T, F>(&self, ask: impl FnOnce(MultiplexedConnection) -> F) -> Done<T>
    where
        F: Future<Output = Result<T, RedisError>>,
    {
        // Known outside the future, so that a call that is cut off can say which it was on.
        let used = OnceLock::new();
        let whole = async {
            let live = self.live().await.map_err(|refusal| unavailable(refusal.to_string()))?;
            let _ = used.set(live.number);
            ask(live.connection).await.map_err(|error| fault::of(&error))
        };
        let late = || unavailable(format!("redis: no answer within {:?}", self.call_timeout));
        let done =
            tokio::time::timeout(self.call_timeout, whole).await.unwrap_or_else(|_| Err(late()));
        if let (Err(landfall_core::store::StoreError::Unavailable(_)), Some(number)) =
            (&done, used.get())
        {
            self.drop_connection(*number).await;
        }
        done
    }

    /// Forgets the connection, unless somebody has made another meanwhile.
    async fn drop_connection(&self, number: u64) {
        let mut shared = self.shared.lock().await;
        if shared.live.as_ref().is_some_and(|live| live.number == number) {
            shared.live = None;
        }
    }

    /// The connection, made and checked if there is none. One caller makes it; the others wait.
    async fn live(&self) -> Result<Live, OpenError> {
        let mut shared = self.shared.lock().await;
        if let Some(live) = &shared.live {
            return Ok(live.clone());
        }
        let lost = |error: RedisError| OpenError::Unavailable {
            place: self.place.clone(),
            cause: error.to_string(),
        };
        let mut connection = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await
            .map_err(lost)?;
        let facts = facts(&mut connection).await.map_err(lost)?;
        if facts.is_loading() {
            let cause = "it is still loading its data".to_owned();
            return Err(OpenError::Unavailable { place: self.place.clone(), cause });
        }
        facts
            .check(&self.accepted)
            .map_err(|refusal| OpenError::Refused { place: self.place.clone(), refusal })?;
        load(&mut connection).await.map_err(lost)?;
        shared.made += 1;
        let live = Live { connection, number: shared.made };
        if live.number > 1 {
            tracing::info!(place = %self.place, "connected to redis again");
        }
        shared.live = Some(live.clone());
        Ok(live)
    }
}

/// Calls a script by its hash; loads the scripts first if the server has lost them.
async fn evaluate(
    mut connection: MultiplexedConnection,
    command: &Cmd,
) -> Result<Value, RedisError> {
    match command.query_async(&mut connection).await {
        Err(error) if error.code() == Some("NOSCRIPT") => {
            load(&mut connection).await?;
            command.query_async(&mut connection).await
        }
        answer => answer,
    }
}

async fn load(connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
    let mut pipeline = Pipeline::new();
    for script in SCRIPTS.all() {
        pipeline.add_command(script.load());
    }
    pipeline.query_async::<Vec<String>>(connection).await.map(|_| ())
}

async fn facts(connection: &mut MultiplexedConnection) -> Result<Facts, RedisError> {
    let info: String = redis::cmd("INFO").query_async(connection).await?;
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("appendfsync").arg("no-appendfsync-on-rewrite");
    let config = match ask.query_async::<HashMap<String, String>>(connection).await {
        Ok(config) => Some(config),
        // Refused by the server: an ACL, or a provider that has taken CONFIG away.
        Err(error) if error.code().is_some() => None,
        Err(error) => return Err(error),
    };
    Ok(Facts::new(&info, config))
}
