//! The load generator: many connections, one task each, and little work per request, because it
//! shares the machine with what it measures.
//!
//! Prints one JSON line: how many were accepted, how long it took, and the latencies.
//! Not here: whether the payouts landed (`bench`, `soak`).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use hyper::Method;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::moves;
use crate::payouts::payout;

/// Payouts in one `POST /transfers`: the API's own limit.
const BATCH: u64 = 1_000;
/// Pause before a request that was told to come back later is repeated.
const BACK_OFF: Duration = Duration::from_millis(100);
/// How JSON-RPC says that something was refused, and what stands for that here.
const ERROR: &[u8] = br#""error":"#;
const REFUSED: u16 = 422;
/// Repeats of one request before the run is given up.
const REPEATS_MAX: u32 = 3_000;

/// How payouts are handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Intake {
    /// One `POST /transfer` each.
    Single,
    /// `POST /transfers`, a thousand at a time.
    Batch,
}

/// What is asked for, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Route {
    /// Payouts, one `POST /transfer` each.
    Single,
    /// Payouts, `POST /transfers`, a thousand at a time.
    Batch,
    /// Transfers between services, one `POST /api/v1/transfer` each.
    Moves,
    /// Whatever the lines of a file say, one POST each.
    Lines,
}

impl Route {
    pub fn name(self) -> &'static str {
        match self {
            Route::Single => "single",
            Route::Batch => "batch",
            Route::Moves => "moves",
            Route::Lines => "lines",
        }
    }
}

