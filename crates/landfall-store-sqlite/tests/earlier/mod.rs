//! Stores that earlier releases have left.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::GzDecoder;
use landfall_conformance::{ManualClock, World, earlier};
use landfall_store_sqlite::{SqliteOptions, SqliteStore};

/// One of each layout that was released, as `examples/sqlite_fixture.rs` wrote it in its day.
const LAYOUTS: [(i64, &[u8]); 1] = [(2, include_bytes!("schema-2.db.gz"))];

fn unpacked(packed: &[u8], folder: &Path) -> PathBuf {
    let path = folder.join("landfall.db");
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).expect("a packed store");
    std::fs::write(&path, bytes).expect("written");
    path
}

fn world(path: &Path) -> World {
    let clock = Arc::new(ManualClock::new());
    let store = SqliteStore::open(path, clock.clone(), SqliteOptions::default());
    World { store: Arc::new(store.expect("a store that opens")), time: clock }
}

#[tokio::test]
async fn a_store_of_every_layout_is_opened_and_finished() {
    for (version, packed) in LAYOUTS {
        println!("layout {version}");
        let folder = tempfile::tempdir().expect("a folder");
        earlier::finish(&world(&unpacked(packed, folder.path()))).await;
    }
}
