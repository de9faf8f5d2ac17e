//! The data folder of one instance: its name, the network it works on, and a lock so that no two
//! processes use it at once.
//!
//! **Rule:** the lock ends with the process, however it ends.

use std::fs::{File, TryLockError};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

const LOCK: &str = "lock";
const NAME: &str = "instance";
const NETWORK: &str = "near-network";
/// How far the store had come, as this instance saw it.
const HIGH_WATER: &str = "high-water";

/// A data folder in use by this process.
pub struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder if it is not there, and takes it for this process.
    pub fn take(path: &Path) -> Result<Folder> {
        let unusable = |error: std::io::Error| {
            Failure::Unable(format!(
                "the data folder {} cannot be used ({error}); name another by --data or \
                 instance.data",
                path.display()
            ))
        };
        std::fs::create_dir_all(path).map_err(unusable)?;
        let mut lock = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join(LOCK))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let holder = std::fs::read_to_string(path.join(LOCK)).unwrap_or_default();
                return Err(Failure::Unable(format!(
                    "another landfall (process {}) uses the data folder {}; stop it, or name \
                     another folder by --data",
                    holder.trim(),
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        lock.set_len(0).map_err(unusable)?;
        writeln!(lock, "{}", std::process::id()).map_err(unusable)?;
        Ok(Folder { path: path.to_owned(), _lock: lock })
    }

    pub fn high_water(&self) -> PathBuf {
        self.path.join(HIGH_WATER)
    }

    /// The instance's name: as configured, or the one kept here, made on the first start.
    pub fn instance_name(&self, configured: Option<&str>) -> Result<String> {
        if let Some(name) = configured {
            return Ok(name.to_owned());
        }
        match self.kept(NAME) {
            Some(name) => Ok(name),
            None => self.keep(NAME, &fresh_name()),
        }
    }

    pub fn network(&self) -> Option<String> {
        self.kept(NETWORK)
    }

    pub fn keep_network(&self, network: &str) -> Result<String> {
        self.keep(NETWORK, network)
    }

    fn kept(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.path.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    fn keep(&self, name: &str, text: &str) -> Result<String> {
        std::fs::write(self.path.join(name), format!("{text}\n"))?;
        Ok(text.to_owned())
    }
}

/// The host's name, and something that tells two folders on one host apart.
fn fresh_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "landfall" } else { host.trim() };
    format!("{host}-{:06x}", RandomState::new().build_hasher().finish() & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_used_by_one_process_at_a_time() {
        let temporary = tempfile::tempdir().expect("a folder");
        let first = Folder::take(temporary.path()).expect("free");
        assert!(Folder::take(temporary.path()).is_err());
        drop(first);
        assert!(Folder::take(temporary.path()).is_ok());
    }

    #[test]
    fn an_instance_keeps_its_name() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = Folder::take(temporary.path()).expect("free");
        let name = folder.instance_name(None).expect("made");
        assert_eq!(folder.instance_name(None).expect("kept"), name);
        assert_eq!(folder.instance_name(Some("mine")).expect("configured"), "mine");
    }
}
