//! Transfers between two services: accepted, then five compare-and-sets, each with an entry in the
//! trail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use landfall_core::internal::{self, Order};
use landfall_core::store::{Applied, Store};
use landfall_core::{Event, Move, NewTransfer, Payload, State};

use super::{Load, NOW_MS, Numbers, Pace, accept, together};

/// What happens to each; the one without a name is the confirmed deposit.
const STEPS: [Option<Event>; 5] = [
    Some(Event::SourceCall),
    Some(Event::SourceOk),
    Some(Event::TargetCall),
    None,
    Some(Event::TargetOk),
];
/// Users whom the transfers are for.
const USERS: u64 = 200;

/// Each caller takes one transfer at a time through its life; an answer is a life's mean.
pub async fn moves(store: Arc<dyn Store>, load: &Load) -> Pace {
    let numbers = Numbers::below(load.transfers);
    let caller = |_| live_all(store.clone(), load.name.clone(), numbers.clone());
    let (timed, took) = together((0..load.callers).map(caller)).await;
    Pace::new(timed.concat(), load.transfers, took)
}

async fn live_all(store: Arc<dyn Store>, name: String, numbers: Numbers) -> Vec<Duration> {
    let mut timed = Vec::new();
    for number in numbers {
        let begun = Instant::now();
        live(store.as_ref(), &name, number).await;
        timed.push(begun.elapsed() / (1 + STEPS.len() as u32));
    }
    timed
}

/// One transfer, from the first commit to the last.
async fn live(store: &dyn Store, name: &str, number: usize) {
    let mut transfer = accept(store, new_order(name, number)).await;
    for event in STEPS {
        let step = Move::of(&transfer, NOW_MS);
        let step = match event {
            Some(event) => step.due(Some(NOW_MS + 1_000)).fire(event).expect("legal"),
            None => step.confirm(),
        };
        let after = step.applied_to(&transfer);
        let applied = store.apply(vec![step]).await.expect("apply").moves;
        assert_eq!(applied, [Applied::Applied]);
        transfer = after;
    }
    assert!(transfer.state.is_completed());
}

fn new_order(name: &str, number: usize) -> NewTransfer {
    let order = Order {
        source: "funding".into(),
        target: "trading".into(),
        user_id: number as u64 % USERS,
        asset_id: 1,
        asset: "BTC".into(),
        decimals: 8,
        amount: number as u64 + 1,
        client_key: None,
    };
    let scope = (String::new(), format!("{name}-{number}"));
    let print = order.fingerprint();
    let first = State::Internal(internal::State::Init);
    NewTransfer::begin(scope, print, Payload::Internal(order), first, &[], NOW_MS)
        .expect("a legal beginning")
}
