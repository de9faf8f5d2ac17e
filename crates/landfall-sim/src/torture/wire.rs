//! A wire that loses, delays, garbles and refuses; and a queue that loses and repeats hints.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::Stage;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError};
use landfall_rpc::{HttpAnswer, Transport, TransportError, Url};

use super::seat::Seat;
use crate::near::rpc;
use crate::world::{Network, node_of};

/// A request may arrive as late as this, long after its sender has given up.
const LATE_MAX_MS: u64 = 300_000;

/// One instance's way to the nodes.
pub struct FaultyWire {
    pub seat: Arc<Seat>,
    pub inner: Arc<Network>,
}

impl FaultyWire {
    fn answer(status: u16, body: &'static str) -> Result<HttpAnswer, TransportError> {
        Ok(HttpAnswer { status, body: Bytes::from_static(body.as_bytes()) })
    }

    fn lost(why: &str) -> TransportError {
        TransportError::Unsure(why.to_owned())
    }

    /// Refusals that come instead of the node's own answer.
    fn refused(&self) -> Option<Result<HttpAnswer, TransportError>> {
        let (dice, plan) = (&self.seat.dice, &self.seat.plan);
        if dice.strikes(plan.rate_limited) {
            return Some(Self::answer(429, "Too Many Requests"));
        }
        if dice.strikes(plan.server_error) {
            return Some(Self::answer(502, "<html>Bad Gateway</html>"));
        }
        if dice.strikes(plan.garbage) {
            return Some(Self::answer(200, "{\"jsonrpc\":\"2.0\",\"result\":{\"final_exec"));
        }
        None
    }
}

#[async_trait]
impl Transport for FaultyWire {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let (dice, plan) = (self.seat.dice.clone(), self.seat.plan.clone());
        let request = serde_json::from_slice(&body).unwrap_or_default();
        let name = format!("{} {}", url.origin(), rpc::method_of(&request));
        let number = self.seat.before(&name).await;
        // What it is asked it must be able to answer. What it is given to pass on may be lost.
        if plan.shelters(node_of(url)) && rpc::method_of(&request) != "send_tx" {
            let answer = self.inner.post(url, body, timeout).await;
            self.seat.after(&name, number).await;
            return answer;
        }
        if dice.strikes(plan.request_lost) {
            self.seat.base.sleep(timeout).await;
            return Err(Self::lost("injected: the request was lost"));
        }
        if dice.strikes(plan.request_late) {
            let late = Duration::from_millis(dice.between(1_000, LATE_MAX_MS));
            let (inner, base, url) = (self.inner.clone(), self.seat.base.clone(), url.clone());
            tokio::spawn(async move {
                base.sleep(late).await;
                // Nobody waits for this answer any more.
                let _ = inner.post(&url, body, Duration::from_millis(10)).await;
            });
            self.seat.base.sleep(timeout).await;
            return Err(Self::lost("injected: the request is late"));
        }
        if let Some(answer) = self.refused() {
            return answer;
        }
        if self.seat.repeats(number) {
            // Whatever came of the first, the second is what is answered.
            let _ = self.inner.post(url, body.clone(), timeout).await;
        }
        let answer = self.inner.post(url, body, timeout).await;
        self.seat.after(&name, number).await;
        if dice.strikes(plan.answer_lost) {
            self.seat.base.sleep(timeout).await;
            return Err(Self::lost("injected: the answer was lost"));
        }
        if let Some(refused) = self.refused() {
            return refused;
        }
        answer
    }
}

/// One instance's way to its queue.
pub struct FaultyQueue {
    pub seat: Arc<Seat>,
    pub inner: Arc<dyn Queue>,
}

#[async_trait]
impl Queue for FaultyQueue {
    async fn push(&self, hints: &[Hint]) -> Result<usize, QueueError> {
        let (dice, plan) = (&self.seat.dice, &self.seat.plan);
        let mut kept = Vec::new();
        for hint in hints {
            if !dice.strikes(plan.hint_lost) {
                kept.push(*hint);
            }
            if dice.strikes(plan.hint_twice) {
                kept.insert(dice.between(0, kept.len() as u64) as usize, *hint);
            }
        }
        self.inner.push(&kept).await
    }

    async fn pull(&self, stage: Stage, max: usize) -> Result<Vec<Delivery>, QueueError> {
        self.inner.pull(stage, max).await
    }

    async fn ack(&self, deliveries: &[Delivery]) -> Result<(), QueueError> {
        self.inner.ack(deliveries).await
    }

    async fn depth(&self, stage: Stage) -> Result<usize, QueueError> {
        self.inner.depth(stage).await
    }
}
