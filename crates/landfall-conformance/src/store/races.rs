//! Many callers at once, one of whom may win.

use std::future::Future;

use landfall_core::store::{Accepted, Added, Applied, Leased, Opened, Settled};
use landfall_core::{Claimed, Event, LaneId, Move};

use crate::check::checks;
use crate::world::{LEASE_MS, RAIL, World, claim_key};

/// Callers in a race: enough to meet inside any backend.
const CALLERS: usize = 64;
/// Times each race is run.
const ROUNDS: usize = 5;

checks!(World:
    of_many_accepts_of_one_key_one_creates,
    of_many_accepts_of_overlapping_batches_each_key_is_created_once,
    of_many_accepts_with_the_same_claims_one_creates,
    of_accepts_and_askers_of_one_claim_one_has_it,
    of_many_moves_of_one_transfer_one_is_applied,
    of_many_openings_of_one_nonce_one_is_stored,
    of_many_openings_with_one_member_one_is_stored,
    of_many_batches_of_nonces_one_is_stored,
    of_many_variants_of_one_number_one_is_stored,
    of_many_settlements_one_decides,
    of_many_leases_one_holds,
    of_many_claims_one_owns,
    of_many_sweeps_one_takes_each_transfer,
);

/// Runs one task per caller, all at once, and gives their answers.
async fn race<T, F>(task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..CALLERS).map(|caller| tokio::spawn(task(caller))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.expect("no panic"));
    }
    answers
}

fn how_many<T>(answers: &[T], pass: impl Fn(&T) -> bool) -> usize {
    answers.iter().filter(|answer| pass(answer)).count()
}

async fn of_many_accepts_of_one_key_one_creates(world: World) {
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let answers = race(|caller| {
            let (world, receiver) = (world.clone(), ["alice.near", "bob.near"][caller % 2]);
            let new = world.fresh_to(&key, receiver);
            async move { world.store.accept(vec![new]).await.expect("accept").remove(0) }
        })
        .await;
        assert_eq!(how_many(&answers, |answer| matches!(answer, Accepted::Created(_))), 1);
        let conflicts = how_many(&answers, |answer| matches!(answer, Accepted::Conflict(_)));
        assert_eq!(conflicts, CALLERS / 2);
    }
}

async fn of_many_accepts_of_overlapping_batches_each_key_is_created_once(world: World) {
    let answers = race(|caller| {
        let world = world.clone();
        let mut batch: Vec<_> = (0..20).map(|key| world.fresh(&format!("k{key}"))).collect();
        if caller % 2 == 1 {
            batch.reverse();
        }
        async move { world.store.accept(batch).await.expect("accept") }
    })
    .await;
    let created = |answer: &Accepted| matches!(answer, Accepted::Created(_));
    let created: usize = answers.iter().map(|batch| how_many(batch, created)).sum();
    assert_eq!(created, 20);
}

/// In whatever order they name them: neither two owners, nor two halves.
async fn of_many_accepts_with_the_same_claims_one_creates(world: World) {
    for round in 0..ROUNDS {
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let answers = race(|caller| {
            let world = world.clone();
            let claims = if caller % 2 == 0 { [a.as_str(), &b] } else { [b.as_str(), &a] };
            let new = world.claiming(&format!("{round}-{caller}"), &claims);
            async move { world.store.accept(vec![new]).await.expect("accept").remove(0) }
        })
        .await;
        let created: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                Accepted::Created(transfer) => Some(transfer.id),
                _ => None,
            })
            .collect();
        assert_eq!(created.len(), 1, "{answers:?}");
        let names = |answer: &Accepted| match answer {
            Accepted::Claimed { owner, .. } => *owner == Some(created[0]),
            _ => false,
        };
        assert_eq!(how_many(&answers, names), CALLERS - 1);
    }
}

