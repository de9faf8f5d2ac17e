//! The newest blocks as each node has them, and what of ours is in them: one question a block and
//! node about all signers, from which every look is answered.
//!
//! **Rule:** each endpoint's blocks are its own word, linked by their parents' hashes; a block that
//! is not linked any more has fallen off that node's chain, with all that was in it.
//! **Rule:** none of it decides a fate by itself: a quorum of these views does (`look`).

use std::collections::{BTreeMap, HashMap, HashSet};

use alloy_primitives::{Address, B256};
use landfall_core::rail::RailError;
use landfall_rpc::Said;
use parking_lot::Mutex;

use crate::answer::{Header, Receipt};
use crate::node::{At, Nodes};
use crate::settings::Finality;

/// Final blocks that are kept of each node; what is not final is kept, so that an attempt is seen
/// from its first block to its end.
const KEPT_FINAL_BLOCKS: u64 = 64;
/// But no more than this in all: a chain that is never final must not fill the memory.
const KEPT_BLOCKS: usize = 4_096;
/// A node that is further ahead than this since it was last asked is begun with anew: what was in
/// between is asked for by hash.
const CAUGHT_UP_BLOCKS: usize = 32;

/// What one node says of one transaction of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Testimony {
    pub hash: B256,
    pub block_hash: B256,
    pub number: u64,
    /// Whether it did what it was to do.
    pub done: bool,
    pub gas_used: u64,
    /// Whether the node calls that block final.
    pub is_final: bool,
}

impl Testimony {
    pub fn of(receipt: &Receipt, is_final: bool) -> Testimony {
        Testimony {
            hash: receipt.transaction_hash,
            block_hash: receipt.block_hash,
            number: receipt.block_number.to(),
            done: receipt.status.to::<u64>() == 1,
            gas_used: receipt.gas_used.to(),
            is_final,
        }
    }
}

/// One block of one node's chain.
struct Block {
    hash: B256,
    /// The beginnings of its transactions' hashes.
    holds: Vec<u64>,
    /// What is ours in it, once it was asked for.
    ours: Option<HashMap<B256, Receipt>>,
}

/// One node's newest blocks, without holes.
#[derive(Default)]
struct View {
    blocks: BTreeMap<u64, Block>,
    final_number: Option<u64>,
    /// When it began to be without holes.
    since_ms: u64,
    asked_ms: u64,
}

/// The newest blocks of all nodes.
pub struct Recent {
    finality: Finality,
    views: Vec<Mutex<View>>,
    /// Held by the one that asks.
    asking: tokio::sync::Mutex<Option<u64>>,
    /// How long what was heard is not asked for again.
    fresh_ms: u64,
}

fn beginning(hash: &B256) -> u64 {
    let (first, _) = hash.0.split_first_chunk().expect("a hash has more bytes");
    u64::from_be_bytes(*first)
}

impl Recent {
    pub fn new(nodes: usize, finality: Finality, fresh_ms: u64) -> Recent {
        let views = (0..nodes).map(|_| Mutex::default()).collect();
        Recent { finality, views, asking: tokio::sync::Mutex::new(None), fresh_ms }
    }

    /// Hears of new blocks, unless that was done a moment ago. Who asks meanwhile waits for it.
    pub async fn refresh(&self, nodes: &Nodes, ours: &Ours<'_>) {
        let mut asked_ms = self.asking.lock().await;
        let now_ms = nodes.clock.monotonic_ms();
        if asked_ms.is_some_and(|asked_ms| now_ms < asked_ms.saturating_add(self.fresh_ms)) {
            return;
        }
        nodes.ask_quorum(|endpoint| self.follow(nodes, endpoint, ours)).await;
        *asked_ms = Some(nodes.clock.monotonic_ms());
    }

    /// Brings one node's view up to its newest block.
    async fn follow(
        &self,
        nodes: &Nodes,
        endpoint: usize,
        ours: &Ours<'_>,
    ) -> Result<(), RailError> {
        let asked_ms = nodes.clock.now_ms();
        let head = nodes.header_on(endpoint, At::Latest).await?;
        if !self.views[endpoint].lock().has(&head) {
            let news = self.news(nodes, endpoint, head.clone()).await?;
            let final_number = self.final_number(nodes, endpoint, head.number.to()).await?;
            self.views[endpoint].lock().take(news, final_number, asked_ms);
        }
        self.views[endpoint].lock().asked_ms = asked_ms;
        self.load(nodes, endpoint, ours).await
    }

