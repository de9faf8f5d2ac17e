//! `cargo xtask soak mutants`: small changes to the code on which a payment's safety rests, one at
//! a time, and whether a test notices.
//!
//! Each file's mutants are cut into shards. A shard is tried with its crate's quick tests; what
//! survives them, with all tests of the crates that know the file; what is left, in simulated
//! worlds. What survives those too must be in the table of docs/exactly-once.md, with the reason
//! why it is harmless. All of it happens in a copy of the sources, `target/mutants/tree`, which
//! stays where it is: what was built of it is good for the next mutant, and nobody's work is
//! disturbed.
//! A shard that is done is not run again until its file changes: its results are in
//! `target/mutants/FILE/K-of-N`, in cargo-mutants' own form.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::{cargo, output, shown};

/// The tool, in the version that was tried.
const TOOL: (&str, &str) = ("cargo-mutants", "27.1.0");
/// Mutants of a shard: some minutes of work, so that an interruption costs no more.
const SHARD_MUTANTS: usize = 25;
/// Patience for the tests of one mutant, in seconds: several times what the slowest crate takes on
/// a busy machine. What takes longer is noticed, too: by whoever waits.
const TIMEOUT_S: &str = "600";
/// The same for the quick tests, which take seconds: many a mutant waits for ever.
const QUICK_TIMEOUT_S: &str = "120";
/// The copy in which the sources are changed.
const TREE: &str = "target/mutants/tree";
/// Where what may survive is listed.
const LISTED: &str = "docs/exactly-once.md";
/// Worlds that the rest is tried in: whole relays, fooled in one way, and a few seeds of torture.
const WORLDS: [&str; 8] = [
    "--test",
    "torture",
    "--test",
    "world",
    "--",
    "a_handful_of_seeds_hold",
    "fooled::",
    "funds::",
];

/// Files on which a payment's safety rests, and the crates whose tests know them.
const FILES: &[(&str, &[&str])] = &[
    ("landfall-core/src/internal.rs", &["landfall-core"]),
    ("landfall-core/src/machine.rs", &["landfall-core"]),
    ("landfall-core/src/near.rs", &["landfall-core"]),
    ("landfall-core/src/transfer.rs", &["landfall-core"]),
    ("landfall-lanes/src/driver.rs", &["landfall-lanes", "landfall-engine"]),
    ("landfall-lanes/src/high_water.rs", &["landfall-lanes", "landfall-engine"]),
    ("landfall-lanes/src/reconcile.rs", &["landfall-lanes", "landfall-engine"]),
    ("landfall-lanes/src/resolve.rs", &["landfall-lanes", "landfall-engine"]),
    ("landfall-lanes/src/watchman.rs", &["landfall-lanes", "landfall-engine"]),
    ("landfall-engine/src/settle.rs", &["landfall-engine"]),
    ("landfall-rail-near/src/look.rs", &["landfall-rail-near"]),
    ("landfall-rail-near/src/sort.rs", &["landfall-rail-near"]),
    ("landfall-rail-near/src/testimony.rs", &["landfall-rail-near"]),
    ("landfall-rail-near/src/witness.rs", &["landfall-rail-near"]),
    ("landfall-rail-internal/src/sort.rs", &["landfall-rail-internal"]),
    ("landfall-rail-internal/src/verdict.rs", &["landfall-rail-internal"]),
];

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only files whose path ends so, such as `settle.rs`; may be given several times.
    #[arg(long)]
    pub file: Vec<String>,
    /// Only one of N parts of each file's mutants, counted from 0.
    #[arg(long, value_name = "K/N", value_parser = parse_shard)]
    pub shard: Option<(usize, usize)>,
    /// Tries once more what survived in shards that are done: after a new test, say.
    #[arg(long)]
    pub again: bool,
    /// Shows the files, their mutants and what is done, and tries nothing.
    #[arg(long)]
    pub list: bool,
}

fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let numbers = text.split_once('/').and_then(|(part, parts)| {
        let (part, parts): (usize, usize) = (part.parse().ok()?, parts.parse().ok()?);
        (part < parts).then_some((part, parts))
    });
    numbers.ok_or_else(|| format!("{text:?} is no shard such as 0/4"))
}

/// One part of a file's mutants.
struct Shard<'a> {
    file: &'a str,
    packages: &'a [&'a str],
    part: usize,
    parts: usize,
    folder: PathBuf,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    install(root)?;
    let page = std::fs::read_to_string(root.join(LISTED)).context(LISTED)?;
    let (listed, mut survivors, mut left) = (listed(&page), Vec::new(), 0);
    let wanted = |file: &str| {
        options.file.is_empty() || options.file.iter().any(|name| file.ends_with(name))
    };
    for (file, packages) in FILES.iter().filter(|(file, _)| wanted(file)) {
        for shard in shards(root, file, packages, options)? {
            if options.list {
                left += usize::from(!shard.is_done(root)?);
            } else if !shard.is_done(root)? || options.again {
                shard.run(root, &listed)?;
            }
            survivors.extend(shard.survivors()?);
        }
    }
    let unlisted: Vec<&String> =
        survivors.iter().filter(|mutant| !listed.contains(&named(mutant))).collect();
    for mutant in &unlisted {
        println!("survives: {mutant}");
    }
    println!("{} survive, {} of them not listed in {LISTED}", survivors.len(), unlisted.len());
    if options.list {
        println!("{left} shards are left");
    }
    Ok(unlisted.is_empty())
}