async fn of_accepts_and_askers_of_one_claim_one_has_it(world: World) {
    for round in 0..ROUNDS {
        let asker = world.accept(world.fresh(&format!("asker-{round}"))).await.id;
        let claim = format!("c{round}");
        let answers = race(|caller| {
            let (world, key) = (world.clone(), claim_key(&claim));
            let new = world.claiming(&format!("{round}-{caller}"), &[&claim]);
            async move {
                if caller % 2 == 0 {
                    let answers = world.store.accept(vec![new]).await.expect("accept");
                    return matches!(answers[0], Accepted::Created(_)).then_some(caller);
                }
                let answers = world.store.claim(vec![(key, asker)]).await.expect("claim");
                (answers[0] == Claimed::Yours).then_some(CALLERS)
            }
        })
        .await;
        let mut owners: Vec<usize> = answers.into_iter().flatten().collect();
        owners.dedup();
        assert_eq!(owners.len(), 1, "{owners:?}");
    }
}

async fn of_many_moves_of_one_transfer_one_is_applied(world: World) {
    for round in 0..ROUNDS {
        let transfer = world.accept(world.fresh(&format!("k{round}"))).await;
        let answers = race(|_| {
            let world = world.clone();
            let step = Move::of(&transfer, world.now_ms()).fire(Event::Prepared).expect("legal");
            async move { world.apply(step).await }
        })
        .await;
        assert_eq!(how_many(&answers, |answer| *answer == Applied::Applied), 1);
        assert_eq!(world.get(transfer.id).await.version, transfer.version + 1);
        let trail = world.trail(transfer.id).await;
        assert_eq!(trail, ["RECEIVED", "QUEUED_REGISTRATION", "REGISTERED"]);
    }
}

