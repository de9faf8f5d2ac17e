//! The seam to the wire: one request, one answer, no opinion.
//!
//! Everything that touches sockets is behind [`Transport`], so that a simulated world can stand in
//! for it. Not here: retries, failover, JSON.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Header, Url};

/// Carries one request to one node.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Posts a JSON body. MUST put the request on the wire at most once: no retry, no redirect.
    /// MUST end within `timeout`. MUST say [`TransportError::NotSent`] only when no byte of the
    /// request can have reached the node.
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError>;

    /// One request of a service that is no JSON-RPC node, under the same MUSTs. A wire that only
    /// ever reaches such nodes may leave it as it is.
    async fn call(
        &self,
        request: HttpRequest,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        match request.method {
            Method::Post if request.headers.is_empty() => {
                self.post(&request.url, request.body, timeout).await
            }
            _ => Err(TransportError::NotSent("this wire carries bare POSTs only".to_owned())),
        }
    }
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// A question. The body is not sent.
    Get,
    /// A JSON body, which may have an effect.
    Post,
}

/// One request, whole: a simulated world may keep it and deliver it late.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    pub method: Method,
    pub url: Url,
    pub headers: Vec<Header>,
    pub body: Bytes,
}

/// What came back, whatever its status.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Bytes,
}

/// A request without an answer, cut by what the caller may conclude.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransportError {
    /// No connection was made: nothing left the process.
    #[error("not sent: {0}")]
    NotSent(String),
    /// A timeout, a reset, a close: the request may have arrived.
    #[error("no answer: {0}")]
    Unsure(String),
}
