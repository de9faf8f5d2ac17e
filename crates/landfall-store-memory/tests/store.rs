//! The memory store, under the checks that every store passes.

use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier, exercise_executions, exercise_store};
use landfall_core::Clock;
use landfall_core::store::{LaneStore, Store};
use landfall_lanes::{RecordStore, TimerClock};
use landfall_store_memory::MemoryStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_store_passes_the_checks_of_every_store() {
    let clock = Arc::new(ManualClock::new());
    let make = async || Arc::new(MemoryStore::new(clock.clone())) as Arc<dyn Store>;
    exercise_store(make, clock.clone()).await;
}

#[tokio::test]
async fn a_restored_store_has_forgotten_what_came_after_its_backup() {
    let clock = Arc::new(ManualClock::new());
    let store = Arc::new(MemoryStore::with_identity(clock.clone(), "ours"));
    let world = World { store: store.clone(), time: clock };
    let kept = world.accept(world.fresh("kept")).await;
    let backup = store.snapshot();
    let lost = world.accept(world.fresh("lost")).await;
    store.restore(backup);
    assert_eq!(store.transfers(&[kept.id, lost.id]).await, Ok(vec![kept]));
    assert_eq!(store.identity().await.map(|identity| identity.id), Ok("ours".into()));
}

/// What other stores keep of an earlier release is held against this one.
#[tokio::test]
async fn what_a_release_leaves_can_be_finished() {
    let clock = Arc::new(ManualClock::new());
    let world = World { store: Arc::new(MemoryStore::new(clock.clone())), time: clock };
    earlier::fill(&world).await;
    earlier::finish(&world, true).await;
}

/// On paused time: the stories are long, and nobody waits for them.
#[tokio::test(start_paused = true)]
async fn the_transaction_manager_passes_its_checks_in_memory() {
    let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(1_700_000_000_000));
    for shared in [false, true] {
        let make = async || {
            let store = MemoryStore::new(clock.clone());
            let store = if shared { store.shared() } else { store };
            Arc::new(store) as Arc<dyn RecordStore>
        };
        exercise_executions(make, clock.clone()).await;
    }
}
