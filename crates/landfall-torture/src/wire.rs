//! A wire that loses, delays, garbles and refuses; and a queue that loses and repeats hints.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use landfall_core::Stage;
use landfall_core::queue::{Delivery, Hint, Queue, QueueError};
use landfall_rpc::{HttpAnswer, TransportError};

use super::seat::Seat;

/// A hint that comes twice may come again as late as this.
const REDELIVERED_MAX_MS: u64 = 3_000;

/// Hands a request to whoever it is for, with so much patience. May be done again, or later.
pub type Deliver = Arc<dyn Fn(Duration) -> Delivering + Send + Sync>;
type Delivering = Pin<Box<dyn Future<Output = Result<HttpAnswer, TransportError>> + Send>>;

pub fn answer(status: u16, body: &'static str) -> HttpAnswer {
    HttpAnswer { status, body: Bytes::from_static(body.as_bytes()) }
}

pub fn lost(why: &str) -> TransportError {
    TransportError::Unsure(why.to_owned())
}

/// Refusals that come instead of the true answer.
fn refused(seat: &Seat) -> Option<HttpAnswer> {
    let (dice, plan) = (&seat.dice, &seat.plan);
    if dice.strikes(plan.rate_limited) {
        return Some(answer(429, "Too Many Requests"));
    }
    if dice.strikes(plan.server_error) {
        return Some(answer(502, "<html>Bad Gateway</html>"));
    }
    if dice.strikes(plan.garbage) {
        return Some(answer(200, "{\"jsonrpc\":\"2.0\",\"result\":{\"final_exec"));
    }
    None
}

/// The request arrives when its sender has given up.
pub async fn arrive_late(
    seat: &Seat,
    timeout: Duration,
    deliver: Deliver,
    late: Option<&Arc<AtomicUsize>>,
) -> TransportError {
    let after = Duration::from_millis(seat.dice.between(1_000, seat.plan.late_max_ms()));
    let (base, late) = (seat.base.clone(), late.cloned().unwrap_or_default());
    late.fetch_add(1, Ordering::Relaxed);
    tokio::spawn(async move {
        base.sleep(after).await;
        // Nobody waits for this answer any more.
        let _ = deliver(Duration::from_millis(10)).await;
        late.fetch_sub(1, Ordering::Relaxed);
    });
    seat.base.sleep(timeout).await;
    lost("injected: the request is late")
}

/// Carries one request through all that can happen to it on the way and back. `late` counts those
/// that arrive after their sender has given up, if somebody wants to wait for them.
pub async fn carry(
    seat: &Seat,
    (name, number): (&str, u64),
    timeout: Duration,
    deliver: Deliver,
    late: Option<&Arc<AtomicUsize>>,
) -> Result<HttpAnswer, TransportError> {
    let (dice, plan) = (seat.dice.clone(), seat.plan.clone());
    if dice.strikes(plan.request_lost) {
        seat.base.sleep(timeout).await;
        return Err(lost("injected: the request was lost"));
    }
    if dice.strikes(plan.request_late) {
        return Err(arrive_late(seat, timeout, deliver, late).await);
    }
    if let Some(answer) = refused(seat) {
        return Ok(answer);
    }
    if seat.repeats(number) {
        // Whatever came of the first, the second is what is answered.
        let _ = deliver(timeout).await;
    }
    let answer = deliver(timeout).await;
    seat.after(name, number).await;
    if dice.strikes(plan.answer_lost) {
        seat.base.sleep(timeout).await;
        return Err(lost("injected: the answer was lost"));
    }
    match refused(seat) {
        Some(refused) => Ok(refused),
        None => answer,
    }
}

/// One instance's way to its queue.
pub struct FaultyQueue {
    pub seat: Arc<Seat>,
    pub inner: Arc<dyn Queue>,
}

impl FaultyQueue {
    /// Delivers a hint once more, when much may have happened since.
    fn redeliver(&self, hint: Hint) {
        let after = Duration::from_millis(self.seat.dice.between(1, REDELIVERED_MAX_MS));
        let (base, inner) = (self.seat.base.clone(), self.inner.clone());
        tokio::spawn(async move {
            base.sleep(after).await;
            // Whoever it was for may have crashed: the next one has a queue of its own.
            let _ = inner.push(&[hint]).await;
        });
    }
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
                match dice.between(0, 1) {
                    0 => kept.insert(dice.between(0, kept.len() as u64) as usize, *hint),
                    _ => self.redeliver(*hint),
                }
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
