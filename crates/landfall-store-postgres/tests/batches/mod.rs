//! Many callers in one batch: what one of them brings spoils nothing, and no table is read whole.

use landfall_core::store::{Accepted, Applied, StoreError};
use landfall_core::{Event, Move, Payload, Transfer};
use landfall_servers::Postgres;

use crate::{open, world};

/// Longer than any index takes, and not to be compressed.
fn monster() -> String {
    let mut seed: u64 = 7;
    let mut letter = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from_u32(0x4E00 + (seed >> 40) as u32 % 20_000).unwrap_or('x')
    };
    (0..5_000).map(|_| letter()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_with_something_that_cannot_be_stored_fails_alone() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = world(open(&server).await);
    let calls = (0..200).map(|number| {
        let receiver = if number == 100 { monster() } else { "alice.near".to_owned() };
        let new = world.fresh_to(&format!("k{number}"), &receiver);
        let store = world.store.clone();
        tokio::spawn(async move { store.accept(vec![new]).await })
    });
    let calls: Vec<_> = calls.collect();
    for (number, call) in calls.into_iter().enumerate() {
        let answer = call.await.expect("no panic");
        assert_eq!(answer.is_ok(), number != 100, "{number}: {answer:?}");
    }
}

#[tokio::test]
async fn text_that_the_database_has_no_letters_for_comes_back_as_it_was() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = world(open(&server).await);
    let mut new = world.fresh_to("a\0b\\0", "al\0ice\\");
    new.tenant = "\0".into();
    let transfer = world.accept(new.clone()).await;
    assert_eq!((&transfer.key, &transfer.tenant), (&new.key, &new.tenant));
    assert_eq!(world.get(transfer.id).await, transfer);
    let again = world.store.accept(vec![new]).await;
    assert_eq!(again, Ok(vec![Accepted::Already(transfer.clone())]));
    let Payload::Near(payout) = &transfer.payload else { panic!("another rail") };
    assert_eq!(payout.receiver_id, "al\0ice\\");
}

/// A row that is locked, and does not change all the same: a trigger, a rule, a mistake of ours.
#[tokio::test]
async fn a_batch_of_which_a_row_is_not_written_is_not_committed_at_all() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = world(open(&server).await);
    let one = world.accept(world.fresh("one")).await;
    let other = world.accept(world.fresh("other")).await;
    let (client, driver) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("a session");
    tokio::spawn(driver);
    let skipped = format!(
        "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER skip BEFORE UPDATE ON landfall.transfers FOR EACH ROW
            WHEN (old.id = {}) EXECUTE FUNCTION skip()",
        one.id
    );
    client.batch_execute(&skipped).await.expect("a trigger");
    let prepared = |transfer: &Transfer| {
        Move::of(transfer, world.now_ms()).fire(Event::Prepared).expect("legal")
    };
    let moved = world.store.apply(vec![prepared(&one), prepared(&other)]).await;
    let Err(StoreError::Corrupt(why)) = moved else { panic!("{moved:?}") };
    assert!(why.contains("1 rows instead of 2"), "{why}");
    assert_eq!(world.get(other.id).await, other);
    assert_eq!(world.store.trail(one.id).await.expect("a trail").len(), 2);
}

/// Plans are made while the tables are empty, and must still be good when they are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_batch_reads_a_whole_table() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let world = world(open(&server).await);
    for round in 0..5 {
        let new = (0..200).map(|number| world.fresh(&format!("k{round}-{number}"))).collect();
        let accepted = world.store.accept(new).await.expect("accept");
        let prepared = |transfer: &Transfer| {
            Move::of(transfer, world.now_ms()).fire(Event::Prepared).expect("legal")
        };
        let moves = accepted.iter().map(|answer| match answer {
            Accepted::Created(transfer) => prepared(transfer),
            other => panic!("{other:?}"),
        });
        let batch = world.store.apply(moves.collect()).await.expect("apply");
        assert!(batch.moves.iter().all(|applied| *applied == Applied::Applied));
        let stage = landfall_core::near::REGISTRATION;
        world.store.sweep(stage, 100, 1_000, 3_600_000).await.expect("sweep");
        world.store.trail(landfall_core::TransferId(1)).await.expect("trail");
    }
    drop(world);
    // What sessions counted is there when they have ended.
    let (client, driver) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("a session");
    tokio::spawn(driver);
    let others = "SELECT FROM pg_stat_activity WHERE application_name = 'landfall'";
    while !client.query(others, &[]).await.expect("asked").is_empty() {}
    let sql = "SELECT relname::text, seq_scan, idx_scan FROM pg_stat_user_tables
        WHERE relname IN ('keys', 'payloads', 'transfers', 'trail')";
    for row in client.query(sql, &[]).await.expect("asked") {
        let (name, whole, by_index): (String, i64, Option<i64>) =
            (row.get(0), row.get(1), row.get(2));
        // Once for each of its indexes, when they are made.
        assert!(whole <= 3, "{name} was read whole {whole} times");
        if name == "transfers" {
            assert!(by_index.is_some_and(|scans| scans > 0), "{name} was not read by its index");
        }
    }
}
