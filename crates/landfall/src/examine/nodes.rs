//! Whose word is taken: what `landfall check` says of a ledger's nodes.

use serde_json::json;

use crate::check::{Finding, Mark};
use crate::wire::Agreement;

/// `section` is where the nodes are configured.
pub fn nodes(what: &'static str, section: &str, agreement: Agreement) -> Finding {
    let Agreement { nodes, quorum } = agreement;
    let alone = quorum == 1;
    let detail = match (nodes, quorum) {
        (1, _) => format!(
            "this node is believed alone: if it lies, payouts are told COMPLETED that were never \
             paid, or are paid twice; of three in {section}.rpc_urls two would have to agree"
        ),
        (_, 1) => format!(
            "each of {nodes} nodes is believed alone, as {section}.quorum is 1: if one lies, \
             payouts are told COMPLETED that were never paid, or are paid twice; without it, a \
             majority must agree"
        ),
        _ => format!("{quorum} of {nodes} must agree; {}", what_holds(nodes, quorum)),
    };
    let mark = if alone { Mark::Note } else { Mark::Good };
    Finding { what, mark, detail, facts: json!({"nodes": nodes, "quorum": quorum}) }
}

fn what_holds(nodes: usize, quorum: usize) -> String {
    let liars = match quorum - 1 {
        1 => "one that lies decides nothing".to_owned(),
        few => format!("{few} that lie decide nothing"),
    };
    match nodes - quorum {
        0 => format!("{liars}, but with one away nothing is decided at all"),
        1 => format!("{liars}, and one may be away"),
        few => format!("{liars}, and {few} may be away"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: usize, quorum: usize, mark: Mark, said: &str) {
        let found = super::nodes("NEAR nodes", "near", Agreement { nodes, quorum });
        assert!(found.mark == mark && found.detail.contains(said), "{}", found.detail);
        assert_eq!(found.facts, json!({"nodes": nodes, "quorum": quorum}));
    }

    #[test]
    fn it_says_how_many_nodes_must_agree() {
        check(1, 1, Mark::Note, "this node is believed alone");
        check(1, 1, Mark::Note, "of three in near.rpc_urls two");
        check(3, 1, Mark::Note, "each of 3 nodes is believed alone, as near.quorum is 1");
        check(2, 2, Mark::Good, "2 of 2 must agree; one that lies decides nothing, but with one");
        check(3, 2, Mark::Good, "2 of 3 must agree; one that lies decides nothing, and one may");
        check(5, 3, Mark::Good, "3 of 5 must agree; 2 that lie decide nothing, and 2 may");
    }
}