/// The shards of a file, as asked for, or of a handy size.
fn shards<'a>(
    root: &Path,
    file: &'a str,
    packages: &'a [&'a str],
    options: &Options,
) -> Result<Vec<Shard<'a>>> {
    let list = output(mutants(root, file).arg("--list"))?;
    let count = list.lines().count();
    let of = |(part, parts): (usize, usize)| {
        let folder = root.join("target/mutants").join(file.replace(['/', '.'], "-"));
        let folder = folder.join(format!("{part}-of-{parts}"));
        Shard { file, packages, part, parts, folder }
    };
    let parts = parts_of(count).with_context(|| file.to_owned())?;
    let shards: Vec<Shard<'a>> = match options.shard {
        Some(shard) => vec![of(shard)],
        None => (0..parts).map(|part| of((part, parts))).collect(),
    };
    println!("{file}: {count} mutants, {} of {} shards", shards.len(), shards[0].parts);
    Ok(shards)
}

/// How many shards so many mutants make. A file without any was not found by the tool: nothing
/// survives there, and nothing was tried.
fn parts_of(count: usize) -> Result<usize> {
    match count {
        0 => bail!("no mutants: the tool does not see the file"),
        _ => Ok(count.div_ceil(SHARD_MUTANTS)),
    }
}

/// The tool, for one file. Left alone it sees the workspace's default members only.
fn mutants(root: &Path, file: &str) -> Command {
    let mut command = cargo(root);
    command.args(["mutants", "--no-config", "--colors", "never"]);
    command.args(["--package", package(file), "--file"]).arg(format!("crates/{file}"));
    command
}

/// The crate that a file belongs to.
fn package(file: &str) -> &str {
    file.split('/').next().unwrap_or_default()
}

/// The tests that every mutant of a crate meets first: most fall there, in seconds.
fn quick_tests(package: &str) -> &'static [&'static str] {
    match package {
        // All but the crashes at every call and the model, which take minutes.
        "landfall-lanes" => &["--lib", "--test", "lanes", "--", "--skip", "crashes::"],
        _ => &["--lib"],
    }
}

/// Brings the copy of the sources up to date, and heals what an interrupted run has left in it. A
/// file that is the same is not touched, or all would be built anew.
fn copy(root: &Path) -> Result<()> {
    let mut list = Command::new("git");
    list.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let (now, list) = (output(&mut list)?, root.join(TREE).with_extension("list"));
    let before = std::fs::read_to_string(&list).unwrap_or_default();
    let names = |text: &str| -> BTreeSet<String> {
        text.split_terminator('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let there = names(&now).into_iter().filter(|name| root.join(name).is_file());
    let there: BTreeSet<String> = there.collect();
    for gone in names(&before).difference(&there) {
        let _ = std::fs::remove_file(root.join(TREE).join(gone));
    }
    for name in &there {
        let (from, to) = (root.join(name), root.join(TREE).join(name));
        let text = std::fs::read(&from).with_context(|| name.clone())?;
        if std::fs::read(&to).ok().as_ref() != Some(&text) {
            std::fs::create_dir_all(to.parent().context("a file in a folder")?)?;
            std::fs::write(&to, text).with_context(|| to.display().to_string())?;
        }
    }
    Ok(std::fs::write(list, Vec::from_iter(there).join("\0"))?)
}

impl Shard<'_> {
    /// Whether it has been run on the file as it is.
    fn is_done(&self, root: &Path) -> Result<bool> {
        let done = std::fs::read_to_string(self.folder.join("done"));
        Ok(done.is_ok_and(|text| text == digest(root, self.file).unwrap_or_default()))
    }

    fn run(&self, root: &Path, listed: &[String]) -> Result<()> {
        let fresh = !self.is_done(root)?;
        if fresh && self.folder.exists() {
            std::fs::remove_dir_all(&self.folder).context("results of the file as it was")?;
        }
        std::fs::create_dir_all(&self.folder)?;
        copy(root)?;
        let own = package(self.file);
        let tests = [&["--test-package", own, "--"], quick_tests(own)].concat();
        finish(self.command(root, !fresh, QUICK_TIMEOUT_S).args(tests))?;
        let is_listed = |mutant: &String| listed.contains(&named(mutant));
        let packages = self.packages.iter().flat_map(|name| ["--test-package", name]);
        let packages: Vec<&str> = packages.chain(["--", "--tests"]).collect();
        let worlds = [&["--test-package", "landfall-torture", "--"], &WORLDS[..]].concat();
        for tests in [packages, worlds] {
            if !self.survivors()?.iter().all(is_listed) {
                finish(self.command(root, true, TIMEOUT_S).args(tests))?;
            }
        }
        std::fs::write(self.folder.join("done"), digest(root, self.file)?)?;
        Ok(())
    }

    /// The tool on this shard; `rest`: only what was not noticed before.
    fn command(&self, root: &Path, rest: bool, timeout_s: &str) -> Command {
        let mut command = mutants(&root.join(TREE), self.file);
        command.args(["--in-place", "--no-times", "--timeout", timeout_s, "--output"]);
        command.arg(&self.folder);
        command.arg("--shard").arg(format!("{}/{}", self.part, self.parts));
        if rest {
            command.arg("--iterate");
        }
        command.env("CARGO_TARGET_DIR", root.join("target/mutants/build"));
        // Nobody looks where a mutant fell; linking is what takes the time.
        command.env("CARGO_PROFILE_DEV_DEBUG", "false");
        command
    }

    /// What no test noticed so far.
    fn survivors(&self) -> Result<Vec<String>> {
        let missed = self.folder.join("mutants.out/missed.txt");
        match std::fs::read_to_string(&missed) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).context(missed.display().to_string()),
        }
    }
}

