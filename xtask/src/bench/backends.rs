//! The store and the queue of a benchmark: real servers with data that lasts, started for one run.
//!
//! Every server syncs what it acknowledges (Redis: `appendfsync always`; the others as they are
//! shipped), because a store that can forget would be measured for something nobody should run.
//! A Redis that is the store carries the hints too, as it does by default.
//! Not here: what a relay makes of them (docs/choosing.md).

use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use landfall_servers::{MariaDb, Postgres, Redis, RedisOptions, Server, Sqs};
use serde_json::Value;

use crate::report::Report;

/// Variables by which somebody's own servers would be measured, or filled, instead of ours.
const NOT_OURS: [&str; 4] =
    ["DATABASE_URL", "REDIS_URL", "LANDFALL_STORE__URL", "LANDFALL_QUEUE__URL"];

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Choice {
    /// Where the truth is: a file, or a server started for the run.
    #[arg(long, value_enum, default_value = "sqlite")]
    pub store: StoreKind,
    /// How hints go; unless given, what fits the store, as in the configuration.
    #[arg(long, value_enum)]
    pub queue: Option<QueueKind>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    #[default]
    Sqlite,
    Postgres,
    Mysql,
    Redis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueKind {
    Ring,
    Store,
    Redis,
    Sqs,
}

impl Choice {
    pub fn queue(self) -> QueueKind {
        self.queue.unwrap_or(match self.store {
            StoreKind::Sqlite => QueueKind::Ring,
            StoreKind::Postgres | StoreKind::Mysql => QueueKind::Store,
            StoreKind::Redis => QueueKind::Redis,
        })
    }

    pub fn store_name(self) -> &'static str {
        match self.store {
            StoreKind::Sqlite => "sqlite",
            StoreKind::Postgres => "postgres",
            StoreKind::Mysql => "mysql",
            StoreKind::Redis => "redis",
        }
    }

    pub fn queue_name(self) -> &'static str {
        match self.queue() {
            QueueKind::Ring => "ring",
            QueueKind::Store => "store",
            QueueKind::Redis => "redis",
            QueueKind::Sqs => "sqs",
        }
    }

    /// A start makes its schema, but leaves queues that cost money to an operator.
    pub fn wants_migration(self) -> bool {
        self.queue() == QueueKind::Sqs
    }

    /// What the relay must be built with beyond its default.
    pub fn features(self) -> &'static [&'static str] {
        match self.queue() {
            QueueKind::Sqs => &["landfall/sqs"],
            QueueKind::Ring | QueueKind::Store | QueueKind::Redis => &[],
        }
    }
}

type Guard = Box<dyn Deref<Target = Server>>;

/// The servers of one run. They end with it.
pub struct Backends {
    choice: Choice,
    store: Option<Guard>,
    _queue: Option<Guard>,
    variables: Vec<(&'static str, String)>,
}

impl Backends {
    pub fn start(choice: Choice) -> Result<Backends> {
        let store: Option<Guard> = match choice.store {
            StoreKind::Sqlite => None,
            StoreKind::Postgres => Some(Box::new(Postgres::start()?)),
            StoreKind::Mysql => Some(Box::new(MariaDb::start()?)),
            StoreKind::Redis => Some(Box::new(Redis::start(RedisOptions::default())?)),
        };
        let store_url = store.as_ref().map(|server| server.url().to_owned());
        let mut variables = Vec::new();
        let (queue, queue_url): (Option<Guard>, String) = match choice.queue() {
            QueueKind::Ring => (None, "ring:".into()),
            QueueKind::Store => (None, "store:".into()),
            QueueKind::Redis => match (choice.store, &store_url) {
                (StoreKind::Redis, Some(url)) => (None, url.clone()),
                _ => {
                    let redis = Redis::start(RedisOptions::default())?;
                    let url = redis.url().to_owned();
                    (Some(Box::new(redis)), url)
                }
            },
            QueueKind::Sqs => {
                let sqs = Sqs::start()?;
                variables.extend([
                    ("AWS_ENDPOINT_URL", sqs.url().to_owned()),
                    ("AWS_REGION", "us-east-1".to_owned()),
                    ("AWS_ACCESS_KEY_ID", "bench".to_owned()),
                    ("AWS_SECRET_ACCESS_KEY", "bench".to_owned()),
                ]);
                (Some(Box::new(sqs)), "sqs:".into())
            }
        };
        variables.extend(store_url.map(|url| ("LANDFALL_STORE__URL", url)));
        variables.push(("LANDFALL_QUEUE__URL", queue_url));
        Ok(Backends { choice, store, _queue: queue, variables })
    }

