//! What people read and type: mistakes, colours, completions, tables on a narrow terminal.

use std::path::Path;
use std::process::Output;

use crate::world::{landfall, text};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    landfall(folder).args(arguments).output().expect("the binary runs")
}

#[test]
fn a_count_of_nothing_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    for words in [
        ["torture", "--seeds", "0"].as_slice(),
        &["torture", "--minutes", "0"],
        &["transfers", "list", "--limit", "0"],
    ] {
        let refused = run(folder.path(), words);
        assert_eq!(refused.status.code(), Some(2), "{words:?}: {}", text(&refused));
        assert!(text(&refused).contains("0 is not in 1.."), "{}", text(&refused));
    }
}
