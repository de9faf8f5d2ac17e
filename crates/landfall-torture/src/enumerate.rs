//! Crash-point enumeration: small scenarios, crashed before and after every single call they make,
//! one run for each, and every effect repeated once.
//!
//! Where torture draws its crashes, this leaves none out.

use super::plan::Plan;
use super::run::{Failure, Options, World, alone};
use super::seat::Strike;

/// A small scenario without faults of its own but the one that is enumerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    OneTransfer,
    /// A receiver is unregistered behind the relay's back, in the middle of a batch.
    Poison,
    /// Many transfers wait for the registration of one receiver.
    Waiters,
    /// A second instance takes the lanes over.
    Takeover,
    /// Nodes swallow what they are given, until a fence decides.
    Fence,
    /// The instance is told to leave, and started again.
    Shutdown,
    /// Funds move from one service to the other.
    Committed,
    /// The target refuses, and the funds return.
    RolledBack,
}

impl Scenario {
    pub const ALL: [Scenario; 8] = [
        Scenario::OneTransfer,
        Scenario::Poison,
        Scenario::Waiters,
        Scenario::Takeover,
        Scenario::Fence,
        Scenario::Shutdown,
        Scenario::Committed,
        Scenario::RolledBack,
    ];

    fn plan(self) -> Plan {
        let calm = Plan::calm(7);
        match self {
            Scenario::OneTransfer => Plan { transfers: 1, receivers: 1, ..calm },
            Scenario::Poison => Plan { transfers: 8, receivers: 4, ..calm },
            Scenario::Waiters => Plan { transfers: 6, receivers: 1, ..calm },
            Scenario::Takeover => Plan { transfers: 3, receivers: 2, instances: 2, ..calm },
            Scenario::Fence => Plan { transfers: 2, receivers: 1, storm_ms: 30_000, ..calm },
            Scenario::Shutdown => Plan { transfers: 4, receivers: 2, ..calm },
            Scenario::Committed | Scenario::RolledBack => {
                Plan { transfers: 0, moves: 1, users: 1, ..calm }
            }
        }
    }
}

/// What an enumeration did.
#[derive(Debug, Clone)]
pub struct Enumerated {
    pub scenario: Scenario,
    /// Calls of the undisturbed run.
    pub calls: u64,
    pub runs: u64,
    pub failures: Vec<(Strike, Failure)>,
}

/// Runs a scenario once undisturbed, then once for each way to disturb each of its calls.
pub fn enumerate(scenario: Scenario) -> Enumerated {
    let (calls, undisturbed) = once(scenario, None);
    let mut done = Enumerated { scenario, calls, runs: 1, failures: Vec::new() };
    if let Some(failure) = undisturbed {
        done.failures.push((Strike::CrashBefore(u64::MAX), failure));
        return done;
    }
    for call in 0..calls {
        for strike in [Strike::CrashBefore(call), Strike::CrashAfter(call), Strike::Repeat(call)] {
            done.runs += 1;
            if let (_, Some(failure)) = once(scenario, Some(strike)) {
                done.failures.push((strike, failure));
            }
        }
    }
    done
}

fn once(scenario: Scenario, strike: Option<Strike>) -> (u64, Option<Failure>) {
    let (calls, failure) = alone(async move {
        let mut world = World::new(scenario.plan(), Options::default()).await;
        world.scenario = Some(scenario);
        world.strike_first(strike);
        let failure = world.live().await.err();
        world.end().await;
        (world.calls_of_first(), failure)
    });
    (calls, failure)
}
