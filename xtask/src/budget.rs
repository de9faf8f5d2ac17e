//! How many crates the default binary is made of: what everybody who builds it waits for, and has
//! to trust.
//!
//! The number in xtask/crates.budget is the most that may be; a commit that needs more raises it,
//! and says why. Not here: what a crate costs (docs/benchmarks.md).

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::process::{cargo, output};

const BUDGET: &str = "xtask/crates.budget";

/// True while the default binary has no more crates than it may.
pub fn run(root: &Path) -> Result<bool> {
    let text = std::fs::read_to_string(root.join(BUDGET)).context(BUDGET)?;
    let most = limit(&text).with_context(|| format!("{BUDGET} holds no number"))?;
    let mut tree = cargo(root);
    tree.args(["tree", "--locked", "--package", "landfall", "--edges", "normal,build"]);
    let count = crates(&output(tree.args(["--prefix", "none"]))?).len();
    println!("{count} crates in the default binary, {most} at most");
    if count > most {
        println!("find out who brings the new ones (`cargo tree -i NAME`); if they are worth it,");
        println!("raise the number in {BUDGET}, and say why in the commit");
    }
    Ok(count <= most)
}

/// The first line that is no comment.
fn limit(text: &str) -> Option<usize> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with('#'))?.parse().ok()
}

/// Every name and version once, however often the tree shows it.
fn crates(tree: &str) -> BTreeSet<(&str, &str)> {
    let of = |line| {
        let mut words = str::split_whitespace(line);
        Some((words.next()?, words.next()?))
    };
    tree.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_counted_once_and_two_versions_of_it_twice() {
        let tree = "landfall v0.1.0 (/src)\nsyn v1.0.1\nserde v1.0.2\nsyn v1.0.1 (*)\n\
                    syn v2.0.0\nserde_derive v1.0.2 (proc-macro)\n\n";
        assert_eq!(crates(tree).len(), 5);
    }

    #[test]
    fn the_number_is_read_past_the_comments() {
        assert_eq!(limit("# Why.\n\n12\n"), Some(12));
        assert_eq!(limit("# Nothing.\n"), None);
        assert_eq!(limit("many\n"), None);
    }
}
