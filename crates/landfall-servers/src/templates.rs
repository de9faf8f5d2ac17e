//! Data folders that take seconds to make: made once, kept, and copied for every server.

use std::path::Path;
use std::process::Command;

use crate::server::{Result, ServerError, doing};
use crate::tools::kept;

/// Copies the data folder of `program` to `to`, after `make` has made it if it is not there yet.
/// `make` is given a new folder to put it in. Every version of the program has one of its own.
pub(crate) fn copy(
    program: &Path,
    to: &Path,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let name = name_of(program)?;
    let kept = kept();
    doing(format!("create {}", kept.display()), std::fs::create_dir_all(&kept))?;
    let template = kept.join(&name);
    let lock = std::fs::File::create(kept.join(format!("{name}.lock")));
    let lock = doing("open the lock of a data folder", lock)?;
    doing("lock a data folder", lock.lock())?;
    if !template.exists() {
        let fresh = doing("a folder for new data", tempfile::tempdir())?;
        make(fresh.path())?;
        let unfinished = kept.join(format!("{name}.unfinished"));
        // It is there only if somebody was interrupted.
        let _ = std::fs::remove_dir_all(&unfinished);
        copy_folder(&fresh.path().join("data"), &unfinished)?;
        doing("keep a data folder", std::fs::rename(&unfinished, &template))?;
    }
    // Until here: two that start at once must not both make it.
    drop(lock);
    copy_folder(&template, to)
}

/// What the program calls itself, fit for a file's name.
fn name_of(program: &Path) -> Result<String> {
    let output = doing(
        format!("{} --version", program.display()),
        Command::new(program).arg("--version").output(),
    )?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let fit = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    Ok(line.chars().map(fit).collect())
}

/// Holes stay holes: most of a new database's log is nothing.
fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("cp");
    command.args(["-R", "--reflink=auto", "--sparse=always", "--preserve=mode"]);
    run("copy a data folder", command.arg(from).arg(to))
}

/// Runs a program to its end; its output is shown if it fails.
pub(crate) fn run(name: &'static str, command: &mut Command) -> Result<()> {
    let output = doing(name, command.output())?;
    if output.status.success() {
        return Ok(());
    }
    let (stdout, stderr) = (output.stdout, output.stderr);
    let log = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Err(ServerError::Start { name, log })
}
