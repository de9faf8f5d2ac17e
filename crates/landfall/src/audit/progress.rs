//! A progress bar on a terminal; nothing elsewhere.

use std::io::{IsTerminal as _, Write as _};

use parking_lot::Mutex;

/// Columns of the bar.
const WIDTH: u64 = 30;

/// How far something has come, on standard error.
pub struct Progress {
    what: &'static str,
    from: u64,
    to: u64,
    on: bool,
    drawn: Mutex<Option<u64>>,
}

impl Progress {
    pub fn new(what: &'static str, from: u64, to: u64) -> Progress {
        let on = std::io::stderr().is_terminal() && to > from;
        Progress { what, from, to, on, drawn: Mutex::default() }
    }

    pub fn at(&self, position: u64) {
        let span = (self.to - self.from).max(1);
        let filled = position.saturating_sub(self.from).min(span) * WIDTH / span;
        if !self.on || self.drawn.lock().replace(filled) == Some(filled) {
            return;
        }
        let (bar, rest) = ("█".repeat(filled as usize), " ".repeat((WIDTH - filled) as usize));
        // A bar that cannot be drawn is no reason to stop.
        let _ = write!(std::io::stderr(), "\r{:<9}▕{bar}{rest}▏", self.what);
        let _ = std::io::stderr().flush();
    }

    pub fn end(&self) {
        if self.drawn.lock().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
