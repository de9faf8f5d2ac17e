//! Whether deploy/ holds together: schemas, linters, and the binary's own opinion of it.
//!
//! The checks themselves are deploy/check/check.py; here its tools are installed, from PyPI into
//! target/tools/deploy, at the versions that deploy/check/requirements.txt names. Installing takes
//! half a minute once, checking a few seconds.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::install;
use crate::process::shown;

/// What Debian calls the part of Python that makes a folder of tools.
const PACKAGE: &str = "python3-venv";

/// Checks everything under deploy/, and that `landfall` understands it. What cannot be checked is
/// as bad as what is wrong.
pub fn run(root: &Path, landfall: &Path) -> bool {
    checked(root, landfall).unwrap_or_else(|error| {
        println!("{error:#}");
        false
    })
}

fn checked(root: &Path, landfall: &Path) -> Result<bool> {
    let tools = root.join("target/tools/deploy");
    install_tools(root, &tools)?;
    let mut command = Command::new(tools.join("bin/python"));
    command.arg(root.join("deploy/check/check.py")).arg(landfall);
    succeeds(&mut command)
}

fn install_tools(root: &Path, tools: &Path) -> Result<()> {
    let named = root.join("deploy/check/requirements.txt");
    let wanted = std::fs::read_to_string(&named).with_context(|| named.display().to_string())?;
    // Written last: without it an installation was not finished.
    let installed = tools.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    println!("== installing linters");
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(tools);
    if !succeeds(&mut make).unwrap_or(false) {
        install::packages(&[PACKAGE])?;
        if !succeeds(&mut make)? {
            bail!("{PACKAGE} is missing: run `apt-get install {PACKAGE}` as root");
        }
    }
    let mut fill = Command::new(tools.join("bin/python"));
    fill.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    fill.args(["--no-deps", "--only-binary", ":all:", "--requirement"]).arg(&named);
    if !succeeds(&mut fill)? {
        bail!("the linters cannot be installed: run `{}` and see why", shown(&fill));
    }
    std::fs::write(&installed, wanted).with_context(|| installed.display().to_string())
}

fn succeeds(command: &mut Command) -> Result<bool> {
    println!("$ {}", shown(command));
    Ok(command.status().with_context(|| shown(command))?.success())
}
