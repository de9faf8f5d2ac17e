//! Stores that earlier releases have left.

use std::process::Child;
use std::sync::Arc;

use landfall_conformance::{ManualClock, World, earlier};
use landfall_servers::{Redis, witness};
use landfall_store_redis::{RedisOptions, RedisStore};
use redis::AsyncCommands;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::{operator, server};

/// One of each layout that was released, as `examples/redis_fixture.rs` wrote it in its day, and
/// whether it counted signatures.
const LAYOUTS: [(u32, &str, bool); 1] = [(1, include_str!("schema-1.txt"), false)];

const STORE: &str = "{landfall:main}:store";
const HASHES: &str = "{landfall:main}:hashes:near";

/// Attempts that the fixture has, and so many more that migrating takes a while.
const FEW: usize = 6;
const MANY: usize = 40_000;
/// Kills, until one has come in the middle.
const ROUNDS: usize = 20;

/// Puts the kept keys in the place of everything on the server.
async fn load(server: &Redis, lines: &str) {
    let mut operator = operator(server).await;
    redis::cmd("FLUSHALL").exec_async(&mut operator).await.expect("an empty server");
    for line in lines.lines() {
        let (key, dumped) = line.split_once(' ').expect("a key and its value");
        let dumped = hex::decode(dumped).expect("hexadecimal");
        let mut restore = redis::cmd("RESTORE");
        restore.arg(key).arg(0).arg(dumped).exec_async(&mut operator).await.expect(key);
    }
}

async fn world(url: &str) -> World {
    let store = RedisStore::open(RedisOptions::new(url)).await.expect("a store that opens");
    World { store: Arc::new(store), time: Arc::new(ManualClock::new()) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_every_layout_is_opened_and_finished() {
    let server = server();
    for (version, lines, counts) in LAYOUTS {
        println!("layout {version}");
        load(&server, lines).await;
        earlier::finish(&world(server.url()).await, counts).await;
    }
}

/// Opens a store, and so migrates it, if it was started as the witness.
#[tokio::test]
async fn a_witness_migrates() {
    let Some((at, _)) = witness::called() else { return };
    witness::say("opening");
    let _world = world(&at).await;
    witness::say("opened");
    std::future::pending().await
}

async fn add_attempts(server: &Redis) {
    let mut operator = operator(server).await;
    let script = "for id = ARGV[1], ARGV[2] do
        redis.call('HSET', '{landfall:main}:attempt:' .. id, 'rail', 'near', 'hash', 'more-' .. id)
    end";
    for from in (FEW + 1..=MANY).step_by(2_000) {
        let mut add = redis::cmd("EVAL");
        add.arg(script).arg(0).arg(from).arg(MANY.min(from + 1_999));
        add.exec_async(&mut operator).await.expect("more attempts");
    }
    let _: () = operator.hset(STORE, "attempts", MANY).await.expect("their count");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_killed_with_9_goes_on_where_it_was() {
    let (_, lines, counts) = LAYOUTS[LAYOUTS.len() - 1];
    let server = server();
    let mut operator = operator(&server).await;
    for _ in 0..ROUNDS {
        load(&server, lines).await;
        add_attempts(&server).await;
        let mut asking = operator.clone();
        let kill = |child: &mut Child| {
            let begun = async {
                let mut begun = false;
                while !begun {
                    let schema: String = asking.hget(STORE, "schema").await.expect("schema");
                    let part: bool = asking.hexists(STORE, "indexed").await.expect("indexed");
                    begun = part || schema != "1";
                }
            };
            block_in_place(|| Handle::current().block_on(begun));
            child.kill().expect("kill -9");
        };
        witness::hear::<String>("earlier::a_witness_migrates", server.url(), 0, 1, kill);
        let schema: String = operator.hget(STORE, "schema").await.expect("schema");
        let part: Option<usize> = operator.hget(STORE, "indexed").await.expect("indexed");
        earlier::finish(&world(server.url()).await, counts).await;
        let found: usize = operator.hlen(HASHES).await.expect("hashes");
        assert!(found >= MANY, "{found} of {MANY} are found by their hashes");
        if let Some(part) = part {
            assert!(schema == "1" && part < MANY, "{schema}: {part} of {MANY}");
            return;
        }
    }
    panic!("no kill came in the middle");
}