    /// The blocks between what is known of the node and its head, newest first; and whether they
    /// are linked to what is known.
    async fn news(&self, nodes: &Nodes, endpoint: usize, head: Header) -> Result<News, RailError> {
        let mut blocks = vec![head];
        loop {
            let oldest = blocks.last().expect("the head at least");
            let (number, parent) = (oldest.number.to::<u64>(), oldest.parent_hash);
            let known = {
                let view = self.views[endpoint].lock();
                if view.links(number, parent) {
                    return Ok(News { blocks, linked: true });
                }
                view.may_link(number)
            };
            if !known || blocks.len() >= CAUGHT_UP_BLOCKS {
                return Ok(News { blocks, linked: false });
            }
            blocks.push(nodes.header_by_hash_on(endpoint, parent).await?);
        }
    }

    async fn final_number(
        &self,
        nodes: &Nodes,
        endpoint: usize,
        head: u64,
    ) -> Result<Option<u64>, RailError> {
        Ok(match self.finality {
            Finality::Blocks(depth) => head.saturating_add(1).checked_sub(depth),
            Finality::Safe => Some(nodes.header_on(endpoint, At::Safe).await?.number.to()),
            Finality::Finalized => {
                Some(nodes.header_on(endpoint, At::Finalized).await?.number.to())
            }
        })
    }

    /// Asks for the receipts of blocks that hold something of ours.
    async fn load(&self, nodes: &Nodes, endpoint: usize, ours: &Ours<'_>) -> Result<(), RailError> {
        let wanted: Vec<(u64, B256)> = self.views[endpoint].lock().unread(&ours.beginnings);
        for (number, block) in wanted {
            let receipts = match nodes.receipts_on(endpoint, number).await? {
                // It has fallen off meanwhile; the next time tells.
                Some(receipts) if receipts.iter().any(|one| one.block_hash != block) => continue,
                Some(receipts) => receipts,
                None => receipts_one_by_one(nodes, endpoint, ours.hashes).await?,
            };
            let is_ours = |receipt: &Receipt| {
                receipt.block_hash == block
                    && (ours.signers.contains(&receipt.from)
                        || ours.hashes.contains(&receipt.transaction_hash))
            };
            let kept = receipts.into_iter().filter(is_ours);
            let kept = kept.map(|receipt| (receipt.transaction_hash, receipt)).collect();
            self.views[endpoint].lock().read(number, block, kept);
        }
        Ok(())
    }

    /// What each node says of these hashes, of which one may be in a block.
    pub fn said(&self, hashes: &[B256]) -> Vec<Said<Testimony>> {
        let views = self.views.iter().enumerate();
        let said = views.filter_map(|(endpoint, view)| {
            let fact = view.lock().testimony(hashes)?;
            Some(Said { endpoint, fact })
        });
        said.collect()
    }

    /// Who has the block, calls it final, and says that it does not hold the transaction. A block's
    /// hash is that of all it holds: one of that hash without it is an invention.
    pub fn deniers(&self, landed: &Testimony) -> Vec<usize> {
        let denies = |view: &Mutex<View>| view.lock().denies(landed);
        (0..self.views.len()).filter(|endpoint| denies(&self.views[*endpoint])).collect()
    }

    /// Whether a quorum of nodes has been watched without a hole since this time.
    pub fn covers(&self, since_ms: u64, quorum: usize) -> bool {
        let covers = |view: &&Mutex<View>| {
            let view = view.lock();
            !view.blocks.is_empty() && view.since_ms < since_ms && view.asked_ms >= since_ms
        };
        self.views.iter().filter(covers).count() >= quorum
    }

    /// The newest block that the node calls final, as last heard.
    pub fn last_final(&self, endpoint: usize) -> Option<u64> {
        self.views[endpoint].lock().final_number
    }
}

