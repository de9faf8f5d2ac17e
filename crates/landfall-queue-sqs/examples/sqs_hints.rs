//! How many hints a second pass through an SQS server on this machine.
//! `cargo run --example sqs_hints`.

use std::sync::Arc;
use std::time::Instant;

use landfall_conformance::pass_hints;
use landfall_core::TransferId;
use landfall_lanes::SystemClock;
use landfall_queue_sqs::{AccessKey, Settings, SqsQueue};
use landfall_servers::Sqs;

const HINTS: u64 = 20_000;

#[tokio::main]
async fn main() {
    let server = Sqs::start().expect("an SQS server");
    let settings = Settings {
        region: Some("us-east-1".into()),
        endpoint: Some(server.url().to_owned()),
        credentials: Some(AccessKey { id: "test".into(), secret: "test".into() }),
        ..Settings::default()
    };
    let end =
        async || Arc::new(SqsQueue::new(settings.clone(), Arc::new(SystemClock::default())).await);
    let (from, to) = (end().await, end().await);
    from.create_if_absent().await.expect("queues");
    let started = Instant::now();
    pass_hints(from, to, (0..HINTS).map(TransferId).collect()).await;
    println!("SQS: {:.0} hints/s", HINTS as f64 / started.elapsed().as_secs_f64());
}
