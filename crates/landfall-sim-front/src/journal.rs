//! The state file: an append-only log of what a ledger was made from.
//!
//! A simulated ledger is deterministic, so its inputs are its state. Each line is one entry as
//! JSON, to be written before anybody can see what it makes; a kill -9 therefore loses at most a
//! line that was not finished, which is cut off on the next start.
//! Not synced to the disk: it survives the process, not the machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub struct Journal<E> {
    file: File,
    entries: PhantomData<fn(E)>,
}

impl<E: Serialize + DeserializeOwned> Journal<E> {
    /// Opens the file, which need not be there, and gives up what is in it, in order.
    pub fn open(
        path: &Path,
        mut replay: impl FnMut(E) -> io::Result<()>,
    ) -> io::Result<Journal<E>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut reader = BufReader::new(file);
        let mut good_bytes = 0;
        let mut line = String::new();
        loop {
            line.clear();
            let bytes = reader.read_line(&mut line)?;
            if bytes == 0 || !line.ends_with('\n') {
                break;
            }
            replay(serde_json::from_str(&line).map_err(|error| {
                io::Error::other(format!("{} at byte {good_bytes}: {error}", path.display()))
            })?)?;
            good_bytes += bytes as u64;
        }
        let mut file = reader.into_inner();
        file.set_len(good_bytes)?;
        file.seek(SeekFrom::Start(good_bytes))?;
        Ok(Journal { file, entries: PhantomData })
    }

    /// One write for the whole line.
    pub fn append(&mut self, entry: &E) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> (Journal<u64>, Vec<u64>) {
        let mut all = Vec::new();
        let journal = Journal::open(path, |entry| {
            all.push(entry);
            Ok(())
        });
        (journal.expect("a journal"), all)
    }

    #[test]
    fn half_a_line_is_cut_off_and_the_next_one_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        let (mut journal, none) = read(&path);
        journal.append(&11).and_then(|()| journal.append(&12)).expect("written");
        std::fs::write(&path, "11\n12\n1").expect("half a line");
        let (mut journal, two) = read(&path);
        journal.append(&13).expect("written");
        assert_eq!((none, two, read(&path).1), (vec![], vec![11, 12], vec![11, 12, 13]));
    }

    #[test]
    fn a_line_that_is_no_entry_is_named_by_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state");
        std::fs::write(&path, "11\nhello\n").expect("another file");
        let refused = Journal::<u64>::open(&path, |_| Ok(())).err().expect("refused");
        assert!(refused.to_string().contains("at byte 3: "), "{refused}");
    }
}
