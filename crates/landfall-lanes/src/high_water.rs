//! What this instance has seen of the store, so that a store that forgot is noticed.
//!
//! Per lane the newest epoch, nonce and count of signatures, the store's identity, and the
//! incarnation in which it was last looked over, in memory and in a [`MarkLog`] apart from the
//! store: a small file, unless somebody keeps it elsewhere.
//! **Invariant:** a mark is recorded after its attempt is stored and before its first byte is
//! sent. A store that is behind a mark has forgotten an attempt that may have been sent.
//!
//! The log has lines, `store ID ;`, `life INCARNATION ;`, `noticed INCARNATION AT_MS ;` or
//! `lane EPOCH NONCE SEQ NAME ;` (without the count, where an older release wrote it), rewritten
//! when opened and when it has grown. Each begins on a new line and ends with its semicolon, so
//! that one torn by a full disk spoils neither itself nor the next.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use landfall_core::guard::{self, Guard};
use landfall_core::wound::{self, Wound};
use landfall_core::{Epoch, Lane, LaneId, Mark, Nonce};
use parking_lot::Mutex;

use crate::mark_file::MarkFile;

/// Where marks are kept beyond the life of a process. MUST be apart from the store, or both go back
/// together.
pub trait MarkLog: Send + 'static {
    /// Adds lines. One that is torn MUST NOT spoil what was added before.
    fn append(&mut self, lines: &str) -> io::Result<()>;

    /// Puts this in the place of all that is there, all or nothing.
    fn rewrite(&mut self, text: &str) -> io::Result<()>;
}

/// The marks of one instance.
pub struct HighWater {
    marks: Mutex<Marks>,
}

/// The marks of all lanes at one moment.
#[derive(Debug, Clone)]
pub struct Remembered(BTreeMap<LaneId, (Epoch, Mark)>);

impl Remembered {
    /// The lanes that have marks.
    pub fn lanes(&self) -> impl Iterator<Item = &LaneId> {
        self.0.keys()
    }

