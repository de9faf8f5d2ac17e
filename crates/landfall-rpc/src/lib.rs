//! Calls to a ledger's nodes: JSON-RPC 2.0 over HTTP, on several endpoints at once.
//!
//! A caller that pays money needs three things of a call that a client library hides: was it sent
//! at all, may it have arrived, and who answered. So there is one [`Transport`] seam (one request,
//! never repeated; also for services that are no JSON-RPC nodes, behind a [`Service`]), one
//! [`Endpoints`] above it (choice, failover of reads, breaker), one [`RpcError`] cut by what the
//! caller may conclude, and [`Peers`]: which nodes serve the network, and what a quorum of them
//! says.
//!
//! **Invariant:** nothing here repeats a POST that may have arrived, except a read.
//! **Invariant:** a technical error is never an answer of the ledger.
//! **Invariant:** an endpoint's URL is never shown beyond scheme, host and port.
//!
//! Not here: any ledger's methods, error names or their meaning (the rails).

mod breaker;
mod endpoints;
mod error;
mod header;
mod health;
mod http_transport;
mod peers;
mod quorum;
mod service;
mod transport;
mod url;

pub use breaker::{Breaker, BreakerSettings, BreakerState};
pub use endpoints::{Answer, EndpointSnapshot, Endpoints, NoEndpoints, Settings};
pub use error::{JsonRpcError, RpcError};
pub use header::{BadHeader, Header};
pub use health::health;
pub use http_transport::HttpTransport;
pub use peers::{INTRODUCTION_MS, Introducer, Introduction, Peers, unavailable};
pub use quorum::{AtBlock, Moment, Said, reached, shared};
pub use service::{Service, Silence, silence};
pub use transport::{HttpAnswer, HttpRequest, Method, Transport, TransportError};
pub use url::{BadUrl, Url};

#[cfg(test)]
mod tests;
