//! Claims: one owner, waiters made due by whatever ends it, in the same commit.

use landfall_core::store::{Applied, AppliedBatch, Settled};
use landfall_core::{ClaimEnd, Claimed, Event, Move, Transfer, TransferId, near};

use crate::check::checks;
use crate::world::{HORIZON_MS, World, claim_key};

checks!(World:
    the_first_to_ask_owns_a_claim_and_asking_again_changes_nothing,
    claims_asked_together_are_decided_in_order,
    claims_of_other_keys_and_spaces_are_others,
    a_kept_claim_stands_and_releases_its_waiters,
    a_released_claim_is_free_and_releases_its_waiters,
    a_claim_nobody_held_can_be_kept,
    somebody_elses_claim_cannot_be_ended,
    a_kept_claim_is_forgotten_and_only_then_free,
    a_held_claim_is_not_forgotten,
    released_waiters_are_due_at_once,
    a_final_waiter_is_not_woken,
    a_carried_waiter_is_not_woken,
    a_settlement_ends_claims_and_releases_waiters,
);

async fn two(world: &World) -> (Transfer, Transfer) {
    (world.accept(world.fresh("owner")).await, world.accept(world.fresh("waiter")).await)
}

async fn ask(world: &World, key: &str, asker: TransferId) -> Claimed {
    world.store.claim(vec![(claim_key(key), asker)]).await.expect("claim").remove(0)
}

/// Moves the transfer without a change but the end of a claim.
async fn end(world: &World, mover: TransferId, end: ClaimEnd) -> AppliedBatch {
    let step = Move::of(&world.get(mover).await, world.now_ms()).ending(end);
    let batch = world.store.apply(vec![step]).await.expect("apply");
    assert_eq!(batch.moves, [Applied::Applied]);
    batch
}

async fn kept(world: &World, key: &str) -> bool {
    world.store.kept(&[claim_key(key)]).await.expect("kept")[0]
}

async fn the_first_to_ask_owns_a_claim_and_asking_again_changes_nothing(world: World) {
    let (owner, waiter) = two(&world).await;
    for _ in 0..2 {
        assert_eq!(ask(&world, "a", owner.id).await, Claimed::Yours);
        assert_eq!(ask(&world, "a", waiter.id).await, Claimed::Held { owner: owner.id });
    }
    let batch = end(&world, owner.id, ClaimEnd::Release(claim_key("a"))).await;
    assert_eq!(batch.released, [waiter.id]);
}

async fn claims_asked_together_are_decided_in_order(world: World) {
    let (one, other) = two(&world).await;
    let asked = vec![
        (claim_key("a"), one.id),
        (claim_key("a"), other.id),
        (claim_key("b"), other.id),
        (claim_key("b"), one.id),
        (claim_key("a"), one.id),
    ];
    let answers = world.store.claim(asked).await.expect("claim");
    let held = |owner: &Transfer| Claimed::Held { owner: owner.id };
    let expected = [Claimed::Yours, held(&one), Claimed::Yours, held(&other), Claimed::Yours];
    assert_eq!(answers, expected);
}

async fn claims_of_other_keys_and_spaces_are_others(world: World) {
    let (one, other) = two(&world).await;
    assert_eq!(ask(&world, "a", one.id).await, Claimed::Yours);
    let mut elsewhere = claim_key("a");
    elsewhere.space.push_str("-2");
    let answers = world.store.claim(vec![(elsewhere, other.id)]).await;
    assert_eq!(answers, Ok(vec![Claimed::Yours]));
    assert_eq!(ask(&world, "A", other.id).await, Claimed::Yours);
}

async fn a_kept_claim_stands_and_releases_its_waiters(world: World) {
    let (owner, waiter) = two(&world).await;
    ask(&world, "a", owner.id).await;
    ask(&world, "a", waiter.id).await;
    assert!(!kept(&world, "a").await);
    let batch = end(&world, owner.id, ClaimEnd::Keep(claim_key("a"))).await;
    assert_eq!(batch.released, [waiter.id]);
    let keys = [claim_key("none"), claim_key("a")];
    assert_eq!(world.store.kept(&keys).await, Ok(vec![false, true]));
    let by_owner = Claimed::Kept { owner: Some(owner.id) };
    assert_eq!(ask(&world, "a", waiter.id).await, by_owner);
    assert_eq!(ask(&world, "a", owner.id).await, by_owner);
}

async fn a_released_claim_is_free_and_releases_its_waiters(world: World) {
    let (owner, waiter) = two(&world).await;
    ask(&world, "a", owner.id).await;
    ask(&world, "a", waiter.id).await;
    let batch = end(&world, owner.id, ClaimEnd::Release(claim_key("a"))).await;
    assert_eq!(batch.released, [waiter.id]);
    assert!(!kept(&world, "a").await);
    assert_eq!(ask(&world, "a", waiter.id).await, Claimed::Yours);
    let batch = end(&world, waiter.id, ClaimEnd::Release(claim_key("a"))).await;
    assert_eq!(batch.released, []);
}

