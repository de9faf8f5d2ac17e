//! Which roots the pool knows, for the door: asked once for a while, however many come.
//!
//! **Rule:** a root that any node has shown is taken, since the pool itself decides in the end; one
//! is refused only if a quorum shows rings without it.

use landfall_rpc::unavailable;
use solana_address::Address;

use crate::node::Nodes;
use crate::shield::{self, Accounts, Word};

/// How long rings are not asked for again, in milliseconds: about a block.
const FRESH_MS: u64 = 400;

/// The rings as they were heard last, and when.
#[derive(Default)]
pub struct Roots {
    heard: tokio::sync::Mutex<(Vec<Vec<u8>>, u64)>,
}

impl Roots {
    /// Whether the pool knows it; none where no quorum tells.
    pub async fn knows(&self, nodes: &Nodes, program: &Address, root: &Word) -> Option<bool> {
        let mut heard = self.heard.lock().await;
        let is_in = |rings: &[Vec<u8>]| {
            rings.iter().any(|ring| shield::knows_root(ring, root) == Some(true))
        };
        let now_ms = nodes.clock.monotonic_ms();
        let is_fresh = !heard.0.is_empty() && now_ms < heard.1.saturating_add(FRESH_MS);
        if is_in(&heard.0) {
            return Some(true);
        }
        if !is_fresh {
            let ring = Accounts::of(program).roots_ring;
            let ask = async |endpoint| {
                let (_, data) = nodes.account_on(endpoint, &ring, "confirmed").await?;
                let is_ring = shield::knows_root(&data, root).is_some();
                is_ring.then_some(data).ok_or_else(|| unavailable("no ring of roots"))
            };
            let said = nodes.ask_quorum(ask).await;
            *heard = (said.into_iter().map(|one| one.fact).collect(), nodes.clock.monotonic_ms());
        }
        match is_in(&heard.0) {
            true => Some(true),
            false => (heard.0.len() >= nodes.endpoints.quorum()).then_some(false),
        }
    }
}
