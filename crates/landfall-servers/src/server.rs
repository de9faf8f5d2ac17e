//! What all servers have in common: started until they answer, killed, started again, paused.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::port::Port;
use crate::process::{ASK, Process};

/// How long a server may take until it answers: recovery after a kill on a busy machine included.
const START_ASKS: usize = 6_000;
/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Another port is tried when a server gives up: somebody may have been faster.
const TRIES: usize = 3;
/// How much of a log is shown.
const LOG_LINES: usize = 20;

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{what} is missing; run `{remedy}` (`cargo xtask test` does)")]
    Missing { what: String, remedy: String },
    #[error("{name} does not start:\n{log}")]
    Start { name: &'static str, log: String },
    #[error("{doing}: {cause}")]
    Io { doing: String, cause: io::Error },
}

pub(crate) type Result<T> = std::result::Result<T, ServerError>;

/// Says what was being done when it failed.
pub(crate) fn doing<T>(what: impl Into<String>, result: io::Result<T>) -> Result<T> {
    result.map_err(|cause| ServerError::Io { doing: what.into(), cause })
}

/// Real time passes here: other processes have no paused clock.
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

/// What starts a server on a port, with its data in a folder.
pub(crate) type Start = Box<dyn Fn(u16, &Path) -> Command + Send + Sync>;

/// What makes a server this one.
pub(crate) struct Plan {
    pub name: &'static str,
    pub command: Start,
    /// Whether it answers.
    pub ready: fn(u16) -> io::Result<bool>,
    /// The signal that makes it leave at once.
    pub leave: Signal,
    /// A file in the folder that a killed server leaves and that would keep the next one out.
    pub stale: Option<&'static str>,
}

/// A running server. Ended, and its folder removed, when dropped.
pub struct Server {
    plan: Plan,
    url: String,
    // Fields are dropped in this order: the process before its port and its folder.
    process: Mutex<Option<Process>>,
    port: Port,
    folder: TempDir,
}

impl Server {
    /// Starts on a new port with the data that `fill` leaves in the folder.
    pub(crate) fn start(
        plan: Plan,
        url: impl Fn(u16) -> String,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Server> {
        let folder = doing("a folder for the server", tempfile::tempdir())?;
        fill(folder.path())?;
        let port = reserve(plan.name)?;
        let mut server =
            Server { plan, url: url(port.number), process: Mutex::new(None), port, folder };
        for _ in 1..TRIES {
            if server.restart().is_ok() {
                return Ok(server);
            }
            server.port = reserve(server.plan.name)?;
            server.url = url(server.port.number);
        }
        server.restart()?;
        Ok(server)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Where its data is.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// kill -9 of all its processes. Does nothing if it does not run.
    pub fn kill(&self) -> Result<()> {
        match self.process().take() {
            None => Ok(()),
            Some(mut process) => doing(format!("kill {}", self.plan.name), process.kill()),
        }
    }

    /// Starts it again on the same port with the same data, killing it first if it runs, and waits
    /// until it answers.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        let folder = self.folder.path();
        if let Some(stale) = self.plan.stale {
            // It is there only after a kill.
            let _ = std::fs::remove_file(folder.join(stale));
        }
        let log = File::options().create(true).append(true).open(self.log_path());
        let log = doing("open the log", log)?;
        let mut command = (self.plan.command)(self.port.number, folder);
        command.stdout(doing("share the log", log.try_clone())?).stderr(log);
        command.stdin(Stdio::null()).current_dir(folder);
        let started = Process::start(command, folder, self.plan.leave);
        let mut process = doing(format!("start {}", self.plan.name), started)?;
        for _ in 0..START_ASKS {
            if process.has_ended() {
                break;
            }
            // Nobody listens yet, or somebody says to come back later.
            if (self.plan.ready)(self.port.number).unwrap_or(false) && !process.has_ended() {
                *self.process() = Some(process);
                return Ok(());
            }
            pause(ASK);
        }
        Err(ServerError::Start { name: self.plan.name, log: self.log_tail() })
    }

    /// SIGSTOP: it keeps its connections and answers nobody.
    pub fn pause(&self) -> Result<()> {
        match self.process().as_ref() {
            None => Ok(()),
            Some(process) => doing("pause", process.stop()).map(|_| ()),
        }
    }

    /// SIGCONT.
    pub fn resume(&self) -> Result<()> {
        match self.process().as_ref() {
            None => Ok(()),
            Some(process) => doing("resume", process.go_on()),
        }
    }

    /// Processor time that all its processes have used since it was last started.
    pub fn cpu(&self) -> Result<Duration> {
        match self.process().as_ref() {
            None => Ok(Duration::ZERO),
            Some(process) => doing("read /proc", process.cpu()),
        }
    }

    /// The last lines of its log, of all its starts.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read(self.log_path()).unwrap_or_default();
        let log = String::from_utf8_lossy(&log).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reserve(name: &'static str) -> Result<Port> {
    Port::reserve().ok_or_else(|| ServerError::Start { name, log: "no port is free".into() })
}

/// Sends `question` and reads at most `length` bytes of the answer.
pub(crate) fn ask(port: u16, question: &[u8], length: usize) -> io::Result<Vec<u8>> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(question)?;
    let mut answer = vec![0; length];
    let mut read = 0;
    while read < length {
        match stream.read(&mut answer[read..])? {
            0 => break,
            more => read += more,
        }
    }
    answer.truncate(read);
    Ok(answer)
}
