//! Everything that can go wrong with a request, and the one place that maps it to HTTP.
//!
//! **Rule:** a message names the field or header to blame, says what is wrong with it and, where it
//! is not plain, what to do. What the store or a panic said goes to the log, not to the client.

use axum::Json;
use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use landfall_core::BadField;
use landfall_core::store::StoreError;
use landfall_engine::SubmitError;
use landfall_engine::dead::ReplayError;
use serde::Serialize;
use utoipa::{OpenApi, ToSchema};

/// How long a client waits for a store that does not answer: about one restart.
const STORE_RETRY_AFTER_S: u64 = 2;

/// A request that was not served, cut by what its sender does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// Correct the request.
    Bad(String),
    /// Say who you are.
    Unauthorized(String),
    /// Ask for the scope.
    Forbidden(String),
    /// Nothing is there.
    NotFound(String),
    MethodNotAllowed(String),
    /// Use another idempotency key.
    Conflict(String),
    /// Send less.
    TooLarge(String),
    /// Send it faster.
    TooSlow(String),
    /// Send another type.
    WrongType(String),
    /// Slow down.
    RateLimited {
        retry_after_s: u64,
    },
    /// Come back later, with the same key.
    Unavailable {
        message: String,
        retry_after_s: u64,
    },
    /// Our own fault.
    Internal,
}

// `deny_unknown_fields` says of what is written that there is nothing beside it.
#[derive(Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Error)]
struct ErrorBody<'a> {
    /// Names the field or header to blame and says what to do.
    error: &'a str,
}

/// What goes out, as this type has it.
#[derive(OpenApi)]
#[openapi(components(schemas(ErrorBody)))]
pub struct Described;

impl ApiError {
    /// `field: message`, the form of every complaint about a part of a request.
    pub fn bad(field: &str, message: impl AsRef<str>) -> ApiError {
        ApiError::Bad(format!("{field}: {}", message.as_ref()))
    }

    /// Several such complaints, or one.
    pub fn all(messages: impl IntoIterator<Item = String>) -> ApiError {
        ApiError::Bad(messages.into_iter().collect::<Vec<_>>().join("; also "))
    }

    pub fn status(&self) -> StatusCode {
        match self {
            ApiError::Bad(_) => StatusCode::BAD_REQUEST,
            ApiError::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            ApiError::Forbidden(_) => StatusCode::FORBIDDEN,
            ApiError::NotFound(_) => StatusCode::NOT_FOUND,
            ApiError::MethodNotAllowed(_) => StatusCode::METHOD_NOT_ALLOWED,
            ApiError::Conflict(_) => StatusCode::CONFLICT,
            ApiError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            ApiError::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            ApiError::WrongType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ApiError::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            ApiError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            ApiError::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub fn message(&self) -> String {
        match self {
            ApiError::Bad(message)
            | ApiError::Unauthorized(message)
            | ApiError::Forbidden(message)
            | ApiError::NotFound(message)
            | ApiError::MethodNotAllowed(message)
            | ApiError::Conflict(message)
            | ApiError::TooLarge(message)
            | ApiError::TooSlow(message)
            | ApiError::WrongType(message)
            | ApiError::Unavailable { message, .. } => message.clone(),
            ApiError::RateLimited { retry_after_s } => {
                format!("too many requests; try again in {retry_after_s} s")
            }
            ApiError::Internal => {
                "internal error; the request can be repeated with the same idempotency key".into()
            }
        }
    }

    fn retry_after_s(&self) -> Option<u64> {
        match self {
            ApiError::RateLimited { retry_after_s }
            | ApiError::Unavailable { retry_after_s, .. } => Some(*retry_after_s),
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Json(ErrorBody { error: &self.message() });
        let mut response = (self.status(), body).into_response();
        if let Some(seconds) = self.retry_after_s() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if matches!(self, ApiError::TooSlow(_)) {
            // The rest of the body may still come: it must not be taken for a request.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if matches!(self, ApiError::Unauthorized(_)) {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<BadField> for ApiError {
    fn from(error: BadField) -> ApiError {
        ApiError::Bad(error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::Unavailable(cause) => {
                tracing::warn!(cause, "store unavailable");
                ApiError::Unavailable {
                    message: format!(
                        "the store is unavailable; repeat with the same key in \
                         {STORE_RETRY_AFTER_S} s"
                    ),
                    retry_after_s: STORE_RETRY_AFTER_S,
                }
            }
            StoreError::Corrupt(cause) => {
                tracing::error!(cause, "store corrupt");
                ApiError::Internal
            }
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> ApiError {
        let message = error.to_string();
        match error {
            SubmitError::Busy { retry_after_s } | SubmitError::Stopping { retry_after_s } => {
                ApiError::Unavailable { message, retry_after_s }
            }
            SubmitError::NoSuchRail(_) => ApiError::NotFound(message),
            SubmitError::Store(error) => error.into(),
        }
    }
}

impl From<ReplayError> for ApiError {
    fn from(error: ReplayError) -> ApiError {
        let message = error.to_string();
        match error {
            ReplayError::NoSuchTransfer(_) => ApiError::NotFound(message),
            ReplayError::NotDead { .. }
            | ReplayError::Closed { .. }
            | ReplayError::LookAlikes(_)
            | ReplayError::Claimed { .. }
            | ReplayError::Moved => ApiError::Conflict(message),
            ReplayError::Cache(cause) => {
                tracing::warn!(%cause, "a replay waits for the cache");
                let retry_after_s = STORE_RETRY_AFTER_S;
                let message = "the status cache is unavailable and could go on showing the \
                               failure; nothing is replayed until it answers";
                ApiError::Unavailable { message: message.into(), retry_after_s }
            }
            ReplayError::Store(error) => error.into(),
        }
    }
}
