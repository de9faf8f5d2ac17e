//! The servers that tests start: Redis, PostgreSQL, MariaDB, one that speaks SQS, Surfpool, anvil
//! with what compiles contracts for it, and workerd with what compiles TypeScript.
//!
//! Debian's packages as they are, what is in npm and PyPI under target/tools. What
//! cannot be installed from here is named with the command that does. Not here: starting them
//! (`landfall-servers`).

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::shown;

/// Programs and the Debian packages that bring them, clients included: tests ask with those.
const PROGRAMS: [(&[&str], &str); 8] = [
    (&["redis-server"], "redis-server"),
    (&["redis-cli"], "redis-tools"),
    (&["postgres"], "postgresql"),
    (&["psql"], "postgresql-client"),
    (&["mariadbd", "mysqld"], "mariadb-server"),
    (&["mariadb", "mysql"], "mariadb-client"),
    (&["node", "nodejs"], "nodejs"),
    (&["npm"], "npm"),
];

/// Where Debian keeps PostgreSQL's own programs, a folder per version.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Must be the versions that `landfall-servers` names.
const FAUXQS: &str = "fauxqs@1.9.2";
const SURFPOOL: &str = "@solana/surfpool-linux-x64-gnu@1.5.0";
const ANVIL: &str = "@foundry-rs/anvil@1.7.1";
const SOLC: &str = "solc@0.8.37";
const OPENZEPPELIN: &str = "@openzeppelin/contracts@5.7.0";
const TYPESCRIPT: &str = "typescript@5.9.3";
const MINIFLARE: &str = "miniflare@4.20260426.0";
const EXPRESS: &str = "express@5.1.0";
const ETHERS: &str = "ethers@6.15.0";
const NEAR_API: &str = "near-api-js@5.1.1";

/// What Debian calls the part of Python that makes a folder of tools.
const PYTHON: &str = "python3-venv";

/// While this exists and says so, Debian starts no service that it installs.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Seconds to wait for somebody else who installs.
const LOCK_TIMEOUT: &str = "DPkg::Lock::Timeout=600";

/// Installs what is missing, or says exactly what to run.
pub fn servers(root: &Path) -> Result<()> {
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(names, _)| !names.iter().any(|name| is_there(name)))
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        packages(&missing)?;
    }
    npm(root, "fauxqs", FAUXQS)?;
    npm(root, "surfpool", SURFPOOL)?;
    npm(root, "anvil", ANVIL)?;
    npm(root, "solc", SOLC)?;
    npm(root, "openzeppelin", OPENZEPPELIN)?;
    npm(root, "typescript", TYPESCRIPT)?;
    npm(root, "miniflare", MINIFLARE)?;
    npm(root, "express", EXPRESS)?;
    npm(root, "ethers", ETHERS)?;
    npm(root, "near-api-js", NEAR_API).map(|_| ())
}

fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/bin".into(), "/usr/sbin".into()]);
    let versions = std::fs::read_dir(POSTGRES).into_iter().flatten().flatten();
    folders.extend(versions.map(|version| version.path().join("bin")));
    folders.iter().any(|folder| folder.join(name).is_file())
}

/// Installs Debian's packages, or says exactly what to run.
pub fn packages(missing: &[&str]) -> Result<()> {
    let command = format!("apt-get install --no-install-recommends {}", missing.join(" "));
    println!("== installing {}", missing.join(", "));
    if !is_root() || !is_there("apt-get") {
        bail!("servers for the tests are missing: run `{command}` as root");
    }
    let _policy = Policy::set()?;
    // The lists may be old or absent; bringing them up to date takes time, so only if it must be.
    if install(missing)? {
        return Ok(());
    }
    run(Command::new("apt-get").args(["-o", LOCK_TIMEOUT, "update"]))?;
    if !install(missing)? {
        bail!("servers for the tests cannot be installed: run `{command}` and see why");
    }
    Ok(())
}

fn install(missing: &[&str]) -> Result<bool> {
    let mut command = Command::new("apt-get");
    command.args(["-o", LOCK_TIMEOUT, "install", "-y", "-q", "--no-install-recommends"]);
    run(command.args(missing).env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Says what it runs, and whether that went well.
pub fn run(command: &mut Command) -> Result<bool> {
    println!("$ {}", shown(command));
    Ok(command.status().with_context(|| shown(command))?.success())
}

/// Keeps Debian from starting what it installs; the tests start their own.
struct Policy {
    is_ours: bool,
}

impl Policy {
    fn set() -> Result<Policy> {
        if Path::new(POLICY).exists() {
            return Ok(Policy { is_ours: false });
        }
        std::fs::write(POLICY, "#!/bin/sh\nexit 101\n").context(POLICY)?;
        std::fs::set_permissions(POLICY, PermissionsExt::from_mode(0o755)).context(POLICY)?;
        Ok(Policy { is_ours: true })
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = std::fs::remove_file(POLICY)
        {
            eprintln!("remove {POLICY} by hand, or services will not start: {error}");
        }
    }
}

/// Python's tools from PyPI, at the versions that `named` lists, in a folder of target/tools.
pub fn python(root: &Path, name: &str, named: &Path) -> Result<PathBuf> {
    let tools = root.join("target/tools").join(name);
    let wanted = std::fs::read_to_string(named).with_context(|| named.display().to_string())?;
    // Written last: without it an installation was not finished.
    let installed = tools.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(tools);
    }
    println!("== installing tools for {name}");
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&tools);
    if !run(&mut make).unwrap_or(false) {
        packages(&[PYTHON])?;
        if !run(&mut make)? {
            bail!("{PYTHON} is missing: run `apt-get install {PYTHON}` as root");
        }
    }
    let mut fill = Command::new(tools.join("bin/python"));
    fill.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    fill.args(["--no-deps", "--only-binary", ":all:", "--requirement"]).arg(named);
    if !run(&mut fill)? {
        bail!("the tools cannot be installed: run `{}` and see why", shown(&fill));
    }
    std::fs::write(&installed, wanted).with_context(|| installed.display().to_string())?;
    Ok(tools)
}

/// A package of npm, with what it needs, in a folder of target/tools.
pub fn npm(root: &Path, name: &str, package: &str) -> Result<PathBuf> {
    let folder = root.join("target/tools").join(name);
    // Written last: without it an installation was not finished.
    let installed = folder.join("installed");
    if std::fs::read_to_string(&installed).is_ok_and(|there| there == package) {
        return Ok(folder);
    }
    println!("== installing {package}");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut command = Command::new("npm");
    command.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]);
    command.arg(&folder).arg(package);
    if !run(&mut command)? {
        bail!("{package} cannot be installed: run `{}` and see why", shown(&command));
    }
    std::fs::write(&installed, package).with_context(|| installed.display().to_string())?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_debian_has_is_found_and_what_nobody_has_is_not() {
        assert!(is_there("sh"));
        assert!(!is_there("no-such-server"));
    }
}
