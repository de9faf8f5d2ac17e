//! A test's own process, started once more: it works until something terrible happens, and says
//! what it was told, line by line.
//!
//! ```no_run
//! # async fn work(at: &str, run: u64, say: impl Fn(String)) {}
//! # async fn example() {
//! use landfall_servers::witness;
//!
//! // In the test by whose name it is started:
//! let Some((at, run)) = witness::called() else { return };
//! work(&at, run, |line| witness::say(line)).await;
//! // In the test that calls it:
//! let said: Vec<String> = witness::kill_after("crash::a_child_works", "store", 1, 100);
//! # }
//! ```

use std::ffi::OsStr;
use std::fmt::{Debug, Display};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;

use rustix::process::{Pid, Signal, kill_process};

/// Set for a witness: what it works on, and which run it is.
const AT: &str = "LANDFALL_WITNESS_AT";
const RUN: &str = "LANDFALL_WITNESS_RUN";
/// Before every line that it says; the test harness says others.
const SAYS: &str = "said: ";

/// What this process works on, and which run it is, if it was started as a witness.
pub fn called() -> Option<(String, u64)> {
    let (at, run) = (std::env::var(AT).ok()?, std::env::var(RUN).ok()?);
    Some((at, run.parse().expect("a number")))
}

/// Says what it was told.
pub fn say(told: impl Display) {
    // One write per line, so that a kill leaves no half of one.
    let line = format!("{SAYS}{told}\n");
    std::io::stdout().lock().write_all(line.as_bytes()).expect("somebody listens");
}

/// Starts a witness by the name of its test, kills it with -9 once it has said `lines` things, and
/// returns all that it said.
pub fn kill_after<T: FromStr<Err: Debug>>(
    test: &str,
    at: impl AsRef<OsStr>,
    run: u64,
    lines: usize,
) -> Vec<T> {
    let kill = |child: &mut Child| child.kill().expect("kill -9");
    let (said, status) = listen(test, at.as_ref(), run, lines, kill);
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "the witness ended by itself");
    said
}

/// The same with something else that is terrible, of which the witness ends by itself.
pub fn hear<T: FromStr<Err: Debug>>(
    test: &str,
    at: impl AsRef<OsStr>,
    run: u64,
    lines: usize,
    terrible: impl FnOnce(&mut Child),
) -> Vec<T> {
    let (said, status) = listen(test, at.as_ref(), run, lines, terrible);
    assert!(!status.success(), "the witness noticed nothing");
    said
}

fn listen<T: FromStr<Err: Debug>>(
    test: &str,
    at: &OsStr,
    run: u64,
    lines: usize,
    terrible: impl FnOnce(&mut Child),
) -> (Vec<T>, ExitStatus) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture"])
        .env(AT, at)
        .env(RUN, run.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a witness");
    let mut output = BufReader::new(child.stdout.take().expect("piped above"));
    let mut said = Vec::new();
    let mut terrible = Some(terrible);
    let mut line = String::new();
    while output.read_line(&mut line).expect("text") > 0 {
        let whole = line.strip_suffix('\n').and_then(|line| line.split_once(SAYS));
        if let Some((_, told)) = whole {
            said.push(told.parse().expect("what a witness says"));
        }
        if said.len() == lines
            && let Some(terrible) = terrible.take()
        {
            terrible(&mut child);
        }
        line.clear();
    }
    let status = child.wait().expect("its end");
    assert!(terrible.is_none(), "the witness ended before: {status}");
    (said, status)
}

/// SIGSTOP: it keeps its connections and does nothing.
pub fn pause(child: &Child) {
    send(child, Signal::STOP);
}

/// SIGCONT.
pub fn resume(child: &Child) {
    send(child, Signal::CONT);
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it is there");
}
