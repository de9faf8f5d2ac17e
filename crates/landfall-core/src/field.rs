//! A request that cannot be taken, and which of its fields is to blame.

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct BadField {
    pub field: &'static str,
    pub message: String,
}

impl BadField {
    pub fn new(field: &'static str, message: impl Into<String>) -> BadField {
        BadField { field, message: message.into() }
    }
}
