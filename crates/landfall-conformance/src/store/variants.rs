//! Variants: other bytes for an attempt, each stored before it is sent, and found by its hash.

use landfall_core::attempt::{Fate, Landing, Signed, Variant, VariantKind};
use landfall_core::store::{AddVariant, Added, Settlement, StoreError};
use landfall_core::{Attempt, AttemptId, Event, Mark, Nonce, RailName};

use crate::check::checks;
use crate::world::{LEDGER_NONCE, RAIL, World, signed};

checks!(World:
    a_variant_reads_back_with_its_attempt_wherever_it_is_found,
    bytes_without_a_base_or_an_end_read_back_as_they_are,
    signatures_are_counted_over_attempts_fences_and_variants,
    a_refused_variant_leaves_nothing_behind,
    a_halted_lane_takes_what_cancels_and_nothing_else,
    a_variant_is_of_an_attempt_of_its_lane,
    a_variant_of_an_unknown_attempt_is_a_contradiction,
    a_store_that_forgot_a_variant_is_behind,
    a_hash_finds_its_attempt_whichever_variant_it_is,
    the_hash_that_landed_is_told,
);

async fn added(world: &World, add: AddVariant) -> Variant {
    match world.store.add_variant(add).await.expect("add") {
        Added::Stored(variant) => *variant,
        other => panic!("not stored: {other:?}"),
    }
}

async fn lane_seq(world: &World, name: &str) -> u64 {
    let lanes = world.store.lanes().await.expect("lanes");
    lanes.iter().find(|lane| lane.id.as_str() == name).expect("a lane").seq
}

async fn a_variant_reads_back_with_its_attempt_wherever_it_is_found(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let plain = world.open(&held, 1, &[]).await;
    let first = world.variant(&held, &attempt, 1);
    let stored = added(&world, first.clone()).await;
    assert_eq!((stored.number, stored.kind, stored.seq), (1, VariantKind::Replaces, 3));
    assert_eq!((&stored.signed, stored.epoch), (&first.signed, held.epoch));
    assert_eq!(stored.opened_ms, first.now_ms);
    let cancel = AddVariant { kind: VariantKind::Cancels, ..world.variant(&held, &attempt, 2) };
    let second = added(&world, cancel).await;
    let expected = Attempt { variants: vec![stored, second], ..attempt.clone() };
    let store = &world.store;
    assert_eq!(store.attempt(attempt.id).await, Ok(Some(expected.clone())));
    assert_eq!(store.attempt_at(&held.lane, attempt.nonce).await, Ok(Some(expected.clone())));
    let both = vec![expected.clone(), plain];
    assert_eq!(store.open_attempts(&held.lane).await, Ok(both.clone()));
    assert_eq!(store.open_attempts_of(RAIL).await, Ok(both.clone()));
    assert_eq!(store.attempts_after(&held.lane, LEDGER_NONCE, 9).await, Ok(both));
    assert_eq!(world.get(members[0].id).await.attempt, Some(attempt.id));
    world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
    let page = store.attempts_page(RAIL, AttemptId(0), 9).await.expect("page");
    assert_eq!(page[0].variants, expected.variants);
}

async fn bytes_without_a_base_or_an_end_read_back_as_they_are(world: World) {
    let held = world.started("lane").await;
    let with = signed("with", 1);
    let shapes = [
        Signed { hash: "no base".into(), base: None, ..with.clone() },
        Signed { hash: "no end".into(), expires_height: None, ..with.clone() },
        Signed { hash: "neither".into(), base: None, expires_height: None, bytes: Vec::new() },
        Signed { hash: "from the start".into(), expires_height: Some(0), ..with },
    ];
    for (offset, shape) in shapes.iter().enumerate() {
        let mut opening = world.pay_nobody(&held, offset as u64);
        opening.signed = shape.clone();
        let opened = world.store.open_attempt(opening).await.expect("open");
        let landfall_core::store::Opened::Stored(attempt) = opened else { panic!("{opened:?}") };
        let stored = world.attempt(attempt.id).await;
        assert_eq!((stored.signed_as(&shape.hash), &stored), (Some(shape.clone()), &*attempt));
        for (number, shape) in (1..).zip(&shapes) {
            let mut add = world.variant(&held, &attempt, number);
            add.signed = Signed { hash: format!("{offset}-{number}"), ..shape.clone() };
            added(&world, add.clone()).await;
            let stored = world.attempt(attempt.id).await;
            assert_eq!(stored.signed_as(&add.signed.hash), Some(add.signed));
        }
    }
}

