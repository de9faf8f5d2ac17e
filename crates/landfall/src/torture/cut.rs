//! A plan made smaller: faults switched off, fewer of everything. And how a failing one is cut down
//! to the shortest that still fails the same way.

use landfall_torture::plan::Fault;
use landfall_torture::{Failure, Plan, Report, run_plan};

use super::{options, plan_of};
use crate::cli::TortureArguments;
use crate::wire;

/// How long the search for a shorter reproduction may take: somebody is waiting for the news.
const SEARCH_MS: u64 = 120_000;
/// How often the dice are thrown for a smaller world: with a fault less everything else falls out
/// otherwise, so that one throw would show little.
const THROWS: u64 = 6;
/// A storm shorter than this hardly begins.
const STORM_MIN_S: u64 = 5;

/// What is taken away from the plan of a seed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    without: Vec<&'static str>,
    dice: Option<u64>,
    transfers: Option<usize>,
    moves: Option<usize>,
    instances: Option<usize>,
    keys: Option<usize>,
    storm_s: Option<u64>,
}

impl Cut {
    pub fn of(arguments: &TortureArguments) -> Result<Cut, String> {
        let named = |name: &String| {
            let known = Fault::all().map(|fault| fault.name).find(|known| known == name);
            known.ok_or_else(|| {
                let names: Vec<&str> = Fault::all().map(|fault| fault.name).collect();
                format!("{name:?} is no fault; there are {}", names.join(", "))
            })
        };
        Ok(Cut {
            without: arguments.without.iter().map(named).collect::<Result<Vec<_>, String>>()?,
            dice: arguments.dice,
            transfers: arguments.transfers,
            moves: arguments.moves,
            instances: arguments.instances,
            keys: arguments.keys,
            storm_s: arguments.storm_s,
        })
    }

    /// The plan of a seed with this taken away.
    pub fn plan(&self, seed: u64) -> Plan {
        let mut plan = plan_of(seed);
        for fault in Fault::all().filter(|fault| self.without.contains(&fault.name)) {
            *(fault.rate)(&mut plan) = 0.0;
        }
        plan.seed = self.dice.unwrap_or(plan.seed);
        plan.near.payouts = self.transfers.unwrap_or(plan.near.payouts);
        plan.internal.moves = self.moves.unwrap_or(plan.internal.moves);
        plan.instances = self.instances.unwrap_or(plan.instances);
        plan.near.keys = self.keys.unwrap_or(plan.near.keys);
        plan.storm_ms = self.storm_s.map_or(plan.storm_ms, |seconds| seconds * 1_000);
        plan
    }

    /// What brings the same about again.
    pub fn command(&self, seed: u64) -> String {
        let mut command = format!("landfall torture --seed {seed}");
        if !self.without.is_empty() {
            command.push_str(&format!(" --without {}", self.without.join(",")));
        }
        let numbers = [
            ("dice", self.dice),
            ("transfers", self.transfers.map(|number| number as u64)),
            ("moves", self.moves.map(|number| number as u64)),
            ("instances", self.instances.map(|number| number as u64)),
            ("keys", self.keys.map(|number| number as u64)),
            ("storm-s", self.storm_s),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                command.push_str(&format!(" --{name} {number}"));
            }
        }
        command
    }

    /// Every way to take a little more away, the boldest first.
    fn further(&self, seed: u64) -> Vec<Cut> {
        let mut plan = self.plan(seed);
        let mut cuts = Vec::new();
        for fault in Fault::all() {
            if *(fault.rate)(&mut plan) > 0.0 {
                let mut cut = self.clone();
                cut.without.push(fault.name);
                cuts.push(cut);
            }
        }
        if plan.instances > 1 {
            cuts.push(Cut { instances: Some(plan.instances - 1), ..self.clone() });
        }
        if plan.near.keys > 1 {
            cuts.push(Cut { keys: Some(plan.near.keys - 1), ..self.clone() });
        }
        for transfers in fewer(plan.near.payouts, plan.internal.moves) {
            cuts.push(Cut { transfers: Some(transfers), ..self.clone() });
        }
        for moves in fewer(plan.internal.moves, plan.near.payouts) {
            cuts.push(Cut { moves: Some(moves), ..self.clone() });
        }
        let storm_s = plan.storm_ms / 2_000;
        if storm_s >= STORM_MIN_S {
            cuts.push(Cut { storm_s: Some(storm_s), ..self.clone() });
        }
        cuts
    }
}