async fn a_claim_nobody_held_can_be_kept(world: World) {
    let (one, other) = two(&world).await;
    end(&world, one.id, ClaimEnd::Keep(claim_key("a"))).await;
    assert!(kept(&world, "a").await);
    end(&world, other.id, ClaimEnd::Keep(claim_key("a"))).await;
    assert!(kept(&world, "a").await);
}

async fn somebody_elses_claim_cannot_be_ended(world: World) {
    let (owner, other) = two(&world).await;
    ask(&world, "a", owner.id).await;
    let third = world.accept(world.fresh("third")).await;
    ask(&world, "a", third.id).await;
    for attempt in [ClaimEnd::Keep, ClaimEnd::Release] {
        let batch = end(&world, other.id, attempt(claim_key("a"))).await;
        assert_eq!(batch.released, []);
        assert!(!kept(&world, "a").await);
        assert_eq!(ask(&world, "a", third.id).await, Claimed::Held { owner: owner.id });
    }
    end(&world, owner.id, ClaimEnd::Keep(claim_key("a"))).await;
    end(&world, owner.id, ClaimEnd::Release(claim_key("a"))).await;
    assert!(kept(&world, "a").await);
}

async fn a_kept_claim_is_forgotten_and_only_then_free(world: World) {
    let (one, other) = two(&world).await;
    end(&world, one.id, ClaimEnd::Keep(claim_key("a"))).await;
    assert_eq!(ask(&world, "a", other.id).await, Claimed::Kept { owner: None });
    end(&world, other.id, ClaimEnd::Forget(claim_key("a"))).await;
    assert!(!kept(&world, "a").await);
    assert_eq!(ask(&world, "a", other.id).await, Claimed::Yours);
}

async fn a_held_claim_is_not_forgotten(world: World) {
    let (owner, other) = two(&world).await;
    ask(&world, "a", owner.id).await;
    for mover in [other.id, owner.id] {
        end(&world, mover, ClaimEnd::Forget(claim_key("a"))).await;
        assert_eq!(ask(&world, "a", other.id).await, Claimed::Held { owner: owner.id });
    }
}

/// Gives the transfer a due time that no sweep here reaches.
async fn put_off(world: &World, id: TransferId) -> Transfer {
    let later = Some(world.now_ms() + HORIZON_MS / 2);
    let step = Move::of(&world.get(id).await, world.now_ms()).due(later);
    assert_eq!(world.apply(step).await, Applied::Applied);
    world.get(id).await
}

async fn sweep(world: &World) -> Vec<TransferId> {
    let stage = near::REGISTRATION;
    world.store.sweep(stage, 10, HORIZON_MS / 2, HORIZON_MS).await.expect("sweep")
}

async fn released_waiters_are_due_at_once(world: World) {
    let (owner, waiter) = two(&world).await;
    let (owner, waiter) = (put_off(&world, owner.id).await, put_off(&world, waiter.id).await);
    ask(&world, "a", owner.id).await;
    ask(&world, "a", waiter.id).await;
    assert_eq!(sweep(&world).await, []);
    end(&world, owner.id, ClaimEnd::Keep(claim_key("a"))).await;
    let woken = world.get(waiter.id).await;
    assert_eq!(woken, Transfer { due_ms: woken.due_ms, ..waiter.clone() });
    assert_eq!(sweep(&world).await, [waiter.id]);
}

async fn a_final_waiter_is_not_woken(world: World) {
    let (owner, waiter) = two(&world).await;
    ask(&world, "a", owner.id).await;
    ask(&world, "a", waiter.id).await;
    let failed = Move::of(&waiter, world.now_ms()).fire(Event::Refused).expect("legal");
    assert_eq!(world.apply(failed).await, Applied::Applied);
    let batch = end(&world, owner.id, ClaimEnd::Release(claim_key("a"))).await;
    assert_eq!(batch.released, []);
    assert_eq!(world.get(waiter.id).await.due_ms, None);
}

async fn a_carried_waiter_is_not_woken(world: World) {
    let held = world.started("lane").await;
    let owner = world.accept(world.fresh("owner")).await;
    let waiter = world.accept_ready(&["waiter"]).await.remove(0);
    ask(&world, "a", owner.id).await;
    ask(&world, "a", waiter.id).await;
    world.open(&held, 0, std::slice::from_ref(&waiter)).await;
    let carried = world.get(waiter.id).await;
    let batch = end(&world, owner.id, ClaimEnd::Keep(claim_key("a"))).await;
    assert_eq!(batch.released, []);
    assert_eq!(world.get(waiter.id).await, carried);
}

async fn a_settlement_ends_claims_and_releases_waiters(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["owner"]).await;
    let waiter = world.accept(world.fresh("waiter")).await;
    ask(&world, "a", members[0].id).await;
    ask(&world, "a", waiter.id).await;
    let attempt = world.open(&held, 0, &members).await;
    let mut settlement = world.settlement(&held, &attempt, Event::Landed).await;
    settlement.moves[0].claims.push(ClaimEnd::Keep(claim_key("a")));
    let done = Settled::Done { moved: vec![members[0].id], released: vec![waiter.id] };
    assert_eq!(world.settle(settlement).await, done);
    assert!(kept(&world, "a").await);
}
