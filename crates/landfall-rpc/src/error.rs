//! What a call can come to, and the JSON-RPC envelope it is read from.
//!
//! **Rule:** whatever is not a whole, well-formed JSON-RPC 2.0 answer to *this* request is
//! [`RpcError::Unsure`]. The meaning of an error's name is the rail's.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{HttpAnswer, TransportError};

/// A failed call, cut by what the caller may conclude.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RpcError {
    /// Nothing left the process.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// It may have arrived: a timeout, a status that says nothing, a body that does not parse.
    #[error("unsure: {0}")]
    Unsure(String),
    /// The node answered with a well-formed JSON-RPC error.
    #[error("answered: {0}")]
    Answered(Box<JsonRpcError>),
}

impl RpcError {
    /// True for an error that says nothing of the question: another endpoint may do better.
    pub fn is_technical(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Unsure(_) => true,
            Self::Answered(error) => error.is_technical(),
        }
    }
}

/// A JSON-RPC error object, with the structured form that some ledgers add to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonRpcError {
    /// HTTP status it came with.
    pub status: u16,
    pub code: i64,
    pub message: String,
    /// `error.name`; empty when absent.
    pub name: String,
    /// `error.cause.name`; empty when absent.
    pub cause_name: String,
    /// `error.cause.info`.
    pub info: Value,
    pub data: Value,
}

impl JsonRpcError {
    /// A gateway's refusal (429) or a server in trouble (5xx), though dressed as JSON-RPC.
    pub fn is_technical(&self) -> bool {
        self.status == 429 || self.status >= 500
    }
}

impl std::fmt::Display for JsonRpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = [&self.cause_name, &self.name, &self.message]
            .into_iter()
            .find(|text| !text.is_empty())
            .map_or("error", String::as_str);
        write!(f, "{name} (code {}, HTTP {})", self.code, self.status)
    }
}

impl From<TransportError> for RpcError {
    fn from(error: TransportError) -> Self {
        match error {
            TransportError::NotSent(why) => Self::Unreachable(why),
            TransportError::Unsure(why) => Self::Unsure(why),
        }
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: String,
    id: u64,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ErrorObject {
    code: i64,
    message: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    cause: Cause,
    #[serde(default)]
    data: Value,
}

#[derive(Default, Deserialize)]
struct Cause {
    #[serde(default)]
    name: String,
    #[serde(default)]
    info: Value,
}

/// A result of `null` is a result.
fn present<'de, D>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// Reads the answer to the request of this id.
pub(crate) fn read(answer: &HttpAnswer, id: u64) -> Result<Box<RawValue>, RpcError> {
    let unsure = |what: &str| RpcError::Unsure(format!("HTTP {}: {what}", answer.status));
    let envelope: Envelope<'_> =
        serde_json::from_slice(&answer.body).map_err(|_| unsure("no JSON-RPC answer"))?;
    if envelope.jsonrpc != "2.0" || envelope.id != id {
        return Err(unsure("an answer to another question"));
    }
    match (envelope.result, envelope.error) {
        (Some(result), None) if answer.status == 200 => Ok(result.to_owned()),
        (Some(_), None) => Err(unsure("a result with a status that denies it")),
        (result, Some(error)) if result.is_none_or(|result| result.get() == "null") => {
            let error: ErrorObject =
                serde_json::from_str(error.get()).map_err(|_| unsure("a malformed error"))?;
            Err(RpcError::Answered(Box::new(JsonRpcError {
                status: answer.status,
                code: error.code,
                message: error.message,
                name: error.name,
                cause_name: error.cause.name,
                info: error.cause.info,
                data: error.data,
            })))
        }
        _ => Err(unsure("neither a result nor an error")),
    }
}
