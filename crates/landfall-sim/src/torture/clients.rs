//! Clients that do not give up: each sends its payout until it is acknowledged, and asks again.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::near::Payout;
use landfall_core::store::Accepted;
use landfall_core::{Clock, Payload};
use landfall_engine::{Engine, Submission};
use parking_lot::Mutex;

use super::checkers::{Acknowledged, Promises};
use super::seat::{Dice, Trace};
use crate::world::terms;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// What clients know of the world: which instances answer, and what they were told.
pub struct Town {
    pub base: Arc<dyn Clock>,
    pub dice: Arc<Dice>,
    pub trace: Arc<Trace>,
    pub engines: Mutex<Vec<Option<Arc<Engine>>>>,
    pub promises: Mutex<Promises>,
}

impl Town {
    async fn sleep(&self, least_ms: u64, most_ms: u64) {
        let ms = self.dice.between(least_ms, most_ms);
        self.base.sleep(Duration::from_millis(ms)).await;
    }

    fn some_engine(&self) -> Option<Arc<Engine>> {
        let engines = self.engines.lock();
        let pick = self.dice.between(0, engines.len() as u64 - 1) as usize;
        engines[pick].clone()
    }

    /// One try; none if nobody answered.
    async fn submit(&self, key: &str, receiver: &str, amount: u128) -> Option<Accepted> {
        let engine = self.some_engine()?;
        let payout = Payout::new(&terms(), receiver, &amount.to_string(), Some(key)).ok()?;
        let submission = Submission {
            tenant: String::new(),
            key: key.to_owned(),
            payload: Payload::Near(payout),
        };
        tokio::select! {
            biased;
            answer = engine.submit(vec![submission]) => answer.ok()?.into_iter().next(),
            _ = self.base.sleep(PATIENCE) => None,
        }
    }

    fn contradict(&self, what: String) {
        let mut promises = self.promises.lock();
        if !promises.store_went_back {
            promises.contradictions.push(what);
        }
    }

    fn acknowledge(&self, key: &str, id: u64, receiver: &str, amount: u128) {
        self.trace.line(format!("{} client {key} acknowledged as {id}", self.base.now_ms()));
        let fresh = Acknowledged { id, receiver: receiver.to_owned(), amount };
        let known = self.promises.lock().acknowledged.insert(key.to_owned(), fresh.clone());
        if let Some(known) = known.filter(|known| *known != fresh) {
            self.contradict(format!("{key} was {known:?} and is now {fresh:?}"));
        }
    }
}

/// One payout's client.
pub async fn client(town: Arc<Town>, key: String, receiver: String, amount: u128) {
    loop {
        match town.submit(&key, &receiver, amount).await {
            Some(Accepted::Created(transfer) | Accepted::Already(transfer)) => {
                town.acknowledge(&key, transfer.id.0, &receiver, amount);
                break;
            }
            Some(Accepted::Conflict(_)) => {
                return town.contradict(format!("{key} conflicts with itself"));
            }
            None => town.sleep(100, 2_000).await,
        }
    }
    town.sleep(1, 20_000).await;
    // Asked again, the same answer; asked for something else, a refusal without effect.
    if let Some(answer) = town.submit(&key, &receiver, amount).await {
        match answer {
            Accepted::Already(transfer) => {
                town.acknowledge(&key, transfer.id.0, &receiver, amount);
            }
            other => town.contradict(format!("{key} sent again was answered {other:?}")),
        }
    }
    if let Some(answer) = town.submit(&key, &receiver, amount + 1).await
        && !matches!(answer, Accepted::Conflict(_))
    {
        town.contradict(format!("{key} with another amount was answered {answer:?}"));
    }
}
