//! The endpoints against a wire in memory and a clock turned by hand.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::clock::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::*;

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

#[derive(Clone)]
enum Reply {
    Result(Value),
    Error(u16, Value),
    Raw(u16, &'static str),
    Refused,
    Lost,
}

/// Scripted answers, by host; the last one repeats. Remembers who was asked.
#[derive(Default)]
struct Wire {
    replies: Mutex<std::collections::HashMap<String, VecDeque<Reply>>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl Transport for Wire {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        _timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let host = url.origin().trim_start_matches("http://").to_owned();
        self.asked.lock().push(host.clone());
        let request: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(request["jsonrpc"], "2.0");
        let reply = {
            let mut replies = self.replies.lock();
            let script = replies.get_mut(&host).expect("a script for the host");
            if script.len() > 1 { script.pop_front().unwrap() } else { script[0].clone() }
        };
        let envelope = |status, key: &str, value: Value| {
            let body = json!({"jsonrpc": "2.0", "id": request["id"], key: value});
            Ok(HttpAnswer { status, body: body.to_string().into() })
        };
        match reply {
            Reply::Result(value) => envelope(200, "result", value),
            Reply::Error(status, value) => envelope(status, "error", value),
            Reply::Raw(status, body) => Ok(HttpAnswer { status, body: body.into() }),
            Reply::Refused => Err(TransportError::NotSent("connection refused".into())),
            Reply::Lost => Err(TransportError::Unsure("timed out".into())),
        }
    }
}

struct World {
    wire: Arc<Wire>,
    clock: Arc<HandClock>,
    endpoints: Endpoints,
}

fn world(scripts: &[(&str, &[Reply])]) -> World {
    let wire = Arc::new(Wire::default());
    let mut urls = Vec::new();
    for (host, script) in scripts {
        wire.replies.lock().insert((*host).into(), script.iter().cloned().collect());
        urls.push(Url::parse(&format!("http://{host}/secret-key")).unwrap());
    }
    let clock = Arc::new(HandClock::default());
    let endpoints = Endpoints::new(urls, wire.clone(), clock.clone(), Settings::default()).unwrap();
    World { wire, clock, endpoints }
}

impl World {
    fn script(&self, host: &str, replies: &[Reply]) {
        self.wire.replies.lock().insert(host.into(), replies.iter().cloned().collect());
    }
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.wire.asked.lock())
    }
    fn pass_ms(&self, ms: u64) {
        self.clock.0.fetch_add(ms, Ordering::SeqCst);
    }
    async fn send(&self, rotation: u64) -> (Option<usize>, Result<(), RpcError>) {
        self.send_but(rotation, &[]).await
    }
    async fn send_but(
        &self,
        rotation: u64,
        but: &[usize],
    ) -> (Option<usize>, Result<(), RpcError>) {
        let patience = Duration::from_secs(1);
        let call = ("send", &json!({}));
        let (to, answer) = self.endpoints.send_once(rotation, but, call, patience).await;
        (to, answer.map(|_| ()))
    }
    async fn read(&self) -> Result<usize, RpcError> {
        self.endpoints.call("read", &json!({})).await.map(|answer| answer.endpoint)
    }
}

fn ok() -> Reply {
    Reply::Result(json!(1))
}

#[tokio::test]
async fn a_read_fails_over_on_every_technical_error() {
    let rate_limited = Reply::Error(429, json!({"code": -1, "message": "slow down"}));
    for bad in [Reply::Refused, Reply::Lost, Reply::Raw(502, "<html>"), rate_limited] {
        let world = world(&[("a", &[bad]), ("b", &[ok()])]);
        assert_eq!(world.read().await.unwrap(), 1);
        assert_eq!(world.asked(), ["a", "b"]);
    }
}

#[tokio::test]
async fn a_read_that_was_answered_with_an_error_is_not_asked_again() {
    let error = json!({"code": -32000, "message": "Server error", "name": "HANDLER_ERROR",
        "cause": {"name": "UNKNOWN_THING", "info": {"x": 1}}, "data": "d"});
    let world = world(&[("a", &[Reply::Error(408, error)]), ("b", &[ok()])]);
    let Err(RpcError::Answered(error)) = world.read().await else { panic!("an answer") };
    assert_eq!((error.status, error.code, error.name.as_str()), (408, -32000, "HANDLER_ERROR"));
    assert_eq!((error.cause_name.as_str(), &error.data), ("UNKNOWN_THING", &json!("d")));
    assert_eq!(error.info, json!({"x": 1}));
    assert_eq!(world.asked(), ["a"]);
}

