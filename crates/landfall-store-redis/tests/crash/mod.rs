//! The server killed with -9 in the middle of commits, again and again, and its log cut off.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use landfall_conformance::crash::{self, Said};
use landfall_core::store::ListFilter;
use landfall_servers::Redis;
use landfall_store_redis::RedisOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::{server, world};

/// Kills. Each leaves its log for the next start to load.
const ROUNDS: u64 = 12;
/// How long the workers of a killed server may take to notice and end.
const ENDING: Duration = Duration::from_secs(30);

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// Works on the server, kills it after `lines` answers, and returns all that was answered.
fn kill_after(server: &Redis, run: u64, lines: usize) -> Vec<Said> {
    // A runtime of its own: when it is shut down nobody is left who might go on working.
    let runtime = runtime();
    let (say, heard) = mpsc::channel();
    let options = RedisOptions::new(server.url());
    runtime.spawn(async move {
        let say = move |line| say.send(line).expect("somebody listens");
        crash::work(world(options).await, run, say).await;
    });
    let mut said: Vec<Said> = (0..lines).map(|_| heard.recv().expect("workers work")).collect();
    server.kill().expect("kill -9");
    // Every worker ends on its first call that fails; until then it may still hear an answer.
    said.extend(heard.iter());
    runtime.shutdown_timeout(ENDING);
    said
}

#[test]
fn what_was_answered_survives_kill_9_of_the_server_and_nothing_is_half_done() {
    let server = server();
    let mut random = StdRng::seed_from_u64(9);
    let mut said = Vec::new();
    for run in 0..ROUNDS {
        let lines = random.random_range(1..400);
        said.extend(kill_after(&server, run, lines));
        server.restart().expect("it starts from its log");
        let options = RedisOptions::new(server.url());
        runtime().block_on(async { crash::check(&world(options).await, &said).await });
    }
}

/// The part of the append-only file that is being written.
fn log_of(server: &Redis) -> PathBuf {
    let folder = server.folder().join("appendonlydir");
    let files = std::fs::read_dir(folder).expect("a log").map(|file| file.expect("a file").path());
    let newest = files.filter(|path| path.to_string_lossy().contains(".incr.")).max();
    newest.expect("a log that is written to")
}

/// Power loss in the middle of a write leaves a part of a script's effects: none of it counts.
#[test]
fn a_log_cut_off_inside_a_commit_is_loaded_without_it() {
    let server = server();
    let runtime = runtime();
    let options = RedisOptions::new(server.url());
    let before = runtime.block_on(async {
        let world = world(options.clone()).await;
        world.accept(world.fresh("whole")).await;
        std::fs::metadata(log_of(&server)).expect("its size").len()
    });
    runtime.block_on(async {
        let world = world(options.clone()).await;
        let batch = (0..5).map(|number| world.fresh(&format!("cut-{number}"))).collect();
        world.store.accept(batch).await.expect("accept");
    });
    server.kill().expect("kill -9");
    let log = log_of(&server);
    let whole = std::fs::read(&log).expect("the log");
    let commit = whole.len() - before as usize;
    for cut in [1, 7, commit / 3, commit / 2, commit - 1] {
        std::fs::write(&log, &whole[..whole.len() - cut]).expect("cut it off");
        server.restart().expect("it starts from what is left");
        runtime.block_on(async {
            let world = world(options.clone()).await;
            let filter = ListFilter { limit: 10, ..ListFilter::default() };
            let left = world.store.list(filter).await.expect("list");
            assert_eq!(left.len(), 1, "cut by {cut} of {commit}");
            let counts = world.store.counts().await.expect("counts");
            assert_eq!(counts, [(left[0].state, 1)]);
        });
        server.kill().expect("kill -9");
    }
}