/// What is looked for in blocks.
pub struct Ours<'a> {
    pub signers: &'a HashSet<Address>,
    hashes: &'a HashSet<B256>,
    beginnings: HashSet<u64>,
}

impl<'a> Ours<'a> {
    pub fn new(signers: &'a HashSet<Address>, hashes: &'a HashSet<B256>) -> Ours<'a> {
        Ours { signers, hashes, beginnings: hashes.iter().map(beginning).collect() }
    }
}

async fn receipts_one_by_one(
    nodes: &Nodes,
    endpoint: usize,
    hashes: &HashSet<B256>,
) -> Result<Vec<Receipt>, RailError> {
    let mut receipts = Vec::new();
    for hash in hashes {
        receipts.extend(nodes.receipt_on(endpoint, *hash).await?);
    }
    Ok(receipts)
}

struct News {
    /// Newest first.
    blocks: Vec<Header>,
    linked: bool,
}

impl View {
    fn has(&self, head: &Header) -> bool {
        let newest = self.blocks.last_key_value();
        newest.is_some_and(|(_, newest)| newest.hash == head.hash)
    }

    /// Whether a block of this number and parent follows one of the view.
    fn links(&self, number: u64, parent: B256) -> bool {
        let before = number.checked_sub(1).and_then(|number| self.blocks.get(&number));
        before.is_some_and(|before| before.hash == parent)
    }

    /// Whether an ancestor of the block of this number may be in the view.
    fn may_link(&self, number: u64) -> bool {
        self.blocks.first_key_value().is_some_and(|(oldest, _)| *oldest < number)
    }

    fn take(&mut self, news: News, final_number: Option<u64>, asked_ms: u64) {
        if !news.linked {
            self.blocks.clear();
            self.since_ms = asked_ms;
        }
        let oldest = news.blocks.last().map_or(0, |oldest| oldest.number.to());
        // Whatever was there from this number on is on the node's chain no more.
        self.blocks.split_off(&oldest);
        for header in news.blocks {
            let mut holds: Vec<u64> = header.transactions.iter().map(beginning).collect();
            holds.sort_unstable();
            let block = Block { hash: header.hash, holds, ours: None };
            self.blocks.insert(header.number.to(), block);
        }
        self.final_number = final_number;
        let kept_from = final_number.map_or(0, |last| last.saturating_sub(KEPT_FINAL_BLOCKS));
        self.blocks = self.blocks.split_off(&kept_from);
        while self.blocks.len() > KEPT_BLOCKS {
            self.blocks.pop_first();
            self.since_ms = asked_ms;
        }
    }

    /// Blocks that hold one of these and whose receipts were not asked for.
    fn unread(&self, beginnings: &HashSet<u64>) -> Vec<(u64, B256)> {
        let holds = |block: &Block| {
            beginnings.iter().any(|wanted| block.holds.binary_search(wanted).is_ok())
        };
        let unread = |(_, block): &(&u64, &Block)| match &block.ours {
            None => holds(block),
            Some(_) => false,
        };
        self.blocks.iter().filter(unread).map(|(number, block)| (*number, block.hash)).collect()
    }

    fn read(&mut self, number: u64, hash: B256, ours: HashMap<B256, Receipt>) {
        if let Some(block) = self.blocks.get_mut(&number).filter(|block| block.hash == hash) {
            block.ours = Some(ours);
        }
    }

    fn denies(&self, landed: &Testimony) -> bool {
        let block = self.blocks.get(&landed.number).filter(|block| block.hash == landed.block_hash);
        let is_final = self.final_number.is_some_and(|last| landed.number <= last);
        let lacks = |block: &Block| block.holds.binary_search(&beginning(&landed.hash)).is_err();
        is_final && block.is_some_and(lacks)
    }

