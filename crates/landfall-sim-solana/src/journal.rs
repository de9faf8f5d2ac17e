//! The state file: what each block was made from. A kill -9 loses what nodes had not yet landed.

use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use landfall_sim_front::Journal;
use serde::{Deserialize, Serialize};

use super::ledger::{Block, Genesis, Ledger, Transaction};

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    Genesis(Box<Genesis>),
    Block {
        #[serde(rename = "s")]
        slot: u64,
        #[serde(rename = "t")]
        time_s: u64,
        /// In base64.
        #[serde(rename = "x", default, skip_serializing_if = "Vec::is_empty")]
        transactions: Vec<String>,
    },
    /// So many blocks fall off.
    Cut(u64),
    Root([u8; 32]),
}

impl From<&Block> for Entry {
    fn from(block: &Block) -> Entry {
        Entry::Block {
            slot: block.slot,
            time_s: block.time_s,
            transactions: block.transactions.iter().map(|one| STANDARD.encode(&one.raw)).collect(),
        }
    }
}

/// Opens the file and rebuilds the ledger in it; without one the ledger starts from `genesis`.
pub fn open(path: &Path, genesis: Genesis, nodes: usize) -> io::Result<(Journal<Entry>, Ledger)> {
    let mut ledger = None;
    let mut journal = Journal::open(path, |entry| apply(&mut ledger, entry, nodes))?;
    let ledger = match ledger {
        Some(ledger) => ledger,
        None => {
            journal.append(&Entry::Genesis(Box::new(genesis.clone())))?;
            Ledger::new(genesis, nodes)
        }
    };
    Ok((journal, ledger))
}

fn apply(ledger: &mut Option<Ledger>, entry: Entry, nodes: usize) -> io::Result<()> {
    match (ledger.as_mut(), entry) {
        (None, Entry::Genesis(genesis)) => *ledger = Some(Ledger::new(*genesis, nodes)),
        (Some(ledger), Entry::Block { slot, time_s, transactions }) => {
            let read = |text: String| {
                let raw = STANDARD.decode(text).map_err(|error| error.to_string())?;
                Transaction::read(raw).map(Arc::new)
            };
            let transactions: Result<Vec<_>, String> = transactions.into_iter().map(read).collect();
            while ledger.slot() + 1 < slot {
                ledger.skip();
            }
            ledger.append(time_s, transactions.map_err(io::Error::other)?);
        }
        (Some(ledger), Entry::Cut(depth)) => {
            ledger.cut(depth);
        }
        (Some(ledger), Entry::Root(root)) => ledger.push_root(root),
        _ => return Err(io::Error::other("a state file begins with its genesis, and has one")),
    }
    Ok(())
}
