//! What the HTTP parser answers by itself, in the shape of all other errors.
//!
//! hyper answers what it cannot parse with a status and no body, and asks nobody. Its answers are
//! told from ours by what they lack: every answer of ours has a request id.
//! Not here: what it closes without a word, such as a client that speaks HTTP/2 or TLS.

use serde_json::json;

/// In every answer of ours.
const OURS: &[u8] = b"x-request-id:";
const EMPTY: &[u8] = b"\r\ncontent-length: 0\r\n";

const TOLD: [(&str, &str); 3] = [
    ("400 Bad Request", "the request is not HTTP/1.1: its first line or a header is malformed"),
    ("414 URI Too Long", "the path is too large"),
    (
        "431 Request Header Fields Too Large",
        "the request's head is too large: at most 100 headers and 64 KiB, path included, are taken",
    ),
];

/// The whole answer to send instead, if these bytes are one of the parser's own.
pub fn instead_of(bytes: &[u8]) -> Option<String> {
    let line = bytes.strip_prefix(b"HTTP/1.1 ")?;
    let (status, message) =
        TOLD.iter().find(|(status, _)| line.starts_with(format!("{status}\r\n").as_bytes()))?;
    let is_ours = contains(bytes, OURS);
    let is_whole = bytes.ends_with(b"\r\n\r\n") && contains(bytes, EMPTY);
    (is_whole && !is_ours).then(|| answer(status, "", message))
}

/// To whom there is no room for.
pub fn full_house() -> String {
    let message = "too many connections; try again in 1 s";
    answer("503 Service Unavailable", "retry-after: 1\r\n", message)
}

fn answer(status: &str, headers: &str, message: &str) -> String {
    let body = json!({ "error": message }).to_string();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}connection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_parser_said_by_itself_is_replaced() {
        let parser = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert!(instead_of(parser.as_bytes()).is_some_and(|told| told.contains("{\"error\":")));
        let ours = parser.replace("connection", "x-request-id: 1\r\nconnection");
        assert_eq!(instead_of(ours.as_bytes()), None);
        let other = parser.replace("400 Bad Request", "200 OK");
        assert_eq!(instead_of(other.as_bytes()), None);
        assert_eq!(instead_of(&parser.as_bytes()[..40]), None);
    }
}
