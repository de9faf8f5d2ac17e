//! What people read and type: mistakes, colours, completions, tables on a narrow terminal.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

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

#[test]
fn check_tells_mistakes_as_json_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[near]\nbatch_max = 0\nlingr_ms = 1\n";
    std::fs::write(folder.path().join("landfall.toml"), file).expect("a file");
    let refused = run(folder.path(), &["check", "--json"]);
    assert_eq!(refused.status.code(), Some(2));
    let found: Value = serde_json::from_slice(&refused.stdout).expect("JSON");
    assert_eq!((&found[0]["check"], &found[0]["ok"]), (&json!("configuration"), &json!(false)));
    let mistakes = found[0]["mistakes"].as_array().expect("a list");
    let of_batch = json!({
        "place": "landfall.toml:2",
        "setting": "near.batch_max",
        "message": "is 0, out of range",
        "remedy": "give a number from 1 to 100",
    });
    assert!(mistakes.contains(&of_batch), "{found}");
    assert!(mistakes.iter().any(|one| one["place"] == "landfall.toml:3"), "{found}");
}