/// Runs the tool to its end. That something survives, or takes too long, is no failure of it.
fn finish(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| shown(command))?;
    match status.code() {
        Some(0 | 2 | 3) => Ok(()),
        _ => bail!("{} failed ({status})", shown(command)),
    }
}

/// Tells a file as it is from what it was.
fn digest(root: &Path, file: &str) -> Result<String> {
    let text = std::fs::read_to_string(root.join("crates").join(file)).context(file.to_owned())?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// A mutant's name without the place, which moves: `crates/FILE:7:9: replace …` is
/// `FILE: replace …`.
fn named(mutant: &str) -> String {
    let place = mutant.split_once(": ").unwrap_or((mutant, ""));
    let file = place.0.split(':').next().unwrap_or_default();
    format!("{}: {}", file.trim_start_matches("crates/"), place.1)
}

/// The mutants that a page lists: rows of a table whose first two cells are a file and a change,
/// both as code.
fn listed(page: &str) -> Vec<String> {
    let cell = |text: &str| {
        let code = text.trim().strip_prefix('`')?.strip_suffix('`')?;
        Some(code.replace('\u{0}', "|"))
    };
    let row = |line: &str| {
        let line = line.replace("\\|", "\u{0}");
        let mut cells = line.strip_prefix('|')?.split('|');
        let (file, change) = (cell(cells.next()?)?, cell(cells.next()?)?);
        file.ends_with(".rs").then(|| format!("{file}: {change}"))
    };
    page.lines().filter_map(row).collect()
}

/// Installs the tool if it is missing.
fn install(root: &Path) -> Result<()> {
    let quiet = cargo(root).args(["mutants", "--version"]).stdout(Stdio::null()).status();
    if quiet.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let mut install = cargo(root);
    install.args(["install", "--locked", "--version", TOOL.1, TOOL.0]);
    println!("$ {}", shown(&install));
    match install.status().with_context(|| shown(&install))?.success() {
        true => Ok(()),
        false => bail!("{} cannot be installed: run `{}` and see why", TOOL.0, shown(&install)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_is_known_by_its_file_and_change_wherever_it_moves() {
        let found =
            "crates/landfall-core/src/near.rs:97:9: replace next -> Option<State> with None";
        let name = "landfall-core/src/near.rs: replace next -> Option<State> with None";
        assert_eq!(named(found), name);
        let page = "# A page\n| `docs/x.md` | `y` | no mutant |\n\n\
                    | `landfall-core/src/near.rs` | `replace next -> Option<State> with None` |a|\n\
                    | `landfall-core/src/near.rs` | `replace \\|\\| with && in is_text` | b |\n";
        assert_eq!(
            listed(page),
            [name, "landfall-core/src/near.rs: replace || with && in is_text"]
        );
    }

    #[test]
    fn every_file_is_there_and_its_crates_are() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("crates");
        for (file, packages) in FILES {
            assert!(crates.join(file).is_file(), "{file}");
            packages.iter().for_each(|name| assert!(crates.join(name).is_dir(), "{name}"));
        }
    }

    #[test]
    fn a_file_without_mutants_is_no_success() {
        parts_of(0).unwrap_err();
        assert_eq!(parts_of(1).unwrap(), 1);
        assert_eq!(parts_of(SHARD_MUTANTS + 1).unwrap(), 2);
    }

    #[test]
    fn a_shard_is_one_of_so_many() {
        assert_eq!(parse_shard("0/4"), Ok((0, 4)));
        for wrong in ["4/4", "1", "a/2", "-1/2"] {
            parse_shard(wrong).unwrap_err();
        }
    }
}
