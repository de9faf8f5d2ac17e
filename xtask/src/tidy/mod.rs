//! `cargo xtask tidy`: the house rules that a machine can check.
//!
//! Each rule returns what breaks it, as `file:line: what; remedy`. Not here: format and lints,
//! which `cargo fmt` and `clippy` know better; docs/configuration.md, which a test of the binary
//! compares with the code.

mod rooms;
mod source;

use std::path::{Path, PathBuf};

use anyhow::Result;

/// Prints every breach; true if there is none.
pub fn run(root: &Path) -> Result<bool> {
    let mut breaches = rooms::breaches(root)?;
    let files = rust_files(root)?;
    for path in &files {
        let text = std::fs::read_to_string(path)?;
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        breaches.extend(source::breaches(&name, &text));
    }
    breaches.extend(one_test_command(root));
    for breach in &breaches {
        println!("{breach}");
    }
    println!("tidy: {} files, {} breaches", files.len(), breaches.len());
    Ok(breaches.is_empty())
}

/// Every Rust file of the workspace, in order.
fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.join("crates"), root.join("xtask")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// What CI calls is what the README tells people to call.
fn one_test_command(root: &Path) -> Vec<String> {
    let command = "cargo xtask test";
    [".ci/run", "README.md"]
        .into_iter()
        .filter(|name| {
            let text = std::fs::read_to_string(root.join(name)).unwrap_or_default();
            !text.lines().any(|line| line.trim() == command)
        })
        .map(|name| format!("{name}:1: no line is `{command}`; it is the one test command"))
        .collect()
}
