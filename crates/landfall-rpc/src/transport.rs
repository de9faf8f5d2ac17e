//! The seam to the wire: one POST, one answer, no opinion.
//!
//! Everything that touches sockets is behind [`Transport`], so that a simulated world can stand in
//! for it. Not here: retries, failover, JSON.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::Url;

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
}

/// What came back, whatever its status.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub body: Bytes,
}

/// A POST without an answer, cut by what the caller may conclude.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TransportError {
    /// No connection was made: nothing left the process.
    #[error("not sent: {0}")]
    NotSent(String),
    /// A timeout, a reset, a close: the request may have arrived.
    #[error("no answer: {0}")]
    Unsure(String),
}
