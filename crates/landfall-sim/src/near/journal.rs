//! The state file: an append-only log of what each block was made from.
//!
//! The ledger is deterministic, so its inputs are its state. Each line is one [`Entry`] as JSON,
//! written before anybody can see the block it makes; a kill -9 therefore loses the pool and at
//! most a line that was not finished, which is cut off on the next start.
//! Not synced to the disk: it survives the process, not the machine.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use near_primitives::borsh::{self, BorshDeserialize};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use serde::{Deserialize, Serialize};

use super::ledger::{BlockInput, Decree, Genesis, Ledger, Settings};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    Genesis(Box<Genesis>),
    Settings(Settings),
    Block(BlockEntry),
    Reorg { depth: u64, drop: bool },
}

#[derive(Debug, Serialize, Deserialize)]
pub struct BlockEntry {
    #[serde(rename = "t")]
    timestamp_ns: u64,
    #[serde(rename = "d", default, skip_serializing_if = "Vec::is_empty")]
    decrees: Vec<Decree>,
    #[serde(rename = "r", default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<CryptoHash>,
    #[serde(rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    next_chunk: Vec<String>,
}

impl From<&BlockInput> for Entry {
    fn from(input: &BlockInput) -> Entry {
        let encode = |signed: &Arc<SignedTransaction>| {
            BASE64.encode(borsh::to_vec(signed.as_ref()).expect("a transaction can be encoded"))
        };
        Entry::Block(BlockEntry {
            timestamp_ns: input.timestamp_ns,
            decrees: input.decrees.clone(),
            refused: input.refused.clone(),
            next_chunk: input.next_chunk.iter().map(encode).collect(),
        })
    }
}

impl BlockEntry {
    fn input(&self) -> io::Result<BlockInput> {
        let decode = |text: &String| {
            let bytes = BASE64.decode(text).map_err(io::Error::other)?;
            SignedTransaction::try_from_slice(&bytes).map(Arc::new)
        };
        Ok(BlockInput {
            timestamp_ns: self.timestamp_ns,
            decrees: self.decrees.clone(),
            refused: self.refused.clone(),
            next_chunk: self.next_chunk.iter().map(decode).collect::<io::Result<_>>()?,
        })
    }
}

pub struct Journal {
    file: File,
}

impl Journal {
    /// Opens the file and rebuilds the ledger in it; without one the ledger starts from `genesis`.
    pub fn open(path: &Path, genesis: Genesis) -> io::Result<(Journal, Ledger)> {
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
            apply(&mut ledger, entry)?;
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
                Ledger::new(genesis)
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

fn apply(ledger: &mut Option<Ledger>, entry: Entry) -> io::Result<()> {
    match (ledger.as_mut(), entry) {
        (None, Entry::Genesis(genesis)) => *ledger = Some(Ledger::new(*genesis)),
        (Some(ledger), Entry::Settings(settings)) => ledger.set_settings(settings),
        (Some(ledger), Entry::Block(block)) => {
            ledger.replay(&block.input()?);
        }
        (Some(ledger), Entry::Reorg { depth, drop }) => {
            ledger.reorg(depth, drop);
        }
        _ => return Err(io::Error::other("a state file begins with its genesis, and has one")),
    }
    Ok(())
}