    /// Tells a relay its store and its queue.
    pub fn tell(&self, command: &mut Command) {
        for name in NOT_OURS {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, text)| (name, text)));
    }

    /// Processor time of the store's server so far; none where the store is in the relay.
    pub fn store_cpu(&self) -> Result<Option<Duration>> {
        Ok(self.store.as_ref().map(|server| server.cpu()).transpose()?)
    }

    /// What this run used of the store's server, given what it had used before.
    pub fn spent(&self, before: Option<Duration>, transfers: u64) -> Result<Spent> {
        let used = self.store_cpu()?.zip(before);
        let each = |(after, before): (Duration, Duration)| {
            after.saturating_sub(before).as_micros() as f64 / transfers.max(1) as f64
        };
        Ok(Spent { choice: self.choice, store_cpu_us_per_transfer: used.map(each) })
    }
}

/// What a report says of the store and the queue.
#[derive(Debug, Clone, Copy, Default)]
pub struct Spent {
    pub choice: Choice,
    /// Where the store is a server. A Redis that carries hints too is counted with them.
    pub store_cpu_us_per_transfer: Option<f64>,
}

impl Spent {
    pub fn json(&self, report: &Report) -> Value {
        let mut json = report.json();
        json["store"] = self.choice.store_name().into();
        json["queue"] = self.choice.queue_name().into();
        if let Some(us) = self.store_cpu_us_per_transfer {
            json["store_cpu_us_per_transfer"] = ((us * 10.0).round() / 10.0).into();
        }
        json
    }

    pub fn table(&self, report: &Report) -> String {
        let mut table = report.table();
        if let Some(us) = self.store_cpu_us_per_transfer {
            let figure = format!("{us:.0} µs");
            table.push_str(&format!("  {:<24}{figure:>14}\n", "store CPU per transfer"));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        choice: Choice,
    }

    fn chosen(words: &[&str]) -> Result<Choice, clap::Error> {
        let line = std::iter::once("bench").chain(words.iter().copied());
        Line::try_parse_from(line).map(|line| line.choice)
    }

    fn check(words: &[&str], store: &str, queue: &str) {
        let choice = chosen(words).expect("a choice there is");
        assert_eq!((choice.store_name(), choice.queue_name()), (store, queue));
    }

    #[test]
    fn without_a_choice_it_is_the_file_and_the_ring() {
        check(&[], "sqlite", "ring");
    }

    #[test]
    fn without_a_queue_it_is_what_fits_the_store() {
        check(&["--store", "postgres"], "postgres", "store");
        check(&["--store", "mysql"], "mysql", "store");
        check(&["--store", "redis"], "redis", "redis");
        check(&["--store", "mysql", "--queue", "sqs"], "mysql", "sqs");
    }

    #[test]
    fn an_unknown_store_is_refused_with_those_there_are() {
        let said = chosen(&["--store", "oracle"]).expect_err("there is none").to_string();
        assert!(said.contains("sqlite, postgres, mysql, redis"), "{said}");
    }

    #[test]
    fn only_sqs_makes_the_build_longer() {
        let features = |words: &[&str]| chosen(words).map(Choice::features).unwrap_or_default();
        assert!(features(&["--store", "postgres"]).is_empty());
        assert_eq!(features(&["--queue", "sqs"]), ["landfall/sqs"]);
    }

    #[test]
    fn every_store_has_the_same_fields_and_a_server_one_more() {
        let names = |spent: Spent| {
            let json = spent.json(&Report::default());
            json.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>())
        };
        let file = names(Spent::default()).expect("an object");
        let server = Spent { store_cpu_us_per_transfer: Some(1.0), ..Spent::default() };
        let mut server = names(server).expect("an object");
        assert!(["store", "queue"].iter().all(|name| file.iter().any(|has| has == name)));
        server.retain(|name| name != "store_cpu_us_per_transfer");
        assert_eq!(server, file);
    }
}
