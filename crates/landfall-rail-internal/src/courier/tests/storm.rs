//! The rail over two services whose calls are lost, late and repeated, with workers that die
//! anywhere: funds are conserved, and each wound is seen.

use landfall_core::Move;
use landfall_core::wound::{self, Wound};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::conformance::Ground;
use crate::double::Double;

const ROUNDS_MAX: u32 = 10_000;
const SEEDS: u64 = 300;

/// Wounds the thread for as long as it lives.
struct Wounded;

impl Wounded {
    fn by(wound: Wound) -> Wounded {
        wound::inflict(Some(wound));
        Wounded
    }
}

impl Drop for Wounded {
    fn drop(&mut self) {
        wound::inflict(None);
    }
}

/// What a turn leaves in the store, as the engine stores it.
fn stored(before: &Transfer, step: Step) -> Transfer {
    let mut step_to = Move::of(before, 0);
    let events = match step {
        Step::Go(known) => {
            if known.confirmed {
                step_to = step_to.confirm();
            }
            known.events
        }
        Step::Wait(doubt) => doubt.event.into_iter().collect(),
        Step::Adrift(why) => panic!("adrift at services that remember for ever: {why}"),
    };
    for event in events {
        step_to = step_to.fire(event).expect("a legal step");
    }
    step_to.applied_to(before)
}

/// Drives one transfer to its end and tells what is wrong then, if anything is.
async fn drive(seed: u64) -> Result<State, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut funding = Double::in_a_storm(seed);
    let mut trading = Double::in_a_storm(seed ^ 0xABCD);
    (funding.name, trading.name) = ("funding", "trading");
    (funding.freezes, trading.freezes) = (true, false);
    let (funding, trading) = (Arc::new(funding), Arc::new(trading));
    let holds = if rng.random_ratio(1, 4) { 10 } else { 100 };
    let account = funding.account(holds).await;
    trading.fund(account, 5).await;
    trading.refuse_deposits(account, rng.random_ratio(1, 3)).await;

    let rail = rail(vec![funding.clone(), trading.clone()]).expect("a rail");
    let mut transfer = transfer(KEY, State::Init, false);
    let Payload::Internal(order) = &mut transfer.payload else { panic!("an order") };
    (order.user_id, order.asset_id) = (account.user_id, account.asset_id);
    let mut first = false;
    let mut rounds = 0;
    while !transfer.state.is_final() {
        rounds += 1;
        if rounds > ROUNDS_MAX {
            return Err(format!("still {} after {rounds} turns", transfer.state));
        }
        let step = rail.act(&transfer, Turn { first, since_ms: NOW_MS }).await;
        let goes_on = matches!(step, Step::Go(_));
        if rng.random_ratio(1, 5) {
            // The worker dies before it can store what it learned.
            first = false;
            continue;
        }
        transfer = stored(&transfer, step);
        first = goes_on && !rng.random_ratio(1, 5);
    }
    funding.deliver_late();
    trading.deliver_late();
    let left = (funding.available(account).await, trading.available(account).await);
    let machine::State::Internal(state) = transfer.state else { panic!("an internal state") };
    let expected = match state {
        State::Committed => (holds - 30, 35),
        _ => (holds, 5),
    };
    if left != expected {
        return Err(format!("{state:?}, yet funding and trading hold {left:?}, not {expected:?}"));
    }
    let commit = funding.is_done(KEY, Operation::Commit);
    match state == State::Committed && commit != Some(true) {
        true => Err("committed, yet the source was never told".to_owned()),
        false => Ok(state),
    }
}

#[tokio::test]
async fn lost_and_late_calls_neither_create_nor_lose_funds() {
    let mut ends = std::collections::BTreeMap::<&str, u32>::new();
    for seed in 0..SEEDS {
        match drive(seed).await {
            Ok(state) => *ends.entry(state.name()).or_default() += 1,
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    let all: Vec<&str> = ends.keys().copied().collect();
    assert_eq!(all, ["committed", "failed", "rolled_back"], "{ends:?}");
}

async fn is_found(wound: Wound) -> bool {
    let _wounded = Wounded::by(wound);
    for seed in 0..SEEDS {
        if drive(seed).await.is_err() {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn compensating_on_a_timeout_is_found() {
    assert!(is_found(Wound::CompensatedOnTimeout).await);
}

#[tokio::test]
async fn a_commit_that_is_forgotten_is_found() {
    assert!(is_found(Wound::CommitForgotten).await);
}

#[tokio::test]
async fn taking_the_unknown_for_failed_is_found() {
    assert!(is_found(Wound::NotFoundIsFailed).await);
}
