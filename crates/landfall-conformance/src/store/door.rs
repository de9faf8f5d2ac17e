//! Claims at the door: taken in the commit that accepts the transfer, or the transfer is refused.

use landfall_core::store::{Accepted, Applied, ListFilter};
use landfall_core::{ClaimEnd, Claimed, Move, NewTransfer, Transfer, TransferId};

use crate::check::checks;
use crate::world::{RAIL, TENANT, World, claim_key};

checks!(World:
    an_accepted_transfer_has_what_it_claims,
    a_taken_claim_refuses_the_transfer_and_names_its_owner,
    a_kept_claim_refuses_and_names_who_kept_it,
    the_first_claim_that_is_taken_is_named,
    a_refused_transfer_leaves_nothing_behind,
    a_key_is_looked_at_before_its_claims,
    claims_within_a_batch_are_decided_in_order,
    a_key_refused_by_a_claim_is_free_for_the_next_of_the_batch,
    a_claim_named_twice_by_one_transfer_is_one_claim,
    claims_taken_at_the_door_end_like_others,
    one_refusal_in_a_large_batch_spoils_nothing,
);

async fn accept(world: &World, new: NewTransfer) -> Accepted {
    world.store.accept(vec![new]).await.expect("accept").remove(0)
}

fn claimed(key: &str, owner: Option<TransferId>) -> Accepted {
    Accepted::Claimed { key: claim_key(key), owner }
}

async fn ask(world: &World, key: &str, asker: &Transfer) -> Claimed {
    world.store.claim(vec![(claim_key(key), asker.id)]).await.expect("claim").remove(0)
}

async fn end(world: &World, mover: &Transfer, end: ClaimEnd) -> Vec<TransferId> {
    let step = Move::of(&world.get(mover.id).await, world.now_ms()).ending(end);
    let batch = world.store.apply(vec![step]).await.expect("apply");
    assert_eq!(batch.moves, [Applied::Applied]);
    batch.released
}

async fn an_accepted_transfer_has_what_it_claims(world: World) {
    let owner = world.accept(world.claiming("k", &["a", "b"])).await;
    let other = world.accept(world.fresh("other")).await;
    assert_eq!(world.get(owner.id).await, owner);
    for key in ["a", "b"] {
        assert_eq!(ask(&world, key, &other).await, Claimed::Held { owner: owner.id });
        assert_eq!(ask(&world, key, &owner).await, Claimed::Yours);
    }
    let keys = [claim_key("a"), claim_key("b")];
    assert_eq!(world.store.kept(&keys).await, Ok(vec![false, false]));
}

async fn a_taken_claim_refuses_the_transfer_and_names_its_owner(world: World) {
    let first = world.accept(world.claiming("first", &["a"])).await;
    let asker = world.accept(world.fresh("asker")).await;
    assert_eq!(ask(&world, "b", &asker).await, Claimed::Yours);
    assert_eq!(accept(&world, world.claiming("k", &["a"])).await, claimed("a", Some(first.id)));
    assert_eq!(accept(&world, world.claiming("k", &["b"])).await, claimed("b", Some(asker.id)));
    // Nobody waits for it: who is refused does not exist.
    assert_eq!(end(&world, &first, ClaimEnd::Release(claim_key("a"))).await, []);
}

async fn a_kept_claim_refuses_and_names_who_kept_it(world: World) {
    let owner = world.accept(world.claiming("owner", &["spent"])).await;
    end(&world, &owner, ClaimEnd::Keep(claim_key("spent"))).await;
    end(&world, &owner, ClaimEnd::Keep(claim_key("found"))).await;
    let spent = accept(&world, world.claiming("k", &["spent"])).await;
    assert_eq!(spent, claimed("spent", Some(owner.id)));
    assert_eq!(accept(&world, world.claiming("k", &["found"])).await, claimed("found", None));
    assert_eq!(ask(&world, "spent", &owner).await, Claimed::Kept { owner: Some(owner.id) });
    assert_eq!(ask(&world, "found", &owner).await, Claimed::Kept { owner: None });
    end(&world, &owner, ClaimEnd::Forget(claim_key("spent"))).await;
    world.accept(world.claiming("k", &["spent"])).await;
}

async fn the_first_claim_that_is_taken_is_named(world: World) {
    let one = world.accept(world.claiming("one", &["z"])).await;
    let two = world.accept(world.claiming("two", &["a"])).await;
    let refused = accept(&world, world.claiming("k", &["free", "z", "a"])).await;
    assert_eq!(refused, claimed("z", Some(one.id)));
    let refused = accept(&world, world.claiming("k", &["a", "free", "z"])).await;
    assert_eq!(refused, claimed("a", Some(two.id)));
}

async fn a_refused_transfer_leaves_nothing_behind(world: World) {
    let owner = world.accept(world.claiming("owner", &["a"])).await;
    let before = world.store.counts().await;
    assert_eq!(
        accept(&world, world.claiming("k", &["free", "a"])).await,
        claimed("a", Some(owner.id))
    );
    assert_eq!(world.store.by_key(RAIL, TENANT, "k").await, Ok(None));
    assert_eq!(world.store.counts().await, before);
    let listed = world.store.list(ListFilter { limit: 9, ..ListFilter::default() }).await;
    assert_eq!(listed, Ok(vec![owner.clone()]));
    let due = world.store.sweep(landfall_core::near::REGISTRATION, 9, 1, 1 << 40).await;
    assert_eq!(due, Ok(vec![owner.id]));
    // Its key and its other claims are free: it may come again with what it can have.
    let again = world.accept(world.claiming("k", &["free"])).await;
    assert!(again.id > owner.id);
    assert_eq!(ask(&world, "free", &owner).await, Claimed::Held { owner: again.id });
}

