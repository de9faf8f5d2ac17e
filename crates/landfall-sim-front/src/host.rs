//! What a simulator gives to its front, and how one request fares.
//!
//! A fault that loses something ends the connection without an answer: the service returns an
//! error, and hyper closes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::faults::{Dice, Faults, Fortune, Own};

/// A simulator of one or several nodes over one ledger.
pub trait Host: Send + Sync + Sized + 'static {
    /// Faults beside those of the wire.
    type Own: Own;
    /// A request as far as HTTP goes.
    type Asked: Send;

    fn front(&self) -> &Front<Self::Own>;

    /// The `/sim` routes, which no fault meets. [`crate::routes::faults`] is among them.
    fn routes(self: Arc<Self>) -> Router;

    /// Reads a request to its end. Nothing takes effect.
    fn read(&self, request: Request) -> impl Future<Output = Self::Asked> + Send;

    /// The names under which a request is counted.
    fn names<'a>(&self, asked: &'a Self::Asked) -> Vec<&'a str>;

    /// What a node does about a request, given its own faults at that time. What is done MUST be
    /// done when this returns: the answer may be lost. What is waited for belongs in the reply.
    fn act(
        self: Arc<Self>,
        node: usize,
        asked: Self::Asked,
        own: Self::Own,
    ) -> impl Future<Output = Reply> + Send;
}

pub enum Reply {
    Now(Response),
    /// Done, but the answer is to wait for something.
    Later(BoxFuture<'static, Response>),
}

impl<R: IntoResponse> From<R> for Reply {
    fn from(response: R) -> Reply {
        Reply::Now(response.into_response())
    }
}

/// What a simulator's nodes have towards their clients.
pub struct Front<O> {
    pub faults: Mutex<Vec<Faults<O>>>,
    pub dice: Mutex<Dice>,
    calls: Mutex<BTreeMap<String, u64>>,
}

impl<O: Own> Front<O> {
    pub fn new(nodes: usize, seed: u64) -> Front<O> {
        Front {
            faults: Mutex::new(vec![Faults::default(); nodes]),
            dice: Mutex::new(Dice::new(seed)),
            calls: Mutex::new(BTreeMap::new()),
        }
    }

    /// How often each name was asked for, whatever became of it.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.calls.lock().clone()
    }

    fn count(&self, names: Vec<&str>) {
        let mut calls = self.calls.lock();
        for name in names {
            match calls.get_mut(name) {
                Some(count) => *count += 1,
                None => {
                    calls.insert(name.to_owned(), 1);
                }
            }
        }
    }
}

/// The connection is to end without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is lost on purpose")]
pub(crate) struct Lost;

pub(crate) async fn serve<H: Host>(
    host: Arc<H>,
    node: usize,
    request: Request,
) -> Result<Response, Lost> {
    let (fortune, own) = {
        let faults = host.front().faults.lock()[node].clone();
        (host.front().dice.lock().roll(&faults), faults.own)
    };
    if fortune.delay_before_ms == 0 {
        return fare(host, node, request, fortune, own).await;
    }
    // A late request takes effect although its client may have given up.
    let late = tokio::spawn(fare(host, node, request, fortune, own));
    late.await.unwrap_or(Err(Lost))
}

async fn fare<H: Host>(
    host: Arc<H>,
    node: usize,
    request: Request,
    fortune: Fortune,
    own: H::Own,
) -> Result<Response, Lost> {
    let asked = host.read(request).await;
    host.front().count(host.names(&asked));
    if fortune.lose_request {
        return Err(Lost);
    }
    if fortune.rate_limited {
        return Ok((StatusCode::TOO_MANY_REQUESTS, "Too Many Requests").into_response());
    }
    if fortune.error_before {
        return Ok(server_error());
    }
    wait(fortune.delay_before_ms).await;
    let reply = host.act(node, asked, own).await;
    if fortune.lose_answer {
        return Err(Lost);
    }
    if fortune.error_after {
        return Ok(server_error());
    }
    if fortune.garbage {
        return Ok((StatusCode::OK, "<html>\u{fffd}\u{0} bad gateway").into_response());
    }
    wait(fortune.delay_after_ms).await;
    Ok(match reply {
        Reply::Now(response) => response,
        Reply::Later(response) => response.await,
    })
}

async fn wait(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

fn server_error() -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error").into_response()
}
