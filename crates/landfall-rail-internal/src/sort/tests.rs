//! The table, row by row, and what becomes of damaged bodies.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Map, Value};

use super::*;

/// What an answer was taken for, in a word or two.
fn said_of_operation(status: u16, body: &[u8]) -> String {
    match operation(status, body) {
        Answer::Done => "done".into(),
        Answer::Refused(why) => format!("refused {why}"),
        Answer::Pending { kind, .. } => kind.into(),
    }
}

fn said_of_query(status: u16, body: &[u8]) -> String {
    match query(status, body) {
        Standing::Done => "done".into(),
        Standing::Refused(why) => format!("refused {why}"),
        Standing::InProgress => "in progress".into(),
        Standing::Unknown => "unknown".into(),
        Standing::NoAnswer { kind, .. } => format!("no answer {kind}"),
    }
}

const OPERATIONS: &[(u16, &str, &str)] = &[
    // Done: 200 and nothing but success.
    (200, r#"{"success":true}"#, "done"),
    (200, " {\"success\" : true}\n", "done"),
    (200, r#"{"success":true,"error":null,"status":null}"#, "done"),
    (200, r#"{"success":true,"receipt":"r-17","error_code":0}"#, "done"),
    // Refused: 200 or 400 and nothing but an error.
    (200, r#"{"error":"Insufficient funds"}"#, "refused Insufficient funds"),
    (400, r#"{"error":"Invalid amount"}"#, "refused Invalid amount"),
    (200, r#"{"error":"Account frozen","code":17}"#, "refused Account frozen"),
    (200, r#"{"error":"no","success":null}"#, "refused no"),
    (400, r#"{"error":"zu groß"}"#, "refused zu groß"),
    // Still working.
    (202, "", "in_progress"),
    (202, r#"{"success":true}"#, "in_progress"),
    (202, r#"{"error":"Insufficient funds"}"#, "in_progress"),
    (200, r#"{"status":"in_progress"}"#, "in_progress"),
    // 200 and 400 that contradict themselves, or say something else.
    (200, r#"{"success":true,"error":"Insufficient funds"}"#, "unexpected_body"),
    (200, r#"{"success":false,"error":"Insufficient funds"}"#, "unexpected_body"),
    (200, r#"{"success":false}"#, "unexpected_body"),
    (200, r#"{"success":"true"}"#, "unexpected_body"),
    (200, r#"{"success":1}"#, "unexpected_body"),
    (200, r#"{"success":true,"status":"in_progress"}"#, "unexpected_body"),
    (200, r#"{"error":"no","status":"in_progress"}"#, "unexpected_body"),
    (200, r#"{"error":"no","status":"refused"}"#, "unexpected_body"),
    (200, r#"{"status":"done"}"#, "unexpected_body"),
    (200, r#"{"status":"failed"}"#, "unexpected_body"),
    (200, r#"{"error":""}"#, "unexpected_body"),
    (200, r#"{"error":" \t\u0000"}"#, "unexpected_body"),
    (200, r#"{"error":true}"#, "unexpected_body"),
    (200, r#"{"error":{"message":"Insufficient funds"}}"#, "unexpected_body"),
    (200, r#"{"error":["Insufficient funds"]}"#, "unexpected_body"),
    (200, r#"{"Error":"Insufficient funds"}"#, "unexpected_body"),
    (200, r#"{"data":{"error":"Insufficient funds"}}"#, "unexpected_body"),
    (200, r#"{"error":"no","error":null}"#, "unexpected_body"),
    (200, r#"{"success":true,"success":true}"#, "unexpected_body"),
    (200, r#"[true,null,null]"#, "unexpected_body"),
    (200, r#"[null,"Insufficient funds",null]"#, "unexpected_body"),
    (200, r#"[{"error":"Insufficient funds"}]"#, "unexpected_body"),
    (200, r#"{"error":"Insufficient funds"#, "unexpected_body"),
    (200, r#"{"error":"Insufficient funds"}}"#, "unexpected_body"),
    (200, r#"{"success":true}{"success":true}"#, "unexpected_body"),
    (200, "{\"error\":\"\u{0}\"}", "unexpected_body"),
    (200, r#"{"x":"\ud800","error":"Insufficient funds"}"#, "unexpected_body"),
    (200, r#"{"x":01,"error":"Insufficient funds"}"#, "unexpected_body"),
    (200, "", "unexpected_body"),
    (200, "null", "unexpected_body"),
    (200, "true", "unexpected_body"),
    (200, "\"Insufficient funds\"", "unexpected_body"),
    (200, "{}", "unexpected_body"),
    (200, "<html>Insufficient funds</html>", "unexpected_body"),
    (400, r#"{"success":true}"#, "unexpected_body"),
    (400, r#"{"status":"in_progress"}"#, "unexpected_body"),
    (400, "Bad Request", "unexpected_body"),
    (400, "", "unexpected_body"),
    // Any other status says nothing, whatever the body says.
    (201, r#"{"success":true}"#, "unexpected_status"),
    (204, "", "unexpected_status"),
    (206, r#"{"success":true}"#, "unexpected_status"),
    (301, "", "unexpected_status"),
    (304, "", "unexpected_status"),
    (401, r#"{"error":"Unauthorized"}"#, "unauthorized"),
    (403, r#"{"error":"Forbidden"}"#, "unauthorized"),
    (404, r#"{"error":"Not found"}"#, "not_found"),
    (405, r#"{"error":"Method not allowed"}"#, "unexpected_status"),
    (408, r#"{"error":"Request timeout"}"#, "timeout"),
    (409, r#"{"error":"no such withdrawal yet"}"#, "conflict"),
    (410, r#"{"error":"Gone"}"#, "unexpected_status"),
    (413, r#"{"error":"Too large"}"#, "unexpected_status"),
    (422, r#"{"error":"Insufficient funds"}"#, "unexpected_status"),
    (429, r#"{"error":"Slow down"}"#, "rate_limited"),
    (500, r#"{"error":"Insufficient funds"}"#, "server_error"),
    (500, r#"{"success":true}"#, "server_error"),
    (500, "", "server_error"),
    (502, "<html>Bad Gateway</html>", "server_error"),
    (503, r#"{"error":"Unavailable"}"#, "server_error"),
    (504, "", "server_error"),
    (599, "", "server_error"),
    (0, "", "unexpected_status"),
    (999, r#"{"error":"no"}"#, "unexpected_status"),
];

const QUERIES: &[(u16, &str, &str)] = &[
    (200, r#"{"status":"done"}"#, "done"),
    (200, r#"{"status":"done","error":null,"at_ms":17}"#, "done"),
    (200, r#"{"status":"refused","error":"Insufficient funds"}"#, "refused Insufficient funds"),
    (200, r#"{"status":"in_progress"}"#, "in progress"),
    (200, r#"{"status":"unknown"}"#, "unknown"),
    (200, r#"{"status":"refused"}"#, "no answer unexpected_body"),
    (200, r#"{"status":"refused","error":""}"#, "no answer unexpected_body"),
    (200, r#"{"status":"refused","error":"no","success":true}"#, "no answer unexpected_body"),
    (200, r#"{"status":"done","error":"no"}"#, "no answer unexpected_body"),
    (200, r#"{"status":"done","success":true}"#, "no answer unexpected_body"),
    (200, r#"{"status":"unknown","error":"database down"}"#, "no answer unexpected_body"),
    (200, r#"{"status":"in_progress","error":"no"}"#, "no answer unexpected_body"),
    (200, r#"{"status":"Done"}"#, "no answer unexpected_body"),
    (200, r#"{"status":"failed","error":"no"}"#, "no answer unexpected_body"),
    (200, r#"{"status":200}"#, "no answer unexpected_body"),
    (200, r#"{"status":"done","status":"refused","error":"no"}"#, "no answer unexpected_body"),
    (200, r#"{"success":true}"#, "no answer unexpected_body"),
    (200, r#"{"error":"Insufficient funds"}"#, "no answer unexpected_body"),
    (200, r#"[null,"Insufficient funds","refused"]"#, "no answer unexpected_body"),
    (200, "{}", "no answer unexpected_body"),
    (200, "", "no answer unexpected_body"),
    (200, r#"{"status":"refused","error":"no"#, "no answer unexpected_body"),
    (201, r#"{"status":"done"}"#, "no answer unexpected_status"),
    (202, r#"{"status":"done"}"#, "no answer unexpected_status"),
    (400, r#"{"status":"refused","error":"no"}"#, "no answer unexpected_body"),
    (400, r#"{"error":"no"}"#, "no answer unexpected_body"),
    (401, r#"{"status":"unknown"}"#, "no answer unauthorized"),
    (403, "", "no answer unauthorized"),
    (404, r#"{"status":"unknown"}"#, "no answer not_found"),
    (404, r#"{"error":"Not found"}"#, "no answer not_found"),
    (408, "", "no answer timeout"),
    (409, "", "no answer conflict"),
    (410, r#"{"status":"unknown"}"#, "no answer unexpected_status"),
    (429, "", "no answer rate_limited"),
    (500, r#"{"status":"refused","error":"no"}"#, "no answer server_error"),
    (503, r#"{"status":"done"}"#, "no answer server_error"),
];

#[test]
fn every_answer_to_an_operation_is_sorted_by_the_table() {
    for (status, body, expected) in OPERATIONS {
        assert_eq!(said_of_operation(*status, body.as_bytes()), *expected, "{status} {body}");
    }
}

#[test]
fn every_answer_to_a_query_is_sorted_by_the_table() {
    for (status, body, expected) in QUERIES {
        assert_eq!(said_of_query(*status, body.as_bytes()), *expected, "{status} {body}");
    }
}

#[test]
fn the_words_of_a_doubt_are_kept_for_the_operator() {
    let answer = operation(409, br#"{"error":"no such withdrawal yet"}"#);
    let message = "HTTP 409: no such withdrawal yet".to_owned();
    assert_eq!(answer, Answer::Pending { kind: "conflict", message });
    let standing = query(503, b"<html>");
    let message = "HTTP 503".to_owned();
    assert_eq!(standing, Standing::NoAnswer { kind: "server_error", message });
}

#[test]
fn a_body_longer_than_any_of_the_contract_says_nothing() {
    let long = |spaces| format!(r#"{{"error":"no"{}}}"#, " ".repeat(spaces));
    assert_eq!(said_of_operation(200, long(1_000).as_bytes()), "refused no");
    assert_eq!(said_of_operation(200, long(BODY_BYTES_MAX).as_bytes()), "unexpected_body");
    let deep = format!(r#"{{"x":{}"error":"no"}}"#, "[".repeat(20_000));
    assert_eq!(said_of_operation(200, deep.as_bytes()), "unexpected_body");
}

#[test]
fn a_body_that_is_damaged_beside_the_refusal_is_not_believed() {
    assert_eq!(said_of_operation(200, b"{\"x\":\"\xff\",\"error\":\"no\"}"), "unexpected_body");
    assert_eq!(said_of_operation(200, b"{\"error\":\"n\xffo\"}"), "unexpected_body");
}

/// A body as the rows' conditions see it, read another way.
fn read(body: &[u8]) -> Option<Map<String, Value>> {
    let mut map: Map<String, Value> = serde_json::from_slice(body).ok()?;
    map.retain(|name, value| {
        ["success", "error", "status"].contains(&name.as_str()) && !value.is_null()
    });
    Some(map)
}

fn has_only(body: &[u8], names: &[&str]) -> bool {
    read(body)
        .is_some_and(|map| map.len() == names.len() && names.iter().all(|n| map.contains_key(*n)))
}

fn damaged(rng: &mut StdRng) -> (u16, Vec<u8>) {
    let rows = if rng.random() { OPERATIONS } else { QUERIES };
    let (status, body, _) = rows[rng.random_range(0..rows.len())];
    let mut body = body.as_bytes().to_vec();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..=body.len());
        match rng.random_range(0..5) {
            0 => body.insert(at, rng.random()),
            1 => body.truncate(at),
            2 => {
                let (_, other, _) = rows[rng.random_range(0..rows.len())];
                body.splice(at..at, other.bytes());
            }
            _ if at == body.len() => {}
            3 => _ = body.remove(at),
            _ => body[at] ^= 1 << rng.random_range(0..8),
        }
    }
    let statuses = [status, status, status, 200, 400, rng.random_range(0..1_000)];
    (statuses[rng.random_range(0..statuses.len())], body)
}

#[test]
fn damaged_bodies_never_panic_and_never_decide_but_by_a_row() {
    let mut rng = StdRng::seed_from_u64(17);
    let (mut decided, mut rounds) = (0, 0);
    while rounds < 200_000 {
        rounds += 1;
        let (status, body) = damaged(&mut rng);
        let shown = || format!("{status} {:?}", String::from_utf8_lossy(&body));
        match operation(status, &body) {
            Answer::Done => assert!(status == 200 && has_only(&body, &["success"]), "{}", shown()),
            Answer::Refused(_) => {
                let row = [200, 400].contains(&status) && has_only(&body, &["error"]);
                assert!(row, "{}", shown());
                decided += 1;
            }
            Answer::Pending { .. } => {}
        }
        match query(status, &body) {
            Standing::Refused(_) => {
                let row = status == 200 && has_only(&body, &["status", "error"]);
                assert!(row && read(&body).unwrap()["status"] == "refused", "{}", shown());
                decided += 1;
            }
            Standing::NoAnswer { .. } => {}
            Standing::Done | Standing::InProgress | Standing::Unknown => {
                assert!(status == 200 && has_only(&body, &["status"]), "{}", shown());
            }
        }
    }
    assert!(decided > 1_000, "the damage was so great that nothing was tried: {decided}");
}