    fn check_lane(&self, id: &LaneId, lane: Option<&Lane>) -> Result<(), String> {
        let Some((epoch, mark)) = self.0.get(id).copied() else {
            return Ok(());
        };
        let nonce = mark.nonce;
        let Some(lane) = lane else {
            return Err(format!("the store has forgotten lane {id}, used up to nonce {nonce}"));
        };
        let next = lane.next_nonce.unwrap_or_default();
        if lane.epoch >= epoch && next > nonce && lane.seq < mark.seq {
            return Err(format!(
                "the store is behind on lane {id}: it has {} signatures, but {} were stored",
                lane.seq, mark.seq
            ));
        }
        if lane.epoch < epoch || next <= nonce {
            return Err(format!(
                "the store is behind on lane {id}: it has epoch {} and next nonce {next}, but an \
                 attempt with nonce {nonce} was stored under epoch {epoch}",
                lane.epoch
            ));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Marks {
    store: Option<String>,
    life: Option<String>,
    /// A life that was not looked over yet, and when it was first met, in Unix time.
    noticed: Option<(String, u64)>,
    lanes: BTreeMap<LaneId, (Epoch, Mark)>,
    log: Option<Box<dyn MarkLog>>,
    appended_bytes: usize,
}

/// Appended bytes after which the log is rewritten.
const REWRITE_BYTES: usize = 1 << 20;

impl HighWater {
    /// Marks that live as long as this process.
    pub fn in_memory() -> HighWater {
        HighWater { marks: Mutex::default() }
    }

    /// Marks kept in a file, read back if it exists.
    pub fn open(path: &Path) -> io::Result<HighWater> {
        let (log, text) = MarkFile::open(path)?;
        HighWater::kept_in(log, &text)
    }

    /// Marks kept in a log that has this text so far.
    pub fn kept_in(mut log: impl MarkLog, text: &str) -> io::Result<HighWater> {
        let mut marks = parse(text);
        log.rewrite(&render(&marks))?;
        marks.log = Some(Box::new(log));
        Ok(HighWater { marks: Mutex::new(marks) })
    }

    /// Says why this store must not be trusted, if so. A store never seen before is remembered.
    pub fn check_store(&self, id: &str) -> Result<(), String> {
        let mut marks = self.marks.lock();
        match &marks.store {
            Some(known) if known == id => Ok(()),
            Some(known) => Err(format!(
                "the store is {id}, but this instance has worked on store {known}: \
                 it was replaced or emptied"
            )),
            None => {
                marks.store = Some(id.to_owned());
                if let Err(error) = marks.append(&format!("\nstore {id} ;")) {
                    // It is no other store for that. Nothing is sent before a mark can be
                    // written, and then this one is.
                    tracing::warn!(%error, "the store cannot be noted yet");
                    marks.store = None;
                }
                Ok(())
            }
        }
    }

    /// What is known now. To be taken **before** the store is read: what is stored meanwhile is no
    /// sign that it forgot.
    pub fn remembered(&self) -> Remembered {
        Remembered(self.marks.lock().lanes.clone())
    }

    /// Says what the store has forgotten of a lane since `before`, if anything. `lane` is none if
    /// it has no such lane.
    pub fn check_lane(
        &self,
        before: &Remembered,
        id: &LaneId,
        lane: Option<&Lane>,
    ) -> Result<(), String> {
        // An operator may have had the marks start anew meanwhile.
        let known = before.check_lane(id, lane).or_else(|_| self.remembered().check_lane(id, lane));
        known.inspect_err(|_| guard::met(Guard::MarksBehind)).or_else(unnoted)
    }

    /// How far each lane has come.
    pub fn marks(&self) -> Vec<(LaneId, Mark)> {
        let marks = self.marks.lock();
        marks.lanes.iter().map(|(lane, (_, mark))| (lane.clone(), *mark)).collect()
    }

    /// Says which attempt of ours an adoption has not reckoned with, if any: one above all that the
    /// adopted lane has passed may still land.
    pub fn check_adopted(&self, lanes: &[Lane]) -> Result<(), String> {
        for (id, Mark { nonce, .. }) in self.marks() {
            let adopted = lanes.iter().find(|lane| lane.id == id);
            let next = adopted.and_then(|lane| lane.next_nonce).unwrap_or_default();
            if next <= nonce {
                unnoted(format!(
                    "lane {id} was adopted up to nonce {next}, but this instance has stored an \
                     attempt with nonce {nonce}, which may still land: stop it, and adopt the \
                     lanes with its data folder"
                ))?;
            }
        }
        Ok(())
    }

    /// Remembers that an attempt, or a variant of one, was stored.
    pub fn record(&self, lane: &LaneId, epoch: Epoch, mark: Mark) -> io::Result<()> {
        let mut marks = self.marks.lock();
        let known = marks.lanes.get(lane).copied();
        let before = known.unwrap_or_default();
        let nonce = before.1.nonce.max(mark.nonce);
        let after = (before.0.max(epoch), Mark { nonce, seq: before.1.seq.max(mark.seq) });
        if after == before {
            return Ok(());
        }
        // Known before it is written: the whole file may be written anew.
        marks.lanes.insert(lane.clone(), after);
        let written = marks.append(&line(lane, after.0, after.1));
        if written.is_err() {
            match known {
                Some(known) => marks.lanes.insert(lane.clone(), known),
                None => marks.lanes.remove(lane),
            };
        }
        written
    }

    /// Remembers in which life of the store the lanes were looked over, after others had the time
    /// to object.
    pub fn lived(&self, incarnation: &str) -> io::Result<()> {
        if self.has_lived(incarnation) {
            return Ok(());
        }
        let mut marks = self.marks.lock();
        marks.life = Some(incarnation.to_owned());
        marks.append(&format!("\nlife {incarnation} ;"))
    }

    /// For how long that life of the store has been known already, by this instance or by the one
    /// before it in the same folder, though it was not looked over.
    pub fn notice(&self, incarnation: &str, now_ms: u64) -> u64 {
        let mut marks = self.marks.lock();
        let known = marks.noticed.as_ref().filter(|(known, _)| known == incarnation);
        // A clock that was set back tells nothing.
        if let Some(ago_ms) = known.and_then(|(_, at_ms)| now_ms.checked_sub(*at_ms)) {
            return ago_ms;
        }
        marks.noticed = Some((incarnation.to_owned(), now_ms));
        // Only a help: without it the next start waits all over again.
        let _ = marks.append(&format!("\nnoticed {incarnation} {now_ms} ;"));
        0
    }

    /// Whether that is the life in which the lanes were last looked over.
    pub fn has_lived(&self, incarnation: &str) -> bool {
        self.marks.lock().life.as_deref() == Some(incarnation)
    }

    /// Whether the lanes were looked over before, in whatever life.
    pub fn knows_a_life(&self) -> bool {
        self.marks.lock().life.is_some()
    }

    /// Trusts the store as it is now, by an operator's word: all marks start anew.
    pub fn accept(&self, store: &str, lanes: &[Lane]) -> io::Result<()> {
        let mut marks = self.marks.lock();
        marks.store = Some(store.to_owned());
        (marks.life, marks.noticed) = (None, None);
        marks.lanes.clear();
        let mut lines = format!("\nforget ;\nstore {store} ;");
        for lane in lanes {
            if let Some(next) = lane.next_nonce {
                let last = Mark { nonce: Nonce(next.0.saturating_sub(1)), seq: lane.seq };
                marks.lanes.insert(lane.id.clone(), (lane.epoch, last));
                lines.push_str(&line(&lane.id, lane.epoch, last));
            }
        }
        marks.append(&lines)
    }
}

impl Marks {
    fn read_lane(&mut self, epoch: &str, nonce: &str, seq: &str, name: &str) {
        if let (Ok(epoch), Ok(nonce), Ok(seq)) = (epoch.parse(), nonce.parse(), seq.parse()) {
            let mark = Mark { nonce: Nonce(nonce), seq };
            self.lanes.insert(LaneId::new(name), (Epoch(epoch), mark));
        }
    }

    fn append(&mut self, lines: &str) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.append(lines)?;
        self.appended_bytes += lines.len();
        if self.appended_bytes <= REWRITE_BYTES {
            return Ok(());
        }
        let text = render(self);
        self.log.iter_mut().try_for_each(|log| log.rewrite(&text))?;
        self.appended_bytes = 0;
        Ok(())
    }
}

/// The mistake of a wounded build: nothing was noted, so nothing seems forgotten. Made where marks
/// are held against the store, because there alone it changes something.
fn unnoted(forgotten: String) -> Result<(), String> {
    match wound::is(Wound::MarksNotNoted) {
        true => Ok(()),
        false => Err(forgotten),
    }
}

fn line(lane: &LaneId, epoch: Epoch, Mark { nonce, seq }: Mark) -> String {
    format!("\nlane {epoch} {nonce} {seq} {lane} ;")
}

/// Reads whole lines only: a torn one was never relied upon.
fn parse(text: &str) -> Marks {
    let mut marks = Marks::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["forget", ";"] => marks = Marks::default(),
            ["store", id, ";"] => marks.store = Some(id.to_owned()),
            ["life", incarnation, ";"] => marks.life = Some(incarnation.to_owned()),
            ["noticed", incarnation, at_ms, ";"] => {
                marks.noticed = at_ms.parse().ok().map(|at_ms| (incarnation.to_owned(), at_ms));
            }
            ["lane", epoch, nonce, name, ";"] => marks.read_lane(epoch, nonce, "0", name),
            ["lane", epoch, nonce, seq, name, ";"] => marks.read_lane(epoch, nonce, seq, name),
            _ => {}
        }
    }
    marks
}

