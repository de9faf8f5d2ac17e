//! `cargo xtask test`: everything that must hold before a change is taken, in one command.
//!
//! The last line is `N passed, N failed`. It counts every test, and every check (format, lints,
//! tidiness, crates, guide, deployment, description, torture) as one more, so that it says
//! `0 failed` only if nothing is wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::budget;
use crate::deploy;
use crate::install;
use crate::process::{cargo, shown};
use crate::schema;
use crate::tidy;

/// Worlds that every change is tortured in, by the build that the tests have just made: about five
/// minutes of one core, unoptimised and with arithmetic checked. All guards are met in them. Longer
/// runs are `cargo xtask soak torture`, which is worth a release build.
const TORTURE_SEEDS: &str = "500";

/// How the runners' summaries begin.
const NEXTEST: &str = "Summary [";
const CARGO: &str = "test result:";

/// What a default build leaves out, because it takes long to build.
pub const ALL: &str = "landfall/sqs";

/// What passed and what failed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

pub fn run(root: &Path) -> Result<bool> {
    install_tools(root)?;
    let mut count = Count::default();
    let mut timings = Vec::new();
    let mut step = |name: &'static str, run: &mut dyn FnMut() -> Result<Count>| -> Result<()> {
        println!("== {name}");
        let begun = Instant::now();
        count.add(run()?);
        timings.push((name, begun.elapsed()));
        Ok(())
    };
    step("format", &mut || check(cargo(root).args(["fmt", "--all", "--check"])))?;
    step("lints", &mut || {
        let arguments = [
            "clippy",
            "--workspace",
            "--features",
            ALL,
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ];
        check(cargo(root).args(arguments))
    })?;
    step("tidy", &mut || Ok(one(tidy::run(root)?)))?;
    step("budget", &mut || Ok(one(budget::run(root)?)))?;
    step("tests", &mut || tests(root))?;
    // What nextest leaves out.
    step("guide", &mut || {
        check(cargo(root).args(["test", "--doc", "--quiet", "-p", "landfall-lanes"]))
    })?;
    step("deploy", &mut || Ok(one(deploy::run(root, &landfall(root)))))?;
    step("schema", &mut || Ok(one(schema::run(root, &landfall(root)))))?;
    step("torture", &mut || torture(root))?;
    for (name, took) in timings {
        println!("{name:<8} {:>7.1} s", took.as_secs_f64());
    }
    println!("{} passed, {} failed", count.passed, count.failed);
    Ok(count.failed == 0)
}

fn one(good: bool) -> Count {
    Count { passed: u64::from(good), failed: u64::from(!good) }
}

fn check(command: &mut Command) -> Result<Count> {
    println!("$ {}", shown(command));
    Ok(one(command.status().with_context(|| shown(command))?.success()))
}

/// nextest runs tests of all crates side by side; without it cargo's own runner does.
fn tests(root: &Path) -> Result<Count> {
    let mut command = cargo(root);
    let nextest = works(cargo(root).args(["nextest", "--version"]));
    if nextest {
        command.args(["nextest", "run", "--workspace", "--features", ALL, "--no-fail-fast"]);
    } else {
        command.args(["test", "--workspace", "--features", ALL, "--no-fail-fast"]);
    }
    // What a test says must not drown in where it was said; that is for whoever runs it alone.
    command.env("RUST_BACKTRACE", "0");
    println!("$ {}", shown(&command));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdout = child.stdout.take().context("piped above")?;
    let stderr = child.stderr.take().context("piped above")?;
    // The two runners report on different streams: both are shown and both are read.
    // A test that fails under nextest is shown with what cargo's own runner said of it.
    let summary = if nextest { NEXTEST } else { CARGO };
    let other = std::thread::spawn(move || show_and_count(stderr, summary));
    let mut count = show_and_count(stdout, summary);
    count.add(other.join().unwrap_or_default());
    if !child.wait()?.success() && count.failed == 0 {
        count.failed = 1;
    }
    Ok(count)
}

/// By the binary that the tests were built with: `cargo run` would build it once more, with all it
/// depends on, as the tests' own features are then left out.
fn torture(root: &Path) -> Result<Count> {
    let landfall = landfall(root);
    if !landfall.exists() {
        println!("there is no {}; the tests were not built", landfall.display());
        return Ok(one(false));
    }
    check(Command::new(landfall).args(["torture", "--seeds", TORTURE_SEEDS, "--all-guards"]))
}

/// The binary that the tests were built with.
pub fn landfall(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    root.join(target).join("debug/landfall")
}

fn show_and_count(stream: impl Read, summary: &str) -> Count {
    let mut count = Count::default();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        count.add(count_of(&line, summary));
        // A closed standard output must not end the tests.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    count
}

/// Reads a runner's summary line: `test result: ok. 3 passed; 0 failed; …` of cargo, or
/// `Summary [   1.2s] 40 tests run: 39 passed, 1 failed, 0 skipped` of nextest.
fn count_of(line: &str, summary: &str) -> Count {
    let trimmed = line.trim_start();
    if !trimmed.starts_with(summary) {
        return Count::default();
    }
    let words: Vec<&str> = trimmed.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
    let before = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at.checked_sub(1)?)?.parse().ok()
    };
    let failed = ["failed", "timed", "exec"].iter().filter_map(|name| before(name)).sum::<u64>();
    Count { passed: before("passed").unwrap_or(0), failed }
}

/// Installs what the steps need, or says exactly what to install.
fn install_tools(root: &Path) -> Result<()> {
    for (component, package) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if works(cargo(root).args([component, "--version"])) {
            continue;
        }
        println!("== installing {package}");
        if !works(Command::new("rustup").args(["component", "add", package])) {
            bail!("{package} is missing: run `rustup component add {package}`");
        }
    }
    if !works(Command::new("cc").arg("--version")) {
        bail!("a C compiler is missing (SQLite is built from source): run `apt install gcc`");
    }
    install::servers(root)
}

fn works(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_runners_summaries_are_understood() {
        let check = |line, summary, passed, failed| {
            assert_eq!(count_of(line, summary), Count { passed, failed }, "{line}");
        };
        let cargo = "test result: ok. 17 passed; 0 failed; 0 ignored; finished in 0.04s";
        check(cargo, CARGO, 17, 0);
        check(cargo, NEXTEST, 0, 0);
        check("test result: FAILED. 1 passed; 2 failed; 0 ignored", CARGO, 1, 2);
        check("     Summary [   1.2s] 40 tests run: 40 passed, 0 skipped", NEXTEST, 40, 0);
        let slow = "     Summary [   1.2s] 9 tests run: 6 passed (1 slow), 3 failed, 0 skipped";
        check(slow, NEXTEST, 6, 3);
        check("running 4 tests", CARGO, 0, 0);
    }
}
