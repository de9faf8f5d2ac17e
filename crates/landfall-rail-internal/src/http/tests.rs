//! The adapter over a wire in memory and a clock turned by hand.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use landfall_rpc::{Header, HttpRequest, Method, TransportError};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

const KEY: &str = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
const SECRET: &str = "hunter2-hunter2";

#[derive(Default)]
struct HandClock(AtomicU64);

#[async_trait]
impl Clock for HandClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as u64, Ordering::SeqCst);
    }
}

type Reply = Result<(u16, String), TransportError>;

/// Scripted answers, the last of which repeats; remembers the requests.
struct Wire {
    replies: Mutex<VecDeque<Reply>>,
    requests: Mutex<Vec<(HttpRequest, Duration)>>,
    clock: Arc<HandClock>,
}

#[async_trait]
impl Transport for Wire {
    async fn post(&self, _: &Url, _: Bytes, _: Duration) -> Result<HttpAnswer, TransportError> {
        panic!("a service is no JSON-RPC node");
    }
    async fn call(
        &self,
        request: HttpRequest,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        self.clock.0.fetch_add(20, Ordering::SeqCst);
        self.requests.lock().push((request, timeout));
        let mut replies = self.replies.lock();
        let reply = if replies.len() > 1 { replies.pop_front() } else { replies.front().cloned() };
        reply.expect("a reply").map(|(status, body)| HttpAnswer { status, body: body.into() })
    }
}

struct World {
    wire: Arc<Wire>,
    clock: Arc<HandClock>,
    service: HttpService,
}

fn settings() -> HttpSettings {
    let base = Url::parse("http://user:pass@funding:4001/v1").expect("a URL");
    let auth = Header::new("X-Api-Key", SECRET).expect("a header");
    HttpSettings { auth: Some(auth), ..HttpSettings::new("funding", base, true, None) }
}

fn world_of(settings: HttpSettings, replies: &[Reply]) -> World {
    let clock = Arc::new(HandClock::default());
    let wire = Arc::new(Wire {
        replies: Mutex::new(replies.iter().cloned().collect()),
        requests: Mutex::default(),
        clock: clock.clone(),
    });
    let service = HttpService::new(settings, wire.clone(), clock.clone()).expect("a service");
    World { wire, clock, service }
}

fn world(replies: &[Reply]) -> World {
    world_of(settings(), replies)
}

fn reply(status: u16, body: Value) -> Reply {
    Ok((status, body.to_string()))
}

fn success() -> Reply {
    reply(200, json!({"success": true}))
}

fn lost() -> Reply {
    Err(TransportError::Unsure("timed out after 10s".to_owned()))
}

fn leg() -> Leg<'static> {
    Leg { req_id: KEY, user_id: 4001, asset_id: 1, amount: 150_000_000 }
}

impl World {
    fn asked(&self) -> usize {
        self.wire.requests.lock().len()
    }
    /// The only request so far, as method, path and body.
    fn request(&self) -> (Method, String, Value) {
        let requests = self.wire.requests.lock();
        let [(request, timeout)] = &requests[..] else { panic!("{} requests", requests.len()) };
        assert_eq!(request.headers, [Header::new("x-api-key", SECRET).unwrap()]);
        assert_eq!(*timeout, Duration::from_secs(10));
        let path = request.url.expose().trim_start_matches("http://user:pass@funding:4001");
        let body = serde_json::from_slice(&request.body).unwrap_or(Value::Null);
        (request.method, path.to_owned(), body)
    }
    fn script(&self, replies: &[Reply]) {
        *self.wire.replies.lock() = replies.iter().cloned().collect();
    }
}

#[tokio::test]
async fn each_operation_is_one_request_of_the_contract() {
    let whole = json!({"req_id": KEY, "user_id": 4001, "asset_id": 1, "amount": 150_000_000});
    let only_id = json!({"req_id": KEY});
    let check = |world: World, path: &str, body: &Value| {
        assert_eq!(world.request(), (Method::Post, path.to_owned(), body.clone()));
    };
    let one = world(&[success()]);
    assert_eq!(one.service.withdraw(leg()).await, Answer::Done);
    check(one, "/v1/withdraw", &whole);
    let one = world(&[success()]);
    assert_eq!(one.service.deposit(leg()).await, Answer::Done);
    check(one, "/v1/deposit", &whole);
    let one = world(&[success()]);
    assert_eq!(one.service.commit(KEY).await, Answer::Done);
    check(one, "/v1/commit", &only_id);
    let one = world(&[success()]);
    assert_eq!(one.service.rollback(KEY).await, Answer::Done);
    check(one, "/v1/rollback", &only_id);
    let one = world(&[reply(200, json!({"status": "unknown"}))]);
    assert_eq!(one.service.query(KEY, Operation::Deposit).await, Standing::Unknown);
    let path = format!("/v1/operations/{KEY}/deposit");
    assert_eq!(one.request(), (Method::Get, path, Value::Null));
}

