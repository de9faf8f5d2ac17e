//! Whether deploy/ holds together: schemas, linters, and the binary's own opinion of it.
//!
//! The checks themselves are deploy/check/check.py. Installing its tools takes half a minute once,
//! checking a few seconds.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::install;

/// Checks everything under deploy/, and that `landfall` understands it. What cannot be checked is
/// as bad as what is wrong.
pub fn run(root: &Path, landfall: &Path) -> bool {
    checked(root, landfall).unwrap_or_else(|error| {
        println!("{error:#}");
        false
    })
}

fn checked(root: &Path, landfall: &Path) -> Result<bool> {
    let named = root.join("deploy/check/requirements.txt");
    let tools = install::python(root, "deploy", &named)?;
    let mut command = Command::new(tools.join("bin/python"));
    command.arg(root.join("deploy/check/check.py")).arg(landfall);
    install::run(&mut command)
}
