//! The state file: what each block was made from. A kill -9 loses the pool.

use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use landfall_sim_front::Journal;
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

/// Opens the file and rebuilds the ledger in it; without one the ledger starts from `genesis`.
pub fn open(path: &Path, genesis: Genesis) -> io::Result<(Journal<Entry>, Ledger)> {
    let mut ledger = None;
    let mut journal = Journal::open(path, |entry| apply(&mut ledger, entry))?;
    let ledger = match ledger {
        Some(ledger) => ledger,
        None => {
            journal.append(&Entry::Genesis(Box::new(genesis.clone())))?;
            Ledger::new(genesis)
        }
    };
    Ok((journal, ledger))
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
