//! The rooms: which crate may depend on which. A crate is defined by what it does not depend on.
//!
//! Tests may reach further (a store's tests run the conformance suite), so only what is built into
//! a crate counts.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{cargo, output};

/// A crate of ours and the crates of ours it may use. A crate that is not listed is a breach.
const ROOMS: &[(&str, &[&str])] = &[
    ("landfall-core", &[]),
    ("landfall-lanes", &["landfall-core"]),
    ("landfall-engine", &["landfall-core", "landfall-lanes"]),
    ("landfall-store-memory", &["landfall-core"]),
    ("landfall-store-sqlite", &["landfall-core"]),
    ("landfall-queue-ring", &["landfall-core"]),
    ("landfall-rpc", &["landfall-core"]),
    ("landfall-rail-near", &["landfall-core", "landfall-rpc"]),
    ("landfall-api", &["landfall-core", "landfall-engine"]),
    ("landfall-conformance", &["landfall-core"]),
    (
        "landfall-sim",
        &[
            "landfall-core",
            "landfall-engine",
            "landfall-lanes",
            "landfall-queue-ring",
            "landfall-rail-near",
            "landfall-rpc",
            "landfall-store-memory",
        ],
    ),
    (
        "landfall",
        &[
            "landfall-api",
            "landfall-core",
            "landfall-engine",
            "landfall-lanes",
            "landfall-queue-ring",
            "landfall-rail-near",
            "landfall-rpc",
            "landfall-sim",
            "landfall-store-memory",
            "landfall-store-sqlite",
        ],
    ),
    ("xtask", &[]),
];

/// Heavy or telling crates and the rooms they live in.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("near-primitives", &["landfall-rail-near", "landfall-sim"]),
    ("near-crypto", &["landfall-rail-near", "landfall-sim"]),
    ("rusqlite", &["landfall-store-sqlite"]),
    ("axum", &["landfall", "landfall-api", "landfall-sim"]),
    ("hyper-rustls", &["landfall-rpc"]),
    ("clap", &["landfall", "xtask"]),
    ("anyhow", &["landfall", "xtask"]),
];

/// What the core must stay free of.
const NOT_IN_CORE: &[&str] = &["tokio"];

pub fn breaches(root: &Path) -> Result<Vec<String>> {
    let text = output(cargo(root).args(["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("packages in cargo metadata")?;
    Ok(packages.iter().flat_map(of_package).collect())
}

fn of_package(package: &Value) -> Vec<String> {
    let name = package["name"].as_str().unwrap_or_default();
    let uses: Vec<&str> = package["dependencies"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|dependency| dependency["kind"] != "dev")
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    of_room(name, &uses)
}

fn of_room(name: &str, uses: &[&str]) -> Vec<String> {
    let Some((_, may)) = ROOMS.iter().find(|(room, _)| *room == name) else {
        return vec![format!("{name}: is no room; add it to the table in xtask/src/tidy/rooms.rs")];
    };
    let ours = uses
        .iter()
        .filter(|used| used.starts_with("landfall") && !may.contains(used))
        .map(|used| format!("{name}: may not depend on {used}; see the table of rooms"));
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

    #[test]
    fn a_rail_that_sees_the_store_is_a_breach() {
        assert!(of_room("landfall-rail-near", &["landfall-core", "landfall-rpc"]).is_empty());
        assert_eq!(of_room("landfall-rail-near", &["landfall-store-sqlite"]).len(), 1);
        assert_eq!(of_room("landfall-api", &["landfall-rail-near"]).len(), 1);
        assert_eq!(of_room("landfall-core", &["tokio"]).len(), 1);
        assert_eq!(of_room("landfall-engine", &["near-primitives"]).len(), 1);
        assert_eq!(of_room("landfall-new", &[]).len(), 1);
    }
}