async fn a_key_is_looked_at_before_its_claims(world: World) {
    let owner = world.accept(world.claiming("k", &["a"])).await;
    let again = accept(&world, world.claiming("k", &["a"])).await;
    assert_eq!(again, Accepted::Already(owner.clone()));
    let mut other = world.fresh_to("k", "bob.near");
    other.claims = vec![claim_key("a"), claim_key("b")];
    assert_eq!(accept(&world, other).await, Accepted::Conflict(owner.clone()));
    end(&world, &owner, ClaimEnd::Keep(claim_key("a"))).await;
    let again = accept(&world, world.claiming("k", &["a"])).await;
    assert_eq!(again, Accepted::Already(world.get(owner.id).await));
    assert_eq!(ask(&world, "b", &owner).await, Claimed::Yours);
}

async fn claims_within_a_batch_are_decided_in_order(world: World) {
    let batch = vec![
        world.claiming("k1", &["a"]),
        world.claiming("k2", &["b", "a"]),
        world.claiming("k3", &["b"]),
        world.claiming("k1", &["a"]),
        world.claiming("k4", &["b"]),
        world.fresh("k5"),
    ];
    let answers = world.store.accept(batch).await.expect("accept");
    let [Accepted::Created(first), second, Accepted::Created(third), again, fifth, last] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!(*second, claimed("a", Some(first.id)));
    assert_eq!(*again, Accepted::Already(first.clone()));
    assert_eq!(*fifth, claimed("b", Some(third.id)));
    assert!(matches!(last, Accepted::Created(_)), "{last:?}");
    assert_eq!(ask(&world, "b", first).await, Claimed::Held { owner: third.id });
    assert_eq!(world.store.by_key(RAIL, TENANT, "k2").await, Ok(None));
}

async fn a_key_refused_by_a_claim_is_free_for_the_next_of_the_batch(world: World) {
    let owner = world.accept(world.claiming("owner", &["a"])).await;
    let batch = vec![
        world.claiming("k", &["a"]),
        world.claiming("k", &["b"]),
        world.claiming("k", &["a"]),
        world.claiming("owner", &["b"]),
    ];
    let answers = world.store.accept(batch).await.expect("accept");
    let [refused, Accepted::Created(created), again, known] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!(*refused, claimed("a", Some(owner.id)));
    assert_eq!(*again, Accepted::Already(created.clone()));
    assert_eq!(*known, Accepted::Already(owner.clone()));
    assert_eq!(ask(&world, "b", &owner).await, Claimed::Held { owner: created.id });
}

async fn a_claim_named_twice_by_one_transfer_is_one_claim(world: World) {
    let owner = world.accept(world.claiming("k", &["a", "a"])).await;
    assert_eq!(ask(&world, "a", &owner).await, Claimed::Yours);
    end(&world, &owner, ClaimEnd::Release(claim_key("a"))).await;
    world.accept(world.claiming("l", &["a"])).await;
}

async fn claims_taken_at_the_door_end_like_others(world: World) {
    let owner = world.accept(world.claiming("owner", &["a", "b"])).await;
    let waiter = world.accept(world.fresh("waiter")).await;
    for key in ["a", "b"] {
        assert_eq!(ask(&world, key, &waiter).await, Claimed::Held { owner: owner.id });
    }
    assert_eq!(end(&world, &waiter, ClaimEnd::Release(claim_key("a"))).await, []);
    assert_eq!(end(&world, &owner, ClaimEnd::Keep(claim_key("a"))).await, [waiter.id]);
    assert_eq!(end(&world, &owner, ClaimEnd::Release(claim_key("b"))).await, [waiter.id]);
    let keys = [claim_key("a"), claim_key("b")];
    assert_eq!(world.store.kept(&keys).await, Ok(vec![true, false]));
    let next = world.accept(world.claiming("next", &["b"])).await;
    assert_eq!(ask(&world, "b", &waiter).await, Claimed::Held { owner: next.id });
    assert_eq!(ask(&world, "a", &waiter).await, Claimed::Kept { owner: Some(owner.id) });
}

async fn one_refusal_in_a_large_batch_spoils_nothing(world: World) {
    let owner = world.accept(world.claiming("owner", &["7"])).await;
    let batch = (0..500).map(|number| {
        let (key, claim) = (format!("k{number}"), (number % 499).to_string());
        if number % 2 == 0 { world.fresh(&key) } else { world.claiming(&key, &[&claim]) }
    });
    let answers = world.store.accept(batch.collect()).await.expect("accept");
    let mut last = owner.id;
    for (number, answer) in answers.iter().enumerate() {
        match answer {
            Accepted::Created(transfer) => {
                assert_eq!(transfer.key, format!("k{number}"));
                assert!(transfer.id > last, "ids grow");
                last = transfer.id;
            }
            refused => assert_eq!((number, refused), (7, &claimed("7", Some(owner.id)))),
        }
    }
    assert_eq!(world.store.by_key(RAIL, TENANT, "k7").await, Ok(None));
    let last = world.store.by_key(RAIL, TENANT, "k499").await.expect("read");
    assert!(last.is_some());
}
