//! The doors: who is let in, for how long, and how all of them leave in order.
//!
//! Only so many are inside at once, fewer than there are file descriptors. When the house is full,
//! whoever has waited for longest without a whole request is shown out for the newcomer: slow or
//! silent clients, however many, keep nobody else out.
//! **Rule:** nothing ends the loop but a stop: what `accept` cannot do now it can do later.
//! **Rule:** a stop waits for whole requests alone. What arrived by half was never taken.
//! Not here: what is answered (`landfall_api`), one connection ([`connection`]).

mod connection;
mod errors;
mod presence;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use landfall_core::Clock;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use presence::Presence;

/// Descriptors kept for the store, the ledgers and files, whatever comes to the doors; of a large
/// limit a quarter is.
const KEPT_DESCRIPTORS: u64 = 64;
/// A house with fewer places would be full of its own probes.
const PLACES_LEAST: u64 = 8;
/// Pause after `accept` failed for want of something: descriptors come back as others leave.
const BREATHE: Duration = Duration::from_millis(50);

/// How long is waited for what a client has to send.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the first byte of a connection, and then for the whole head of a request.
    pub head_ms: u64,
    /// For the rest of a body; none where whoever reads it has a patience of its own.
    pub body_ms: Option<u64>,
    /// For the next request, and for a client that does not read its answer.
    pub idle_ms: u64,
}

/// Serves until told to stop, then until every whole request has its answer.
pub struct Doors {
    clock: Arc<dyn Clock>,
    patience: Patience,
    places: usize,
    inside: Mutex<HashMap<u64, Arc<Presence>>>,
}

impl Doors {
    /// `places` is what is wished for; the process's descriptors may allow for less.
    pub fn new(clock: Arc<dyn Clock>, patience: Patience, places: u64) -> Arc<Doors> {
        let allowed = descriptors().map_or(places, allowed);
        if allowed < places {
            tracing::info!(wished = places, allowed, "connections: the file descriptors allow for");
        }
        let places = places.min(allowed) as usize;
        Arc::new(Doors { clock, patience, places, inside: Mutex::default() })
    }

    pub async fn serve(
        self: Arc<Doors>,
        listener: TcpListener,
        router: Router,
        mut stopped: watch::Receiver<bool>,
    ) {
        let mut guests = JoinSet::new();
        let mut numbers = 0..;
        loop {
            let accepted = tokio::select! {
                biased;
                // The sender lives as long as the relay; its end means the same.
                _ = stopped.wait_for(|stop| *stop) => break,
                accepted = listener.accept() => accepted,
            };
            while guests.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) => {
                    let number = numbers.next().unwrap_or_default();
                    self.let_in(&mut guests, number, stream, &router, &stopped).await;
                }
                Err(error) if is_the_clients(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    self.show_one_out();
                    self.clock.sleep(BREATHE).await;
                }
            }
        }
        drop(listener);
        while guests.join_next().await.is_some() {}
    }

    async fn let_in(
        self: &Arc<Doors>,
        guests: &mut JoinSet<()>,
        number: u64,
        mut stream: TcpStream,
        router: &Router,
        stopped: &watch::Receiver<bool>,
    ) {
        // An answer is small: it must not wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        if self.inside.lock().len() >= self.places && !self.show_one_out() {
            // It fits the socket's empty buffer; whoever does not read it loses nothing.
            let _ = stream.write(errors::full_house().as_bytes()).await;
            return;
        }
        let presence = Arc::new(Presence::new(self.clock.clone()));
        self.inside.lock().insert(number, presence.clone());
        let place = Place { doors: self.clone(), number };
        let (router, stopped) = (router.clone(), stopped.clone());
        guests.spawn(async move {
            connection::attend(stream, router, &presence, place.doors.patience, stopped).await;
            drop(place);
        });
    }

    /// Asks whoever has waited for longest to leave. False if everybody is being served.
    fn show_one_out(&self) -> bool {
        let mut inside = self.inside.lock();
        let waiting = inside.iter().filter_map(|(number, guest)| Some((guest.waits()?, *number)));
        let Some((_, number)) = waiting.min() else { return false };
        // Its place is free from now on.
        inside.remove(&number).inspect(|guest| guest.show_out());
        true
    }
}

/// A place inside, free again when its guest is gone, however that came about.
struct Place {
    doors: Arc<Doors>,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doors.inside.lock().remove(&self.number);
    }
}

/// A connection that failed before it was taken. The next may be fine.
fn is_the_clients(error: &std::io::Error) -> bool {
    use ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    let kinds = [ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted];
    kinds.contains(&error.kind())
}

/// As many file descriptors as this process may have, after asking for all that it may ask for.
fn descriptors() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    }
}

fn allowed(descriptors: u64) -> u64 {
    let kept = KEPT_DESCRIPTORS.max(descriptors / 4);
    descriptors.saturating_sub(kept).max(PLACES_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_always_left_for_the_store_and_the_ledgers() {
        assert_eq!(allowed(256), 192);
        assert_eq!(allowed(1_024), 768);
        assert_eq!(allowed(1_048_576), 786_432);
        assert_eq!(allowed(64), PLACES_LEAST);
    }
}
