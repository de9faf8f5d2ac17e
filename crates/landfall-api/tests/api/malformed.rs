//! Malformed requests: each with its exact status and message; nothing is stored, nothing panics.

use axum::body::Body;

use crate::world::{ALICE, World, request};

/// Sends a table of requests and compares every answer.
struct Table {
    world: World,
    rows: usize,
}

const JSON: (&str, &[u8]) = ("content-type", b"application/json");
const KEY: (&str, &[u8]) = ("x-idempotency-key", b"payout-1");
const KEY_RULE: &str = "must be 1 to 255 visible ASCII characters (letters, digits, \
                        punctuation; no spaces), and neither \".\" nor \"..\"";

const NO_AMOUNT: &str = "amount: is missing; give a whole number in the smallest unit, as a string";

impl Table {
    fn new() -> Table {
        Table { world: World::new(), rows: 0 }
    }

    async fn check(
        &mut self,
        (method, path): (&str, &str),
        headers: &[(&str, &[u8])],
        body: impl Into<Body>,
        (status, message): (u16, &str),
    ) {
        let answer = self.world.send(request(method, path, headers, body)).await;
        answer.check_error(status, message);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        self.rows += 1;
    }

    /// A `POST /transfer` that is good but for its body.
    async fn body(&mut self, body: impl Into<Body>, message: &str) {
        self.check(("POST", "/transfer"), &[JSON, KEY], body, (400, message)).await;
    }

    /// A `POST /transfer` that is good but for its headers.
    async fn headers(&mut self, headers: &[(&str, &[u8])], status: u16, message: &str) {
        self.check(("POST", "/transfer"), headers, ALICE, (status, message)).await;
    }

    async fn get(&mut self, path: &str, status: u16, message: &str) {
        self.check(("GET", path), &[], "", (status, message)).await;
    }

    async fn end(self, rows: usize) {
        assert_eq!(self.rows, rows);
        assert_eq!(self.world.stored(), 0);
        assert!(self.world.relay.book.lock().batches.is_empty());
        let metrics = self.world.get("/metrics").await;
        assert!(metrics.text.contains("landfall_api_panics_total 0\n"), "{}", metrics.text);
    }
}

