//! How many operations a book in a file takes per second: `cargo run --release -p landfall-ledger
//! --example throughput -- FOLDER`. Each caller deposits, withdraws and waits for both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use landfall_ledger::{
    AccountId, Answer, Book, Contract, Kind, Operation, ReqId, SqliteBook, SqliteOptions, Terms,
};

/// Callers at once, each with an account of its own.
const CALLERS: u64 = 64;
const TIME: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).expect("give a folder");
    let path = std::path::Path::new(&folder).join("throughput.db");
    let contract = Contract::new("throughput", Kind::Freeze);
    let book = SqliteBook::open(path, contract, SqliteOptions::default()).expect("a book");
    let book: Arc<dyn Book> = Arc::new(book);
    let begun = Instant::now();
    let callers = (0..CALLERS).map(|user_id| tokio::spawn(call(book.clone(), user_id, begun)));
    let mut times = Vec::new();
    for caller in futures::future::join_all(callers).await {
        times.extend(caller.expect("no caller fails"));
    }
    let elapsed = begun.elapsed();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let per_s = times.len() as f64 / elapsed.as_secs_f64();
    println!("{per_s:.0} operations/s, p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99));
}

/// Works until the time is up; how long each operation took.
async fn call(book: Arc<dyn Book>, user_id: u64, begun: Instant) -> Vec<Duration> {
    let terms = |amount: u64| Terms {
        account: AccountId { user_id, asset_id: 1 },
        amount: amount.try_into().expect("not zero"),
    };
    let mut times = Vec::new();
    while begun.elapsed() < TIME {
        let req_id = ReqId(rand::random());
        let deposit = Operation::Deposit { req_id, terms: terms(2), declined: false };
        for operation in [deposit, Operation::Withdraw { req_id, terms: terms(1) }] {
            let asked = Instant::now();
            assert_eq!(book.apply(vec![operation], 0).await, Ok(vec![Answer::DONE]));
            times.push(asked.elapsed());
        }
    }
    times
}
