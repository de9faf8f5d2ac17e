//! Processes that only take transfers, and processes that only carry them out, on one store.

use landfall_servers::Postgres;

use crate::world::{Process, Relay, Simulator, request, wait_for};

const PAYOUTS: usize = 30;

fn serve(relay: &Relay, role: &str) -> Process {
    Process::start(&mut relay.command(&["serve", "--role", role]))
}

/// Only the workers have keys. One of them dies in the middle, all others leave one by one and come
/// back, as in a deployment, and every payout is made once.
#[test]
fn takers_without_keys_and_workers_share_the_work_and_a_rolling_restart_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let simulator = Simulator::start(folder.path(), &["--keys", "2", "--block-ms", "100"]);
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let relay = |name: &str| Relay::shared(&simulator, folder.path(), name, postgres.url());
    let takers = ["api-1", "api-2"].map(|name| {
        let mut taker = relay(name);
        taker.variables.retain(|(name, _)| name != "RELAY_ACCESS_KEYS");
        taker
    });
    let workers = ["worker-1", "worker-2"].map(relay);
    let mut taking: Vec<Process> = takers.iter().map(|taker| serve(taker, "api")).collect();
    let mut working: Vec<Process> = workers.iter().map(|worker| serve(worker, "worker")).collect();
    takers.iter().chain(&workers).for_each(Relay::until_ready);

    let refused = wait_for("a worker's answer", || {
        request("POST", &format!("{}/transfer", workers[0].url), &[], "{}")
    });
    assert_eq!(refused.0, 404, "{}", refused.1);

    for n in 0..PAYOUTS {
        takers[n % 2].pay(&format!("k{n}"), "alice.near", 1);
        match n {
            10 => working.remove(0).kill_9(),
            15 => working.push(serve(&workers[0], "worker")),
            20 => assert_eq!(working.remove(0).terminate(), Some(0)),
            22 => working.push(serve(&workers[1], "worker")),
            25 => {
                assert_eq!(taking.remove(0).terminate(), Some(0));
                taking.push(serve(&takers[0], "api"));
                takers[0].until_ready();
            }
            _ => {}
        }
    }
    for n in 0..PAYOUTS {
        // Asked of the other one: it is the store that knows.
        takers[(n + 1) % 2].completed(&format!("k{n}"));
    }
    let paid = simulator.paid();
    assert!(paid.len() == PAYOUTS && paid.values().all(|times| *times == 1), "{paid:?}");
}
