//! Processes that chores start: each ends with its guard, and what it used is read from /proc.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Microseconds in one tick of /proc/PID/stat: Linux counts 100 a second for user space, always.
const TICK_US: u64 = 10_000;
/// How long a process may take to leave after SIGTERM before it is killed.
const LEAVE: Duration = Duration::from_secs(40);
/// How often a process is asked whether it has left.
const ASK: Duration = Duration::from_millis(20);

/// The cargo that runs this chore.
pub fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // What tells us who we are would make build scripts run again, and all that depends on them.
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| is_about_us(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    command
}

fn is_about_us(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Runs to the end and returns what was printed.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command.stderr(Stdio::inherit()).output().context(shown(command))?;
    if !done.status.success() {
        bail!("{} failed ({})", shown(command), done.status);
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// A command as one would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// A process that is ended with its guard.
pub struct Running {
    name: &'static str,
    child: Child,
    stdout: Option<BufReader<ChildStdout>>,
}

/// What a process has used so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Used {
    pub cpu_us: u64,
    pub peak_rss_kib: u64,
}

impl Running {
    pub fn start(name: &'static str, command: &mut Command) -> Result<Running> {
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| shown(command))?;
        let stdout = child.stdout.take().map(BufReader::new);
        Ok(Running { name, child, stdout })
    }

    /// The next line it prints.
    pub fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_line(&mut line)?;
        }
        if line.is_empty() {
            bail!("the {} ended before it printed what was expected", self.name);
        }
        Ok(line)
    }

    pub fn used(&self) -> Result<Used> {
        let id = self.child.id();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        parse_used(&stat, &status).with_context(|| format!("/proc/{id} of the {}", self.name))
    }

    /// Asks it to leave, waits, and says whether it left well.
    pub fn leave(mut self) -> Result<bool> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().context("kill")?;
        let asked = Instant::now();
        while asked.elapsed() < LEAVE {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(ASK);
        }
        bail!("the {} did not leave within {LEAVE:?}", self.name)
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    /// Waits until it ends by itself; true if it ended well.
    pub fn finish(mut self) -> Result<bool> {
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be gone already; then both say so and nothing is lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse_used(stat: &str, status: &str) -> Option<Used> {
    // The second field is the program's name in brackets and may hold spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let peak_rss_kib = peak.split_whitespace().next()?.parse().ok()?;
    Some(Used { cpu_us: ticks * TICK_US, peak_rss_kib })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_from_the_right_fields() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 9 1 2 3";
        let used = parse_used(stat, "Name:\tx\nVmHWM:\t  2048 kB\n").expect("well formed");
        assert_eq!((used.cpu_us, used.peak_rss_kib), (2_000_000, 2048));
        assert!(parse_used("", "").is_none());
    }
}
