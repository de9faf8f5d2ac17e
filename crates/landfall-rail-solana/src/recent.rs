//! What nodes have said lately of all that is waited for: one question for 256 transactions, from
//! which every look is answered.
//!
//! **Rule:** what is here is progress, and what a quorum says of the same final block. That a node
//! knows nothing of a transaction proves nothing here: history is not searched.

use std::collections::{HashMap, HashSet};

use landfall_rpc::{Said, reached};
use parking_lot::Mutex;

use crate::answer::Status;
use crate::node::{Nodes, STATUSES_MAX};

/// What one node has said.
#[derive(Debug, Default)]
struct Heard {
    /// By signature, with when it was said.
    statuses: HashMap<String, (Option<Status>, u64)>,
    final_height: Option<(u64, u64)>,
}

/// What all nodes have said.
#[derive(Debug, Default)]
pub struct Recent {
    heard: Mutex<HashMap<usize, Heard>>,
}

impl Recent {
    /// Asks all nodes about all of these; what is waited for no more is forgotten.
    pub async fn refresh(&self, nodes: &Nodes, signatures: &[String]) {
        let ask = async |endpoint: usize| {
            let height = nodes.final_height_on(endpoint).await?;
            let mut each = Vec::with_capacity(signatures.len());
            for some in signatures.chunks(STATUSES_MAX) {
                each.extend(nodes.statuses_on(endpoint, some, false).await?.each);
            }
            Ok((height, each))
        };
        let said = nodes.ask_quorum(ask).await;
        let now_ms = nodes.clock.monotonic_ms();
        let wanted: HashSet<&String> = signatures.iter().collect();
        let mut heard = self.heard.lock();
        for Said { endpoint, fact: (height, each) } in said {
            let heard = heard.entry(endpoint).or_default();
            heard.statuses.retain(|signature, _| wanted.contains(signature));
            let each = each.into_iter().map(|status| (status, now_ms));
            heard.statuses.extend(signatures.iter().cloned().zip(each));
            heard.final_height = Some((height, now_ms));
        }
    }

    /// What nodes have said of a transaction that they know; none unless a quorum was asked about
    /// it since `since_ms`.
    pub fn said(&self, signature: &str, quorum: usize, since_ms: u64) -> Option<Vec<Said<Status>>> {
        let heard = self.heard.lock();
        let told = heard.iter().filter_map(|(endpoint, heard)| {
            let (status, at_ms) = heard.statuses.get(signature)?;
            (*at_ms >= since_ms).then(|| (*endpoint, status.clone()))
        });
        let told: Vec<_> = told.collect();
        let known =
            |(endpoint, status): (usize, Option<Status>)| Some(Said { endpoint, fact: status? });
        (told.len() >= quorum).then(|| told.into_iter().filter_map(known).collect())
    }

    /// The highest final block that a quorum has reached, as heard since `since_ms`.
    pub fn final_height(&self, quorum: usize, since_ms: u64) -> Option<u64> {
        let heard = self.heard.lock();
        let heights = heard.values().filter_map(|heard| heard.final_height);
        reached(heights.filter(|(_, at_ms)| *at_ms >= since_ms).map(|(height, _)| height), quorum)
    }
}
