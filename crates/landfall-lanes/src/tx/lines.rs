//! Who waits for which lane, in which order. No I/O, no waiting.
//!
//! **Invariant:** a lane's executions are handed to it in the order in which they came, and one
//! that came back is the first again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use landfall_core::{LaneId, Transfer, TransferId};

use crate::tx::build::Build;
use crate::watched::Watched;

/// How far an execution has come in this process.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    Waiting,
    /// Its bytes are stored, under this hash.
    Stored(String),
    Ended(End),
}

/// Why this process pursues it no further.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// It is final: the record as it was stored.
    Settled(Box<Transfer>),
    /// The store knows better where it is.
    Elsewhere,
    /// Nothing was stored or sent: the builder said no.
    Unbuilt(String),
    /// The ledger refused it for certain, and it is not to blame.
    Unsent(String),
}

/// An execution that this process drives.
struct Flight {
    record: Transfer,
    lane: LaneId,
    /// Its place in the order of its lane.
    ticket: u64,
    build: Arc<dyn Build>,
    told: Watched<Told>,
}

#[derive(Default)]
struct Line {
    /// Calls that have chosen the lane and are not in line yet.
    arriving: usize,
    /// By ticket.
    waiting: BTreeMap<u64, TransferId>,
    /// All that this process drives on the lane, stored or not.
    flights: usize,
}

/// The lines before all lanes.
#[derive(Default)]
pub(crate) struct Lines {
    flights: HashMap<TransferId, Flight>,
    lines: BTreeMap<LaneId, Line>,
    tickets: u64,
}

impl Lines {
    /// Keeps a place for a call that has chosen the lane, until it leaves it.
    pub fn arrive(&mut self, lane: &LaneId) {
        self.lines.entry(lane.clone()).or_default().arriving += 1;
    }

    pub fn leave(&mut self, lane: &LaneId) {
        if let Some(line) = self.lines.get_mut(lane) {
            line.arriving = line.arriving.saturating_sub(1);
        }
    }

    /// How much the lane has to do for this process: what arrives, waits, or is in flight.
    pub fn load(&self, lane: &LaneId) -> usize {
        self.lines.get(lane).map_or(0, |line| line.arriving + line.flights)
    }

    /// How many are in line, or about to be.
    pub fn length(&self, lane: &LaneId) -> usize {
        self.lines.get(lane).map_or(0, |line| line.arriving + line.waiting.len())
    }

    /// Puts the record at the end of the lane's line, unless this process drives it already.
    pub fn board(
        &mut self,
        record: &Transfer,
        lane: &LaneId,
        build: &Arc<dyn Build>,
    ) -> Watched<Told> {
        if let Some(flight) = self.flights.get(&record.id) {
            return flight.told.clone();
        }
        self.tickets += 1;
        let flight = Flight {
            record: record.clone(),
            lane: lane.clone(),
            ticket: self.tickets,
            build: build.clone(),
            told: Watched::new(Told::Waiting),
        };
        let told = flight.told.clone();
        let line = self.lines.entry(lane.clone()).or_default();
        line.waiting.insert(flight.ticket, record.id);
        line.flights += 1;
        self.flights.insert(record.id, flight);
        told
    }

    /// What is told of a record that this process drives.
    pub fn told(&self, id: TransferId) -> Option<Watched<Told>> {
        self.flights.get(&id).map(|flight| flight.told.clone())
    }

    pub fn builder(&self, id: TransferId) -> Option<Arc<dyn Build>> {
        self.flights.get(&id).map(|flight| flight.build.clone())
    }

    pub fn lane_of(&self, id: TransferId) -> Option<LaneId> {
        self.flights.get(&id).map(|flight| flight.lane.clone())
    }

    /// How many wait for their turn.
    pub fn waiting(&self, lane: &LaneId) -> usize {
        self.lines.get(lane).map_or(0, |line| line.waiting.len())
    }

    /// How many this process drives.
    pub fn flights(&self, lane: &LaneId) -> usize {
        self.lines.get(lane).map_or(0, |line| line.flights)
    }

    /// Hands on the first of every line for as long as `give` takes them; the lanes whose lines
    /// became shorter.
    pub fn hand_on(&mut self, mut give: impl FnMut(&LaneId, Transfer) -> bool) -> Vec<LaneId> {
        let mut shorter = Vec::new();
        for (lane, line) in &mut self.lines {
            let before = line.waiting.len();
            while let Some(first) = line.waiting.first_entry() {
                let Some(flight) = self.flights.get(first.get()) else {
                    first.remove();
                    continue;
                };
                if !give(lane, flight.record.clone()) {
                    break;
                }
                first.remove();
            }
            if line.waiting.len() < before {
                shorter.push(lane.clone());
            }
        }
        shorter
    }

    /// Nothing happened to it, or all that did is proven sunk: it is the first again.
    pub fn come_back(&mut self, id: TransferId, record: Option<Transfer>) {
        let Some(flight) = self.flights.get_mut(&id) else { return };
        if let Some(record) = record {
            flight.record = record;
            flight.told.set(Told::Waiting);
        }
        if let Some(line) = self.lines.get_mut(&flight.lane) {
            line.waiting.insert(flight.ticket, id);
        }
    }

    pub fn stored(&mut self, id: TransferId, hash: &str) {
        if let Some(flight) = self.flights.get(&id) {
            flight.told.set(Told::Stored(hash.to_owned()));
        }
    }

    pub fn end(&mut self, id: TransferId, end: End) {
        let Some(flight) = self.flights.remove(&id) else { return };
        if let Some(line) = self.lines.get_mut(&flight.lane) {
            line.waiting.remove(&flight.ticket);
            line.flights -= 1;
        }
        flight.told.set(Told::Ended(end));
    }

    /// Whoever holds the lane next brings to its end what is stored: the store tells of it.
    pub fn end_stored(&mut self, lane: &LaneId) {
        let is_stored =
            |flight: &Flight| flight.lane == *lane && matches!(flight.told.get(), Told::Stored(_));
        let all = self.flights.iter().filter(|(_, flight)| is_stored(flight));
        let stored: Vec<TransferId> = all.map(|(id, _)| *id).collect();
        stored.into_iter().for_each(|id| self.end(id, End::Elsewhere));
    }
}
