//! The rooms: which crate may depend on which. A crate is defined by what it does not depend on.
//!
//! Tests may reach further (a store's tests run the conformance suite), so only what is built into
//! a crate counts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{cargo, output};

/// Where the table of rooms is: `| \`crate\` | holds | may depend on |`.
const MAP: &str = "ARCHITECTURE.md";

/// Heavy or telling crates and the rooms they live in.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("near-primitives", &["landfall-rail-near", "landfall-sim-near", "landfall-torture"]),
    ("near-crypto", &["landfall-rail-near", "landfall-sim-near", "landfall-torture"]),
    ("tokio-postgres", &["landfall-ledger-postgres", "landfall-store-postgres"]),
    ("rusqlite", &["landfall-ledger", "landfall-sqlite", "landfall-store-sqlite"]),
    ("mysql_async", &["landfall-ledger-mysql", "landfall-store-mysql"]),
    ("aws-config", &["landfall-queue-sqs"]),
    ("aws-sdk-sqs", &["landfall-queue-sqs"]),
    ("redis", &["landfall-lanes-redis", "landfall-queue-redis", "landfall-store-redis"]),
    (
        "alloy-consensus",
        &["landfall-rail-evm", "landfall-sim-evm", "landfall-sim-relayer", "landfall-torture"],
    ),
    ("alloy-sol-types", &["landfall-rail-evm", "landfall-sim-evm", "landfall-torture"]),
    (
        "axum",
        &[
            "landfall",
            "landfall-api",
            "landfall-lanes-http",
            "landfall-ledger",
            "landfall-sim-evm",
            "landfall-sim-front",
            "landfall-sim-near",
            "landfall-torture",
            "landfall-sim-solana",
            "landfall-sim-relayer",
        ],
    ),
    ("solana-transaction", &["landfall-rail-solana", "landfall-sim-solana"]),
    ("solana-message", &["landfall-rail-solana", "landfall-sim-solana"]),
    ("solana-keypair", &["landfall-rail-solana", "landfall-sim-solana"]),
    ("hyper-rustls", &["landfall-rpc"]),
    ("clap", &["landfall", "xtask"]),
    ("anyhow", &["landfall", "xtask"]),
];

/// What the core must stay free of.
const NOT_IN_CORE: &[&str] = &["tokio"];

/// A crate of ours and the crates of ours it may use.
type Rooms = BTreeMap<String, BTreeSet<String>>;

pub fn breaches(root: &Path) -> Result<Vec<String>> {
    let text = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("packages in cargo metadata")?;
    let rooms = read_rooms(&std::fs::read_to_string(root.join(MAP)).context(MAP)?);
    Ok(packages.iter().flat_map(|package| of_package(&rooms, package)).collect())
}

/// Reads the table. `core` in the last column is `landfall-core`; `all` is every other room.
fn read_rooms(map: &str) -> Rooms {
    let rows: Vec<(&str, &str)> = map
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
            let name = cells.first()?.trim().strip_prefix('`')?.strip_suffix('`')?;
            (cells.len() == 3).then(|| (name, cells[2].trim()))
        })
        .collect();
    let names: BTreeSet<String> = rows.iter().map(|(name, _)| (*name).to_owned()).collect();
    let may = |cell: &str| match cell {
        "all" => names.clone(),
        _ => {
            let words = cell.split(',').map(|word| format!("landfall-{}", word.trim()));
            words.filter(|name| names.contains(name)).collect()
        }
    };
    rows.iter().map(|(name, cell)| ((*name).to_owned(), may(cell))).collect()
}

fn of_package(rooms: &Rooms, package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let uses: Vec<&str> = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    of_room(rooms, name, &uses)
}

fn of_room(rooms: &Rooms, name: &str, uses: &[&str]) -> Vec<String> {
    let Some(may) = rooms.get(name) else {
        return vec![format!("{name}: is no room; add it to the table of {MAP}")];
    };
    let ours = uses
        .iter()
        .filter(|used| used.starts_with("landfall") && !may.contains(**used))
        .map(|used| format!("{name}: may not depend on {used}; see the table of {MAP}"));
    let heavy = ONLY_IN
        .iter()
        .filter(|(heavy, rooms)| uses.contains(heavy) && !rooms.contains(&name))
        .map(|(heavy, rooms)| format!("{name}: may not depend on {heavy}, only {rooms:?} may"));
    let core = NOT_IN_CORE
        .iter()
        .filter(|word| name == "landfall-core" && uses.contains(word))
        .map(|word| format!("{name}: may not depend on {word}; the core has no I/O"));
    ours.chain(heavy).chain(core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| room | holds | may depend on |
|---|---|---|
| `landfall-core` | words | nothing of ours, no tokio |
| `landfall-rpc` | calls | core |
| `landfall-rail-near` | NEAR | core, rpc |
| `landfall-engine` | stages | core |
| `landfall-store-sqlite` | one file | core |
| `landfall` | the binary | all |
";

    fn check(name: &str, uses: &[&str], breaches: usize) {
        let found = of_room(&read_rooms(TABLE), name, uses);
        assert_eq!(found.len(), breaches, "{found:?}");
    }

    #[test]
    fn a_rail_that_sees_the_store_is_a_breach() {
        check("landfall-rail-near", &["landfall-core", "landfall-rpc"], 0);
        check("landfall-rail-near", &["landfall-store-sqlite"], 1);
        check("landfall", &["landfall-store-sqlite", "landfall-rail-near"], 0);
    }

    #[test]
    fn heavy_crates_and_unknown_rooms_are_breaches() {
        check("landfall-core", &["tokio"], 1);
        check("landfall-engine", &["near-primitives"], 1);
        check("landfall-new", &[], 1);
    }
}