#[tokio::test]
async fn reads_go_round_robin_and_prefer_who_did_not_just_fail() {
    let world = world(&[("a", &[ok()]), ("b", &[Reply::Lost, ok()]), ("c", &[ok()])]);
    for _ in 0..3 {
        world.read().await.unwrap();
    }
    assert_eq!(world.asked(), ["a", "b", "c", "a"]);
    for _ in 0..4 {
        world.read().await.unwrap();
    }
    assert!(!world.asked().contains(&"b".to_owned()), "b is cooling");
    world.pass_ms(2_000);
    for _ in 0..3 {
        world.read().await.unwrap();
    }
    assert!(world.asked().contains(&"b".to_owned()), "b is tried again");
}

#[tokio::test]
async fn a_broadcast_that_may_have_arrived_is_never_sent_elsewhere() {
    for bad in [Reply::Lost, Reply::Raw(500, ""), Reply::Raw(429, ""), Reply::Raw(200, "{")] {
        let world = world(&[("a", &[bad]), ("b", &[ok()])]);
        let (to, answer) = world.send(0).await;
        assert!(matches!(answer, Err(RpcError::Unsure(_))), "{answer:?}");
        assert_eq!((to, world.asked()), (Some(0), vec!["a".to_owned()]));
    }
}

#[tokio::test]
async fn a_broadcast_goes_on_after_a_refused_connection() {
    let world = world(&[("a", &[Reply::Refused]), ("b", &[ok()])]);
    let (to, answer) = world.send(0).await;
    assert!(answer.is_ok());
    assert_eq!((to, world.asked()), (Some(1), vec!["a".to_owned(), "b".to_owned()]));
}

#[tokio::test]
async fn the_rotation_number_sends_a_rebroadcast_elsewhere() {
    let world = world(&[("a", &[ok()]), ("b", &[ok()]), ("c", &[ok()])]);
    for rotation in 0..4 {
        world.send(rotation).await.1.unwrap();
    }
    assert_eq!(world.asked(), ["a", "b", "c", "a"]);
}

#[tokio::test]
async fn nothing_left_the_process_when_all_refuse() {
    let world = world(&[("a", &[Reply::Refused]), ("b", &[Reply::Refused])]);
    let (to, answer) = world.send(0).await;
    assert!(matches!(answer, Err(RpcError::Unreachable(_))));
    assert_eq!(to, None);
}

#[tokio::test]
async fn each_endpoint_is_asked_and_named_for_a_quorum() {
    let world = world(&[("a", &[ok()]), ("b", &[Reply::Lost]), ("c", &[ok()])]);
    let answers = world.endpoints.call_each("read", &json!({})).await;
    let good: Vec<usize> = answers.iter().filter(|(_, a)| a.is_ok()).map(|(i, _)| *i).collect();
    assert_eq!(good, [0, 2]);
    assert_eq!(answers.len(), 3);
}

#[test]
fn the_quorum_is_a_majority_unless_set() {
    let check = |count: usize, set: Option<usize>, expected: Result<usize, NoEndpoints>| {
        let urls = (0..count).map(|n| Url::parse(&format!("http://h{n}")).unwrap()).collect();
        let settings = Settings { quorum: set, ..Settings::default() };
        let clock = Arc::new(HandClock::default());
        let made = Endpoints::new(urls, Arc::new(Wire::default()), clock, settings);
        assert_eq!(made.map(|endpoints| endpoints.quorum()), expected);
    };
    check(0, None, Err(NoEndpoints));
    check(1, None, Ok(1));
    check(2, None, Ok(2));
    check(3, None, Ok(2));
    check(4, None, Ok(3));
    check(3, Some(3), Ok(3));
    check(3, Some(0), Err(NoEndpoints));
    check(3, Some(4), Err(NoEndpoints));
}

#[test]
fn a_node_given_twice_is_no_quorum() {
    let urls = vec![Url::parse("http://a").unwrap(); 2];
    let clock = Arc::new(HandClock::default());
    let made = Endpoints::new(urls, Arc::new(Wire::default()), clock, Settings::default());
    assert!(made.is_err());
}

