//! A server for the tests, its databases, and its time.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use landfall_conformance::Time;
use landfall_core::Clock;
use landfall_servers::MariaDb;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};

/// One server for the tests that leave it alone. It ends with the process.
pub fn shared() -> &'static MariaDb {
    static SERVER: LazyLock<MariaDb> = LazyLock::new(|| MariaDb::start().expect("a server"));
    &SERVER
}

pub async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).expect("a URL")).await.expect("a connection")
}

pub async fn run(url: &str, sql: &str) {
    let mut conn = connect(url).await;
    conn.query_drop(sql).await.expect(sql);
    conn.disconnect().await.expect("goodbye");
}

/// The URL of an empty database.
pub async fn new_database(server: &MariaDb) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    run(server.url(), &format!("CREATE DATABASE {name}")).await;
    let (base, _) = server.url().rsplit_once('/').expect("a URL with a database");
    format!("{base}/{name}")
}

/// The time of a server on this machine, a little behind it: its clock is read coarsely.
pub struct ServerTime;

/// More than a tick of the coarsest clock that a server reads.
const BEHIND_MS: u64 = 20;

#[async_trait]
impl Clock for ServerTime {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64) - BEHIND_MS
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[async_trait]
impl Time for ServerTime {
    async fn advance(&self, by_ms: u64) {
        self.sleep(Duration::from_millis(by_ms + BEHIND_MS)).await;
    }
}
