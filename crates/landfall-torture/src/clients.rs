//! Clients that do not give up: each sends its wish until it is acknowledged, and asks again. Some
//! change their minds before they have an answer, and all ask for something else under the same key
//! in the end, by mistake.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::store::Accepted;
use landfall_core::{Clock, Payload};
use landfall_engine::{Engine, Submission};
use parking_lot::Mutex;

use super::checkers::{Acknowledged, Promises};
use super::plan::Plan;
use super::seat::{Dice, Trace};

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// A submission arrives as late as this, when its client has given up, at most.
const LATE_MAX_MS: u64 = 60_000;

/// What clients know of the world: which instances answer, and what they were told.
pub struct Town {
    pub plan: Arc<Plan>,
    pub base: Arc<dyn Clock>,
    pub dice: Arc<Dice>,
    pub trace: Arc<Trace>,
    pub engines: Mutex<Vec<Option<Arc<Engine>>>>,
    pub promises: Arc<Mutex<Promises>>,
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
    async fn submit(self: &Arc<Town>, key: &str, payload: &Payload) -> Option<Accepted> {
        let submission =
            Submission { tenant: String::new(), key: key.to_owned(), payload: payload.clone() };
        if self.dice.strikes(self.plan.request_late) {
            tokio::spawn(self.clone().submit_late(submission));
            self.base.sleep(PATIENCE).await;
            return None;
        }
        let engine = self.some_engine()?;
        tokio::select! {
            biased;
            answer = engine.submit(vec![submission]) => answer.ok()?.into_iter().next(),
            _ = self.base.sleep(PATIENCE) => None,
        }
    }

    async fn submit_late(self: Arc<Town>, submission: Submission) {
        self.sleep(1, LATE_MAX_MS).await;
        if let Some(engine) = self.some_engine() {
            // Nobody waits for this answer any more.
            let _ = engine.submit(vec![submission]).await;
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
        let fresh = Acknowledged { id, payload: payload.clone() };
        let known = self.promises.lock().acknowledged.insert(key.to_owned(), fresh.clone());
        if let Some(known) = known.filter(|known| *known != fresh) {
            self.contradict(format!("{key} was {known:?} and is now {fresh:?}"));
        }
    }
}

/// What a client wants, and what it may ask for by mistake under the same key.
pub struct Wish {
    pub key: String,
    pub payload: Payload,
    /// What it wants if it changes its mind before it has an answer.
    pub second: Payload,
    /// Each another way in which the parameters can differ.
    pub others: Vec<Payload>,
}

/// Sends the wish until it is acknowledged, as it was first, or as it became. None if the answers
/// contradict each other.
async fn insist(town: &Arc<Town>, wish: &Wish) -> Option<Payload> {
    let (mut wanted, mut other) = (&wish.payload, &wish.second);
    let (mut changed, mut decided) = (false, false);
    loop {
        match town.submit(&wish.key, wanted).await {
            Some(Accepted::Created(transfer) | Accepted::Already(transfer)) => {
                town.acknowledge(&wish.key, transfer.id.0, wanted);
                return Some(wanted.clone());
            }
            // What it asked for before, without an answer, was taken after all.
            Some(Accepted::Conflict(_)) if changed && !decided => {
                decided = true;
                std::mem::swap(&mut wanted, &mut other);
            }
            Some(Accepted::Conflict(_) | Accepted::Claimed { .. }) => {
                town.contradict(format!("{} conflicts with itself", wish.key));
                return None;
            }
            None => {
                town.sleep(100, 2_000).await;
                if !decided && town.dice.strikes(town.plan.mind_changed) {
                    changed = true;
                    std::mem::swap(&mut wanted, &mut other);
                }
            }
        }
    }
}

/// One wish's client.
pub async fn client(town: Arc<Town>, wish: Wish) {
    let Some(taken) = insist(&town, &wish).await else { return };
    let Wish { key, payload, others, .. } = wish;
    let others: Vec<Payload> =
        others.into_iter().chain([payload]).filter(|other| *other != taken).collect();
    let other = &others[town.dice.between(0, others.len() as u64 - 1) as usize];
    // Asked again, the same answer; asked for something else, a refusal without effect; whichever
    // comes first.
    let mistaken_first = town.dice.between(0, 1) == 0;
    for mistaken in [mistaken_first, !mistaken_first] {
        town.sleep(1, 20_000).await;
        let asked = if mistaken { other } else { &taken };
        match (town.submit(&key, asked).await, mistaken) {
            (None, _) | (Some(Accepted::Conflict(_)), true) => {}
            (Some(Accepted::Already(transfer)), false) => {
                town.acknowledge(&key, transfer.id.0, &taken);
            }
            (Some(answer), _) => {
                town.contradict(format!("{key}, asked for as {asked:?}, was answered {answer:?}"));
            }
        }
    }
}
