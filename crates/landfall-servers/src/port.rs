//! Ports that stay ours between two starts of a server.
//!
//! **Rule:** below those that outgoing connections are given: a client that knocks while its server
//! is down could be given the port itself, and keep the server out for good. A port is reserved by
//! a lock on a file, so that two tests that start at once cannot both find it free.

use std::fs::{File, OpenOptions};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

const FIRST: u16 = 10_000;
/// Linux gives outgoing connections ports from 32768 on.
const END: u16 = 32_000;

/// A reserved port, given back when dropped.
pub(crate) struct Port {
    pub number: u16,
    _lock: File,
}

impl Port {
    pub(crate) fn reserve() -> Option<Port> {
        // Processes start at different places, so they seldom try the same one.
        static TRIED: AtomicU16 = AtomicU16::new(0);
        let span = END - FIRST;
        let start = (u64::from(std::process::id()) * 7 % u64::from(span)) as u16;
        (0..span).find_map(|_| {
            let step = TRIED.fetch_add(1, Ordering::Relaxed) % span;
            Port::take(FIRST + (start + step) % span)
        })
    }

    fn take(number: u16) -> Option<Port> {
        let folder = folder();
        std::fs::create_dir_all(&folder).ok()?;
        let file = folder.join(number.to_string());
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(file).ok()?;
        lock.try_lock().ok()?;
        // Not only on the loopback: some servers listen everywhere.
        TcpListener::bind(("0.0.0.0", number)).ok()?;
        Some(Port { number, _lock: lock })
    }
}

/// One per user: nobody may lock a file of somebody else's.
fn folder() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("landfall-ports-{user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_given_twice_and_comes_back() {
        let first = Port::reserve().expect("a port");
        assert!((FIRST..END).contains(&first.number));
        assert!(Port::take(first.number).is_none());
        let number = first.number;
        drop(first);
        assert!(Port::take(number).is_some());
    }

    #[test]
    fn a_port_that_somebody_listens_on_is_not_given() {
        let port = Port::reserve().expect("a port");
        let number = port.number;
        let listener = TcpListener::bind(("127.0.0.1", number)).expect("it is free");
        drop(port);
        assert!(Port::take(number).is_none());
        drop(listener);
    }
}
