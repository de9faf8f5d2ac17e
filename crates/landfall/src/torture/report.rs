//! What torture found, told to people and to programs.

use std::process::ExitCode;

use landfall_sim::torture::{Failure, Report};
use serde_json::{Value, json};

use super::cut::{Cut, Shortest, shorten};
use super::{Sum, trace_file};
use crate::show::{Show, Style, Table};

const HOUR_MS: f64 = 3_600_000.0;

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

/// 0 held, 1 safety, 2 liveness, 3 crash.
pub fn exit_code(found: Option<&Found>) -> ExitCode {
    let failure = found.and_then(|found| found.report.failure.as_ref());
    failure.map_or(ExitCode::SUCCESS, |failure| ExitCode::from(kind(failure).1))
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
    match std::fs::write(&path, report.trace.join("\n") + "\n") {
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
    json!({
        "held": failure.is_none(),
        "seeds": sum.seeds,
        "seconds": seconds,
        "seeds_per_second": sum.seeds as f64 / seconds.max(0.001),
        "simulated_hours": sum.simulated_ms as f64 / HOUR_MS,
        "completed": sum.completed,
        "attempts": sum.attempts,
        "failure": failure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::torture::options;
    use landfall_sim::torture::{Broken, Plan, run_plan};

    fn found(failure: Failure) -> Found {
        let calm = Plan { transfers: 1, storm_ms: 1, ..Cut::default().plan(7) };
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
        assert_eq!(exit_code(None), ExitCode::SUCCESS);
        assert_eq!(exit_code(Some(&found(safety))), ExitCode::from(1));
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
