//! The cache of final states, on a real Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use landfall_core::cache::StatusCache;
use landfall_lanes::SystemClock;
use landfall_queue_redis::RedisStatusCache;
use landfall_servers::{Redis, RedisOptions};
use serde_json::{Map, Value, json};

const ID: &str = "550e8400-e29b-41d4-a716-446655440001";

fn redis() -> Redis {
    Redis::start(RedisOptions { appendonly: false, ..Default::default() }).expect("Redis")
}

fn cache(redis: &Redis, store: &str) -> RedisStatusCache {
    RedisStatusCache::new(redis.url(), store, Arc::new(SystemClock::default())).expect("a URL")
}

fn status(word: &str) -> Map<String, Value> {
    let body = json!({"transactionId": ID, "status": word, "hash": "0xabc"});
    body.as_object().expect("an object").clone()
}

async fn command<T: redis::FromRedisValue>(redis: &Redis, words: &[&str]) -> T {
    let client = redis::Client::open(redis.url()).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]).query_async(&mut connection).await.expect("an answer")
}

#[tokio::test]
async fn a_final_state_is_remembered_for_ten_minutes_for_others_to_read() {
    let redis = redis();
    let cache = cache(&redis, "store-1");
    assert_eq!(cache.get(ID).await, None);
    cache.put(ID, 4, status("success")).await;
    assert_eq!(cache.get(ID).await, Some(status("success")));
    let key = format!("tx:{ID}");
    let seconds: u64 = command(&redis, &["TTL", &key]).await;
    assert!((590..=600).contains(&seconds), "{seconds}");
    let held: String = command(&redis, &["GET", &key]).await;
    let held: Value = serde_json::from_str(&held).expect("JSON");
    assert_eq!((&held["status"], &held["version"]), (&json!("success"), &json!(4)));
}

/// Whoever read a state before it was forgotten may put it afterwards.
#[tokio::test]
async fn what_was_forgotten_is_not_brought_back_by_a_late_reader() {
    let redis = redis();
    let cache = cache(&redis, "store-1");
    cache.put(ID, 4, status("failed")).await;
    cache.forget(ID, 4).await.expect("told");
    assert_eq!(cache.get(ID).await, None);
    cache.put(ID, 4, status("failed")).await;
    assert_eq!(cache.get(ID).await, None);
    cache.put(ID, 6, status("success")).await;
    assert_eq!(cache.get(ID).await, Some(status("success")));
    cache.put(ID, 5, status("failed")).await;
    assert_eq!(cache.get(ID).await, Some(status("success")), "a later version stays");
}

/// A store that was begun anew has the same ids for the same keys.
#[tokio::test]
async fn what_another_store_came_to_counts_for_nothing() {
    let redis = redis();
    let (old, new) = (cache(&redis, "store-1"), cache(&redis, "store-2"));
    old.put(ID, 9, status("success")).await;
    assert_eq!(new.get(ID).await, None);
    new.put(ID, 2, status("failed")).await;
    assert_eq!(new.get(ID).await, Some(status("failed")));
}

#[tokio::test]
async fn what_others_have_written_there_is_passed_over_and_replaced() {
    let redis = redis();
    let cache = cache(&redis, "store-1");
    let key = format!("tx:{ID}");
    for foreign in ["success", "[1]", "{\"status\": \"success\"}", "{", "7"] {
        let () = command(&redis, &["SET", &key, foreign]).await;
        assert_eq!(cache.get(ID).await, None, "{foreign}");
        cache.put(ID, 2, status("failed")).await;
        assert_eq!(cache.get(ID).await, Some(status("failed")), "{foreign}");
    }
}

#[tokio::test]
async fn a_redis_that_is_gone_holds_nobody_up_and_is_found_again() {
    let redis = redis();
    let cache = cache(&redis, "store-1");
    cache.put(ID, 4, status("success")).await;
    redis.pause().expect("paused");
    let started = std::time::Instant::now();
    for _ in 0..100 {
        assert_eq!(cache.get(ID).await, None);
        cache.put(ID, 4, status("success")).await;
    }
    let waited = started.elapsed().as_millis();
    assert!(waited < 2_000, "{waited} ms");
    assert!(cache.forget(ID, 4).await.is_err(), "who must know is told");
    redis.resume().expect("resumed");
    while cache.get(ID).await.is_none() {
        tokio::task::yield_now().await;
    }
}

/// Readers put what they have read, however late; in between it is reopened and fails again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_beside_replays_never_see_what_the_store_has_no_more() {
    const REPLAYS: u64 = 150;
    let redis = redis();
    let cache = Arc::new(cache(&redis, "store-1"));
    // The store: an even version is final, an odd one was reopened.
    let version = Arc::new(AtomicU64::new(2));
    let read = |cache: Arc<RedisStatusCache>, version: Arc<AtomicU64>| async move {
        let mut hits = 0;
        while version.load(Ordering::SeqCst) < 2 * REPLAYS {
            let before = version.load(Ordering::SeqCst);
            if let Some(body) = cache.get(ID).await {
                let shown = body["shown"].as_u64().expect("a version");
                assert!(shown >= before, "{shown} is shown, {before} is stored");
                hits += 1;
            }
            let stored = version.load(Ordering::SeqCst);
            if stored.is_multiple_of(2) {
                tokio::task::yield_now().await;
                let body = json!({"shown": stored}).as_object().expect("an object").clone();
                cache.put(ID, stored, body).await;
            }
        }
        hits
    };
    let readers: Vec<_> =
        (0..4).map(|_| tokio::spawn(read(cache.clone(), version.clone()))).collect();
    while version.load(Ordering::SeqCst) < 2 * REPLAYS {
        let failed = version.load(Ordering::SeqCst);
        // Nothing is reopened that could still be shown.
        while cache.forget(ID, failed).await.is_err() {
            tokio::task::yield_now().await;
        }
        version.store(failed + 1, Ordering::SeqCst);
        cache.get(ID).await;
        version.store(failed + 2, Ordering::SeqCst);
        cache.get(ID).await;
    }
    let mut hits = 0;
    for reader in readers {
        hits += reader.await.expect("nothing false is shown");
    }
    assert!(hits > 0, "the cache was never of use");
}
