//! What only Redis has: names, consumers, stalls, and a server that forgets.

use std::time::{Duration, Instant};

use landfall_conformance::QueueWorld;
use landfall_core::queue::{Delivery, Hint, Queue};
use landfall_core::{TransferId, near};

use crate::Streams;

const PATIENCE: Duration = Duration::from_secs(30);

fn hint(number: u64) -> Hint {
    Hint { transfer: TransferId(number), stage: near::TRANSFER }
}

/// Pulls as a worker does: after an error it comes back.
async fn pull(queue: &dyn Queue) -> Vec<Delivery> {
    let pulled = async {
        loop {
            match queue.pull(near::TRANSFER, 100).await {
                Ok(pulled) => return pulled,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, pulled).await.expect("a hint in time")
}

/// Pushes as the engine does, except that it insists.
async fn push(queue: &dyn Queue, hint: Hint) {
    let pushed = async {
        while queue.push(&[hint]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, pushed).await.expect("taken in time");
}

#[tokio::test]
async fn a_hint_is_deleted_when_it_was_handled() {
    let streams = Streams::start();
    let queue = streams.end();
    assert_eq!(queue.push(&[hint(1), hint(2)]).await.expect("push"), 0);
    assert_eq!(streams.length("transfer").await, 2);
    let pulled = pull(&queue).await;
    assert_eq!(streams.length("transfer").await, 2);
    queue.ack(&pulled).await.expect("ack");
    assert_eq!(streams.length("transfer").await, 0);
}

#[tokio::test]
async fn every_start_of_a_process_is_a_consumer_of_its_own_until_it_is_long_gone() {
    let mut streams = Streams::start();
    for number in 0..2 {
        let queue = streams.end();
        queue.push(&[hint(number)]).await.expect("push");
        let pulled = pull(&queue).await;
        queue.ack(&pulled).await.expect("ack");
    }
    let names = async |streams: &Streams| {
        let mut info = redis::cmd("XINFO");
        info.arg("CONSUMERS").arg(streams.key("transfer")).arg("transfer_workers");
        let mut connection = streams.connection().await;
        let consumers: Vec<redis::Value> = info.query_async(&mut connection).await.expect("XINFO");
        consumers.len()
    };
    assert_eq!(names(&streams).await, 2);
    streams.settings.gone_ms = 10;
    streams.advance(100).await;
    let queue = streams.end();
    queue.push(&[hint(3)]).await.expect("push");
    pull(&queue).await;
    assert_eq!(names(&streams).await, 1);
}

#[tokio::test]
async fn of_two_delayed_hints_for_one_transfer_one_comes() {
    let streams = Streams::start();
    let queue = streams.end();
    let later = |delay_ms| landfall_core::queue::Terms { delay_ms, priority: 100 };
    queue.push_on(later(60_000), &[hint(1)]).await.expect("push");
    queue.push_on(later(100), &[hint(1)]).await.expect("push");
    assert_eq!(pull(&queue).await.len(), 1);
    assert_eq!(streams.length("transfer").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stall_hangs_no_push_and_kills_no_worker() {
    let streams = Streams::start();
    let queue = streams.end();
    push(&queue, hint(1)).await;
    pull(&queue).await;
    streams.redis.pause().expect("pause");
    let started = Instant::now();
    assert!(queue.push(&[hint(2)]).await.is_err());
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // Known to be down: nobody waits for it again.
    let started = Instant::now();
    for _ in 0..100 {
        assert!(queue.push(&[hint(2)]).await.is_err());
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert!(queue.pull(near::TRANSFER, 10).await.is_err());
    streams.redis.resume().expect("resume");
    push(&queue, hint(3)).await;
    // What the stalled server took meanwhile may come too.
    while !pull(&queue).await.iter().any(|one| one.hint == hint(3)) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_died_and_forgot_everything_is_used_again() {
    let streams = Streams::start();
    let (one, other) = (streams.end(), streams.end());
    push(&one, hint(1)).await;
    pull(&other).await;
    streams.redis.kill().expect("kill");
    assert!(one.push(&[hint(2)]).await.is_err());
    assert!(other.pull(near::TRANSFER, 10).await.is_err());
    streams.redis.restart().expect("restart");
    push(&one, hint(3)).await;
    assert_eq!(pull(&other).await[0].hint, hint(3));
}

#[tokio::test]
async fn streams_that_were_deleted_are_made_again() {
    let streams = Streams::start();
    let queue = streams.end();
    push(&queue, hint(1)).await;
    pull(&queue).await;
    let mut connection = streams.connection().await;
    redis::cmd("FLUSHALL").query_async::<()>(&mut connection).await.expect("FLUSHALL");
    push(&queue, hint(2)).await;
    assert_eq!(pull(&queue).await[0].hint, hint(2));
}

#[tokio::test]
async fn a_url_of_something_else_is_refused_with_the_remedy() {
    let mut streams = Streams::start();
    streams.settings.url = "postgres://localhost".into();
    let clock = std::sync::Arc::new(landfall_lanes::SystemClock::default());
    let refused = landfall_queue_redis::RedisQueue::new(streams.settings.clone(), clock);
    let refused = refused.err().expect("refused").to_string();
    assert!(refused.contains("redis://host:6379"), "{refused}");
}

/// Nobody speaks TLS there, and that is all that may go wrong.
#[tokio::test]
async fn tls_to_a_server_that_has_none_is_an_error_like_any_other() {
    let mut streams = Streams::start();
    streams.settings.url = streams.settings.url.replace("redis://", "rediss://");
    let queue = streams.end();
    assert!(queue.push(&[hint(1)]).await.is_err());
    let pulled = queue.pull(near::TRANSFER, 1).await.expect_err("no TLS").to_string();
    assert!(!pulled.contains("panic"), "{pulled}");
}
