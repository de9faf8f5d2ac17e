//! One server's processes, from start to end.
//!
//! Its children may have process groups of their own (PostgreSQL's do), so they are found by their
//! parents in /proc. A guard, a small shell, ends the server when the process that started it is no
//! more: destructors do not run after `kill -9`, and never for statics.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::server::pause;

/// How often something is asked for that is about to happen.
pub(crate) const ASK: Duration = Duration::from_millis(10);
/// How long a server may take to leave when it is asked to.
const LEAVE_ASKS: usize = 200;

/// Linux counts processor time for user space a hundred times a second, always.
const TICK: Duration = Duration::from_millis(10);

pub(crate) struct Process {
    child: Child,
    guard: Child,
    /// The signal that makes the server leave at once and take what is not in its folder with it.
    leave: Signal,
}

impl Process {
    pub(crate) fn start(mut command: Command, folder: &Path, leave: Signal) -> io::Result<Process> {
        let mut child = command.process_group(0).stdin(Stdio::null()).spawn()?;
        match guard(child.id(), folder, leave) {
            Ok(guard) => Ok(Process { child, guard, leave }),
            Err(error) => {
                // It fails only if it is gone already.
                let _ = child.kill();
                child.wait()?;
                Err(error)
            }
        }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// kill -9 of all of it; returns when nothing of it runs.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        // A stopped parent neither starts more of them nor notices.
        let pids = self.stop()?;
        for pid in &pids {
            signal(*pid, Signal::KILL);
        }
        self.child.wait()?;
        while pids.iter().any(|pid| runs(*pid)) {
            pause(ASK);
        }
        self.end_guard()
    }

    /// SIGSTOP of all of it; returns who was stopped.
    pub(crate) fn stop(&self) -> io::Result<Vec<u32>> {
        let mut stopped: Vec<u32> = Vec::new();
        loop {
            let found = family(self.child.id())?;
            let new: Vec<u32> = found.into_iter().filter(|pid| !stopped.contains(pid)).collect();
            if new.is_empty() {
                return Ok(stopped);
            }
            for pid in new {
                signal(pid, Signal::STOP);
                stopped.push(pid);
            }
        }
    }

    /// SIGCONT of all of it.
    pub(crate) fn go_on(&self) -> io::Result<()> {
        for pid in family(self.child.id())? {
            signal(pid, Signal::CONT);
        }
        Ok(())
    }

    /// Processor time used by all of it so far, by those that have ended too.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let ticks: u64 = family(self.child.id())?.into_iter().filter_map(ticks).sum();
        Ok(TICK * u32::try_from(ticks).unwrap_or(u32::MAX))
    }

    fn end_guard(&mut self) -> io::Result<()> {
        // It fails only if it is gone already.
        let _ = self.guard.kill();
        self.guard.wait().map(|_| ())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.has_ended() {
            // Each fails only if it is gone already; one that is stopped cannot leave.
            let _ = self.go_on();
            signal(self.child.id(), self.leave);
            for _ in 0..LEAVE_ASKS {
                if self.has_ended() {
                    break;
                }
                pause(ASK);
            }
        }
        let _ = self.kill();
        group(self.child.id(), Signal::KILL);
    }
}

/// A shell that waits for the end of its standard input, which comes with the end of this process.
fn guard(pid: u32, folder: &Path, leave: Signal) -> io::Result<Child> {
    let script = "while read -r _; do :; done; kill -CONT $1; kill -$2 $1; sleep 2; \
                  kill -KILL -- -$1; rm -rf -- \"$3\"";
    Command::new("sh")
        .args(["-c", script, "guard", &pid.to_string(), &leave.as_raw().to_string()])
        .arg(folder)
        .process_group(0)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The process and its descendants, parents before children.
fn family(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok())
            && let Some((parent, _)) = stat(pid)
        {
            parents.push((pid, parent));
        }
    }
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    Ok(family)
}

/// Parent and state of a process, as long as there is one.
fn stat(pid: u32) -> Option<(u32, char)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold anything, brackets too.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    let state = words.next()?.chars().next()?;
    Some((words.next()?.parse().ok()?, state))
}

/// What a process and its ended children have used.
fn ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let words = stat.rsplit_once(')')?.1.split_whitespace();
    // In user space and in the kernel: its own, then its children's.
    Some(words.skip(11).take(4).filter_map(|word| word.parse::<u64>().ok()).sum())
}

/// A zombie only waits to be counted.
fn runs(pid: u32) -> bool {
    stat(pid).is_some_and(|(_, state)| !matches!(state, 'Z' | 'X'))
}

/// Signals fail only for processes that are gone.
fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, signal);
    }
}

fn group(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process_group(pid, signal);
    }
}