#[tokio::test]
async fn paths_can_be_the_services_own() {
    let paths = Paths {
        withdraw: "/debit".to_owned(),
        query: "/state?of={operation}&id={req_id}".to_owned(),
        user: None,
        ..Paths::default()
    };
    let own = HttpSettings { paths, ..settings() };
    let one = world_of(own.clone(), &[success()]);
    one.service.withdraw(leg()).await;
    assert_eq!(one.request().1, "/v1/debit");
    let one = world_of(own.clone(), &[reply(200, json!({"status": "done"}))]);
    assert_eq!(one.service.query(KEY, Operation::Commit).await, Standing::Done);
    assert_eq!(one.request().1, format!("/v1/state?of=commit&id={KEY}"));
    let one = world_of(own, &[success()]);
    assert_eq!((one.service.knows_user(1).await, one.asked()), (None, 0));
}

#[tokio::test]
async fn whatever_is_no_answer_is_pending_and_is_asked_once() {
    let kind_of = |answer| match answer {
        Answer::Pending { kind, .. } => kind,
        other => panic!("{other:?}"),
    };
    let refused = Err(TransportError::NotSent("connection refused".to_owned()));
    for (bad, expected) in [
        (lost(), "no_answer"),
        (refused, "unreachable"),
        (reply(503, json!({"error": "Insufficient funds"})), "server_error"),
        (reply(404, json!({})), "not_found"),
        (Ok((200, "<html>".to_owned())), "unexpected_body"),
    ] {
        let world = world(&[bad]);
        assert_eq!(kind_of(world.service.withdraw(leg()).await), expected);
        assert_eq!(world.asked(), 1, "nothing is repeated");
        let standing = world.service.query(KEY, Operation::Withdraw).await;
        assert!(matches!(standing, Standing::NoAnswer { kind, .. } if kind == expected));
        assert_eq!((world.asked(), world.service.health().errors), (2, 2));
    }
}

#[tokio::test]
async fn an_open_breaker_answers_without_calling_and_finds_the_service_again() {
    let world = world(&[lost()]);
    for _ in 0..10 {
        world.service.withdraw(leg()).await;
    }
    assert!(world.service.health().breaker_open && !world.service.health().up);
    let answer = world.service.withdraw(leg()).await;
    assert!(matches!(answer, Answer::Pending { kind: "breaker_open", .. }), "{answer:?}");
    let standing = world.service.query(KEY, Operation::Withdraw).await;
    assert!(matches!(standing, Standing::NoAnswer { kind: "breaker_open", .. }));
    assert_eq!((world.asked(), world.service.health().calls), (10, 10));
    // A probe a second, not half a minute of silence.
    world.script(&[success()]);
    world.clock.0.fetch_add(1_000, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(world.service.withdraw(leg()).await, Answer::Done);
    }
    assert!(world.service.health().up);
}

#[tokio::test]
async fn a_service_that_refuses_or_works_on_it_is_well() {
    for body in [json!({"error": "Insufficient funds"}), json!({"status": "in_progress"})] {
        let world = world(&[reply(200, body)]);
        for _ in 0..20 {
            world.service.withdraw(leg()).await;
        }
        let health = world.service.health();
        assert_eq!((world.asked(), health.errors, health.up), (20, 0, true));
    }
    let world = world(&[reply(409, json!({"error": "no such withdrawal yet"}))]);
    for _ in 0..20 {
        world.service.commit(KEY).await;
    }
    assert_eq!(world.service.health().errors, 0);
}

#[tokio::test]
async fn health_counts_and_shows_no_more_than_the_origin() {
    let world = world(&[success(), lost(), success()]);
    for _ in 0..2 {
        world.service.withdraw(leg()).await;
    }
    let health = world.service.health();
    assert_eq!((health.calls, health.errors, health.breaker_open), (2, 1, false));
    assert_eq!(health.endpoint, "http://funding:4001");
    assert_eq!(health.mean_latency_ms, 20.0);
    assert_eq!(health.detail, "funding: failed a moment ago: timed out after 10s");
    world.service.withdraw(leg()).await;
    assert_eq!(world.service.health().detail, "funding: ok");
}

#[tokio::test]
async fn the_credential_is_never_told_even_by_a_service_that_echoes_it() {
    let echo = format!("who is {SECRET}?");
    let replies = [
        reply(200, json!({"error": echo})),
        reply(200, json!({"status": "refused", "error": echo})),
        reply(401, json!({"error": echo})),
        reply(409, json!({"error": echo})),
        Err(TransportError::Unsure(echo.clone())),
        reply(200, json!({"name": echo, "freezes": true, "dedupe_window_s": null})),
    ];
    for bad in replies {
        let world = world(&[bad]);
        let mut told = format!("{:?}", world.service.withdraw(leg()).await);
        told += &format!("{:?}", world.service.query(KEY, Operation::Withdraw).await);
        told += &format!("{:?}", world.service.check().await);
        told += &format!("{:?} {:?}", world.service.health(), world.service.settings);
        told += &format!("{:?}", world.wire.requests.lock());
        assert!(!told.contains(SECRET) && !told.contains("pass@"), "{told}");
    }
}

