//! Captured answers of a real node, and the comparison with ours.

use std::path::Path;

use landfall_sim_near::rpc::{Answer, Body};
use serde_json::Value;

pub struct Capture {
    pub http_status: u16,
    pub request: Value,
    pub response: Value,
    /// The body where it is no JSON.
    pub text: Option<String>,
}

pub fn load(name: &str) -> Capture {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json")));
    let text = text.unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut whole: Value = serde_json::from_str(&text).expect("a capture is JSON");
    Capture {
        http_status: whole["http_status"].as_u64().expect("a status") as u16,
        request: whole["request"].take(),
        response: whole["response"].take(),
        text: whole["response_raw"].as_str().map(str::to_string),
    }
}

/// The same fields of the same types, all the way down, and the same HTTP status.
pub fn check_shape(name: &str, answer: &Answer) {
    let captured = load(name);
    assert_eq!(answer.http_status, captured.http_status, "{name}");
    compare(name, answer.json(), &captured.response);
}

/// The very same body, after replacing in the captured one what cannot be the same.
pub fn check_equal(name: &str, answer: &Answer, replace: &[(&str, &str)]) {
    let captured = load(name);
    assert_eq!(answer.http_status, captured.http_status, "{name}");
    let mut text = captured.response.to_string();
    for (theirs, ours) in replace {
        assert!(text.contains(theirs), "{name} has no {theirs}");
        text = text.replace(theirs, ours);
    }
    let expected: Value = serde_json::from_str(&text).expect("still JSON");
    let Body::Json(ours) = &answer.body else { panic!("{name}: no JSON") };
    assert_eq!(ours, &expected, "{name}");
}

pub fn compare(path: &str, ours: &Value, theirs: &Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: Vec<_> = ours.keys().collect();
            let expected: Vec<_> = theirs.keys().collect();
            assert_eq!(names, expected, "{path}");
            for (name, value) in ours {
                compare(&format!("{path}.{name}"), value, &theirs[name]);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => compare_arrays(path, ours, theirs),
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Null, Value::Null) => {}
        _ => panic!("{path}: {ours} is no {theirs}"),
    }
}

/// Receipts one by one; elsewhere each of ours is like one of theirs.
fn compare_arrays(path: &str, ours: &[Value], theirs: &[Value]) {
    if ["receipts_outcome", "receipt_ids", "receipts"].iter().any(|name| path.ends_with(name)) {
        assert_eq!(ours.len(), theirs.len(), "{path}");
        for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            compare(&format!("{path}[{index}]"), ours, theirs);
        }
        return;
    }
    for (index, value) in ours.iter().enumerate() {
        let kin = theirs.iter().find(|other| kind(other) == kind(value));
        match kin {
            Some(kin) => compare(&format!("{path}[{index}]"), value, kin),
            None => assert!(theirs.is_empty(), "{path}[{index}]: {value} is like none of theirs"),
        }
    }
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}
