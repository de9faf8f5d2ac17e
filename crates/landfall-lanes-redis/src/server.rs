//! Talking to the server: reads, and the one script that writes.

use std::collections::HashMap;
use std::ops::Range;

use landfall_core::store::{Result, StoreError, StoreIdentity};
use landfall_store_redis::{FitServer, OpenError, RedisOptions};
use parking_lot::Mutex;
use redis::{FromRedisValue, Pipeline, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::names;

/// Writes if everything is still as it was read; all of it or nothing.
const COMMIT: &str = "
local asked = cjson.decode(ARGV[1])
for _, one in ipairs(asked.expect) do
    local found = redis.call('GET', one[1])
    if (one[2] == nil and found) or (one[2] ~= nil and found ~= one[2]) then return 0 end
end
for _, command in ipairs(asked.commands) do redis.call(unpack(command)) end
return 1
";

/// How often a decision is made anew because somebody else wrote in between.
pub(crate) const TRIES: usize = 100;

/// A value, with the text that it was read from.
pub(crate) struct Kept<T> {
    pub name: String,
    pub text: String,
    pub value: T,
}

/// What is to be written, and what it was decided from.
#[derive(Default, Serialize)]
pub(crate) struct Commit {
    expect: Vec<Vec<String>>,
    commands: Vec<Vec<String>>,
}

impl Commit {
    /// As it was read; none: that it was not there.
    pub fn expect(&mut self, name: impl Into<String>, text: Option<&str>) {
        let mut one = vec![name.into()];
        one.extend(text.map(str::to_owned));
        self.expect.push(one);
    }

    pub fn unchanged<T>(&mut self, kept: &Kept<T>) {
        self.expect(kept.name.clone(), Some(&kept.text));
    }

    pub fn run(&mut self, command: &[&str]) {
        self.commands.push(command.iter().map(|word| (*word).to_owned()).collect());
    }

    pub fn set(&mut self, name: &str, value: &impl Serialize) -> Result<()> {
        let text = written(value)?;
        self.run(&["SET", name, &text]);
        Ok(())
    }
}

pub(crate) fn written(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

pub(crate) fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T> {
    let damaged = |error| StoreError::Corrupt(format!("{name} does not parse: {error}"));
    serde_json::from_str(text).map_err(damaged)
}

/// Somebody else always wrote in between: nothing happened.
pub(crate) fn crowded() -> StoreError {
    StoreError::Unavailable(format!("others wrote in between, {TRIES} times"))
}

/// Numbers that are drawn from the server at a time: each draw is a write that is synced.
const DRAWN_TOGETHER: u64 = 100;

pub(crate) struct Server {
    fit: FitServer,
    /// Numbers that were drawn and not given yet, by what they are for.
    drawn: Mutex<HashMap<String, Range<u64>>>,
}

impl Server {
    pub async fn connect(options: &RedisOptions) -> std::result::Result<Server, OpenError> {
        Ok(Server { fit: FitServer::connect(options).await?, drawn: Mutex::default() })
    }

    /// Asks several things in one round trip.
    pub async fn ask(&self, commands: &[&[&str]]) -> Result<Vec<Value>> {
        let mut pipeline = Pipeline::new();
        for words in commands {
            let mut command = redis::Cmd::new();
            words.iter().for_each(|word| _ = command.arg(*word));
            pipeline.add_command(command);
        }
        self.fit.pipeline(&pipeline).await
    }

    pub async fn one<T: FromRedisValue>(&self, command: &[&str]) -> Result<T> {
        let value = self.ask(&[command]).await?.pop().unwrap_or(Value::Nil);
        taken(value)
    }

    pub async fn get<T: DeserializeOwned>(&self, name: String) -> Result<Option<Kept<T>>> {
        let text: Option<String> = self.one(&["GET", &name]).await?;
        let Some(text) = text else { return Ok(None) };
        let value = read(&name, &text)?;
        Ok(Some(Kept { name, text, value }))
    }

    /// A number that was never given before.
    pub async fn fresh(&self, of: &str) -> Result<u64> {
        if let Some(next) = self.drawn.lock().get_mut(of).and_then(Iterator::next) {
            return Ok(next);
        }
        let together = DRAWN_TOGETHER.to_string();
        let last: u64 = self.one(&["HINCRBY", names::IDS, of, &together]).await?;
        let mut drawn = last + 1 - DRAWN_TOGETHER..last + 1;
        let first = drawn.next().unwrap_or(last);
        self.drawn.lock().insert(of.to_owned(), drawn);
        Ok(first)
    }

    /// Whether it was written; if not, something had changed, and nothing happened.
    pub async fn commit(&self, commit: &Commit) -> Result<bool> {
        // Empty lists must stay lists: what is not expected is left out by the script's `ipairs`.
        let asked = json!({ "expect": commit.expect, "commands": commit.commands }).to_string();
        let done: u64 = self.one(&["EVAL", COMMIT, "0", &asked]).await?;
        Ok(done == 1)
    }

    pub async fn identity(&self) -> Result<StoreIdentity> {
        let lost = |_| StoreError::Unavailable("redis: not all was answered".into());
        let asked: [&[&str]; 3] = [&["INFO", "server"], &["TIME"], &["GET", names::STORE]];
        let [info, time, id] = <[Value; 3]>::try_from(self.ask(&asked).await?).map_err(lost)?;
        let info: String = taken(info)?;
        let run = info.lines().find_map(|line| line.trim_end().strip_prefix("run_id:"));
        let incarnation = run.unwrap_or_default().to_owned();
        let id: Option<String> = taken(id)?;
        let id = match id {
            Some(id) => id,
            None => {
                let (seconds, micros): (u64, u64) = taken(time)?;
                let name = format!("{incarnation}-{seconds}-{micros}");
                let _: Value = self.one(&["SET", names::STORE, &name, "NX"]).await?;
                self.one(&["GET", names::STORE]).await?
            }
        };
        Ok(StoreIdentity { id, incarnation, shared: true })
    }
}

pub(crate) fn taken<T: FromRedisValue>(value: Value) -> Result<T> {
    redis::from_redis_value(value).map_err(|error| StoreError::Corrupt(format!("redis: {error}")))
}