async fn of_many_openings_of_one_nonce_one_is_stored(world: World) {
    let held = world.started("lane").await;
    for round in 0..ROUNDS {
        let keys: Vec<String> = (0..CALLERS).map(|caller| format!("{round}-{caller}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let transfers = world.accept_ready(&keys).await;
        let answers = race(|caller| {
            let world = world.clone();
            let opening = world.opening(&held, round as u64, &transfers[caller..=caller]);
            async move { world.store.open_attempt(opening).await.expect("open") }
        })
        .await;
        assert_eq!(how_many(&answers, |answer| matches!(answer, Opened::Stored(_))), 1);
        assert_eq!(how_many(&answers, |answer| *answer == Opened::StaleNonce), CALLERS - 1);
    }
    let open = world.store.open_attempts(&held.lane).await.expect("read");
    assert_eq!(open.len(), ROUNDS);
}

async fn of_many_openings_with_one_member_one_is_stored(world: World) {
    let mut lanes = Vec::new();
    for caller in 0..CALLERS {
        lanes.push(world.started(&format!("lane-{caller}")).await);
    }
    let members = world.accept_ready(&["k", "l"]).await;
    let answers = race(|caller| {
        let world = world.clone();
        let opening = world.opening(&lanes[caller], 0, &members);
        async move { world.store.open_attempt(opening).await.expect("open") }
    })
    .await;
    assert_eq!(how_many(&answers, |answer| matches!(answer, Opened::Stored(_))), 1);
    assert_eq!(world.store.open_attempts_of(RAIL).await.expect("read").len(), 1);
}

/// Nonces in a row, and the same ones from everybody.
async fn of_many_batches_of_nonces_one_is_stored(world: World) {
    const IN_A_ROW: u64 = 4;
    let held = world.started("lane").await;
    for round in 0..ROUNDS as u64 {
        let answers = race(|_| {
            let (world, held) = (world.clone(), held.clone());
            let row = round * IN_A_ROW..(round + 1) * IN_A_ROW;
            let batch = row.map(|offset| world.pay_nobody(&held, offset)).collect();
            async move { world.store.open(batch).await.expect("open") }
        })
        .await;
        let all = |batch: &Vec<Opened>| batch.iter().all(|one| matches!(one, Opened::Stored(_)));
        let none = |batch: &Vec<Opened>| batch.iter().all(|one| *one == Opened::StaleNonce);
        assert_eq!((how_many(&answers, all), how_many(&answers, none)), (1, CALLERS - 1));
    }
    let open = world.store.open_attempts(&held.lane).await.expect("read");
    let seqs: Vec<u64> = open.iter().map(|attempt| attempt.seq).collect();
    assert_eq!(seqs, (1..=ROUNDS as u64 * IN_A_ROW).collect::<Vec<_>>());
}

async fn of_many_variants_of_one_number_one_is_stored(world: World) {
    let held = world.started("lane").await;
    let attempt = world.open(&held, 0, &world.accept_ready(&["a"]).await).await;
    for round in 1..=ROUNDS as u32 {
        let answers = race(|caller| {
            let world = world.clone();
            let mut add = world.variant(&held, &attempt, round);
            add.signed.hash = format!("{round}-{caller}");
            async move { world.store.add_variant(add).await.expect("add") }
        })
        .await;
        assert_eq!(how_many(&answers, |answer| matches!(answer, Added::Stored(_))), 1);
        assert_eq!(how_many(&answers, |answer| *answer == Added::StaleNumber), CALLERS - 1);
    }
    let stored = world.attempt(attempt.id).await.variants;
    let counted: Vec<(u32, u64)> = stored.iter().map(|one| (one.number, one.seq)).collect();
    assert_eq!(counted, (1..=ROUNDS as u32).map(|n| (n, u64::from(n) + 1)).collect::<Vec<_>>());
}

async fn of_many_settlements_one_decides(world: World) {
    let held = world.started("lane").await;
    let members = world.accept_ready(&["a", "b"]).await;
    let attempt = world.open(&held, 0, &members).await;
    let sunk = world.settlement(&held, &attempt, Event::Sunk).await;
    let landed = world.settlement(&held, &attempt, Event::Landed).await;
    let answers = race(|caller| {
        let world = world.clone();
        let settlement = if caller % 2 == 0 { sunk.clone() } else { landed.clone() };
        async move { world.settle(settlement).await }
    })
    .await;
    assert_eq!(how_many(&answers, |answer| matches!(answer, Settled::Done { .. })), 1);
    let after = world.store.transfers(&attempt.members).await.expect("read");
    assert_eq!(after[0].state, after[1].state);
    assert_eq!(world.trail(members[0].id).await.len(), 7);
}

async fn of_many_leases_one_holds(world: World) {
    for round in 0..ROUNDS {
        let lane = LaneId::new(format!("lane-{round}"));
        let answers = race(|caller| {
            let (world, lane) = (world.clone(), lane.clone());
            async move {
                let holder = format!("holder-{caller}");
                world.store.lease(&lane, RAIL, &holder, LEASE_MS).await.expect("lease")
            }
        })
        .await;
        assert_eq!(how_many(&answers, |answer| matches!(answer, Leased::Yours(_))), 1);
    }
}

async fn of_many_claims_one_owns(world: World) {
    let mut ids = Vec::new();
    for caller in 0..CALLERS {
        ids.push(world.accept(world.fresh(&format!("k{caller}"))).await.id);
    }
    let answers = race(|caller| {
        let (world, id) = (world.clone(), ids[caller]);
        async move { world.store.claim(vec![(claim_key("a"), id)]).await.expect("claim").remove(0) }
    })
    .await;
    assert_eq!(how_many(&answers, |answer| *answer == Claimed::Yours), 1);
}

async fn of_many_sweeps_one_takes_each_transfer(world: World) {
    for number in 0..CALLERS {
        world.accept(world.fresh(&format!("k{number}"))).await;
    }
    let answers = race(|_| {
        let world = world.clone();
        let stage = landfall_core::near::REGISTRATION;
        async move { world.store.sweep(stage, 7, LEASE_MS, 10 * LEASE_MS).await.expect("sweep") }
    })
    .await;
    let mut swept: Vec<_> = answers.into_iter().flatten().collect();
    let taken = swept.len();
    swept.sort();
    swept.dedup();
    assert_eq!((taken, swept.len()), (CALLERS, CALLERS));
}