fn render(marks: &Marks) -> String {
    let store = marks.store.iter().map(|id| format!("\nstore {id} ;"));
    let lanes = marks.lanes.iter().map(|(lane, (epoch, mark))| line(lane, *epoch, *mark));
    let life = marks.life.iter().map(|life| format!("\nlife {life} ;"));
    let noticed = marks.noticed.iter();
    let noticed = noticed.map(|(life, at_ms)| format!("\nnoticed {life} {at_ms} ;"));
    store.chain(life).chain(noticed).chain(lanes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_core::RailName;

    fn lane(epoch: u64, next: u64) -> Lane {
        Lane {
            id: LaneId::new("near:simnet:relay.near:k1"),
            rail: RailName::Near,
            epoch: Epoch(epoch),
            holder: None,
            lease_until_ms: 0,
            base_nonce: Some(Nonce(0)),
            next_nonce: Some(Nonce(next)),
            seq: 0,
            halted: None,
        }
    }

    /// A log on a disk that has just become full.
    struct Full;

    impl MarkLog for Full {
        fn append(&mut self, _: &str) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn rewrite(&mut self, _: &str) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_failed_write_makes_no_other_store_of_it() {
        let marks = HighWater::kept_in(Full, "").unwrap();
        assert_eq!(marks.check_store("s1"), Ok(()));
        assert_eq!(marks.check_store("s1"), Ok(()));
        assert!(
            marks.record(&lane(1, 1).id, Epoch(1), Nonce(1).into()).is_err(),
            "nothing is sent"
        );
        assert_eq!(marks.marks(), []);
    }

    #[test]
    fn a_store_that_went_back_is_noticed_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        let marks = HighWater::open(&path).unwrap();
        marks.check_store("s1").unwrap();
        marks.record(&lane(0, 0).id, Epoch(3), Nonce(7).into()).unwrap();
        drop(marks);

        let marks = HighWater::open(&path).unwrap();
        let id = lane(0, 0).id;
        let check = |lane: Option<Lane>| marks.check_lane(&marks.remembered(), &id, lane.as_ref());
        assert_eq!(check(Some(lane(3, 8))), Ok(()));
        assert_eq!(check(Some(lane(9, 20))), Ok(()));
        assert!(check(Some(lane(3, 7))).is_err(), "an attempt is gone");
        assert!(check(Some(lane(2, 8))).is_err(), "an epoch is gone");
        assert!(check(None).is_err(), "the lane is gone");
        assert!(marks.check_store("s2").is_err(), "another store");
        assert_eq!(marks.check_store("s1"), Ok(()));
    }

    /// A variant takes no nonce: only the count tells that one is gone.
    #[test]
    fn a_store_that_forgot_a_variant_is_noticed_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        let marks = HighWater::open(&path).unwrap();
        let id = lane(0, 0).id;
        marks.record(&id, Epoch(3), Mark { nonce: Nonce(7), seq: 4 }).unwrap();
        marks.record(&id, Epoch(3), Mark { nonce: Nonce(7), seq: 5 }).unwrap();
        drop(marks);
        let marks = HighWater::open(&path).unwrap();
        let check = |seq| {
            let lane = Lane { seq, ..lane(3, 8) };
            marks.check_lane(&marks.remembered(), &id, Some(&lane))
        };
        assert_eq!((check(5), check(6)), (Ok(()), Ok(())));
        assert!(check(4).is_err());
    }

    #[test]
    fn marks_of_the_release_before_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        std::fs::write(&path, "\nstore s1 ;\nlane 3 7 a ;").unwrap();
        let marks = HighWater::open(&path).unwrap();
        assert_eq!(marks.marks(), [(LaneId::new("a"), Nonce(7).into())]);
    }

    #[test]
    fn what_is_stored_while_the_store_is_read_is_no_sign_that_it_forgot() {
        let marks = HighWater::in_memory();
        let id = lane(0, 0).id;
        marks.record(&id, Epoch(3), Nonce(7).into()).unwrap();
        let before = marks.remembered();
        let read = lane(3, 8);
        marks.record(&id, Epoch(3), Nonce(8).into()).unwrap();
        assert_eq!(marks.check_lane(&before, &id, Some(&read)), Ok(()));
        assert!(marks.check_lane(&marks.remembered(), &id, Some(&read)).is_err());
        marks.accept("s1", &[lane(1, 4)]).unwrap();
        assert_eq!(marks.check_lane(&before, &id, Some(&lane(1, 4))), Ok(()), "adopted");
    }

    #[test]
    fn a_torn_line_spoils_neither_itself_nor_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        std::fs::write(&path, "\nstore s1 ;\nlane 3 7 a ;\nlane 3 8 b:to\nlane 4 9 c ;").unwrap();
        let marks = HighWater::open(&path).unwrap();
        let lanes: Vec<LaneId> = marks.remembered().lanes().cloned().collect();
        assert_eq!(lanes, [LaneId::new("a"), LaneId::new("c")]);
    }

    #[test]
    fn a_mark_is_in_the_file_even_when_it_has_just_been_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        let marks = HighWater::open(&path).unwrap();
        let id = lane(0, 0).id;
        let mut length = 0;
        let newest = (1..).map(Nonce).find(|nonce| {
            marks.record(&id, Epoch(3), (*nonce).into()).unwrap();
            let before = std::mem::replace(&mut length, path.metadata().unwrap().len());
            length < before
        });
        drop(marks);
        assert_eq!(HighWater::open(&path).unwrap().marks(), [(id, newest.unwrap().into())]);
    }

    #[test]
    fn a_mark_that_could_not_be_written_is_not_taken_for_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        let marks = HighWater::open(&path).unwrap();
        let id = lane(0, 0).id;
        marks.record(&id, Epoch(3), Nonce(7).into()).unwrap();
        marks.marks.lock().log = Some(Box::new(Full));
        for _ in 0..2 {
            marks.record(&id, Epoch(3), Nonce(8).into()).unwrap_err();
            assert_eq!(marks.marks(), [(id.clone(), Nonce(7).into())]);
        }
    }

    #[test]
    fn the_life_that_was_looked_over_is_known_after_a_restart_until_an_operators_word() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        let marks = HighWater::open(&path).unwrap();
        assert!(!marks.has_lived("1-a"));
        marks.lived("1-a").unwrap();
        marks.lived("2-b").unwrap();
        drop(marks);
        // Written anew at each start.
        drop(HighWater::open(&path).unwrap());
        let marks = HighWater::open(&path).unwrap();
        assert!(marks.has_lived("2-b") && !marks.has_lived("1-a"));
        assert_eq!((marks.notice("3-c", 1_000), marks.notice("3-c", 1_700)), (0, 700));
        drop(marks);
        let marks = HighWater::open(&path).unwrap();
        assert_eq!((marks.notice("3-c", 2_500), marks.notice("4-d", 2_600)), (1_500, 0));
        assert_eq!((marks.notice("4-d", 10), marks.notice("4-d", 30)), (0, 20), "set back");
        marks.accept("s1", &[]).unwrap();
        assert!(!marks.has_lived("2-b"));
        drop(marks);
        assert!(!HighWater::open(&path).unwrap().has_lived("2-b"));
    }

    #[test]
    fn an_adoption_below_what_this_instance_has_stored_is_not_enough() {
        let marks = HighWater::in_memory();
        marks.record(&lane(0, 0).id, Epoch(3), Nonce(7).into()).unwrap();
        assert!(marks.check_adopted(&[lane(9, 7)]).is_err());
        assert!(marks.check_adopted(&[]).is_err(), "the lane is not there at all");
        assert_eq!(marks.check_adopted(&[lane(1, 8)]), Ok(()), "epochs may start anew");
    }

    #[test]
    fn an_operators_word_makes_the_store_trusted_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("high-water");
        let marks = HighWater::open(&path).unwrap();
        marks.check_store("s1").unwrap();
        marks.record(&lane(0, 0).id, Epoch(3), Nonce(7).into()).unwrap();
        marks.accept("s2", &[lane(1, 4)]).unwrap();
        drop(marks);
        let marks = HighWater::open(&path).unwrap();
        assert_eq!(marks.check_store("s2"), Ok(()));
        let (id, stored) = (lane(0, 0).id, lane(1, 4));
        assert_eq!(marks.check_lane(&marks.remembered(), &id, Some(&stored)), Ok(()));
    }
}
