//! Clients that do not give up: each sends its wish until it is acknowledged, and asks again.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::internal::Order;
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
    async fn submit(&self, key: &str, payload: &Payload) -> Option<Accepted> {
        let engine = self.some_engine()?;
        let submission =
            Submission { tenant: String::new(), key: key.to_owned(), payload: payload.clone() };
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

    fn acknowledge(&self, key: &str, id: u64, payload: &Payload) {
        self.trace.line(format!("{} client {key} acknowledged as {id}", self.base.now_ms()));
        let (receiver, amount) = (payload.receiver().into_owned(), payload.amount());
        let fresh = Acknowledged { id, receiver, amount };
        let known = self.promises.lock().acknowledged.insert(key.to_owned(), fresh.clone());
        if let Some(known) = known.filter(|known| *known != fresh) {
            self.contradict(format!("{key} was {known:?} and is now {fresh:?}"));
        }
    }
}

/// What a client wants, and something else that it may ask for by mistake under the same key.
pub struct Wish {
    pub key: String,
    pub payload: Payload,
    pub other: Payload,
}

impl Wish {
    /// A payout. Its key is its memo too.
    pub fn payout(key: String, receiver: &str, amount: u128) -> Wish {
        let payout = |amount: u128| {
            let payout = Payout::new(&terms(), receiver, &amount.to_string(), Some(&key));
            Payload::Near(payout.expect("worlds pay well-formed accounts"))
        };
        Wish { payload: payout(amount), other: payout(amount + 1), key }
    }

    /// A move between services. Its key is the id of its request.
    pub fn order(key: String, order: Order) -> Wish {
        let other = Order { amount: order.amount + 1, ..order.clone() };
        Wish { key, payload: Payload::Internal(order), other: Payload::Internal(other) }
    }
}

/// One wish's client.
pub async fn client(town: Arc<Town>, wish: Wish) {
    let Wish { key, payload, other } = wish;
    loop {
        match town.submit(&key, &payload).await {
            Some(Accepted::Created(transfer) | Accepted::Already(transfer)) => {
                town.acknowledge(&key, transfer.id.0, &payload);
                break;
            }
            Some(Accepted::Conflict(_) | Accepted::Claimed { .. }) => {
                return town.contradict(format!("{key} conflicts with itself"));
            }
            None => town.sleep(100, 2_000).await,
        }
    }
    town.sleep(1, 20_000).await;
    // Asked again, the same answer; asked for something else, a refusal without effect.
    if let Some(answer) = town.submit(&key, &payload).await {
        match answer {
            Accepted::Already(transfer) => town.acknowledge(&key, transfer.id.0, &payload),
            other => town.contradict(format!("{key} sent again was answered {other:?}")),
        }
    }
    if let Some(answer) = town.submit(&key, &other).await
        && !matches!(answer, Accepted::Conflict(_))
    {
        town.contradict(format!("{key} with another amount was answered {answer:?}"));
    }
}