async fn signatures_are_counted_over_attempts_fences_and_variants(world: World) {
    let (held, other) = (world.started("lane").await, world.started("other").await);
    assert_eq!(lane_seq(&world, "lane").await, 0);
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    assert_eq!(attempt.seq, 1);
    let attempt = world.vary(&held, &attempt, 1).await;
    assert_eq!(attempt.variants[0].seq, 2);
    let fence = world.open(&held, 1, &[]).await;
    assert_eq!((fence.seq, lane_seq(&world, "lane").await), (3, 3));
    assert_eq!(world.open(&other, 0, &[]).await.seq, 1);
    // What is settled, halted or adopted was signed all the same.
    world.settle(world.settlement(&held, &fence, Event::Sunk).await).await;
    world.store.halt(&held.lane, "why").await.expect("halt");
    world.store.adopt(&held.lane, Nonce(500)).await.expect("adopt");
    let held = world.lease(&held.lane, "another").await;
    let adopted = lane_seq(&world, "lane").await;
    assert!(adopted > 3, "{adopted}");
    let attempt = world.vary(&held, &attempt, 2).await;
    let counted = (attempt.variants[1].seq, lane_seq(&world, "lane").await);
    assert_eq!(counted, (adopted + 1, adopted + 1));
}

async fn a_refused_variant_leaves_nothing_behind(world: World) {
    let old = world.started("lane").await;
    let attempt = world.open(&old, 0, &world.accept_ready(&["a"]).await).await;
    let held = world.lease(&old.lane, "one").await;
    let attempt = world.vary(&held, &attempt, 1).await;
    let lanes = world.store.lanes().await;
    let refused = [
        (world.variant(&old, &attempt, 2), "Fenced"),
        (world.variant(&held, &attempt, 1), "StaleNumber"),
        (world.variant(&held, &attempt, 3), "StaleNumber"),
        (world.variant(&held, &attempt, 0), "StaleNumber"),
        (
            AddVariant { incarnation: "other".into(), ..world.variant(&held, &attempt, 2) },
            "Restarted",
        ),
    ];
    for (add, expected) in refused {
        let hash = add.signed.hash.clone();
        let answer = world.store.add_variant(add).await.expect("add");
        assert!(format!("{answer:?}").starts_with(expected), "{answer:?}");
        let is_known = attempt.hashes().any(|known| known == hash);
        let found = world.store.attempt_of(RAIL, &hash).await.expect("read");
        assert_eq!(found.is_some(), is_known, "{hash}");
    }
    assert_eq!(world.attempt(attempt.id).await, attempt);
    assert_eq!(world.store.lanes().await, lanes);
    world.settle(world.settlement(&held, &attempt, Event::Sunk).await).await;
    let late = world.store.add_variant(world.variant(&held, &attempt, 2)).await;
    assert_eq!(late, Ok(Added::Decided));
    assert_eq!(world.attempt(attempt.id).await.variants, attempt.variants);
}

async fn a_halted_lane_takes_what_cancels_and_nothing_else(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    world.store.halt(&held.lane, "foreign nonce").await.expect("halt");
    let replaces = world.variant(&held, &attempt, 1);
    let answer = world.store.add_variant(replaces.clone()).await.expect("add");
    let says_why = matches!(&answer, Added::Fenced(why) if why.contains("foreign nonce"));
    assert!(says_why, "{answer:?}");
    added(&world, AddVariant { kind: VariantKind::Cancels, ..replaces }).await;
}

