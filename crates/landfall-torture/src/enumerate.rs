//! Crash-point enumeration: small scenarios, crashed before and after every single call they make,
//! one run for each, and every effect repeated once.
//!
//! Where torture draws its crashes, this leaves none out.

use super::part::KINDS;
use super::plan::Plan;
use super::run::{Failure, Options, World, alone};
use super::seat::Strike;

/// A small scenario without faults of its own but the one that is enumerated.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    pub name: &'static str,
    plan: fn() -> Plan,
    /// The tick at which the first instance crashes, or leaves, if it does.
    pub crash_at: Option<u64>,
    pub stop_at: Option<u64>,
}

impl Scenario {
    pub const fn new(name: &'static str, plan: fn() -> Plan) -> Scenario {
        Scenario { name, plan, crash_at: None, stop_at: None }
    }

    pub const fn with_crash_at(self, tick: u64) -> Scenario {
        Scenario { crash_at: Some(tick), ..self }
    }

    pub const fn with_stop_at(self, tick: u64) -> Scenario {
        Scenario { stop_at: Some(tick), ..self }
    }

    /// Those of every part.
    pub fn all() -> Vec<Scenario> {
        KINDS.iter().flat_map(|kind| kind.scenarios).copied().collect()
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
        let mut world = World::new((scenario.plan)(), Options::default()).await;
        world.scenario = Some(scenario);
        world.strike_first(strike);
        let failure = world.live().await.err();
        world.end().await;
        (world.calls_of_first(), failure)
    });
    (calls, failure)
}
