//! Answers, as statuses and JSON. The only place that knows which is which.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::book::BookError;
use crate::words::{Answer, Balance, Entry, Key, Outcome, Verb};

/// Why a request got no answer about an operation.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    /// It can never be valid.
    #[error("{0}: {1}")]
    Bad(String, String),
    #[error("{0}")]
    Missing(&'static str),
    #[error("the method is not for this route")]
    Method,
    #[error("body: is too large; at most {0} bytes are taken")]
    TooLarge(usize),
    /// Not the sender's words to the end, so nothing is said about them.
    #[error("body: ended before all of it arrived")]
    CutShort,
    #[error(transparent)]
    Book(#[from] BookError),
}

impl Wrong {
    pub(super) fn bad(field: impl Into<String>, complaint: impl ToString) -> Wrong {
        Wrong::Bad(field.into(), complaint.to_string())
    }
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        let status = match &self {
            Wrong::Bad(..) => StatusCode::BAD_REQUEST,
            Wrong::Missing(_) => StatusCode::NOT_FOUND,
            Wrong::Method => StatusCode::METHOD_NOT_ALLOWED,
            Wrong::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Wrong::CutShort => StatusCode::REQUEST_TIMEOUT,
            Wrong::Book(BookError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
            Wrong::Book(BookError::Corrupt(_)) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if let Wrong::Book(error) = &self {
            tracing::error!(%error, "an operation could not be decided");
        }
        (status, Json(json!({ "error": self.to_string() }))).into_response()
    }
}

/// The answer to an operation.
pub(super) fn answered(verb: Verb, answer: Answer) -> Response {
    let conflict = |error: String| (StatusCode::CONFLICT, Json(json!({ "error": error })));
    match answer {
        Answer::Recorded(Outcome::Done) => Json(json!({ "success": true })).into_response(),
        Answer::Recorded(Outcome::Refused(refusal)) => {
            Json(json!({ "error": refusal.0 })).into_response()
        }
        Answer::Conflict => {
            let field = if verb == Verb::Fund { "ref" } else { "req_id" };
            conflict(format!("{field}: was used for another {verb}")).into_response()
        }
        Answer::NotYet => conflict("no such withdrawal yet".into()).into_response(),
    }
}

pub(super) fn status(outcome: Option<&Outcome>) -> Value {
    match outcome {
        None => json!({ "status": "unknown" }),
        Some(Outcome::Done) => json!({ "status": "done" }),
        Some(Outcome::Refused(refusal)) => json!({ "status": "refused", "error": refusal.0 }),
    }
}

pub(super) fn entry(entry: &Entry) -> Value {
    let mut line = json!({
        "seq": entry.seq,
        "operation": entry.verb.name(),
        "outcome": "done",
        "user_id": entry.terms.account.user_id,
        "asset_id": entry.terms.account.asset_id,
        "amount": entry.terms.amount,
        "at_ms": entry.at_ms,
        "available": entry.available,
        "frozen": entry.frozen,
    });
    match &entry.key {
        Key::Request(req_id) => line["req_id"] = json!(req_id.to_string()),
        Key::Reference(reference) => line["ref"] = json!(reference),
    }
    if let Outcome::Refused(refusal) = &entry.outcome {
        line["outcome"] = json!("refused");
        line["error"] = json!(refusal.0);
    }
    line
}

pub(super) fn balance(balance: &Balance) -> Value {
    json!({
        "number": balance.number,
        "user_id": balance.account.user_id,
        "asset_id": balance.account.asset_id,
        "available": balance.available,
        "frozen": balance.frozen,
        "blocked": balance.blocked,
        "seq": balance.seq,
    })
}