#[tokio::test]
async fn a_services_words_are_kept_short_and_on_one_line() {
    let words = format!("no\nfunds {}", "x".repeat(10_000));
    let world = world(&[reply(200, json!({"error": words}))]);
    let Answer::Refused(why) = world.service.withdraw(leg()).await else { panic!("refused") };
    assert!(why.starts_with("no funds xxx") && why.chars().count() == 300, "{why}");
}

#[tokio::test]
async fn who_is_known_is_told_only_by_an_explicit_answer() {
    for (answer, expected) in [
        (reply(200, json!({"known": true})), Some(true)),
        (reply(200, json!({"known": false})), Some(false)),
        (reply(200, json!({})), None),
        (reply(404, json!({"known": false})), None),
        (reply(500, json!({"known": false})), None),
        (lost(), None),
    ] {
        let world = world(&[answer]);
        assert_eq!(world.service.knows_user(4001).await, expected);
        let (request, timeout) = world.wire.requests.lock().remove(0);
        assert!(request.url.expose().ends_with("/v1/users/4001"));
        assert_eq!(timeout, OPTIONAL_TIMEOUT, "somebody waits for it");
    }
}

#[tokio::test]
async fn questions_that_need_no_answer_do_not_open_the_breaker() {
    for silent in [reply(404, json!({})), lost()] {
        let world = world(&[silent]);
        for _ in 0..20 {
            world.service.knows_user(4001).await;
        }
        assert_eq!((world.asked(), world.service.health().breaker_open), (20, false));
    }
}

#[tokio::test]
async fn a_check_compares_the_settings_with_the_services_own_word() {
    let contract = |name: &str, freezes: bool, window: Option<u64>| {
        reply(200, json!({"name": name, "freezes": freezes, "dedupe_window_s": window}))
    };
    let check = async |window_ms: Option<u64>, answer: Reply, expected: &str| {
        let set = HttpSettings { dedupe_window_ms: window_ms, ..settings() };
        let said = match world_of(set, &[answer]).service.check().await {
            Ok(_) => "ok",
            Err(RailError::Misconfigured(_)) => "misconfigured",
            Err(RailError::Unavailable(_)) => "unavailable",
            Err(other) => panic!("{other}"),
        };
        assert_eq!(said, expected);
    };
    let day = Some(86_400);
    let day_ms = Some(86_400_000);
    check(None, contract("funding", true, None), "ok").await;
    check(day_ms, contract("funding", true, None), "ok").await;
    check(day_ms, contract("funding", true, day), "ok").await;
    check(None, contract("funding", true, day), "misconfigured").await;
    check(day_ms, contract("funding", true, Some(3_600)), "misconfigured").await;
    check(None, contract("trading", true, None), "misconfigured").await;
    check(None, contract("funding", false, None), "misconfigured").await;
    check(None, reply(401, json!({"error": "who?"})), "misconfigured").await;
    check(None, reply(404, json!({"error": "no such route"})), "ok").await;
    check(None, reply(503, json!({})), "unavailable").await;
    check(None, Ok((200, "<html>".to_owned())), "unavailable").await;
    check(None, lost(), "unavailable").await;
}

#[test]
fn a_mistake_in_the_settings_is_named() {
    let check = |change: fn(&mut HttpSettings), expected: BadSettings| {
        let mut set = settings();
        change(&mut set);
        assert_eq!(set.checked().err(), Some(expected));
    };
    assert!(settings().checked().is_ok());
    check(|set| set.paths.query = "/operations/{req_id}".to_owned(), BadSettings::Query);
    check(|set| set.paths.user = Some("/users".to_owned()), BadSettings::User);
    let malformed = |name| BadSettings::Path(name, landfall_rpc::BadUrl::Malformed);
    check(|set| set.paths.commit = "/a b".to_owned(), malformed("commit"));
    check(|set| set.timeout = Duration::ZERO, BadSettings::Timeout);
    let window = |window_ms, timeout_ms| BadSettings::Window { window_ms, timeout_ms };
    check(|set| set.dedupe_window_ms = Some(30_000), window(30_000, 10_000));
    check(
        |set| {
            set.dedupe_window_ms = Some(100_000);
            set.timeout = Duration::from_secs(20);
        },
        window(100_000, 20_000),
    );
    let mut set = settings();
    set.dedupe_window_ms = Some(3_600_000);
    assert!(set.checked().is_ok());
}
