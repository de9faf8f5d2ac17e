//! What a later build finds in such a store, and how it brings all of it to its end.

use landfall_core::attempt::{Attempt, Fate, Purpose, VariantKind};
use landfall_core::store::{Accepted, AddVariant, Added, Applied, Settled};
use landfall_core::{ClaimEnd, Claimed, Event, Move, Nonce, RailName, Transfer};

use super::{halted, registered, unused, working};
use crate::world::{LEDGER_NONCE, RAIL, TENANT, World, signed};

/// Panics with what is not as `fill` left it, or cannot be brought to its end. `counts` tells
/// whether its layout counted signatures, and remembered who kept a claim.
pub async fn finish(world: &World, counts: bool) {
    transfers_are_as_they_were(world).await;
    attempts_are_as_they_were(world, counts).await;
    lanes_are_as_they_were(world, counts).await;
    claims_go_on(world, counts).await;
    attempts_are_decided(world).await;
    orders_end(world).await;
}

async fn by_key(world: &World, key: &str) -> Transfer {
    let rails = [RailName::Near, RailName::Internal];
    for rail in rails {
        if let Some(found) = world.store.by_key(rail, TENANT, key).await.expect("read") {
            return found;
        }
    }
    panic!("{key} is gone")
}

async fn transfers_are_as_they_were(world: &World) {
    for (key, state, version) in [
        ("waiting", "QUEUED_REGISTRATION", 1),
        ("failed", "FAILED", 2),
        ("registering", "QUEUED_REGISTRATION", 1),
        ("waits-for-it", "QUEUED_REGISTRATION", 1),
        ("found", "QUEUED_TRANSFER", 2),
        ("made", "QUEUED_TRANSFER", 2),
        ("aside", "QUEUED_TRANSFER", 2),
        ("paid-1", "COMPLETED", 3),
        ("paid-2", "COMPLETED", 3),
        ("sunk", "QUEUED_TRANSFER", 3),
        ("carried-1", "QUEUED_VERIFICATION", 2),
        ("carried-2", "QUEUED_VERIFICATION", 2),
        ("carried-3", "QUEUED_VERIFICATION", 2),
        ("init", "init", 1),
        ("source-pending", "source_pending", 2),
        ("compensating", "compensating", 2),
        ("rolled-back", "rolled_back", 2),
        ("confirmed", "target_pending", 2),
        ("committed", "committed", 2),
    ] {
        let transfer = by_key(world, key).await;
        assert_eq!((transfer.state.name(), transfer.version), (state, version), "{key}");
        assert_eq!(transfer.attempt.is_some(), key.starts_with("carried"), "{key}");
        assert_eq!(transfer.confirmed, matches!(key, "confirmed" | "committed"), "{key}");
        assert_eq!(world.get(transfer.id).await, transfer);
        assert_eq!(world.trail(transfer.id).await.last(), last_entry(key, state).as_ref());
        let counts = world.store.counts().await.expect("counts");
        assert!(counts.iter().any(|(counted, _)| *counted == transfer.state), "{state}");
    }
    let failed = by_key(world, "failed").await;
    let error = failed.error.expect("an error");
    assert_eq!((error.error_type.as_str(), failed.retry_count), ("invalid_receiver", 2));
    assert!(by_key(world, "aside").await.aside.is_some_and(|why| why.contains("more than")));
}

