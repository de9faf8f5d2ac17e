//! Reads, on connections and threads of their own, beside the writer.
//!
//! A reader sees every commit that was answered before it was asked.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::codes::Codes;
use crate::fault::{Done, Fault};

/// A connection as reads see it.
pub(crate) struct Reader<'a> {
    pub db: &'a Connection,
    pub codes: &'a Codes,
}

type Read = Box<dyn FnOnce(&Reader<'_>) + Send>;

/// The handle to the readers' threads, which end when this is dropped.
pub(crate) struct Readers {
    reads: Option<Sender<Read>>,
    threads: Vec<JoinHandle<()>>,
}

impl Readers {
    pub(crate) fn start(connections: Vec<Connection>, codes: &Codes) -> Done<Readers> {
        let (reads, inbox) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut readers = Readers { reads: Some(reads), threads: Vec::new() };
        for db in connections {
            let (inbox, codes) = (inbox.clone(), codes.clone());
            let thread = std::thread::Builder::new()
                .name("store-reader".into())
                .spawn(move || serve(&inbox, &db, &codes))
                .map_err(|error| Fault::Unavailable(error.to_string()))?;
            readers.threads.push(thread);
        }
        Ok(readers)
    }

    pub(crate) async fn call<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Reader<'_>) -> Done<T> + Send + 'static,
    ) -> Done<T> {
        let gone = || Fault::Unavailable("the readers have stopped".into());
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |reader| {
            // One snapshot for all its statements. A caller that has gone does not want its answer.
            let _ = reply.send(in_snapshot(reader, read));
        });
        self.reads.as_ref().ok_or_else(gone)?.send(read).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn in_snapshot<T>(reader: &Reader<'_>, read: impl FnOnce(&Reader<'_>) -> Done<T>) -> Done<T> {
    reader.db.prepare_cached("BEGIN")?.execute([])?;
    let answer = read(reader);
    if !reader.db.is_autocommit() {
        reader.db.prepare_cached("COMMIT")?.execute([])?;
    }
    answer
}

fn serve(inbox: &Mutex<Receiver<Read>>, db: &Connection, codes: &Codes) {
    let reader = Reader { db, codes };
    loop {
        let next = inbox.lock().recv();
        match next {
            Ok(read) => read(&reader),
            Err(_) => return,
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.reads = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
