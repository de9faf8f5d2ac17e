//! Writes the small store that later releases must be able to open, with the layout of this build.
//!
//! `cargo run -p landfall-store-sqlite --example sqlite_fixture -- FILE.db.gz`
//! For a new layout, once, when it is released: `tests/earlier/schema-VERSION.db.gz`. Those of
//! earlier layouts are never written anew.

use std::io::Write;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use landfall_conformance::{ManualClock, World, earlier};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};

#[tokio::main]
async fn main() {
    let to = std::env::args().nth(1).expect("the file to write, as FILE.db.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("landfall.db");
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(&path, clock.clone(), SqliteOptions::default());
    let world = World { store: Arc::new(store.expect("a new store")), time: clock };
    earlier::fill(&world).await;
    // Closing it leaves everything in the one file.
    drop(world);
    let file = std::fs::File::create(&to).expect("a file to write");
    let mut packed = GzEncoder::new(file, Compression::best());
    packed.write_all(&std::fs::read(&path).expect("the store")).expect("written");
    packed.finish().expect("written");
    println!("{to}: {} bytes", std::fs::metadata(&to).expect("the file").len());
}
