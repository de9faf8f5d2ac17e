//! What torture found, told to people and to programs.

use std::process::ExitCode;

use landfall_core::guard::Guard;
use landfall_torture::{Failure, Report};
use serde_json::{Map, Value, json};

use super::cut::{Cut, Shortest, shorten};
use super::{Sum, trace_file};
use crate::show::{Show, Style, Table};

const HOUR_MS: f64 = 3_600_000.0;
/// Nothing broke, but a guard was never met.
const GUARDS_WANTING: u8 = 4;

/// A failing seed, and the shortest way to see it fail again.
pub struct Found {
    seed: u64,
    report: Report,
    shortest: Shortest,
    others: Vec<u64>,
}

impl Found {
    /// Looks for the shortest reproduction: takes a while.
    pub fn new(seed: u64, cut: &Cut, report: Report, others: Vec<u64>) -> Found {
        eprintln!("seed {seed} failed; looking for a shorter way to see it");
        let shortest = shorten(seed, cut, &report);
        Found { seed, report, shortest, others }
    }

    fn command(&self) -> String {
        self.shortest.cut.command(self.seed)
    }

    /// A shorter world may fail without a transfer to blame.
    fn story(&self) -> &[String] {
        match self.shortest.report.story.is_empty() {
            true => &self.report.story,
            false => &self.shortest.report.story,
        }
    }
}

/// 0 held, 1 safety, 2 liveness, 3 crash, 4 held but not all guards were met, if they had to be.
pub fn exit_code(found: Option<&Found>, guards_wanting: bool) -> ExitCode {
    let failure = found.and_then(|found| found.report.failure.as_ref());
    match failure {
        Some(failure) => ExitCode::from(kind(failure).1),
        None if guards_wanting => ExitCode::from(GUARDS_WANTING),
        None => ExitCode::SUCCESS,
    }
}

fn kind(failure: &Failure) -> (&'static str, u8) {
    match failure {
        Failure::Safety(_) => ("safety", 1),
        Failure::Liveness(_) => ("liveness", 2),
        Failure::Crash(_) => ("crash", 3),
    }
}

fn sentence(failure: &Failure) -> String {
    match failure {
        Failure::Safety(broken) => format!("{}: {}", broken.rule, broken.what),
        Failure::Liveness(what) | Failure::Crash(what) => what.clone(),
    }
}

/// Writes a whole history into the current folder, and says where.
pub fn write_trace(seed: u64, report: &Report) {
    let path = trace_file(seed);
    let shown = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let met = report.guards.iter().map(|guard| format!("met: {}", guard.words()));
    let lines: Vec<String> = report.trace.iter().cloned().chain(met).collect();
    match std::fs::write(&path, lines.join("\n") + "\n") {
        Ok(()) => eprintln!("seed {seed}: the whole history is in {}", shown.display()),
        Err(error) => eprintln!("error: {} cannot be written ({error})", shown.display()),
    }
}

pub fn print(show: &Show, sum: &Sum, seconds: f64, found: Option<&Found>) {
    if show.json {
        show.value(&value(sum, seconds, found));
        return;
    }
    if let Some(found) = found {
        tell(show, found);
    }
    let mut table =
        Table::new(&["SEEDS", "SEEDS/S", "SIMULATED HOURS", "COMPLETED", "ATTEMPTS", "VERDICT"]);
    let (style, verdict) = match found.and_then(|found| found.report.failure.as_ref()) {
        None => (Style::Good, "held".to_owned()),
        Some(failure) => (Style::Bad, format!("{} broken", kind(failure).0)),
    };
    table.row(vec![
        (Style::Plain, sum.seeds.to_string()),
        (Style::Plain, format!("{:.1}", sum.seeds as f64 / seconds.max(0.001))),
        (Style::Plain, format!("{:.1}", sum.simulated_ms as f64 / HOUR_MS)),
        (Style::Plain, sum.completed.to_string()),
        (Style::Plain, sum.attempts.to_string()),
        (style, verdict),
    ]);
    show.table(&table);
    tell_guards(show, sum);
}

/// What the worlds never came to: no world tests it.
fn tell_guards(show: &Show, sum: &Sum) {
    let (all, never) = (Guard::ALL.len(), sum.never_met());
    show.line(&format!("{} of {all} guards met", all - never.len()));
    for guard in never {
        show.line(&format!("  {}  {}", show.paint(Style::Warn, "never met"), guard.words()));
    }
}

