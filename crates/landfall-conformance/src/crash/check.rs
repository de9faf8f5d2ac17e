//! What is left after a crash: all that was said, and nothing half done.

use std::collections::BTreeMap;

use landfall_core::attempt::{Attempt, Fate};
use landfall_core::store::ListFilter;
use landfall_core::{AttemptId, Claimed, State, TrailEvent, Transfer, TransferId};

use super::{Said, claims_of};
use crate::world::{LEDGER_NONCE, RAIL, TENANT, World, claim_key};

/// Attempts read at a time.
const PAGE: usize = 500;

/// Panics with what is missing or half done.
pub async fn check(world: &World, said: &[Said]) {
    let transfers = all_transfers(world).await;
    let attempts = all_attempts(world).await;
    for line in said {
        check_said(world, line, &transfers, &attempts).await;
    }
    for transfer in transfers.values() {
        check_transfer(world, transfer, &attempts).await;
    }
    for attempt in attempts.values() {
        check_attempt(attempt, &transfers);
    }
    check_claims(world, said).await;
    check_lanes(world, &attempts).await;
    check_counts(world, &transfers).await;
}

async fn all_transfers(world: &World) -> BTreeMap<TransferId, Transfer> {
    let filter = ListFilter { limit: usize::MAX >> 1, ..ListFilter::default() };
    let all = world.store.list(filter).await.expect("list");
    all.into_iter().map(|transfer| (transfer.id, transfer)).collect()
}

async fn all_attempts(world: &World) -> BTreeMap<AttemptId, Attempt> {
    let mut all = world.store.open_attempts_of(RAIL).await.expect("read");
    let mut after = AttemptId(0);
    loop {
        let page = world.store.attempts_page(RAIL, after, PAGE).await.expect("read");
        let Some(last) = page.last() else { break };
        after = last.id;
        all.extend(page);
    }
    all.into_iter().map(|attempt| (attempt.id, attempt)).collect()
}

async fn check_said(
    world: &World,
    said: &Said,
    transfers: &BTreeMap<TransferId, Transfer>,
    attempts: &BTreeMap<AttemptId, Attempt>,
) {
    let holds = match said {
        Said::Accepted { id, key } => {
            let found = world.store.by_key(RAIL, TENANT, key).await.expect("read");
            found.is_some_and(|transfer| transfer.id == *id)
        }
        Said::Moved { id, version } => {
            transfers.get(id).is_some_and(|transfer| transfer.version >= *version)
        }
        Said::Kept { id } => kept(world, *id).await,
        Said::Leased { lane, epoch } => {
            let lanes = world.store.lanes().await.expect("read");
            lanes.iter().any(|known| known.id == *lane && known.epoch >= *epoch)
        }
        Said::Opened { attempt, nonce, lane } => attempts
            .get(attempt)
            .is_some_and(|stored| stored.nonce == *nonce && stored.lane == *lane),
        Said::Varied { attempt, hash } => {
            attempts.get(attempt).is_some_and(|stored| stored.hashes().any(|stored| stored == hash))
        }
        Said::Settled { attempt, landed } => attempts
            .get(attempt)
            .and_then(|stored| stored.fate.as_ref())
            .is_some_and(|fate| matches!(fate, Fate::Landed(_)) == *landed),
    };
    assert!(holds, "said, and then forgotten: {said}");
}

async fn kept(world: &World, id: TransferId) -> bool {
    world.store.kept(&[claim_key(&id.to_string())]).await.expect("read")[0]
}

/// What was accepted has what it claimed. Asking for what one has changes nothing.
async fn check_claims(world: &World, said: &[Said]) {
    let asked = said.iter().filter_map(|line| match line {
        Said::Accepted { id, key } => Some(claims_of(key).into_iter().map(|claim| (claim, *id))),
        _ => None,
    });
    let claims = world.store.claim(asked.flatten().collect()).await.expect("claim");
    assert!(claims.iter().all(|claim| *claim == Claimed::Yours), "a claim at the door is gone");
}

async fn check_transfer(
    world: &World,
    transfer: &Transfer,
    attempts: &BTreeMap<AttemptId, Attempt>,
) {
    let id = transfer.id;
    if let Some(carrier) = transfer.attempt {
        let attempt =
            attempts.get(&carrier).unwrap_or_else(|| panic!("{id} is carried by nothing"));
        assert!(attempt.fate.is_none(), "{id} is carried by a decided attempt");
        assert!(attempt.members.contains(&id), "{id} is carried by an attempt that denies it");
    }
    let trail = world.store.trail(id).await.expect("read");
    let states: Vec<State> = trail
        .iter()
        .filter_map(|entry| match entry.event {
            TrailEvent::Entered(state) => Some(state),
            TrailEvent::Noted(_) => None,
        })
        .collect();
    assert_eq!(states.last(), Some(&transfer.state), "the trail of {id} ends elsewhere");
    for pair in states.windows(2) {
        assert!(pair[0].leads_to(false, pair[1]), "the trail of {id} jumps: {states:?}");
    }
    // Moving out of the first queue and keeping the mark are one commit.
    assert_eq!(kept(world, id).await, transfer.version > 1, "the mark of {id} is half kept");
}

fn check_attempt(attempt: &Attempt, transfers: &BTreeMap<TransferId, Transfer>) {
    for member in &attempt.members {
        let carried = transfers[member].attempt == Some(attempt.id);
        let open = attempt.fate.is_none();
        assert_eq!(carried, open, "attempt {} and its member {member} disagree", attempt.id);
        if let Some(Fate::Landed(_)) = attempt.fate {
            assert!(transfers[member].state.is_completed(), "{member} landed without completing");
        }
    }
}

async fn check_lanes(world: &World, attempts: &BTreeMap<AttemptId, Attempt>) {
    for lane in world.store.lanes().await.expect("read") {
        let mut nonces: Vec<u64> = attempts
            .values()
            .filter(|attempt| attempt.lane == lane.id)
            .map(|attempt| attempt.nonce.0)
            .collect();
        nonces.sort_unstable();
        let first = LEDGER_NONCE.0 + 1;
        let expected: Vec<u64> = (first..first + nonces.len() as u64).collect();
        assert_eq!(nonces, expected, "the nonces of {} have a hole or a double", lane.id);
        let variants = attempts.values().filter(|attempt| attempt.lane == lane.id);
        let variants: usize = variants.map(|attempt| attempt.variants.len()).sum();
        let signatures = (nonces.len() + variants) as u64;
        assert_eq!(lane.seq, signatures, "the signatures of {} are miscounted", lane.id);
        if let Some(next) = lane.next_nonce {
            assert_eq!(next.0, first + nonces.len() as u64, "{} lost count", lane.id);
        }
    }
}

async fn check_counts(world: &World, transfers: &BTreeMap<TransferId, Transfer>) {
    for (state, counted) in world.store.counts().await.expect("read") {
        let there = transfers.values().filter(|transfer| transfer.state == state).count();
        assert_eq!(counted, there as u64, "{state} is miscounted");
    }
}
