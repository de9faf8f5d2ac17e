//! The store as a queue, under the checks that every queue passes, and what is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use landfall_conformance::{Abilities, ManualClock, QueueWorld, Time, World, exercise_queue};
use landfall_core::queue::{Delivery, Hint, Queue};
use landfall_core::store::Accepted;
use landfall_core::{Clock, Event, Move, Stage, TransferId, near};
use landfall_queue_store::{Settings, StoreQueue};
use landfall_store_memory::MemoryStore;

const SETTINGS: Settings =
    Settings { visibility_ms: 8_000, horizon_ms: 3_600_000, poll_min_ms: 10, poll_max_ms: 500 };

/// One store, a clock that moves when it is told to, and transfers under ever new keys.
struct Claims {
    world: World,
    clock: Arc<ManualClock>,
    keys: AtomicU64,
}

impl Claims {
    fn new() -> Claims {
        let clock = Arc::new(ManualClock::new());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let world = World { store, time: clock.clone() };
        Claims { world, clock, keys: AtomicU64::new(0) }
    }

    fn end(&self) -> StoreQueue {
        StoreQueue::new(self.world.store.clone(), self.clock.clone(), SETTINGS)
    }
}

#[async_trait]
impl QueueWorld for Claims {
    fn abilities(&self) -> Abilities {
        Abilities {
            ordered: true,
            delay: true,
            shared: true,
            visibility_ms: Some(SETTINGS.visibility_ms),
            ..Abilities::default()
        }
    }

    async fn connect(&self) -> Arc<dyn Queue> {
        Arc::new(self.end())
    }

    async fn transfers(&self, stage: Stage, count: usize, delay_ms: u64) -> Vec<TransferId> {
        let due_ms = Some(self.clock.now_ms() + delay_ms);
        let fresh = (0..count).map(|_| {
            let key = self.keys.fetch_add(1, Ordering::Relaxed).to_string();
            let mut new = match stage {
                near::REGISTRATION => self.world.fresh(&key),
                near::TRANSFER => self.world.ready(&key),
                other => panic!("no transfer begins in {other}"),
            };
            new.due_ms = due_ms;
            new
        });
        let answers = self.world.store.accept(fresh.collect()).await.expect("accept");
        let created = answers.into_iter().map(|answer| match answer {
            Accepted::Created(transfer) => transfer.id,
            other => panic!("not created: {other:?}"),
        });
        created.collect()
    }

    /// The move is what ends a claim.
    async fn finish(&self, queue: &dyn Queue, deliveries: &[Delivery]) {
        let ids: Vec<TransferId> = deliveries.iter().map(|one| one.hint.transfer).collect();
        let transfers = self.world.store.transfers(&ids).await.expect("read");
        let now_ms = self.clock.now_ms();
        let refuse = |of| Move::of(of, now_ms).fire(Event::Refused).expect("legal").due(None);
        self.world.store.apply(transfers.iter().map(refuse).collect()).await.expect("apply");
        queue.ack(deliveries).await.expect("ack");
    }

    async fn advance(&self, by_ms: u64) {
        self.clock.advance(by_ms).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn store_claims_pass_the_checks_of_every_queue() {
    exercise_queue(async || Arc::new(Claims::new()) as Arc<dyn QueueWorld>).await;
}

#[tokio::test]
async fn a_push_wakes_a_pull_of_the_same_process_before_its_next_poll() {
    let claims = Claims::new();
    let queue = claims.end();
    let mut waiting = queue.pull(near::TRANSFER, 10);
    assert!(futures::poll!(&mut waiting).is_pending());
    let ids = claims.transfers(near::TRANSFER, 1, 0).await;
    assert!(futures::poll!(&mut waiting).is_pending(), "time stands still and nobody pushed");
    let hint = Hint { transfer: ids[0], stage: near::TRANSFER };
    assert_eq!(queue.push(&[hint]).await.expect("push"), 0);
    assert_eq!(waiting.await.expect("pull")[0].hint, hint);
}

#[tokio::test]
async fn a_sweeper_beside_the_queue_shares_its_claims() {
    let claims = Claims::new();
    let ids = claims.transfers(near::TRANSFER, 5, 0).await;
    let Settings { visibility_ms, horizon_ms, .. } = SETTINGS;
    let sweep = || claims.world.store.sweep(near::TRANSFER, 2, visibility_ms, horizon_ms);
    let mut found = sweep().await.expect("sweep");
    let pulled = claims.end().pull(near::TRANSFER, 10).await.expect("pull");
    found.extend(pulled.iter().map(|one| one.hint.transfer));
    assert_eq!(found, ids);
    assert_eq!(sweep().await.expect("sweep"), []);
}

#[tokio::test]
async fn what_was_acknowledged_but_never_moved_comes_again() {
    let claims = Claims::new();
    let ids = claims.transfers(near::TRANSFER, 1, 0).await;
    let queue = claims.end();
    let pulled = queue.pull(near::TRANSFER, 10).await.expect("pull");
    queue.ack(&pulled).await.expect("ack");
    claims.clock.advance_ms(SETTINGS.visibility_ms);
    let again = queue.pull(near::TRANSFER, 10).await.expect("pull");
    assert_eq!(again[0].hint.transfer, ids[0]);
}