fn tell(show: &Show, found: &Found) {
    let report = &found.report;
    let Some(failure) = &report.failure else { return };
    let title = format!("seed {}: {}", found.seed, kind(failure).0);
    show.line(&format!("{}  {}", show.paint(Style::Bad, &title), sentence(failure)));
    show.line(&format!("  plan      {}", report.plan.describe()));
    show.line(&format!("  shortest  {}", found.shortest.report.plan.describe()));
    show.line(&format!(
        "            {}  {}",
        show.paint(Style::Bold, &found.command()),
        show.paint(Style::Dim, &format!("(after {} worlds; add --trace)", found.shortest.worlds))
    ));
    if let Some(shorter) = &found.shortest.report.failure {
        show.line(&format!("            {}", sentence(shorter)));
    }
    if !found.others.is_empty() {
        let others: Vec<String> = found.others.iter().map(u64::to_string).collect();
        show.line(&format!("  also      seeds {}", others.join(", ")));
    }
    for line in found.story() {
        show.line(&format!("  {line}"));
    }
    show.line("");
}

fn value(sum: &Sum, seconds: f64, found: Option<&Found>) -> Value {
    let failure = found.and_then(|found| {
        let failure = found.report.failure.as_ref()?;
        Some(json!({
            "seed": found.seed,
            "kind": kind(failure).0,
            "what": sentence(failure),
            "plan": found.report.plan.describe(),
            "shortest": found.shortest.report.plan.describe(),
            "reproduce": found.command(),
            "story": found.story(),
            "other_seeds": found.others,
        }))
    });
    let name = |guard: Guard| format!("{guard:?}");
    let guards: Map<String, Value> =
        sum.guards().map(|(guard, seeds)| (name(guard), json!(seeds))).collect();
    json!({
        "held": failure.is_none(),
        "seeds": sum.seeds,
        "seconds": seconds,
        "seeds_per_second": sum.seeds as f64 / seconds.max(0.001),
        "simulated_hours": sum.simulated_ms as f64 / HOUR_MS,
        "completed": sum.completed,
        "attempts": sum.attempts,
        "guards": guards,
        "guards_never_met": sum.never_met().into_iter().map(name).collect::<Vec<_>>(),
        "failure": failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::options;
    use landfall_torture::{Broken, Plan, run_plan};

    fn found(failure: Failure) -> Found {
        let mut calm = Plan { storm_ms: 1, ..Cut::default().plan(7) };
        calm.near.payouts = 1;
        let mut report = run_plan(calm, options(false));
        report.failure = Some(failure);
        report.story = vec!["k1 is COMPLETED".into()];
        let shortest = Shortest { cut: Cut::default(), report: report.clone(), worlds: 3 };
        Found { seed: 7, report, shortest, others: vec![9] }
    }

    #[test]
    fn each_kind_of_failure_has_its_exit_code() {
        let safety = Failure::Safety(Broken::new("paid once", Some("k1"), "twice".into()));
        assert_eq!(kind(&safety), ("safety", 1));
        assert_eq!(kind(&Failure::Liveness(String::new())), ("liveness", 2));
        assert_eq!(kind(&Failure::Crash(String::new())), ("crash", 3));
        assert_eq!(exit_code(None, false), ExitCode::SUCCESS);
        assert_eq!(exit_code(None, true), ExitCode::from(4));
        assert_eq!(exit_code(Some(&found(safety)), true), ExitCode::from(1));
    }

    #[test]
    fn guards_are_counted_by_seeds_and_those_never_met_are_named() {
        let mut report = found(Failure::Liveness(String::new())).report;
        let mut sum = Sum::default();
        assert_eq!(sum.never_met(), Guard::ALL);
        report.guards = vec![Guard::Expired, Guard::LookedFirst];
        sum.add(&report);
        report.guards = vec![Guard::Expired];
        sum.add(&report);
        let told = value(&sum, 1.0, None);
        assert_eq!(told["guards"]["Expired"], 2);
        assert_eq!(told["guards"]["LookedFirst"], 1);
        assert_eq!(told["guards"]["NoncePassed"], 0);
        let never = told["guards_never_met"].as_array().expect("names");
        assert_eq!(never.len(), Guard::ALL.len() - 2);
        assert!(never.contains(&json!("NoncePassed")) && !never.contains(&json!("Expired")));
    }

    #[test]
    fn a_failure_is_told_with_its_seed_its_plan_and_its_story() {
        let safety = Failure::Safety(Broken::new("paid once", Some("k1"), "twice".into()));
        let told = value(&Sum::default(), 1.0, Some(&found(safety)));
        assert_eq!((&told["held"], &told["failure"]["seed"]), (&json!(false), &json!(7)));
        assert_eq!(told["failure"]["what"], "paid once: twice");
        assert_eq!(told["failure"]["reproduce"], "landfall torture --seed 7");
        assert_eq!(told["failure"]["story"], json!(["k1 is COMPLETED"]));
        assert_eq!(told["failure"]["other_seeds"], json!([9]));
    }
}