    fn testimony(&self, hashes: &[B256]) -> Option<Testimony> {
        let found = |block: &Block| {
            let ours = block.ours.as_ref()?;
            hashes.iter().find_map(|hash| ours.get(hash)).cloned()
        };
        let (number, receipt) =
            self.blocks.iter().rev().find_map(|(number, block)| Some((number, found(block)?)))?;
        let is_final = self.final_number.is_some_and(|last| *number <= last);
        Some(Testimony::of(&receipt, is_final))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::U64;

    fn hash(number: u64, fork: u8) -> B256 {
        let mut bytes = [fork; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        B256::from(bytes)
    }

    fn header(number: u64, fork: u8, parent_fork: u8) -> Header {
        Header {
            number: U64::from(number),
            hash: hash(number, fork),
            parent_hash: hash(number - 1, parent_fork),
            transactions: vec![hash(1_000 + number, fork)],
        }
    }

    fn receipt(number: u64, fork: u8) -> Receipt {
        Receipt {
            transaction_hash: hash(1_000 + number, fork),
            block_hash: hash(number, fork),
            block_number: U64::from(number),
            from: Address::ZERO,
            status: U64::from(1),
            gas_used: U64::from(21_000),
        }
    }

    fn view(last: u64) -> View {
        let mut view = View::default();
        let blocks = (1..=last).rev().map(|number| header(number, 1, 1)).collect();
        view.take(News { blocks, linked: false }, Some(last - 1), 5);
        view
    }

    fn read(view: &mut View, number: u64, fork: u8) {
        let ours = [(hash(1_000 + number, fork), receipt(number, fork))];
        view.read(number, hash(number, fork), ours.into());
    }

    #[test]
    fn what_is_in_a_block_is_told_with_whether_that_is_final() {
        let mut view = view(9);
        let wanted = [8, 9].map(|number| hash(1_000 + number, 1));
        let beginnings = wanted.iter().map(beginning).collect();
        assert_eq!(view.unread(&beginnings), [(8, hash(8, 1)), (9, hash(9, 1))]);
        assert_eq!(view.testimony(&wanted), None, "not before its receipt was read");
        read(&mut view, 8, 1);
        read(&mut view, 9, 1);
        assert!(view.unread(&beginnings).is_empty());
        assert!(view.testimony(&wanted[..1]).is_some_and(|told| told.is_final && told.done));
        assert!(view.testimony(&wanted[1..]).is_some_and(|told| !told.is_final));
    }

    #[test]
    fn what_was_in_a_block_that_fell_off_is_told_no_more() {
        let mut view = view(9);
        read(&mut view, 9, 1);
        let wanted = [hash(1_009, 1)];
        assert!(view.testimony(&wanted).is_some());
        assert!(view.links(9, hash(8, 1)) && !view.links(10, hash(9, 2)));
        let blocks = vec![header(10, 2, 2), header(9, 2, 1)];
        view.take(News { blocks, linked: true }, Some(8), 7);
        assert_eq!(view.testimony(&wanted), None);
        assert_eq!((view.blocks.len(), view.since_ms), (10, 5), "without a hole since then");
    }

    #[test]
    fn who_shows_the_same_final_block_without_it_denies_it_and_nobody_else() {
        let mut honest = view(9);
        read(&mut honest, 8, 1);
        let landed = honest.testimony(&[hash(1_008, 1)]).expect("it is there");
        assert!(!honest.denies(&landed));
        let empty = |last_final| {
            let bare = |number| Header { transactions: Vec::new(), ..header(number, 1, 1) };
            let mut view = View::default();
            let blocks = (1..=9).rev().map(bare).collect();
            view.take(News { blocks, linked: false }, Some(last_final), 5);
            view
        };
        assert!(empty(8).denies(&landed));
        assert!(!empty(7).denies(&landed), "it does not call that block final");
        assert!(!View::default().denies(&landed), "it has no such block");
        let elsewhere = Testimony { block_hash: hash(8, 2), ..landed };
        assert!(!empty(8).denies(&elsewhere), "it is on another fork");
    }

    #[test]
    fn a_node_that_is_far_ahead_is_begun_with_anew() {
        let mut view = view(9);
        view.take(News { blocks: vec![header(500, 1, 1)], linked: false }, Some(490), 7);
        assert_eq!((view.blocks.len(), view.since_ms), (1, 7));
        assert!(view.may_link(501) && !view.may_link(500));
    }
}
