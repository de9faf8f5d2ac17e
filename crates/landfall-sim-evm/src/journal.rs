//! The state file: an append-only log of what each block was made from.
//!
//! The ledger is deterministic, so its inputs are its state. Each line is one [`Entry`] as JSON,
//! written before anybody can see the block it makes; a kill -9 therefore loses the pools and at
//! most a line that was not finished, which is cut off on the next start.
//! Not synced to the disk: it survives the process, not the machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::Bytes;
use serde::{Deserialize, Serialize};

use super::ledger::{Block, Genesis, Ledger, Transaction};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    Genesis(Box<Genesis>),
    Block {
        #[serde(rename = "t")]
        timestamp: u64,
        #[serde(rename = "f")]
        base_fee: u64,
        #[serde(rename = "x", default, skip_serializing_if = "Vec::is_empty")]
        transactions: Vec<Bytes>,
    },
    /// So many blocks fall off.
    Cut(u64),
}

impl From<&Block> for Entry {
    fn from(block: &Block) -> Entry {
        Entry::Block {
            timestamp: block.header.timestamp,
            base_fee: block.header.base_fee_per_gas.unwrap_or_default(),
            transactions: block.transactions.iter().map(|one| one.raw.clone()).collect(),
        }
    }
}

pub struct Journal {
    file: File,
}

impl Journal {
    /// Opens the file and rebuilds the ledger in it; without one the ledger starts from `genesis`.
    pub fn open(path: &Path, genesis: Genesis, nodes: usize) -> io::Result<(Journal, Ledger)> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut reader = BufReader::new(file);
        let mut ledger = None;
        let mut good_bytes = 0;
        let mut line = String::new();
        loop {
            line.clear();
            let bytes = reader.read_line(&mut line)?;
            if bytes == 0 || !line.ends_with('\n') {
                break;
            }
            let entry: Entry = serde_json::from_str(&line).map_err(|error| {
                io::Error::other(format!("{} at byte {good_bytes}: {error}", path.display()))
            })?;
            apply(&mut ledger, entry, nodes)?;
            good_bytes += bytes as u64;
        }
        let mut file = reader.into_inner();
        file.set_len(good_bytes)?;
        file.seek(SeekFrom::Start(good_bytes))?;
        let mut journal = Journal { file };
        let ledger = match ledger {
            Some(ledger) => ledger,
            None => {
                journal.append(&Entry::Genesis(Box::new(genesis.clone())))?;
                Ledger::new(genesis, nodes)
            }
        };
        Ok((journal, ledger))
    }

    /// One write for the whole line.
    pub fn append(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry).map_err(io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)
    }
}

fn apply(ledger: &mut Option<Ledger>, entry: Entry, nodes: usize) -> io::Result<()> {
    match (ledger.as_mut(), entry) {
        (None, Entry::Genesis(genesis)) => *ledger = Some(Ledger::new(*genesis, nodes)),
        (Some(ledger), Entry::Block { timestamp, base_fee, transactions }) => {
            let chain_id = ledger.genesis().chain_id;
            let read = |raw| Transaction::read(raw, chain_id).map(Arc::new);
            let transactions: Result<Vec<_>, String> = transactions.into_iter().map(read).collect();
            ledger.force_base_fee(base_fee);
            ledger.append(timestamp, transactions.map_err(io::Error::other)?);
        }
        (Some(ledger), Entry::Cut(depth)) => {
            ledger.cut(depth);
        }
        _ => return Err(io::Error::other("a state file begins with its genesis, and has one")),
    }
    Ok(())
}