#[tokio::test]
async fn broken_bodies_are_named_for_what_they_are() {
    let mut table = Table::new();
    let object = "body: must be an object such as {\"receiver_id\": \"alice.near\", \
                  \"amount\": \"1\"}, not";
    table.body("", "body: is empty; send JSON").await;
    table.body(" \r\n\t ", "body: is empty; send JSON").await;
    table.body("\u{feff}{}", "body: starts with a byte order mark; send UTF-8 without one").await;
    table.body(&b"{\"receiver_id\": \"\xff\"}"[..], "body: is not UTF-8 from byte 17 on").await;
    table.body(&b"\xff\xfe{\0"[..], "body: is not UTF-8 from byte 0 on").await;
    table.body("{", "body: is cut off: the JSON ends at line 1 column 1").await;
    table
        .body(r#"{"receiver_id": "ali"#, "body: is cut off: the JSON ends at line 1 column 20")
        .await;
    table
        .body(
            r#"{"receiver_id": "alice.near", "amount": "1""#,
            "body: is cut off: the JSON ends at line 1 column 43",
        )
        .await;
    table.body("payout", "body: is not JSON: expected value at line 1 column 1").await;
    table.body("{'a': 1}", "body: is not JSON: key must be a string at line 1 column 2").await;
    table
        .body(
            r#"{"receiver_id": "alice.near", "amount": "1",}"#,
            "body: is not JSON: trailing comma at line 1 column 45",
        )
        .await;
    table
        .body(
            r#"{"receiver_id": "alice.near" "amount": "1"}"#,
            "body: is not JSON: expected `,` or `}` at line 1 column 30",
        )
        .await;
    table
        .body(
            r#"{"receiver_id": "alice.near", "amount": "1"} {}"#,
            "body: is not JSON: trailing characters at line 1 column 46",
        )
        .await;
    table
        .body(
            "{\"receiver_id\": \"alice.near\", \"memo\": \"a\nb\", \"amount\": \"1\"}",
            "body: is not JSON: control character (\\u0000-\\u001F) found while parsing a string \
             at line 2 column 0",
        )
        .await;
    table
        .body(
            r#"{"receiver_id": "\ud800", "amount": "1"}"#,
            "body: is not JSON: unexpected end of hex escape at line 1 column 24",
        )
        .await;
    table.body("null", &format!("{object} null")).await;
    table.body("true", &format!("{object} a boolean")).await;
    table.body("12", &format!("{object} a number")).await;
    table.body("-1.5e3", &format!("{object} a number")).await;
    table.body("\"alice.near\"", &format!("{object} a string")).await;
    table.body(format!("[{ALICE}]"), &format!("{object} an array")).await;
    table.body("[".repeat(60_000), &format!("{object} an array")).await;
    table.end(22).await;
}

#[tokio::test]
async fn wrong_fields_are_named() {
    let mut table = Table::new();
    let known = "the fields are receiver_id, amount and memo";
    let receiver = "receiver_id: is missing; give the account to be paid, as a string";
    table.body("{}", &format!("{receiver}; also {NO_AMOUNT}")).await;
    table.body(r#"{"receiver_id": "alice.near"}"#, NO_AMOUNT).await;
    table
        .body(
            r#"{"receiver_id": "alice.near", "amount": "1", "token": "x"}"#,
            &format!("\"token\": is not a field; {known}"),
        )
        .await;
    table.body(r#"{"Amount": "1"}"#, &format!("\"Amount\": is not a field; {known}")).await;
    table.body(r#"{"": "1"}"#, &format!("\"\": is not a field; {known}")).await;
    table
        .body(
            format!("{{\"{}\": 1}}", "x".repeat(1_000)),
            &format!("\"{}\"…: is not a field; {known}", "x".repeat(40)),
        )
        .await;
    table
        .body(
            format!("{{\"deep\": {}", "{\"a\":".repeat(10_000)),
            &format!("\"deep\": is not a field; {known}"),
        )
        .await;
    table
        .body(
            r#"{"idempotency_key": "k", "receiver_id": "alice.near", "amount": "1"}"#,
            "idempotency_key: belongs in the X-Idempotency-Key header here",
        )
        .await;
    table
        .body(
            r#"{"amount": "1", "receiver_id": "alice.near", "amount": "1"}"#,
            "amount: is given twice",
        )
        .await;
    table
        .body(
            r#"{"receiver_id": "a.near", "receiver_id": "b.near", "amount": "1"}"#,
            "receiver_id: is given twice",
        )
        .await;
    table
        .body(
            r#"{"receiver_id": "alice.near", "amount": "1", "memo": null, "memo": "x"}"#,
            "memo: is given twice",
        )
        .await;
    table.end(11).await;
}

#[tokio::test]
async fn values_of_the_wrong_type_are_named() {
    let mut table = Table::new();
    let number =
        "amount: must be a string such as \"1000\", not a number: JSON numbers lose digits";
    let amount = |value: &str| format!("{{\"receiver_id\": \"alice.near\", \"amount\": {value}}}");
    table.body(amount("1"), number).await;
    table.body(amount("-1"), number).await;
    table.body(amount("1.5"), number).await;
    table.body(amount("1e30"), number).await;
    table.body(amount("340282366920938463463374607431768211455"), number).await;
    table.body(amount("1e999"), "body: is not JSON: number out of range at line 1 column 45").await;
    table.body(amount("null"), "amount: must be a string, not null").await;
    table.body(amount("true"), "amount: must be a string, not a boolean").await;
    table.body(amount("[\"1\"]"), "amount: must be a string, not an array").await;
    table.body(amount("{\"value\": \"1\"}"), "amount: must be a string, not an object").await;
    let not = |what: &str| format!("receiver_id: must be a string, not {what}; also {NO_AMOUNT}");
    table.body(r#"{"receiver_id": null}"#, &not("null")).await;
    table.body(r#"{"receiver_id": 7}"#, &not("a number")).await;
    table
        .body(
            format!("{{\"receiver_id\": {}", "[".repeat(50_000)),
            "receiver_id: must be a string, not an array",
        )
        .await;
    let memo = |value: &str| {
        format!("{{\"receiver_id\": \"alice.near\", \"memo\": {value}, \"amount\": \"1\"}}")
    };
    table.body(memo("7"), "memo: must be a string, not a number").await;
    table.body(memo("{\"a\": [1]}"), "memo: must be a string, not an object").await;
    table.end(15).await;
}

#[tokio::test]
async fn accounts_amounts_and_memos_follow_the_ledgers_rules() {
    let mut table = Table::new();
    let long = "a".repeat(65);
    for receiver in
        ["", "a", "Alice.near", "alice..near", "al ice.near", "-a.near", "é.near", &long]
    {
        let body = format!("{{\"receiver_id\": \"{receiver}\", \"amount\": \"1\"}}");
        let cause = receiver.parse::<near_account_id::AccountId>().unwrap_err();
        table.body(body, &format!("receiver_id: not a NEAR account id: {cause}")).await;
    }
    table
        .body(
            r#"{"receiver_id": "relay.near", "amount": "1"}"#,
            "receiver_id: is the relay's own account, which cannot pay itself",
        )
        .await;
    let digits = "amount: must be a whole number in the token's smallest unit, digits only";
    for amount in ["-1", "+1", "1.5", "1e3", " 1", "1 ", "0x10", "1_000", "١", "NaN"] {
        let body = format!("{{\"receiver_id\": \"alice.near\", \"amount\": \"{amount}\"}}");
        table.body(body, digits).await;
    }
    let amount =
        |text: &str| format!("{{\"receiver_id\": \"alice.near\", \"amount\": \"{text}\"}}");
    table.body(amount(""), "amount: is empty; give a whole number as a decimal string").await;
    table.body(amount("0"), "amount: must be at least 1").await;
    table.body(amount("000"), "amount: must be at least 1").await;
    let limit = "amount: is larger than the ledger's limit 340282366920938463463374607431768211455";
    table.body(amount("340282366920938463463374607431768211456"), limit).await;
    table.body(amount(&"9".repeat(10_000)), limit).await;
    let memo = |text: &str| {
        format!("{{\"receiver_id\": \"alice.near\", \"amount\": \"1\", \"memo\": \"{text}\"}}")
    };
    table.body(memo("a\\u0000b"), "memo: contains a control character").await;
    table.body(memo(&"m".repeat(257)), "memo: is 257 bytes long; at most 256 are taken").await;
    table.end(26).await;
}

#[tokio::test]
async fn broken_idempotency_keys_are_refused() {
    let mut table = Table::new();
    let long = vec![b'k'; 256];
    let missing = "X-Idempotency-Key: is missing; send a key of your own making, the same for \
                   every repeat of this transfer";
    let own = format!("X-Idempotency-Key: {KEY_RULE}");
    let standard = format!("Idempotency-Key: {KEY_RULE}");
    let quote = "Idempotency-Key: starts with a quote but is not one quoted string (RFC 8941)";
    table.headers(&[JSON], 400, missing).await;
    for key in [&b""[..], b"a b", b"a\tb", b"caf\xc3\xa9", b"\xff", b".", b"..", &long] {
        table.headers(&[JSON, ("x-idempotency-key", key)], 400, &own).await;
    }
    for key in [&b""[..], b"\"\"", b"\"a b\"", &long] {
        table.headers(&[JSON, ("idempotency-key", key)], 400, &standard).await;
    }
    for key in [&b"\""[..], b"\"open", b"\"a\"b", b"\"a\";v=1", b"\"a\\x\"", b"\"a\\"] {
        table.headers(&[JSON, ("idempotency-key", key)], 400, quote).await;
    }
    table
        .headers(
            &[JSON, KEY, ("idempotency-key", b"payout-2")],
            400,
            "X-Idempotency-Key and Idempotency-Key name different keys; send one of them",
        )
        .await;
    table
        .headers(&[JSON, KEY, KEY], 400, "X-Idempotency-Key: is given more than once; send it once")
        .await;
    table.end(21).await;
}

#[tokio::test]
async fn bodies_of_another_type_are_refused() {
    let mut table = Table::new();
    let send = "send application/json";
    table.headers(&[KEY], 415, &format!("Content-Type: is missing; {send}")).await;
    let mut typed = async |value: &[u8], message: &str| {
        table.headers(&[KEY, ("content-type", value)], 415, message).await;
    };
    let not_taken = format!("Content-Type: is not taken here; {send}");
    typed(b"", &format!("Content-Type: is empty; {send}")).await;
    typed(b"; charset=utf-8", &format!("Content-Type: is empty; {send}")).await;
    typed(b"text/plain", &not_taken).await;
    typed(b"application/x-www-form-urlencoded", &not_taken).await;
    typed(b"application/jsonp", &not_taken).await;
    typed(b"application/x-ndjson", &not_taken).await;
    typed(b"application/json\xff", &format!("Content-Type: is not readable; {send}")).await;
    typed(b"application/json; charset=utf-16", "Content-Type: charset must be utf-8").await;
    table
        .headers(&[KEY, JSON, JSON], 415, &format!("Content-Type: is given more than once; {send}"))
        .await;
    table
        .headers(
            &[KEY, JSON, ("content-encoding", b"gzip")],
            415,
            "Content-Encoding: must not be set; send it plain",
        )
        .await;
    table.end(11).await;
}

#[tokio::test]
async fn too_much_is_refused() {
    let mut table = Table::new();
    let single = (413, "body: is too large; at most 65536 bytes are taken");
    let many = (413, "body: is too large; at most 4194304 bytes are taken");
    let spaces = |bytes: usize| format!("{}{ALICE}", " ".repeat(bytes - ALICE.len()));
    let (one, several) = (("POST", "/transfer"), ("POST", "/transfers"));
    table.check(one, &[JSON, KEY], spaces(64 * 1024 + 1), single).await;
    // Announced too long: refused before a byte is read.
    table.check(one, &[JSON, KEY, ("content-length", b"65537")], Body::empty(), single).await;
    table.check(several, &[JSON], " ".repeat(4 * 1024 * 1024 + 1), many).await;
    let more = (413, "body: holds more than 1000 transfers; send them in several requests");
    table.check(several, &[JSON], format!("[{}1]", "1,".repeat(1_000)), more).await;
    table.check(several, &[JSON], format!("[{}1]", "1,".repeat(1_000_000)), more).await;
    let lines = [("content-type", &b"application/x-ndjson"[..])];
    table.check(several, &lines, "1\n".repeat(1_001), more).await;
    table.end(6).await;
}

#[tokio::test]
async fn batches_that_are_none_are_refused_whole() {
    let mut table = Table::new();
    let mut batch = async |body: &str, message: &str| {
        table.check(("POST", "/transfers"), &[JSON], body.to_owned(), (400, message)).await;
    };
    batch("", "body: is empty; send JSON").await;
    batch("{}", "body: must be an array of transfers, not an object").await;
    batch("null", "body: must be an array of transfers, not null").await;
    batch("7", "body: must be an array of transfers, not a number").await;
    batch("\"x\"", "body: must be an array of transfers, not a string").await;
    batch("[{}", "body: is cut off: the JSON ends at line 1 column 3").await;
    batch("[{}] x", "body: is not JSON: trailing characters at line 1 column 6").await;
    let both = "send application/json or application/x-ndjson";
    let lines = [("content-type", &b"application/x-ndjson"[..])];
    let several = ("POST", "/transfers");
    table.check(several, &lines, "\n \r\n", (400, "body: is empty; send JSON")).await;
    let missing = format!("Content-Type: is missing; {both}");
    table.check(several, &[], "[]", (415, &missing)).await;
    table.end(9).await;
}

#[tokio::test]
async fn wrong_paths_methods_and_queries_are_refused() {
    let mut table = Table::new();
    let key = format!("key: {KEY_RULE}");
    let wait = "wait: must be a time such as 30s or 500ms, at most 60s";
    let time =
        |name: &str| format!("{name}: must be a time such as 2025-10-10T10:00:00Z (RFC 3339)");
    table.get("/nowhere", 404, "no route /nowhere; the routes are at /docs").await;
    table.get("/transfer/", 404, "no route /transfer/; the routes are at /docs").await;
    table.get("/transfer/a/b", 404, "no route /transfer/a/b; the routes are at /docs").await;
    table.get("/transfer", 405, "GET is not allowed on /transfer").await;
    table.check(("DELETE", "/health"), &[], "", (405, "DELETE is not allowed on /health")).await;
    table.get("/transfer/unknown", 404, "no transfer has the key \"unknown\"").await;
    table.get("/transfer/%ff", 400, &key).await;
    table.get("/transfer/a%20b", 400, &key).await;
    table.get("/transfer/%2e%2e", 400, &key).await;
    table.get(&format!("/transfer/{}", "k".repeat(256)), 400, &key).await;
    for text in ["", "s", "-1", "1m", "61", "61s", "60001ms", "1.5s", "30S", "99999999999999999999"]
    {
        table.get(&format!("/transfer/k?wait={text}"), 400, wait).await;
    }
    table.get("/transfer/k?wait=1&wait=2", 400, "wait: is given twice").await;
    table
        .get("/transfer/k?Wait=1", 400, "\"Wait\": is not a query parameter here; there is wait")
        .await;
    table.get("/transfers?created_from=yesterday", 400, &time("created_from")).await;
    table.get("/transfers?created_until=2025-10-10", 400, &time("created_until")).await;
    table.get("/transfers?adrift=yes", 400, "adrift: must be true or false").await;
    for limit in ["0", "501", "-1", "many", ""] {
        let path = format!("/transfers?limit={limit}");
        table.get(&path, 400, "limit: must be a number from 1 to 500").await;
    }
    let cursor = "cursor: must be the next_cursor of an earlier page";
    table.get("/transfers?cursor=zzz", 400, cursor).await;
    table
        .get(
            "/transfers?status=DONE",
            400,
            "status: must be one of RECEIVED, QUEUED_REGISTRATION, REGISTERED, QUEUED_TRANSFER, \
             SUBMITTED, QUEUED_VERIFICATION, COMPLETED, FAILED",
        )
        .await;
    table
        .get(
            "/transfers?staus=FAILED",
            400,
            "\"staus\": is not a query parameter here; there is idempotency_key, status, \
             receiver_id, created_from, created_until, adrift, cursor, limit",
        )
        .await;
    table.end(33).await;
}
