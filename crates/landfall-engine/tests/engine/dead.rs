//! Dead letters and their replay.

use std::sync::Arc;

use async_trait::async_trait;
use landfall_core::cache::{CacheError, StatusCache};
use landfall_core::evm::{self, Call, GaslessFields};
use landfall_core::internal::{self, Order};
use landfall_core::near::Payout;
use landfall_core::store::{Accepted, Applied, LaneStore, Store};
use landfall_core::{
    CertificateKind, Event, Move, NewTransfer, Payload, RailName, State, Transfer, TransferId,
};
use landfall_engine::dead::{self, Replay, ReplayError};
use landfall_lanes::TimerClock;
use landfall_store_memory::MemoryStore;
use parking_lot::Mutex;
use serde_json::{Map, Value};

fn store() -> MemoryStore {
    MemoryStore::new(Arc::new(TimerClock::starting_at(1_000)))
}

fn payout() -> Payload {
    Payload::Near(Payout {
        network: "simnet".into(),
        token: "token.near".into(),
        sender: "relay.near".into(),
        receiver_id: "alice.near".into(),
        amount: 5,
        memo: None,
    })
}

fn order() -> Payload {
    let asset = internal::Asset { id: 1, symbol: "BTC".into(), decimals: 8 };
    let services = vec!["funding".to_owned(), "trading".to_owned()];
    let terms = internal::Terms { services, assets: vec![asset] };
    let (from, to) = ("funding", "trading");
    let asked = internal::Asked { from, to, user_id: 1, asset: "BTC", amount: "1" };
    Payload::Internal(Order::new(&terms, asked).unwrap())
}

/// A user's request, which must own its nonce.
fn request() -> Payload {
    let forwarder = evm::Address::parse("0xe7f1725e7734ce288f8367e1bb143e90bb3f0512").ok();
    let terms = evm::Terms { chain: "sim".into(), chain_id: 1, forwarder };
    let signature = format!("0x{}", "1b".repeat(65));
    let user = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
    let fields = GaslessFields {
        from: user,
        to: user,
        value: "0",
        gas: "50000",
        nonce: "7",
        deadline: "1790000000",
        data: "0x",
        signature: &signature,
        ..GaslessFields::default()
    };
    Payload::Evm(Call::gasless(&terms, &fields).unwrap())
}

async fn accept(store: &MemoryStore, key: &str, payload: Payload) -> Accepted {
    let rail = payload.rail();
    let (first, events) = (State::all(rail)[0], State::first_events(rail, false));
    let scope = ("acme".to_owned(), key.to_owned());
    let (print, claims) = (payload.fingerprint(), payload.claims());
    let new = NewTransfer::begin(scope, print, payload, first, events, 1_000).unwrap();
    store.accept(vec![NewTransfer { claims, ..new }]).await.unwrap().pop().unwrap()
}

async fn accepted(store: &MemoryStore, key: &str, payload: Payload) -> Transfer {
    match accept(store, key, payload).await {
        Accepted::Created(transfer) => transfer,
        other => panic!("{other:?}"),
    }
}

async fn moved(store: &MemoryStore, transfer: &Transfer, events: &[Event]) -> Transfer {
    let mut step = Move::of(transfer, 2_000);
    for event in events {
        step = step.fire(*event).unwrap();
    }
    let step = step.ending_claims(&transfer.payload);
    assert_eq!(store.apply(vec![step]).await.unwrap().moves, [Applied::Applied]);
    get(store, transfer.id).await
}

async fn get(store: &MemoryStore, id: TransferId) -> Transfer {
    store.transfers(&[id]).await.unwrap().pop().unwrap()
}

fn wish() -> Replay {
    Replay { reason: "the contract is back".into(), anyway: false }
}

async fn replay(store: &MemoryStore, id: TransferId) -> Result<Transfer, ReplayError> {
    dead::replay(store, None, id, &wish(), 3_000).await
}

#[tokio::test]
async fn only_what_is_proven_unmoved_is_replayed() {
    let store = store();
    let transfer = accepted(&store, "k", payout()).await;
    let refused = async |id| replay(&store, id).await.unwrap_err().to_string();
    assert!(refused(transfer.id).await.contains("is QUEUED_REGISTRATION: only what failed"));
    let prepared = moved(&store, &transfer, &[Event::Prepared, Event::Enqueued]).await;
    let stored = [Event::AttemptStored, Event::Enqueued];
    let carried = moved(&store, &prepared, &stored).await;
    assert!(refused(carried.id).await.contains("is QUEUED_VERIFICATION"));
    let landed = moved(&store, &carried, &[Event::Landed]).await;
    assert!(refused(landed.id).await.contains("is COMPLETED"));
    assert_eq!(refused(TransferId(77)).await, "there is no transfer 77");
    let order = accepted(&store, "o", order()).await;
    let failed = moved(&store, &order, &[Event::SourceCall, Event::SourceFail]).await;
    assert!(!dead::is_replayable(&failed));
    assert!(refused(failed.id).await.contains("of the rail internal is never reopened"));
}

