//! A counter of two nodes on sockets: what is lost, what took effect, who is told.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use landfall_sim_front::{Front, Host, Reply, Running, Sockets, routes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Counts what it is asked, and says so; asked for `later`, when it was asked once more.
struct Counter {
    front: Front<Own>,
    count: Arc<AtomicU64>,
    again: Arc<tokio::sync::Notify>,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Own {
    ahead: u64,
}

impl Host for Counter {
    type Own = Own;
    type Asked = String;

    fn front(&self) -> &Front<Own> {
        &self.front
    }

    fn routes(self: Arc<Self>) -> Router {
        Router::new().merge(routes::faults()).with_state(self)
    }

    async fn read(&self, request: Request) -> String {
        let body = to_bytes(request.into_body(), 100).await.expect("a short body");
        String::from_utf8(body.to_vec()).expect("text")
    }

    fn names<'a>(&self, asked: &'a String) -> Vec<&'a str> {
        vec![asked]
    }

    async fn act(self: Arc<Self>, _: usize, asked: String, own: Own) -> Reply {
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1 + own.ahead;
        if asked != "later" {
            self.again.notify_one();
            return count.to_string().into();
        }
        Reply::Later(Box::pin(async move {
            self.again.notified().await;
            axum::response::IntoResponse::into_response(count.to_string())
        }))
    }
}

struct World {
    counter: Arc<Counter>,
    urls: Vec<String>,
    running: Running,
}

impl World {
    async fn start() -> World {
        let counter = Arc::new(Counter {
            front: Front::new(2, 0),
            count: Arc::default(),
            again: Arc::default(),
        });
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let sockets = Sockets::bind(anywhere, 2).await.expect("two ports");
        let mut running = Running::default();
        running.serve(sockets, &counter);
        World { counter, urls: running.urls(), running }
    }

    async fn ask(&self, node: usize, what: &'static str) -> Result<(u16, String), reqwest::Error> {
        let answer = reqwest::Client::new().post(&self.urls[node]).body(what).send().await?;
        Ok((answer.status().as_u16(), answer.text().await?))
    }

    async fn set(&self, change: Value) -> (u16, String) {
        let url = format!("{}/sim/faults", self.urls[0]);
        let answer = reqwest::Client::new().post(url).json(&change).send().await.expect("a door");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    }

    fn count(&self) -> u64 {
        self.counter.count.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_lost_answer_took_effect_and_a_lost_request_did_not() {
    let world = World::start().await;
    assert_eq!(world.ask(0, "one").await.expect("an answer"), (200, "1".to_owned()));
    world.set(json!({ "lose_answer": 1, "node": 0 })).await;
    world.ask(0, "two").await.expect_err("lost");
    world.set(json!({ "lose_answer": 0, "lose_request": 1, "node": 0 })).await;
    world.ask(0, "three").await.expect_err("lost");
    assert_eq!(world.ask(1, "four").await.expect("an answer"), (200, "3".to_owned()));
    let calls: Vec<(String, u64)> = world.counter.front.calls().into_iter().collect();
    let expected = ["four", "one", "three", "two"].map(|name| (name.to_owned(), 1));
    assert_eq!(calls, expected, "all that arrived");
    world.running.shutdown().await;
}

#[tokio::test]
async fn what_waits_has_taken_effect_and_is_lost_at_once() {
    let world = World::start().await;
    let (waited, asked) = tokio::join!(world.ask(0, "later"), async {
        while world.count() == 0 {
            tokio::task::yield_now().await;
        }
        world.ask(1, "now").await
    });
    assert_eq!((waited.expect("told").1, asked.expect("told").1), ("1".into(), "2".into()));
    world.set(json!({ "lose_answer": 1 })).await;
    world.ask(0, "later").await.expect_err("lost, and nobody had to ask again");
    assert_eq!(world.count(), 3);
}

/// Whether it holds before long.
async fn soon(holds: impl Fn() -> bool) -> bool {
    let waiting = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), waiting).await.is_ok()
}

#[tokio::test]
async fn a_late_request_takes_effect_although_its_client_has_given_up() {
    let world = Arc::new(World::start().await);
    world.set(json!({ "slow": 1, "slow_ms": 100 })).await;
    for number in 1..=10 {
        let client = world.clone();
        let client = tokio::spawn(async move { client.ask(0, "late").await });
        let calls = || world.counter.front.calls().get("late").copied();
        assert!(soon(|| calls() == Some(number)).await, "it arrives");
        client.abort();
    }
    assert!(soon(|| world.count() == 10).await, "{} took effect", world.count());
}

#[tokio::test]
async fn the_door_says_what_is_wrong_with_a_change_and_changes_nothing() {
    let world = World::start().await;
    let (status, shown) = world.set(json!({ "node": 1, "ahead": 7, "garbage": 0.0 })).await;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(
        (status, &shown["nodes"][0]["ahead"], &shown["nodes"][1]["ahead"]),
        (200, &json!(0), &json!(7))
    );
    let refused = [
        (json!({ "garbage": 2 }), 400, "garbage must be between 0 and 1"),
        (json!({ "node": 2 }), 400, "node must be below 2"),
        (json!({ "ahead": 1, "nonsense": 1 }), 422, "unknown field `nonsense`"),
        (json!({ "node": "all" }), 422, "node must be a number"),
    ];
    for (change, status, message) in refused {
        assert_eq!(world.set(change).await, (status, message.to_owned()));
    }
    assert_eq!(world.ask(0, "one").await.expect("an answer").1, "1");
    assert_eq!(world.ask(1, "two").await.expect("an answer").1, "9");
}
