//! Marks in a small file of the instance's own folder.
//!
//! It is not synced: it guards against stores that go back, not against power loss, after which the
//! ledger's own nonces tell.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::high_water::MarkLog;

pub(crate) struct MarkFile {
    path: PathBuf,
    /// None until it was first rewritten.
    file: Option<File>,
}

impl MarkFile {
    /// The file, and what it has so far.
    pub fn open(path: &Path) -> io::Result<(MarkFile, String)> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        Ok((MarkFile { path: path.to_owned(), file: None }, text))
    }
}

impl MarkLog for MarkFile {
    fn append(&mut self, lines: &str) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write_all(lines.as_bytes()),
            None => Err(io::Error::other("the file of marks was never opened")),
        }
    }

    fn rewrite(&mut self, text: &str) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        Ok(())
    }
}