/// Fewer of one kind of transfer; none at all where the world has others.
fn fewer(of: usize, others: usize) -> Vec<usize> {
    let least = usize::from(others == 0);
    let mut fewer = vec![0, of / 2, of.saturating_sub(1)];
    fewer.dedup();
    fewer.retain(|fewer| (least..of).contains(fewer));
    fewer
}

/// The shortest way found to see a failure again.
pub struct Shortest {
    pub cut: Cut,
    pub report: Report,
    /// How many worlds it took to find it.
    pub worlds: usize,
}

/// Cuts a failing seed down, keeping each cut after which it still fails the same way, until none
/// does or the time is over.
pub fn shorten(seed: u64, cut: &Cut, first: &Report) -> Shortest {
    shorten_by(seed, cut, first, |plan| run_plan(plan, options(false)))
}

fn shorten_by(seed: u64, cut: &Cut, first: &Report, run: impl Fn(Plan) -> Report) -> Shortest {
    let clock = wire::clock();
    let until_ms = clock.monotonic_ms() + SEARCH_MS;
    let mut best = Shortest { cut: cut.clone(), report: first.clone(), worlds: 0 };
    loop {
        let (mut shorter, mut at) = (false, 0);
        while let Some(cut) = best.cut.further(seed).into_iter().nth(at) {
            let throws = std::iter::once(cut.dice).chain((0..THROWS - 1).map(Some));
            let mut again = None;
            for dice in throws {
                if clock.monotonic_ms() > until_ms {
                    return best;
                }
                let cut = Cut { dice, ..cut.clone() };
                let report = run(cut.plan(seed));
                best.worlds += 1;
                if alike(first, &report) {
                    again = Some((cut, report));
                    break;
                }
            }
            match again {
                // What it took away is off the list: the next is in its place.
                Some((cut, report)) => {
                    (best.cut, best.report, shorter) = (cut, report, true);
                }
                None => at += 1,
            }
        }
        if !shorter {
            return best;
        }
    }
}

/// Whether two runs fail in the same way, of whatever transfer.
fn alike(one: &Report, other: &Report) -> bool {
    match (&one.failure, &other.failure) {
        (Some(Failure::Safety(one)), Some(Failure::Safety(other))) => one.rule == other.rule,
        (Some(Failure::Liveness(_)), Some(Failure::Liveness(_))) => true,
        // The place is the head of the message; what follows may name this and that.
        (Some(Failure::Crash(one)), Some(Failure::Crash(other))) => {
            one.lines().next() == other.lines().next()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_torture::Broken;
    use std::sync::OnceLock;

    /// What a run of the plan might have reported.
    fn report(plan: Plan, failure: Option<Failure>) -> Report {
        static REPORT: OnceLock<Report> = OnceLock::new();
        let small = Cut { transfers: Some(1), moves: Some(0), ..Cut::default() };
        let calm = Plan { storm_ms: 1, ..small.plan(0) };
        let report = REPORT.get_or_init(|| run_plan(calm, options(false)));
        Report { seed: plan.seed, plan, failure, ..report.clone() }
    }

    /// A bug that needs crashes and three transfers.
    fn buggy(plan: Plan) -> Report {
        let fails = plan.crash > 0.0 && plan.near.payouts >= 3;
        let broken = Broken::new("paid once", None, String::new());
        report(plan, fails.then_some(Failure::Safety(broken)))
    }

    #[test]
    fn a_failure_is_cut_down_to_what_it_needs() {
        let seed = (0..).find(|seed| buggy(plan_of(*seed)).failure.is_some()).expect("some");
        let first = buggy(plan_of(seed));
        let Shortest { cut, report, worlds } = shorten_by(seed, &Cut::default(), &first, buggy);
        let mut plan = report.plan;
        assert!(report.failure.is_some() && worlds > 0);
        assert_eq!(
            (plan.near.payouts, plan.internal.moves, plan.instances, plan.near.keys),
            (3, 0, 1, 1)
        );
        let on = Fault::all().filter(|fault| *(fault.rate)(&mut plan) > 0.0);
        assert_eq!(on.map(|fault| fault.name).collect::<Vec<_>>(), ["crash"]);
        assert!(cut.command(seed).contains("--transfers 3"), "{}", cut.command(seed));
    }

    #[test]
    fn another_failure_is_not_taken_for_the_same() {
        let of = |rule| Failure::Safety(Broken::new(rule, None, String::new()));
        let of = |rule| report(plan_of(1), Some(of(rule)));
        assert!(alike(&of("a"), &of("a")));
        assert!(!alike(&of("a"), &of("b")));
        assert!(!alike(&of("a"), &report(plan_of(1), None)));
        assert!(!alike(&of("a"), &report(plan_of(1), Some(Failure::Liveness("a".into())))));
    }
}