fn last_entry(key: &str, state: &'static str) -> Option<&'static str> {
    Some(match key {
        "aside" => "SET_ASIDE",
        "confirmed" => "CONFIRMED",
        _ => state,
    })
}

async fn at(world: &World, lane: &landfall_core::LaneId, offset: u64) -> Attempt {
    let nonce = Nonce(LEDGER_NONCE.0 + 1 + offset);
    let found = world.store.attempt_at(lane, nonce).await.expect("read");
    found.unwrap_or_else(|| panic!("nonce {nonce} of {lane} is gone"))
}

async fn attempts_are_as_they_were(world: &World, counts: bool) {
    let landed = at(world, &working(), 0).await;
    let paid = [by_key(world, "paid-1").await.id, by_key(world, "paid-2").await.id];
    assert_eq!((&landed.members[..], landed.hash.as_str()), (&paid[..], "working-0"));
    let Some(Fate::Landed(landing)) = &landed.fate else { panic!("{:?}", landed.fate) };
    assert_eq!((landing.block_height, landing.outcomes.len()), (9, 2));
    assert_eq!(landed.landed_as(), Some("working-0"));
    let sunk = at(world, &working(), 1).await;
    assert!(matches!(sunk.fate, Some(Fate::Sunk(_))), "{:?}", sunk.fate);
    let carried = at(world, &working(), 2).await;
    assert_eq!(carried.signed_as("working-2"), Some(signed("working-2", 2)));
    let seq = if counts { 3 } else { 0 };
    assert_eq!((carried.seq, &carried.variants[..], carried.fate), (seq, &[][..], None));
    let seen: Vec<&str> = carried.sightings.iter().map(|seen| seen.endpoint.as_str()).collect();
    assert_eq!(seen, ["https://one.example", "https://two.example"]);
    assert_eq!(at(world, &working(), 3).await.purpose, Purpose::Fence);
    assert_eq!(world.store.open_attempts_of(RAIL).await.expect("read").len(), 4);
    let after = world.store.attempts_after(&working(), LEDGER_NONCE, 9).await.expect("read");
    assert_eq!(after.len(), 3, "what sank explains nothing");
    for (lane, name, offset) in [
        (working(), "working", 0),
        (working(), "working", 1),
        (working(), "working", 2),
        (halted(), "halted", 7),
    ] {
        let found = world.store.attempt_of(RAIL, &format!("{name}-{offset}")).await;
        assert_eq!(found, Ok(Some(at(world, &lane, offset).await)), "{name}-{offset}");
    }
}

async fn lanes_are_as_they_were(world: &World, counts: bool) {
    let lanes = world.store.lanes().await.expect("lanes");
    let found: Vec<_> = lanes
        .iter()
        .map(|lane| (lane.id.clone(), lane.next_nonce.map(|nonce| nonce.0 - LEDGER_NONCE.0)))
        .collect();
    assert_eq!(found, [(halted(), Some(9)), (unused(), None), (working(), Some(5))]);
    let reason = lanes[0].halted.as_ref().map(|halt| halt.reason.as_str());
    assert!(reason.is_some_and(|reason| reason.contains("nonce 44")), "{reason:?}");
    assert_eq!(lanes[2].halted, None);
    let seqs: Vec<u64> = lanes.iter().map(|lane| lane.seq).collect();
    assert_eq!(seqs, if counts { [2, 0, 4] } else { [0; 3] });
}

async fn claims_go_on(world: &World, counts: bool) {
    let keys = ["alice.near", "bob.near", "carol.near"].map(registered);
    assert_eq!(world.store.kept(&keys).await, Ok(vec![false, true, true]));
    let owner = by_key(world, "registering").await;
    let waiter = by_key(world, "waits-for-it").await;
    let other = by_key(world, "waiting").await;
    let asked = ["alice.near", "bob.near", "carol.near"].map(|key| (registered(key), other.id));
    let keeper = by_key(world, "made").await;
    let keeper = counts.then_some(keeper.id);
    let expected = [
        Claimed::Held { owner: owner.id },
        Claimed::Kept { owner: None },
        Claimed::Kept { owner: keeper },
    ];
    assert_eq!(world.store.claim(asked.to_vec()).await, Ok(expected.to_vec()));
    for (account, owner) in [("alice.near", Some(owner.id)), ("carol.near", keeper)] {
        let mut new = world.fresh("wants-it");
        new.claims = vec![registered("free.near"), registered(account)];
        let refused = Accepted::Claimed { key: registered(account), owner };
        assert_eq!(world.store.accept(vec![new]).await, Ok(vec![refused]));
    }
    let step = Move::of(&owner, world.now_ms()).ending(ClaimEnd::Keep(registered("alice.near")));
    let mut ended = world.store.apply(vec![step]).await.expect("apply");
    assert_eq!(ended.moves, [Applied::Applied]);
    ended.released.sort_unstable();
    assert_eq!(ended.released, [other.id, waiter.id]);
    let asked = vec![(registered("alice.near"), other.id)];
    let kept = Claimed::Kept { owner: Some(owner.id) };
    assert_eq!(world.store.claim(asked).await, Ok(vec![kept]));
}

async fn attempts_are_decided(world: &World) {
    for (lane, kind) in [(working(), VariantKind::Replaces), (halted(), VariantKind::Cancels)] {
        let held = world.lease(&lane, "one").await;
        let lanes = world.store.lanes().await.expect("lanes");
        let counted = lanes.iter().find(|known| known.id == lane).expect("a lane").seq;
        let open = world.store.open_attempts(&lane).await.expect("read");
        for (attempt, seq) in open.iter().zip(counted + 1..) {
            let add = AddVariant { kind, ..world.variant(&held, attempt, 1) };
            let added = world.store.add_variant(add.clone()).await.expect("add");
            assert_eq!(added, Added::Stored(Box::new(add.stored_as(seq))));
            let mut settlement = world.settlement(&held, attempt, Event::Landed).await;
            if let Fate::Landed(landing) = &mut settlement.fate {
                landing.hash = Some(add.signed.hash.clone());
            }
            let settled = world.settle(settlement).await;
            assert!(matches!(settled, Settled::Done { .. }), "{settled:?}");
            let found = world.store.attempt_of(RAIL, &add.signed.hash).await.expect("read");
            let found = found.expect("it is found by its variant");
            assert_eq!((found.id, found.landed_as()), (attempt.id, Some(&*add.signed.hash)));
        }
    }
    for key in ["carried-1", "carried-2", "carried-3"] {
        assert!(by_key(world, key).await.state.is_completed(), "{key}");
    }
    let held = world.lease(&working(), "one").await;
    let again = [by_key(world, "sunk").await, by_key(world, "made").await];
    let attempt = world.open(&held, 4, &again).await;
    world.settle(world.settlement(&held, &attempt, Event::Landed).await).await;
    assert_eq!(world.store.open_attempts_of(RAIL).await, Ok(Vec::new()));
}

async fn orders_end(world: &World) {
    for (key, event, state) in [
        ("source-pending", Event::SourceFail, "failed"),
        ("compensating", Event::RollbackOk, "rolled_back"),
        ("confirmed", Event::TargetOk, "committed"),
    ] {
        let transfer = by_key(world, key).await;
        let step = Move::of(&transfer, world.now_ms()).fire(event).expect("legal");
        assert_eq!(world.apply(step).await, Applied::Applied);
        assert_eq!(by_key(world, key).await.state.name(), state);
    }
}
