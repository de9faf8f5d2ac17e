//! Reads, on connections and threads of their own, beside the writer.
//!
//! A reader sees every commit that was answered before it was asked.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::fault::{Done, Fault};

type Read<C> = Box<dyn FnOnce(&Connection, &C) + Send>;

/// The handle to the readers' threads, which end when this is dropped. `C` is what reads need to
/// know beside the rows.
pub struct Readers<C> {
    reads: Option<Sender<Read<C>>>,
    threads: Vec<JoinHandle<()>>,
}

impl<C: Clone + Send + 'static> Readers<C> {
    /// Starts a thread for each connection. `name` is what the file is called.
    pub fn start(name: &str, connections: Vec<Connection>, known: &C) -> Done<Readers<C>> {
        let (reads, inbox) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut readers = Readers { reads: Some(reads), threads: Vec::new() };
        for db in connections {
            let (inbox, known) = (inbox.clone(), known.clone());
            let thread = std::thread::Builder::new()
                .name(format!("{name}-reader"))
                .spawn(move || serve(&inbox, &db, &known))
                .map_err(|error| Fault::Unavailable(error.to_string()))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }
}

impl<C: 'static> Readers<C> {
    pub async fn call<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &C) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let gone = || Fault::Unavailable("the readers have stopped".into());
        let (reply, answer) = oneshot::channel();
        let read: Read<C> = Box::new(move |db, known| {
            // One snapshot for all its statements. A caller that has gone does not want its answer.
            let _ = reply.send(in_snapshot(db, || read(db, known)));
        });
        self.reads.as_ref().ok_or_else(gone)?.send(read).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn in_snapshot<T>(db: &Connection, read: impl FnOnce() -> Done<T>) -> Done<T> {
    db.prepare_cached("BEGIN")?.execute([])?;
    let answer = read();
    if !db.is_autocommit() {
        db.prepare_cached("COMMIT")?.execute([])?;
    }
    answer
}

fn serve<C>(inbox: &Mutex<Receiver<Read<C>>>, db: &Connection, known: &C) {
    loop {
        let next = inbox.lock().recv();
        match next {
            Ok(read) => read(db, known),
            Err(_) => return,
        }
    }
}

impl<C> Drop for Readers<C> {
    fn drop(&mut self) {
        self.reads = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::open::tests::NOTES;

    fn count(db: &Connection) -> Done<i64> {
        Ok(db.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
    }

    #[tokio::test]
    async fn a_read_sees_what_was_committed_before_it_and_nothing_after() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notes.db");
        let writer = NOTES.writer(&path, Duration::ZERO).expect("a new file");
        let reader = NOTES.reader(&path, Duration::ZERO).expect("a reader");
        let readers = Readers::start("notes", vec![reader], &()).expect("a thread");
        let insert = || writer.execute("INSERT INTO notes VALUES ('a note')", []).expect("written");
        insert();
        let (looked, first) = channel();
        let (go, wait) = channel::<()>();
        let read = readers.call(move |db, ()| {
            let before = count(db)?;
            let _ = looked.send(());
            let _ = wait.recv();
            Ok((before, count(db)?))
        });
        let write = async {
            first.recv().expect("a first look");
            insert();
            drop(go);
        };
        let (read, ()) = tokio::join!(biased; read, write);
        assert_eq!(read, Ok((1, 1)));
        assert_eq!(readers.call(|db, ()| count(db)).await, Ok(2));
    }
}