#[tokio::test]
async fn a_replayed_dead_letter_is_due_with_the_operators_word_in_its_trail() {
    let store = store();
    let transfer = accepted(&store, "k", payout()).await;
    let failed = moved(&store, &transfer, &[Event::GaveUp]).await;
    assert!(dead::is_replayable(&failed));
    let reopened = replay(&store, failed.id).await.unwrap();
    assert_eq!(reopened, get(&store, failed.id).await);
    assert_eq!(reopened.state.name(), "QUEUED_REGISTRATION");
    assert_eq!((reopened.due_ms, reopened.completed_ms), (Some(3_000), None));
    let trail = store.trail(failed.id).await.unwrap();
    let word = trail.last().unwrap().certificate.as_ref().unwrap();
    assert_eq!(word.kind, CertificateKind::Operator);
    assert_eq!(word.summary, "reopened by an operator: the contract is back");
    assert!(replay(&store, failed.id).await.is_err(), "once is enough");
}

#[tokio::test]
async fn what_a_dead_letter_must_own_is_claimed_again_or_the_replay_refused() {
    let store = store();
    let first = accepted(&store, "first", request()).await;
    let first = moved(&store, &first, &[Event::Refused]).await;
    let second = accepted(&store, "second", request()).await;
    let anyway = Replay { anyway: true, ..wish() };
    let refused = dead::replay(&store, None, first.id, &anyway, 3_000).await.unwrap_err();
    let ReplayError::Claimed { owner, .. } = &refused else { panic!("{refused}") };
    assert_eq!(*owner, Some(second.id));
    assert_eq!(get(&store, first.id).await.state, first.state);
    moved(&store, &second, &[Event::Refused]).await;
    replay(&store, first.id).await.unwrap();
    let Accepted::Claimed { owner, .. } = accept(&store, "third", request()).await else {
        panic!("the nonce is the first one's again")
    };
    assert_eq!(owner, Some(first.id));
}

#[tokio::test]
async fn what_was_asked_for_again_since_is_not_replayed_by_accident() {
    let store = store();
    let failed = accepted(&store, "k", payout()).await;
    let failed = moved(&store, &failed, &[Event::Refused]).await;
    let again = accepted(&store, "again", payout()).await;
    let refused = replay(&store, failed.id).await.unwrap_err();
    assert!(matches!(&refused, ReplayError::LookAlikes(ids) if ids[..] == [again.id]), "{refused}");
    moved(&store, &again, &[Event::Refused]).await;
    assert!(dead::look_alikes(&store, &failed).await.unwrap().is_empty(), "that failed, too");
    accepted(&store, "and again", payout()).await;
    let anyway = Replay { anyway: true, ..wish() };
    dead::replay(&store, None, failed.id, &anyway, 3_000).await.unwrap();
}

/// Notes in which state a transfer was when it was to be forgotten.
struct Witness {
    store: Arc<MemoryStore>,
    seen: Mutex<Vec<(String, u64, State)>>,
    down: bool,
}

#[async_trait]
impl StatusCache for Witness {
    async fn get(&self, _: &str) -> Option<Map<String, Value>> {
        None
    }

    async fn put(&self, _: &str, _: u64, _: Map<String, Value>) {}

    async fn forget(&self, id: &str, version: u64) -> Result<(), CacheError> {
        let state = get(&self.store, TransferId(1)).await.state;
        self.seen.lock().push((id.to_owned(), version, state));
        if self.down { Err(CacheError("no answer".into())) } else { Ok(()) }
    }
}

#[tokio::test]
async fn a_cache_forgets_the_failure_before_it_is_untrue_or_nothing_is_replayed() {
    let store = Arc::new(store());
    let transfer = accepted(&store, "k", payout()).await;
    let failed = moved(&store, &transfer, &[Event::Refused]).await;
    for down in [true, false] {
        let witness = Witness { store: store.clone(), seen: Mutex::default(), down };
        let replayed = dead::replay(&*store, Some(&witness), failed.id, &wish(), 3_000).await;
        assert_eq!(replayed.is_ok(), !down);
        let told = ("k".to_owned(), failed.version, failed.state);
        assert_eq!(*witness.seen.lock(), [told], "told before it moved");
    }
}

#[tokio::test]
async fn dead_letters_are_listed_over_all_rails_newest_first() {
    let store = store();
    for (key, payload, event) in [
        ("a", payout(), Event::Refused),
        ("b", request(), Event::GaveUp),
        ("c", order(), Event::SourceFail),
        ("d", payout(), Event::GaveUp),
    ] {
        let transfer = accepted(&store, key, payload).await;
        moved(&store, &transfer, &[event]).await;
    }
    accepted(&store, "alive", payout()).await;
    let keys = async |rail, before, limit| -> Vec<String> {
        let page = dead::list(&store, rail, before, limit).await.unwrap();
        page.into_iter().map(|transfer| transfer.key).collect()
    };
    assert_eq!(keys(None, None, 10).await, ["d", "c", "b", "a"]);
    assert_eq!(keys(None, None, 2).await, ["d", "c"]);
    assert_eq!(keys(None, Some(TransferId(3)), 2).await, ["b", "a"]);
    assert_eq!(keys(Some(RailName::Near), None, 10).await, ["d", "a"]);
}
