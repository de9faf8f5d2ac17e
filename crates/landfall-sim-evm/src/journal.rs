//! The state file: what each block was made from. A kill -9 loses the pools.

use std::io;
use std::path::Path;
use std::sync::Arc;

use alloy_primitives::Bytes;
use landfall_sim_front::Journal;
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
