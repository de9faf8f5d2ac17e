//! A process that dies, or stands still and wakes up again, before or after every single call.

use landfall_core::ledger::{Manner, Order};

use crate::chain::Faults;
use crate::perils::Perils;
use crate::world::{World, manner};

/// What the ledger does to a story.
type Weather = fn(&mut Faults);

fn calm(_: &mut Faults) {}

fn unanswered(faults: &mut Faults) {
    faults.unanswered = 2;
}

/// The first attempt never arrives: a fence, an expiry, or a bump decides.
fn first_lost(faults: &mut Faults) {
    faults.lost_nonce = Some(1);
}

fn too_cheap(faults: &mut Faults) {
    faults.fee_floor = 5;
}

fn refusing(faults: &mut Faults) {
    faults.refusing = true;
}

/// What befalls the process at a point.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// It dies, and another of its name begins.
    Dies,
    /// It stands still past its lease, another takes over, and then it goes on.
    Sleeps,
}

/// Tells one story with a peril at this point; false if the point was never reached.
async fn tell(manner: Manner, weather: Weather, fate: Fate, point: usize) -> bool {
    let mut world = World::new(manner);
    world.accept(3).await;
    world.chain.faults(weather);
    let perils = Perils::at(point);
    let mut stuck = perils.reached.watch();
    let one = world.start("one", perils.clone()).await;
    let mut survivors = Vec::new();
    if let Some(one) = one {
        // The ledger's mood passes, and by then more is paid.
        let story = async {
            world.run(&[&one], 700).await;
            world.chain.faults(|faults| (faults.refusing, faults.lost_nonce) = (false, None));
            one.pay_fee(10);
            world.run(&[&one], 60_000).await
        };
        let ended = tokio::select! {
            biased;
            _ = stuck.until(|stuck| *stuck) => None,
            done = story => Some(done),
        };
        match (ended, fate) {
            (Some(done), _) => {
                assert!(done, "point {point}:\n{}", world.story().await);
                world.check().await;
                return false;
            }
            (None, Fate::Dies) => one.kill().await,
            (None, Fate::Sleeps) => survivors.push(one),
        }
    }
    world.chain.faults(|faults| (faults.refusing, faults.lost_nonce) = (false, None));
    let name = if fate == Fate::Dies { "one" } else { "two" };
    let next = world.launch(name).await;
    next.pay_fee(10);
    // Whoever sleeps has its lanes taken; then it goes on as if nothing had been.
    world.run(&[&next], 3_000).await;
    perils.resumed.set(true);
    survivors.iter().for_each(|sleeper| sleeper.pay_fee(10));
    survivors.push(next);
    for _ in 0..60 {
        for survivor in &survivors {
            world.offer(survivor).await;
        }
        if world.run(&survivors.iter().collect::<Vec<_>>(), 1_000).await {
            break;
        }
    }
    world.pass(3_000).await;
    assert!(world.is_done().await, "point {point}, {fate:?}:\n{}", world.story().await);
    world.check().await;
    for survivor in survivors {
        assert_eq!(survivor.halts(), [""; 0], "point {point}, {fate:?}");
        survivor.kill().await;
    }
    true
}

/// Tells the story once for every point of it; how many there are.
async fn tell_all(manner: Manner, weather: Weather) -> usize {
    let mut points = 0;
    for fate in [Fate::Dies, Fate::Sleeps] {
        points = 0;
        while tell(manner, weather, fate, points).await {
            points += 1;
        }
        println!("{:?}, {fate:?}: {points} points", manner.order);
    }
    points
}

#[tokio::test(start_paused = true)]
async fn overtaking_attempts_survive_a_crash_or_a_sleep_at_every_call() {
    for weather in [calm as Weather, unanswered, first_lost] {
        let points = tell_all(manner(Order::Overtakes, 2), weather).await;
        assert!(points > 40, "{points} points");
    }
}

#[tokio::test(start_paused = true)]
async fn queueing_attempts_with_their_variants_survive_a_crash_or_a_sleep_at_every_call() {
    for weather in [calm as Weather, unanswered, first_lost, too_cheap, refusing] {
        let points = tell_all(manner(Order::Queues, 2), weather).await;
        assert!(points > 40, "{points} points");
    }
}

#[tokio::test(start_paused = true)]
async fn free_attempts_survive_a_crash_or_a_sleep_at_every_call() {
    for weather in [calm as Weather, unanswered, first_lost] {
        let points = tell_all(manner(Order::Free, 2), weather).await;
        assert!(points > 40, "{points} points");
    }
}