impl From<Intake> for Route {
    fn from(intake: Intake) -> Route {
        match intake {
            Intake::Single => Route::Single,
            Intake::Batch => Route::Batch,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub struct Options {
    #[arg(long)]
    pub url: String,
    /// Prefix of the idempotency keys.
    #[arg(long)]
    pub run: String,
    #[arg(long)]
    pub transfers: u64,
    /// Receivers of payouts; users whose funds are moved.
    #[arg(long)]
    pub receivers: u64,
    #[arg(long, value_enum)]
    pub route: Route,
    /// Requests offered per second; 0 is as fast as they are taken.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    #[arg(long, default_value_t = 64)]
    pub connections: u64,
    /// The file whose lines are bodies, for that route.
    #[arg(long)]
    pub lines: Option<PathBuf>,
    /// Where they are posted.
    #[arg(long, default_value = "/")]
    pub path: String,
    /// API key; from the environment, so that it is in no list of processes.
    #[arg(long, env = "LANDFALL_LOAD_KEY", hide_env_values = true)]
    pub key: Option<String>,
}

struct Shared {
    options: Options,
    lines: Vec<String>,
    next: AtomicU64,
    begun: Instant,
}

/// What one connection saw.
#[derive(Default)]
struct Seen {
    accepted: u64,
    /// Transfers whose own answer said that they are done.
    committed: u64,
    latencies_us: Vec<u64>,
}

pub fn run(options: &Options) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let summary = runtime.block_on(drive(options.clone()))?;
    println!("{summary}");
    Ok(true)
}

async fn drive(options: Options) -> Result<Value> {
    let connections = match options.route {
        Route::Single | Route::Moves | Route::Lines => options.connections.max(1),
        // A batch is a long request; a few keep the relay busy.
        Route::Batch => options.connections.clamp(1, 4),
    };
    let lines = match &options.lines {
        Some(file) => std::fs::read_to_string(file)?.lines().map(str::to_owned).collect(),
        None => Vec::new(),
    };
    let shared =
        Arc::new(Shared { options, lines, next: AtomicU64::new(0), begun: Instant::now() });
    let tasks: Vec<_> =
        (0..connections).map(|_| tokio::spawn(connection(Arc::clone(&shared)))).collect();
    let mut all = Seen::default();
    for task in tasks {
        let seen = task.await??;
        all.accepted += seen.accepted;
        all.committed += seen.committed;
        all.latencies_us.extend(seen.latencies_us);
    }
    let seconds = shared.begun.elapsed().as_secs_f64();
    all.latencies_us.sort_unstable();
    Ok(json!({
        "accepted": all.accepted,
        "committed": all.committed,
        "seconds": seconds,
        "p50_ms": percentile_ms(&all.latencies_us, 50.0),
        "p99_ms": percentile_ms(&all.latencies_us, 99.0),
        "max_ms": percentile_ms(&all.latencies_us, 100.0),
    }))
}

async fn connection(shared: Arc<Shared>) -> Result<Seen> {
    let options = &shared.options;
    let step = match options.route {
        Route::Single | Route::Moves | Route::Lines => 1,
        Route::Batch => BATCH,
    };
    let mut connection = Connection::new(&options.url, options.key.as_deref())?;
    let mut seen = Seen::default();
    loop {
        let first = shared.next.fetch_add(step, Ordering::Relaxed);
        if first >= options.transfers {
            return Ok(seen);
        }
        let last = (first + step).min(options.transfers);
        let due = due(shared.begun, first, options.rate);
        tokio::time::sleep_until(due.into()).await;
        // With a fixed rate, time spent waiting for a free connection is the relay's doing too.
        let asked = if options.rate == 0 { Instant::now() } else { due };
        let taken = hand_in(&mut connection, &shared, first, last).await?;
        seen.accepted += taken.accepted;
        seen.committed += taken.committed;
        seen.latencies_us.push(asked.elapsed().as_micros() as u64);
    }
}

/// When the `index`th payout is to be handed in.
fn due(begun: Instant, index: u64, rate: u64) -> Instant {
    if rate == 0 { begun } else { begun + Duration::from_secs_f64(index as f64 / rate as f64) }
}

/// How many were taken, and are done already.
struct Taken {
    accepted: u64,
    committed: u64,
}

/// Hands in `first..last`. Repeats what it must, with the same keys, as a client should.
async fn hand_in(
    connection: &mut Connection,
    shared: &Shared,
    first: u64,
    last: u64,
) -> Result<Taken> {
    let options = &shared.options;
    for _ in 0..REPEATS_MAX {
        let answer = match options.route {
            Route::Single => single(connection, options, first).await,
            Route::Batch => many(connection, options, first, last).await,
            Route::Moves => one_move(connection, options, first).await,
            Route::Lines => line(connection, shared, first).await,
        };
        match answer {
            Ok((200..=202, taken)) => return Ok(taken),
            // Back pressure, or a relay that is just restarting: the same again, later.
            Ok((429 | 503, _)) | Err(_) => tokio::time::sleep(BACK_OFF).await,
            Ok((status, _)) => bail!("request {first} was answered with {status}"),
        }
    }
    bail!("request {first} was not taken after {REPEATS_MAX} tries")
}

async fn one_move(
    connection: &mut Connection,
    options: &Options,
    index: u64,
) -> Result<(u16, Taken)> {
    let key = format!("{}-{index}", options.run);
    let headers = [("idempotency-key", key.as_str())];
    let body = moves::body(index, options.receivers).into_bytes();
    let (status, answer) =
        connection.send(Method::POST, "/api/v1/transfer", &headers, body).await?;
    let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
    Ok((status, Taken { accepted: 1, committed: u64::from(answer["status"] == "committed") }))
}

async fn line(connection: &mut Connection, shared: &Shared, index: u64) -> Result<(u16, Taken)> {
    let key = format!("{}-{index}", shared.options.run);
    let headers = [("idempotency-key", key.as_str())];
    let body = shared.lines.get(index as usize).context("as many lines as transfers")?;
    let (status, answer) =
        connection.send(Method::POST, &shared.options.path, &headers, body.clone().into()).await?;
    // A node refuses with 200.
    let refused = answer.windows(ERROR.len()).any(|part| part == ERROR);
    let status = if refused && status == 200 { REFUSED } else { status };
    Ok((status, Taken { accepted: 1, committed: 0 }))
}

async fn single(
    connection: &mut Connection,
    options: &Options,
    index: u64,
) -> Result<(u16, Taken)> {
    let payout = payout(&options.run, index, options.receivers);
    let body = format!(r#"{{"receiver_id":"{}","amount":"{}"}}"#, payout.receiver, payout.amount);
    let headers = [("x-idempotency-key", payout.key.as_str())];
    let (status, _) =
        connection.send(Method::POST, "/transfer", &headers, body.into_bytes()).await?;
    Ok((status, Taken { accepted: 1, committed: 0 }))
}

async fn many(
    connection: &mut Connection,
    options: &Options,
    first: u64,
    last: u64,
) -> Result<(u16, Taken)> {
    let items: Vec<String> = (first..last)
        .map(|index| {
            let payout = payout(&options.run, index, options.receivers);
            format!(
                r#"{{"idempotency_key":"{}","receiver_id":"{}","amount":"{}"}}"#,
                payout.key, payout.receiver, payout.amount
            )
        })
        .collect();
    let body = format!("[{}]", items.join(","));
    let (status, answer) =
        connection.send(Method::POST, "/transfers", &[], body.into_bytes()).await?;
    if !matches!(status, 200 | 201 | 207) {
        return Ok((status, Taken { accepted: 0, committed: 0 }));
    }
    let accepted = count_taken(&answer).context("an answer to POST /transfers")?;
    if accepted < last - first {
        bail!("{} of {} were not taken", last - first - accepted, last - first);
    }
    Ok((200, Taken { accepted, committed: 0 }))
}

/// Results that are no errors, whether the answer is an array or holds one.
fn count_taken(answer: &[u8]) -> Option<u64> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let results = answer.as_array().or_else(|| answer.get("results")?.as_array())?;
    Some(results.iter().filter(|result| result.get("error").is_none_or(Value::is_null)).count()
        as u64)
}

fn percentile_ms(sorted_us: &[u64], percent: f64) -> f64 {
    let Some(last) = sorted_us.len().checked_sub(1) else {
        return 0.0;
    };
    let rank = (percent / 100.0 * last as f64).round() as usize;
    sorted_us[rank.min(last)] as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let latencies: Vec<u64> = (0..=100).map(|ms| ms * 1_000).collect();
        assert_eq!(percentile_ms(&latencies, 50.0), 50.0);
        assert_eq!(percentile_ms(&latencies, 99.0), 99.0);
        assert_eq!(percentile_ms(&[], 50.0), 0.0);
    }

    #[test]
    fn a_fixed_rate_spreads_the_payouts() {
        let begun = Instant::now();
        assert_eq!(due(begun, 500, 1_000) - begun, Duration::from_millis(500));
        assert_eq!(due(begun, 500, 0), begun);
    }
}
