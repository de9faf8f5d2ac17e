//! THE TABLE: what a relayer's answer to a POST says.
//!
//! | status | body | it is |
//! |---|---|---|
//! | 200, 201, 202 | a transaction with its id, in the relayer's shape | taken |
//! | 400, 422 | the relayer's own refusal | refused, for what was asked |
//! | 401, 403, 404, 413 | the relayer's own refusal | refused, by the relay's fault |
//! | 429 | the relayer's own refusal, or the words of its limiter | the same |
//! | everything else | any | unsure: it may have been taken |
//!
//! *Its own refusal* is an envelope `{success: false, error}`; of a relayer without envelopes an
//! object with a text as `error` or `message`, and only with 400 or 422. What a gateway in front of
//! it says is none.
//! **Rule:** the list is closed. A relayer checks a request before it writes it into its book, so
//! that these answers are given of what is not there; whatever else it says may come from later.
//! Pure: no clock, no I/O.

use serde_json::Value;

use super::settings::Shape;
use super::wire::{self, Enveloped, Told};

/// How the relayer's own limiter begins.
const LIMITED: &str = "too many requests";

/// What the answer to a POST says, cut by what the caller does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// The relayer has it, under this id: follow it.
    Yes(Box<Told>),
    /// Refused at the door, nothing was taken: it may be handed over anew.
    No {
        reason: String,
        /// By the relay's own doing: a wrong key, a relayer that is paused.
        relays_fault: bool,
    },
    /// It may have been taken: search, and never post it again.
    Unsure(String),
}

/// Sorts the answer to a POST.
pub fn submission(shape: Shape, status: u16, body: &[u8]) -> Taken {
    let unsure = || Taken::Unsure(format!("HTTP {status}{}", words(body)));
    match status {
        200..=202 => transaction(shape, body).map_or_else(unsure, |told| Taken::Yes(told.into())),
        400 | 401 | 403 | 404 | 413 | 422 | 429 => match refusal(shape, status, body) {
            Some(why) => Taken::No {
                reason: format!("HTTP {status}: {why}"),
                relays_fault: !matches!(status, 400 | 422),
            },
            None => unsure(),
        },
        _ => unsure(),
    }
}

fn transaction(shape: Shape, body: &[u8]) -> Option<Told> {
    match shape {
        Shape::Enveloped => match wire::open(body)? {
            Enveloped::Data(data) => wire::told(&data, shape),
            Enveloped::Error(_) => None,
        },
        Shape::Bare => wire::told(&serde_json::from_slice(body).ok()?, shape),
    }
}

fn refusal(shape: Shape, status: u16, body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    if status == 429 && text.trim().to_ascii_lowercase().starts_with(LIMITED) {
        return Some(text.trim().to_owned());
    }
    match shape {
        Shape::Enveloped => match wire::open(body)? {
            Enveloped::Error(error) => Some(error),
            Enveloped::Data(_) => None,
        },
        Shape::Bare if matches!(status, 400 | 422) => said(body),
        Shape::Bare => None,
    }
}

/// What an object says as `error` or `message`.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let texts = ["message", "error"].map(|name| body[name].as_str());
    let text = texts.into_iter().flatten().find(|text| !text.trim().is_empty())?;
    Some(text.to_owned())
}

fn words(body: &[u8]) -> String {
    said(body).map_or(String::new(), |said| format!(": {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKEN: &str = r#"{"success":true,"data":{"id":"a-1","status":"pending"},"error":null}"#;
    const REFUSED: &str = r#"{"success":false,"data":null,"error":"gas_limit is too low"}"#;

    fn enveloped(status: u16, body: &str) -> Taken {
        submission(Shape::Enveloped, status, body.as_bytes())
    }

    fn bare(status: u16, body: &str) -> Taken {
        submission(Shape::Bare, status, body.as_bytes())
    }

    fn is_taken(taken: &Taken) -> bool {
        matches!(taken, Taken::Yes(told) if told.id == "a-1")
    }

    #[test]
    fn what_was_taken_has_an_id() {
        for status in [200, 201, 202] {
            assert!(is_taken(&enveloped(status, TAKEN)), "{status}");
            assert!(is_taken(&bare(status, r#"{"transactionId":"a-1","hash":"0x"}"#)));
        }
        for body in ["", "{}", "<html>", REFUSED, r#"{"success":true,"data":{},"error":null}"#] {
            assert!(matches!(enveloped(200, body), Taken::Unsure(_)), "{body}");
            assert!(matches!(bare(200, body), Taken::Unsure(_)), "{body}");
        }
    }

    #[test]
    fn a_refusal_is_certain_for_what_was_asked_and_for_how_it_was_asked() {
        for (status, relays_fault) in
            [(400, false), (422, false), (401, true), (403, true), (404, true), (413, true)]
        {
            let reason = format!("HTTP {status}: gas_limit is too low");
            assert_eq!(enveloped(status, REFUSED), Taken::No { reason, relays_fault });
        }
        let reason = "HTTP 400: value is not a number".to_owned();
        let refused =
            r#"{"statusCode":400,"message":"value is not a number","error":"Bad Request"}"#;
        assert_eq!(bare(400, refused), Taken::No { reason, relays_fault: false });
    }

    #[test]
    fn a_refusal_by_anybody_else_proves_nothing() {
        for status in [400, 401, 403, 404, 413, 422, 429] {
            for body in ["", "Forbidden", "<html>no</html>", TAKEN, "{}"] {
                assert!(matches!(enveloped(status, body), Taken::Unsure(_)), "{status} {body}");
            }
        }
        for status in [401, 403, 404, 413, 429] {
            assert!(matches!(bare(status, r#"{"message":"no"}"#), Taken::Unsure(_)), "{status}");
        }
    }

    #[test]
    fn the_relayer_s_own_limiter_is_believed() {
        for body in ["Too many requests, retry in 1s", "Too Many Requests", REFUSED] {
            let taken = enveloped(429, body);
            assert!(matches!(taken, Taken::No { relays_fault: true, .. }), "{body}");
        }
    }

    #[test]
    fn every_other_status_is_unsure_whatever_it_says() {
        let listed = [200, 201, 202, 400, 401, 403, 404, 413, 422, 429];
        for status in (100..600).filter(|status| !listed.contains(status)) {
            for body in [TAKEN, REFUSED, ""] {
                assert!(matches!(enveloped(status, body), Taken::Unsure(_)), "{status} {body}");
                assert!(matches!(bare(status, body), Taken::Unsure(_)), "{status} {body}");
            }
        }
    }
}
