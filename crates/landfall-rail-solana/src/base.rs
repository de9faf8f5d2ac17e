//! What a transaction is signed on, and what it offers: one question for a while, however many are
//! signed.
//!
//! **Rule:** how long a blockhash is good decides when its transaction is dead, so that it is not
//! any one node's word: a quorum must name heights and slots that are close to each other, and of
//! them the latest expiry counts, and the earliest slot.
//! **Rule:** an offer is the highest that a quorum reaches; caps of our own are above all (`fees`).

use landfall_core::rail::RailError;
use landfall_rpc::{Said, reached, unavailable};
use solana_address::Address;
use solana_hash::Hash;

use crate::answer::Blockhash;
use crate::fees::{self, Bounds};
use crate::node::Nodes;

/// Heights and slots that nodes which are well may be apart.
const APART: u64 = 64;

/// A node of the quorum may be this far behind the one whose hash is signed on.
const LAG_BLOCKS: u64 = 8;

/// What a transaction is signed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Base {
    pub hash: Hash,
    pub last_valid_height: u64,
    /// No block before it can hold what is signed on it.
    pub slot: u64,
}

/// What was heard last, and when.
#[derive(Default)]
pub struct Bases {
    base: tokio::sync::Mutex<Option<(Base, u64)>>,
    price: tokio::sync::Mutex<Option<(u64, u64)>>,
}

impl Bases {
    /// What to sign on, heard within the last `fresh_ms`.
    pub async fn base(&self, nodes: &Nodes, fresh_ms: u64) -> Result<Base, RailError> {
        let mut known = self.base.lock().await;
        let now_ms = nodes.clock.monotonic_ms();
        if let Some((base, _)) = known.filter(|(_, at_ms)| now_ms < at_ms.saturating_add(fresh_ms))
        {
            return Ok(base);
        }
        let said = nodes.ask_quorum(|endpoint| nodes.blockhash_on(endpoint)).await;
        let quorum = nodes.endpoints.quorum();
        let base = agreed(&said, quorum).ok_or_else(|| {
            unavailable(format!("no {quorum} nodes name blockhashes of the same time"))
        })?;
        *known = Some((base, now_ms));
        Ok(base)
    }

    /// What to offer for a unit, heard within the last `fresh_ms`.
    pub async fn price(
        &self,
        nodes: &Nodes,
        pool: &Address,
        bounds: &Bounds,
        fresh_ms: u64,
    ) -> Result<u64, RailError> {
        let mut known = self.price.lock().await;
        let now_ms = nodes.clock.monotonic_ms();
        if let Some((price, _)) = known.filter(|(_, at_ms)| now_ms < at_ms.saturating_add(fresh_ms))
        {
            return Ok(price);
        }
        let said = nodes.ask_quorum(|endpoint| nodes.recent_fees_on(endpoint, pool)).await;
        let prices = said.into_iter().map(|one| fees::price(one.fact, bounds));
        let price = reached(prices, nodes.endpoints.quorum());
        let price = price.ok_or_else(|| unavailable("no quorum tells what others pay"))?;
        *known = Some((price, now_ms));
        Ok(price)
    }
}

/// The newest hash among those of a quorum that are of the same time.
fn agreed(said: &[Said<Blockhash>], quorum: usize) -> Option<Base> {
    let near = |one: &Blockhash, other: &Blockhash| {
        one.last_valid_height.abs_diff(other.last_valid_height) <= APART
            && one.slot.abs_diff(other.slot) <= APART
    };
    let together = |one: &Blockhash| {
        said.iter().map(|other| other.fact).filter(|other| near(one, other)).collect::<Vec<_>>()
    };
    let groups = said.iter().map(|one| together(&one.fact)).filter(|group| group.len() >= quorum);
    let group = groups.max_by_key(Vec::len)?;
    let newest = group.iter().max_by_key(|one| one.last_valid_height)?;
    let slot = group.iter().map(|one| one.slot).min()?;
    // Alone, a node's word is the quorum's.
    let lag = if quorum > 1 { LAG_BLOCKS } else { 0 };
    Some(Base {
        hash: newest.hash,
        last_valid_height: newest.last_valid_height.saturating_add(lag),
        slot,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(each: &[(u64, u64)]) -> Vec<Said<Blockhash>> {
        let one = |(endpoint, (height, slot)): (usize, &(u64, u64))| {
            let hash = Hash::new_from_array([endpoint as u8; 32]);
            let fact = Blockhash { hash, last_valid_height: *height, slot: *slot };
            Said { endpoint, fact }
        };
        each.iter().enumerate().map(one).collect()
    }

    #[test]
    fn the_latest_expiry_and_the_earliest_slot_of_a_quorum_count() {
        let base = agreed(&said(&[(250, 110), (252, 112), (251, 111)]), 2).unwrap();
        assert_eq!((base.last_valid_height, base.slot), (252 + LAG_BLOCKS, 110));
        assert_eq!(base.hash, Hash::new_from_array([1; 32]));
        let alone = agreed(&said(&[(250, 110)]), 1).unwrap();
        assert_eq!((alone.last_valid_height, alone.slot), (250, 110));
    }

    /// Too early an end would let it be signed anew while it may land, too late a one never.
    #[test]
    fn no_node_alone_decides_when_a_blockhash_ends() {
        for lie in [(5, 110), (1_250, 1_110), (250, 5_000), (u64::MAX, 0)] {
            let base = agreed(&said(&[lie, (250, 110), (251, 111)]), 2).unwrap();
            assert_eq!((base.last_valid_height, base.slot), (251 + LAG_BLOCKS, 110), "{lie:?}");
            assert_eq!(agreed(&said(&[lie, (250, 110)]), 2), None, "{lie:?}");
        }
        assert_eq!(agreed(&[], 1), None);
    }
}
