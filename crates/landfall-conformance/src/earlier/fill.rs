//! One of everything.

use landfall_core::attempt::{Attempt, Purpose, Sighting};
use landfall_core::store::{Applied, OpenAttempt, Opened, Settled};
use landfall_core::{ClaimEnd, Claimed, Event, Fault, Move, Note, Transfer};

use super::{halted, registered, unused, working};
use crate::world::{Held, World};

/// Fills an empty store.
pub async fn fill(world: &World) {
    waiting(world).await;
    claims(world).await;
    set_aside(world).await;
    on_a_working_lane(world).await;
    on_a_halted_lane(world).await;
    let held = world.lease(&unused(), "one").await;
    world.store.release(&[(held.lane, held.epoch)]).await.expect("release");
    orders(world).await;
}

async fn applied(world: &World, step: Move) {
    assert_eq!(world.apply(step).await, Applied::Applied);
}

async fn waiting(world: &World) {
    world.accept(world.fresh("waiting")).await;
    let failed = world.accept(world.fresh_to("failed", "nobody.near")).await;
    let mut step = Move::of(&failed, world.now_ms()).fire(Event::Refused).expect("legal");
    step.error = Some(Fault {
        error_type: "invalid_receiver".into(),
        message: "nobody.near does not exist".into(),
        retry_count: 2,
        will_retry: false,
    });
    (step.retry_count, step.stage_retries) = (2, 2);
    applied(world, step).await;
}

/// One claim is held and waited for, one was kept by its owner, one by somebody who never held it.
async fn claims(world: &World) {
    let owner = world.accept(world.fresh("registering")).await;
    let waiter = world.accept(world.fresh("waits-for-it")).await;
    let asked = vec![(registered("alice.near"), owner.id), (registered("alice.near"), waiter.id)];
    let answers = world.store.claim(asked).await.expect("claim");
    assert_eq!(answers, [Claimed::Yours, Claimed::Held { owner: owner.id }]);
    for (key, account, asks) in [("found", "bob.near", false), ("made", "carol.near", true)] {
        let transfer = world.accept(world.fresh_to(key, account)).await;
        if asks {
            let asked = vec![(registered(account), transfer.id)];
            assert_eq!(world.store.claim(asked).await, Ok(vec![Claimed::Yours]));
        }
        let step = Move::of(&transfer, world.now_ms()).fire(Event::Prepared);
        let step = step.and_then(|step| step.fire(Event::Enqueued)).expect("legal");
        applied(world, step.ending(ClaimEnd::Keep(registered(account)))).await;
    }
}

async fn set_aside(world: &World) {
    let transfer = world.accept(world.ready("aside")).await;
    let mut step = Move::of(&transfer, world.now_ms()).note(Note::SetAside);
    step.aside = Some("more than the relay has".into());
    applied(world, step).await;
}

async fn stored(world: &World, opening: OpenAttempt) -> Attempt {
    match world.store.open_attempt(opening).await.expect("open") {
        Opened::Stored(attempt) => *attempt,
        other => panic!("not stored: {other:?}"),
    }
}

/// Named after its lane: hashes are the ledger's, and no two are the same.
fn opening(world: &World, held: &Held, offset: u64, members: &[Transfer]) -> OpenAttempt {
    let mut opening = world.opening(held, offset, members);
    let (_, lane) = held.lane.as_str().rsplit_once(':').expect("a lane's name has parts");
    opening.signed.hash = format!("{lane}-{offset}");
    opening
}

/// What landed, what sank, what is under way and was seen, and a fence.
async fn on_a_working_lane(world: &World) {
    let held = world.started(working().as_str()).await;
    for (offset, keys, event) in
        [(0, &["paid-1", "paid-2"][..], Event::Landed), (1, &["sunk"][..], Event::Sunk)]
    {
        let members = world.accept_ready(keys).await;
        let attempt = stored(world, opening(world, &held, offset, &members)).await;
        let settled = world.settle(world.settlement(&held, &attempt, event).await).await;
        assert!(matches!(settled, Settled::Done { .. }), "{settled:?}");
    }
    let members = world.accept_ready(&["carried-1", "carried-2"]).await;
    let attempt = stored(world, opening(world, &held, 2, &members)).await;
    for (endpoint, block_height) in
        [("https://one.example", Some(104)), ("https://two.example", None)]
    {
        let sighting = Sighting {
            endpoint: endpoint.into(),
            block_hash: "block-104".into(),
            block_height,
            was_final: false,
            at_ms: world.now_ms(),
        };
        assert!(world.sight(&held, attempt.id, sighting).await);
    }
    stored(world, opening(world, &held, 3, &[])).await;
}

async fn on_a_halted_lane(world: &World) {
    let held = world.started(halted().as_str()).await;
    let members = world.accept_ready(&["carried-3"]).await;
    stored(world, opening(world, &held, 0, &members)).await;
    let reason = "the ledger shows nonce 44, which no stored attempt explains";
    world.store.halt(&held.lane, reason).await.expect("halt");
    let fence = OpenAttempt { purpose: Purpose::Fence, ..opening(world, &held, 7, &[]) };
    stored(world, fence).await;
}

/// Moves between services, each a step further.
async fn orders(world: &World) {
    use Event::{RollbackOk, SourceCall, SourceOk, TargetCall, TargetFail, TargetOk};
    let lives: [(&str, &[Event]); 6] = [
        ("init", &[]),
        ("source-pending", &[SourceCall]),
        ("compensating", &[SourceCall, SourceOk, TargetCall, TargetFail]),
        ("rolled-back", &[SourceCall, SourceOk, TargetCall, TargetFail, RollbackOk]),
        ("confirmed", &[SourceCall, SourceOk, TargetCall]),
        ("committed", &[SourceCall, SourceOk, TargetCall, TargetOk]),
    ];
    for (key, events) in lives {
        let transfer = world.accept(world.order(key)).await;
        let mut step = Move::of(&transfer, world.now_ms());
        for event in events {
            // The target has the deposit before its source commits.
            if *event == TargetOk {
                step = step.confirm();
            }
            step = step.fire(*event).expect("legal");
        }
        if key == "confirmed" {
            step = step.confirm();
        }
        if !events.is_empty() {
            applied(world, step).await;
        }
    }
}
