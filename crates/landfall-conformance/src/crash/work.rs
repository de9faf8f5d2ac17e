//! Random commits, several at a time, until somebody ends the process.

use std::sync::Arc;

use landfall_core::attempt::Attempt;
use landfall_core::store::{Accepted, Added, Applied, Leased, Opened, Settled};
use landfall_core::{ClaimEnd, Claimed, Event, LaneId, Move, NewTransfer, Nonce, Transfer};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{HOLDER, Said, claims_of};
use crate::world::{Held, LEASE_MS, LEDGER_NONCE, RAIL, World, claim_key};

/// Workers at once, so that commits of several callers meet.
const WORKERS: u64 = 6;
/// Most transfers accepted, and carried, in one commit.
const BATCH_MOST: usize = 20;

type Say = Arc<dyn Fn(Said) + Send + Sync>;

/// Works for ever on a store that may hold what an earlier process left, and says every commit
/// that was answered. `run` tells this process's keys from the others'.
pub async fn work(world: World, run: u64, say: impl Fn(Said) + Send + Sync + 'static) {
    let say: Say = Arc::new(say);
    let workers = (0..WORKERS).map(|number| {
        let random = StdRng::seed_from_u64(run * WORKERS + number);
        let worker = Worker { world: world.clone(), say: say.clone(), random, run, number };
        tokio::spawn(worker.work())
    });
    for ended in futures::future::join_all(workers).await {
        ended.expect("no worker gives up");
    }
}

struct Worker {
    world: World,
    say: Say,
    random: StdRng,
    run: u64,
    number: u64,
}

impl Worker {
    async fn work(mut self) {
        let (held, mut nonce) = self.take_lane().await;
        for attempt in self.world.store.open_attempts(&held.lane).await.expect("read") {
            self.settle(&held, &attempt).await;
        }
        let mut ready = Vec::new();
        for round in 0.. {
            ready.extend(self.accept(round).await);
            let carried = self.random.random_range(0..=ready.len().min(BATCH_MOST));
            let members: Vec<Transfer> = ready.drain(..carried).collect();
            let attempt = self.open(&held, nonce, &members).await;
            nonce = nonce.next();
            for number in 1..=self.random.random_range(0..3) {
                self.vary(&held, &attempt, number).await;
            }
            // Some attempts are still open when the next one is.
            if self.random.random_bool(0.8) {
                ready.extend(self.settle(&held, &attempt).await);
            }
        }
    }

    /// The lane of this worker, taken back from an earlier process, and its next nonce.
    async fn take_lane(&self) -> (Held, Nonce) {
        let lane = LaneId::new(format!("lane-{}", self.number));
        let leased = self.world.store.lease(&lane, RAIL, HOLDER, LEASE_MS).await.expect("lease");
        let Leased::Yours(held) = leased else { panic!("not leased: {leased:?}") };
        (self.say)(Said::Leased { lane: lane.clone(), epoch: held.epoch });
        self.world.store.start_lane(&lane, held.epoch, LEDGER_NONCE).await.expect("start");
        let next = held.next_nonce.unwrap_or(LEDGER_NONCE.next());
        let incarnation = self.world.store.identity().await.expect("identity").incarnation;
        (Held { lane, epoch: held.epoch, incarnation }, next)
    }

    /// Accepts some transfers and prepares each: its move and the mark it keeps are one commit.
    async fn accept(&mut self, round: u64) -> Vec<Transfer> {
        let batch = self.random.random_range(1..=BATCH_MOST);
        let prefix = format!("{}-{}-{round}", self.run, self.number);
        let new = (0..batch).map(|i| {
            let key = format!("{prefix}-{i}");
            NewTransfer { claims: claims_of(&key), ..self.world.fresh(&key) }
        });
        let new = new.collect();
        let mut ready = Vec::new();
        for answer in self.world.store.accept(new).await.expect("accept") {
            let Accepted::Created(transfer) = answer else { panic!("not new: {answer:?}") };
            (self.say)(Said::Accepted { id: transfer.id, key: transfer.key.clone() });
            ready.push(self.prepare(transfer).await);
        }
        ready
    }

    async fn prepare(&self, transfer: Transfer) -> Transfer {
        let (id, now_ms) = (transfer.id, self.world.now_ms());
        let mark = claim_key(&id.to_string());
        let claimed = self.world.store.claim(vec![(mark.clone(), id)]).await;
        assert_eq!(claimed, Ok(vec![Claimed::Yours]));
        let step = Move::of(&transfer, now_ms).fire(Event::Prepared).expect("legal");
        let step = step.fire(Event::Enqueued).expect("legal").ending(ClaimEnd::Keep(mark));
        let after = step.applied_to(&transfer);
        assert_eq!(self.world.apply(step).await, Applied::Applied);
        (self.say)(Said::Moved { id, version: after.version });
        (self.say)(Said::Kept { id });
        after
    }

    async fn open(&self, held: &Held, nonce: Nonce, members: &[Transfer]) -> Attempt {
        let mut opening = self.world.opening(held, 0, members);
        opening.nonce = nonce;
        let opened = self.world.store.open_attempt(opening).await.expect("open");
        let Opened::Stored(attempt) = opened else { panic!("not stored: {opened:?}") };
        (self.say)(Said::Opened { attempt: attempt.id, nonce, lane: held.lane.clone() });
        *attempt
    }

    async fn vary(&self, held: &Held, attempt: &Attempt, number: u32) {
        let mut add = self.world.variant(held, attempt, number);
        let hash = format!("{}-{}-{}", attempt.id, self.run, number);
        add.signed.hash.clone_from(&hash);
        let added = self.world.store.add_variant(add).await.expect("add");
        assert!(matches!(added, Added::Stored(_)), "{added:?}");
        (self.say)(Said::Varied { attempt: attempt.id, hash });
    }

    /// Lets the attempt land or sink; returns the members that are to be carried again.
    async fn settle(&mut self, held: &Held, attempt: &Attempt) -> Vec<Transfer> {
        let landed = self.random.random_bool(0.7);
        let event = if landed { Event::Landed } else { Event::Sunk };
        let settlement = self.world.settlement(held, attempt, event).await;
        let done = self.world.settle(settlement).await;
        assert!(matches!(done, Settled::Done { .. }), "{done:?}");
        (self.say)(Said::Settled { attempt: attempt.id, landed });
        let members = self.world.store.transfers(&attempt.members).await.expect("read");
        members.into_iter().filter(|member| !member.state.is_final()).collect()
    }
}