async fn a_variant_is_of_an_attempt_of_its_lane(world: World) {
    let (held, other) = (world.started("lane").await, world.started("other").await);
    let attempt = world.open(&held, 0, &[]).await;
    let answer = world.store.add_variant(world.variant(&other, &attempt, 1)).await.expect("add");
    assert!(matches!(answer, Added::Fenced(_)), "{answer:?}");
    assert_eq!(world.attempt(attempt.id).await, attempt);
    assert_eq!(lane_seq(&world, "other").await, 0);
}

async fn a_variant_of_an_unknown_attempt_is_a_contradiction(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &[]).await;
    let unknown = Attempt { id: AttemptId(attempt.id.0 + 7), ..attempt };
    let answer = world.store.add_variant(world.variant(&held, &unknown, 1)).await;
    assert!(matches!(answer, Err(StoreError::Corrupt(_))), "{answer:?}");
}

/// The nonce is stored, so only the count of signatures tells that a bump was forgotten.
async fn a_store_that_forgot_a_variant_is_behind(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    let attempt = world.vary(&held, &attempt, 1).await;
    let known = Mark { nonce: attempt.nonce, seq: 2 };
    let forgotten = Mark { seq: 3, ..known };
    for (mark, is_behind) in [(forgotten, true), (known, false)] {
        let marks = vec![(held.lane.clone(), mark)];
        let add = AddVariant { marks: marks.clone(), ..world.variant(&held, &attempt, 2) };
        let answer = world.store.add_variant(add).await.expect("add");
        assert_eq!(matches!(answer, Added::Behind(_)), is_behind, "{answer:?}");
        let opening = landfall_core::store::OpenAttempt { marks, ..world.pay_nobody(&held, 1) };
        let answer = world.store.open_attempt(opening).await.expect("open");
        let behind = matches!(answer, landfall_core::store::Opened::Behind(_));
        assert_eq!(behind, is_behind, "{answer:?}");
    }
}

async fn a_hash_finds_its_attempt_whichever_variant_it_is(world: World) {
    let held = world.started("lane").await;
    let mut attempts = Vec::new();
    for offset in 0..3 {
        let attempt = world.open(&held, offset, &[]).await;
        let attempt = world.vary(&held, &attempt, 1).await;
        attempts.push(world.vary(&held, &attempt, 2).await);
    }
    world.settle(world.settlement(&held, &attempts[1], Event::Landed).await).await;
    attempts[1] = world.attempt(attempts[1].id).await;
    for attempt in &attempts {
        for hash in attempt.hashes() {
            let found = world.store.attempt_of(RAIL, hash).await;
            assert_eq!(found, Ok(Some(attempt.clone())), "{hash}");
            assert_eq!(world.store.attempt_of(RailName::Internal, hash).await, Ok(None));
        }
    }
    for hash in ["", "hash", "HASH-0", "hash-0 "] {
        assert_eq!(world.store.attempt_of(RAIL, hash).await, Ok(None), "{hash:?}");
    }
}

async fn the_hash_that_landed_is_told(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    let attempt = world.vary(&held, &attempt, 1).await;
    let hash = attempt.variants[0].signed.hash.clone();
    let settlement = world.settlement(&held, &attempt, Event::Landed).await;
    let Fate::Landed(landing) = settlement.fate else { panic!("it lands") };
    let fate = Fate::Landed(Landing { hash: Some(hash.clone()), ..landing });
    world.settle(Settlement { fate: fate.clone(), ..settlement }).await;
    let stored = world.attempt(attempt.id).await;
    assert_eq!((stored.landed_as(), stored.fate.as_ref()), (Some(hash.as_str()), Some(&fate)));
}
