//! `cargo xtask release`: the binary as it is shipped, stripped, with its symbols beside it.
//!
//! The release profile keeps line tables, so that a backtrace names files and lines; they are most
//! of the file. Here they become a file of their own, which the binary names (by a debug
//! link): debuggers, `perf` and the binary's own backtraces find it where it lies beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::install::run as runs;
use crate::process::cargo;

const NAME: &str = "landfall";

#[derive(Debug, Clone, Args)]
pub struct Options {
    /// What a default build leaves out, such as `sqs`.
    #[arg(long)]
    features: Vec<String>,
    /// Where to put the two files; target/dist if not said.
    #[arg(long)]
    out: Option<PathBuf>,
}

pub fn run(root: &Path, options: &Options) -> Result<bool> {
    let mut build = cargo(root);
    build.args(["build", "--release", "--locked", "--package", NAME]);
    if !options.features.is_empty() {
        build.args(["--features", &options.features.join(",")]);
    }
    if !runs(&mut build)? {
        return Ok(false);
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let target = root.join(target);
    let folder = options.out.clone().unwrap_or_else(|| target.join("dist"));
    split(&target.join("release").join(NAME), &folder)
}

/// Puts the program into `folder` without symbols, and the symbols beside it.
fn split(program: &Path, folder: &Path) -> Result<bool> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let symbols = format!("{NAME}.debug");
    let mut keep = Command::new("objcopy");
    keep.args(["--only-keep-debug", "--compress-debug-sections=zlib"]);
    keep.arg(program).arg(folder.join(&symbols));
    // A link has the name of the file and its checksum, not the folder.
    let mut strip = Command::new("objcopy");
    strip.args(["--strip-all", &format!("--add-gnu-debuglink={symbols}")]);
    strip.arg(program).arg(folder.join(NAME)).current_dir(folder);
    let done = runs(&mut keep)? && runs(&mut strip)?;
    for name in [NAME, &symbols] {
        let path = folder.join(name);
        let bytes = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
        println!("{:>7.1} MB  {}", bytes as f64 / 1e6, path.display());
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On this very test program.
    #[test]
    fn the_stripped_program_runs_and_names_its_symbols() {
        let folder = tempfile::tempdir().expect("a folder");
        let whole = std::env::current_exe().expect("a program");
        assert!(split(&whole, folder.path()).expect("both files"));
        let stripped = folder.path().join(NAME);
        let bytes = |path: &Path| std::fs::metadata(path).expect("a file").len();
        assert!(bytes(&stripped) < bytes(&whole));
        let listed = Command::new(&stripped).arg("--list").output().expect("it runs");
        assert!(String::from_utf8_lossy(&listed.stdout).contains("names_its_symbols"));
        let mut links = Command::new("readelf");
        let links = links.args(["--string-dump=.gnu_debuglink"]).arg(&stripped).output();
        let links = String::from_utf8_lossy(&links.expect("readelf runs").stdout).into_owned();
        assert!(links.contains("landfall.debug"), "{links}");
    }
}