#[tokio::test]
async fn an_open_breaker_keeps_calls_away_until_its_time() {
    let world = world(&[("a", &[Reply::Lost]), ("b", &[ok()])]);
    for _ in 0..10 {
        let _ = world.endpoints.call_on(0, "read", &json!({})).await;
    }
    assert_eq!(world.endpoints.snapshot()[0].breaker, BreakerState::Open);
    world.asked();
    let answer = world.endpoints.call_on(0, "read", &json!({})).await;
    assert!(matches!(answer, Err(RpcError::Unreachable(_))));
    assert!(world.asked().is_empty());
    world.script("a", &[ok()]);
    world.pass_ms(30_000);
    for _ in 0..3 {
        world.endpoints.call_on(0, "read", &json!({})).await.unwrap();
    }
    assert_eq!(world.endpoints.snapshot()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn when_every_breaker_is_open_a_probe_a_second_finds_the_ledger_again() {
    let world = world(&[("a", &[Reply::Lost])]);
    for _ in 0..10 {
        world.read().await.unwrap_err();
    }
    world.asked();
    for _ in 0..5 {
        world.read().await.unwrap_err();
    }
    assert!(world.asked().is_empty());
    world.pass_ms(1_000);
    world.read().await.unwrap_err();
    world.read().await.unwrap_err();
    assert_eq!(world.asked(), ["a"]);
    world.script("a", &[ok()]);
    world.pass_ms(1_000);
    for _ in 0..3 {
        world.read().await.unwrap();
    }
    assert_eq!(world.endpoints.snapshot()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn a_dropped_call_gives_its_test_place_back() {
    let mut breaker = Breaker::new(BreakerSettings::default());
    for _ in 0..10 {
        breaker.failed(0);
    }
    for _ in 0..3 {
        assert!(breaker.admit(30_000));
    }
    assert!(!breaker.admit(30_000));
    breaker.abandoned();
    assert!(breaker.admit(30_000));
}

#[tokio::test]
async fn calls_errors_and_time_are_counted() {
    let world = world(&[("a", &[ok(), Reply::Lost, ok()])]);
    for _ in 0..3 {
        let _ = world.read().await;
    }
    let one = &world.endpoints.snapshot()[0];
    assert_eq!((one.calls, one.errors, one.origin.as_str()), (3, 1, "http://a"));
}

#[tokio::test]
async fn a_distrusted_endpoint_is_asked_last() {
    let world = world(&[("a", &[ok()]), ("b", &[ok()])]);
    world.endpoints.distrust(0, 5_000);
    for rotation in 0..3 {
        assert_eq!(world.send(rotation).await.0, Some(1));
    }
}

#[tokio::test]
async fn a_caught_endpoint_is_asked_after_everybody_else_and_shown() {
    let world = world(&[("a", &[ok()]), ("b", &[ok()]), ("c", &[ok()])]);
    assert_eq!(world.endpoints.snapshot()[0].caught, None);
    world.endpoints.catch(0, "nonce 9".into(), "nonce 4".into());
    world.endpoints.catch(0, "nonce 10".into(), "nonce 4".into());
    world.endpoints.distrust(1, 5_000);
    assert_eq!(world.endpoints.order(7), [2, 1, 0], "one that lags comes before it");
    let caught = world.endpoints.snapshot()[0].caught.clone().unwrap();
    assert_eq!((caught.times, caught.asked_last), (2, true));
    assert_eq!((caught.said.as_str(), caught.quorum_says.as_str()), ("nonce 10", "nonce 4"));
    world.pass_ms(600_000);
    assert_eq!(world.endpoints.order(0), [0, 1, 2]);
    let caught = world.endpoints.snapshot()[0].caught.clone().unwrap();
    assert!(!caught.asked_last && caught.times == 2, "what it did is not forgotten");
}

#[tokio::test]
async fn a_broadcast_passes_over_whoever_is_named() {
    let world = world(&[("a", &[ok()]), ("b", &[ok()])]);
    for rotation in 0..3 {
        assert_eq!(world.send_but(rotation, &[1]).await.0, Some(0));
    }
    assert_eq!(world.send_but(0, &[0, 1]).await.0, None);
}

#[tokio::test]
async fn an_excluded_endpoint_is_asked_only_by_name() {
    let world = world(&[("a", &[ok()]), ("b", &[ok()])]);
    world.endpoints.exclude(0, Some("another network".into()));
    for rotation in 0..3 {
        assert_eq!(world.send(rotation).await.0, Some(1));
        assert_eq!(world.read().await.unwrap(), 1);
    }
    let answers = world.endpoints.call_each("read", &json!({})).await;
    assert!(matches!(answers[0].1, Err(RpcError::Unreachable(_))) && answers[1].1.is_ok());
    assert!(world.endpoints.call_on(0, "read", &json!({})).await.is_ok());
    world.endpoints.exclude(1, Some("also".into()));
    world.asked();
    world.read().await.unwrap_err();
    assert!(world.asked().is_empty());
    world.endpoints.exclude(0, None);
    assert_eq!(world.read().await.unwrap(), 0);
}

/// One row: what happens at which second, and the state after it.
#[test]
fn the_breaker_follows_its_table() {
    use BreakerState::*;
    #[derive(Clone, Copy)]
    enum Step {
        Admit(bool),
        Ok,
        Fail,
    }
    let mut breaker = Breaker::new(BreakerSettings::default());
    let mut check = |second: u64, times: u32, step: Step, state: BreakerState| {
        for _ in 0..times {
            match step {
                Step::Admit(expected) => assert_eq!(breaker.admit(second * 1000), expected),
                Step::Ok => breaker.succeeded(),
                Step::Fail => breaker.failed(second * 1000),
            }
        }
        assert_eq!(breaker.state(), state, "at {second} s");
    };
    check(0, 9, Step::Fail, Closed);
    check(0, 1, Step::Ok, Closed); // a success starts the count anew
    check(0, 9, Step::Fail, Closed);
    check(0, 1, Step::Fail, Open);
    check(29, 1, Step::Admit(false), Open);
    check(30, 3, Step::Admit(true), HalfOpen);
    check(30, 1, Step::Admit(false), HalfOpen); // three at a time
    check(31, 1, Step::Fail, Open); // any failure reopens, for twice as long
    check(90, 1, Step::Admit(false), Open);
    check(91, 1, Step::Admit(true), HalfOpen);
    check(91, 2, Step::Ok, HalfOpen);
    check(91, 1, Step::Ok, Closed); // three successes close
    check(92, 10, Step::Fail, Open); // and the time is short again
    check(122, 1, Step::Admit(true), HalfOpen);
    let mut second = 122;
    for open_s in [60, 120, 240, 300, 300] {
        check(second, 1, Step::Fail, Open); // doubling ends at its cap
        check(second + open_s - 1, 1, Step::Admit(false), Open);
        check(second + open_s, 1, Step::Admit(true), HalfOpen);
        second += open_s;
    }
}

#[test]
fn an_answer_that_is_not_whole_is_unsure() {
    let check = |status: u16, body: &str, expected: &str| {
        let answer = HttpAnswer { status, body: body.to_owned().into() };
        let read = match crate::error::read(&answer, 7) {
            Ok(result) => format!("ok {}", result.get()),
            Err(RpcError::Answered(error)) => format!("answered {}", error.message),
            Err(RpcError::Unsure(_)) => "unsure".to_owned(),
            Err(RpcError::Unreachable(_)) => "unreachable".to_owned(),
        };
        assert_eq!(read, expected, "{status} {body}");
    };
    let error = r#"{"code":-1,"message":"m"}"#;
    check(200, r#"{"jsonrpc":"2.0","id":7,"result":{"a":1}}"#, r#"ok {"a":1}"#);
    check(200, r#"{"jsonrpc":"2.0","id":7,"result":null}"#, "ok null");
    check(200, r#"{"jsonrpc":"2.0","id":7,"result":1,"error":null}"#, "ok 1");
    check(200, &format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#), "answered m");
    check(400, &format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#), "answered m");
    check(200, &format!(r#"{{"jsonrpc":"2.0","id":7,"result":1,"error":{error}}}"#), "unsure");
    check(200, &format!(r#"{{"jsonrpc":"2.0","id":8,"error":{error}}}"#), "unsure");
    check(200, &format!(r#"{{"jsonrpc":"1.0","id":7,"error":{error}}}"#), "unsure");
    check(200, &format!(r#"{{"jsonrpc":"2.0","error":{error}}}"#), "unsure");
    check(200, r#"{"jsonrpc":"2.0","id":7,"error":"text"}"#, "unsure");
    check(200, r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#, "unsure");
    check(200, r#"{"jsonrpc":"2.0","id":7}"#, "unsure");
    check(500, r#"{"jsonrpc":"2.0","id":7,"result":1}"#, "unsure");
    check(200, "", "unsure");
    check(200, "[]", "unsure");
    check(413, "length limit exceeded", "unsure");
    check(404, "", "unsure");
}

#[tokio::test]
async fn a_url_is_never_shown_whole() {
    let text = "https://user:hunter2@rpc.example:8443/v1/hunter2?key=hunter2";
    let url = Url::parse(text).unwrap();
    assert_eq!(url.to_string(), "https://rpc.example:8443");
    assert_eq!(format!("{url:?}"), "Url(https://rpc.example:8443)");
    assert_eq!(url.expose(), text);
    let world = world(&[("a", &[Reply::Lost])]);
    let error = world.read().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret-key"));
    assert!(error.to_string().contains("http://a"));
    assert!(!format!("{:?}", world.endpoints.snapshot()).contains("secret-key"));
}

#[test]
fn a_bad_url_is_refused_without_repeating_it() {
    assert_eq!(Url::parse("ftp://x"), Err(BadUrl::Scheme));
    assert_eq!(Url::parse("localhost"), Err(BadUrl::Scheme));
    assert_eq!(Url::parse("http://"), Err(BadUrl::Malformed));
    assert_eq!(Url::parse("http://a b"), Err(BadUrl::Malformed));
}

/// Real sockets, loopback only: what the wire itself tells sure from unsure.
#[tokio::test]
async fn a_refused_connection_is_not_sent_and_a_closed_one_is_unsure() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
    let transport = HttpTransport::new();
    let post = || transport.post(&url, Bytes::from_static(b"{}"), Duration::from_secs(5));
    let accept = async {
        drop(listener.accept().await.unwrap());
        drop(listener);
    };
    let (answer, ()) = futures::join!(post(), accept);
    assert!(matches!(answer, Err(TransportError::Unsure(_))), "{answer:?}");
    let answer = post().await;
    assert!(matches!(answer, Err(TransportError::NotSent(_))), "{answer:?}");
}

/// The bytes that arrive, of one request at a time; each is answered with a 200 and `{}`.
async fn arrivals(listener: tokio::net::TcpListener, count: usize) -> Vec<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut requests = Vec::new();
    while requests.len() < count {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") && !text.ends_with('}') {
            let mut bytes = [0; 1_024];
            let read = stream.read(&mut bytes).await.unwrap();
            assert_ne!(read, 0, "closed after {text:?}");
            text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        // A body may come in a packet of its own.
        if text.starts_with("POST") && !text.ends_with('}') {
            let mut bytes = [0; 1_024];
            let read = stream.read(&mut bytes).await.unwrap();
            text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.unwrap();
        requests.push(text);
    }
    requests
}

#[tokio::test]
async fn a_question_and_an_order_go_out_as_they_were_given() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let base = Url::parse(&format!("http://user:pass@127.0.0.1:{port}/v1")).unwrap();
    let key = Header::new("X-Api-Key", "hunter2").unwrap();
    let request = |method, path, headers| HttpRequest {
        method,
        url: base.join(path).unwrap(),
        headers,
        body: Bytes::from_static(b"{\"a\":1}"),
    };
    let transport = HttpTransport::new();
    let patience = Duration::from_secs(5);
    let calls = async {
        let get = request(Method::Get, "/operations/7", vec![key]);
        transport.call(get, patience).await.unwrap();
        let bearer = Header::new("authorization", "Bearer x").unwrap();
        transport.call(request(Method::Post, "/withdraw", vec![bearer]), patience).await.unwrap()
    };
    let (answer, requests) = futures::join!(calls, arrivals(listener, 2));
    assert_eq!((answer.status, &answer.body[..]), (200, &b"{}"[..]));
    let [get, post] = &requests[..] else { panic!("two requests") };
    assert!(get.starts_with("GET /v1/operations/7 HTTP/1.1\r\n"), "{get}");
    assert!(get.contains("x-api-key: hunter2\r\n"), "{get}");
    assert!(get.contains("authorization: Basic dXNlcjpwYXNz\r\n"), "{get}");
    assert!(get.ends_with("\r\n\r\n"), "a question has no body: {get}");
    assert!(post.starts_with("POST /v1/withdraw HTTP/1.1\r\n"), "{post}");
    assert!(post.contains("content-type: application/json\r\n"), "{post}");
    assert!(post.contains("authorization: Bearer x\r\n"), "the header's word wins: {post}");
    assert!(post.ends_with("{\"a\":1}"), "{post}");
}

#[tokio::test]
async fn a_wire_for_posts_alone_says_that_nothing_was_sent() {
    let wire = Wire::default();
    wire.replies.lock().insert("a".into(), [ok()].into());
    let request = |method, headers| HttpRequest {
        method,
        url: Url::parse("http://a").unwrap(),
        headers,
        body: Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":1}"),
    };
    let key = Header::new("x-key", "hunter2").unwrap();
    let patience = Duration::from_secs(1);
    for asked in [request(Method::Get, vec![]), request(Method::Post, vec![key])] {
        let answer = wire.call(asked, patience).await;
        assert!(matches!(answer, Err(TransportError::NotSent(_))), "{answer:?}");
    }
    assert!(wire.call(request(Method::Post, vec![]), patience).await.is_ok());
    assert_eq!(*wire.asked.lock(), ["a"]);
}
