//! The relayer's book: what it was asked to send, and how far each has come.
//!
//! ```text
//!  pending ──signed──▶ sent ──broadcast──▶ submitted ──in a block──▶ mined ──deep──▶ confirmed
//!     │                                                                │ reverted
//!     └── failed, expired, canceled: also of what was sent long ago ◀──┘
//! ```
//!
//! It has the real one's habits: no two requests are ever the same to it, it shows the newest hash
//! only, its final states prove nothing, and what is final is deleted after a while.
//! Pure: the caller brings time, signatures and what the chain says.

use std::collections::BTreeMap;

use alloy_primitives::B256;

use crate::request::Request;

/// Where a transaction stands, in the relayer's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Pending,
    Sent,
    Submitted,
    Mined,
    Confirmed,
    Failed,
    Expired,
    Canceled,
}

impl Status {
    pub fn name(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Sent => "sent",
            Status::Submitted => "submitted",
            Status::Mined => "mined",
            Status::Confirmed => "confirmed",
            Status::Failed => "failed",
            Status::Expired => "expired",
            Status::Canceled => "canceled",
        }
    }

    pub fn is_final(self) -> bool {
        matches!(self, Status::Confirmed | Status::Failed | Status::Expired | Status::Canceled)
    }
}

/// What goes wrong with one transaction, decided when it is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// Once sent it is given out for ended so, though it lives on.
    EndsFalsely(Status),
    /// It fails before it was ever sent.
    NeverSent,
    /// The node's answer counts as lost: it is signed once more, under another nonce.
    SignedTwice,
}

/// One transaction of one relayer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub number: u64,
    pub id: String,
    pub relayer: usize,
    pub request: Request,
    pub status: Status,
    pub status_reason: Option<String>,
    pub nonce: Option<u64>,
    /// Everything that was signed for it, oldest first, with its bytes.
    pub signed: Vec<(B256, Vec<u8>)>,
    /// Offered per unit of gas by the newest.
    pub fee: u128,
    pub mishap: Option<Mishap>,
    pub created_ms: u64,
    pub sent_ms: Option<u64>,
    pub confirmed_ms: Option<u64>,
    /// When it became final.
    pub ended_ms: Option<u64>,
}

impl Entry {
    /// The hash that the relayer shows: the newest.
    pub fn hash(&self) -> Option<B256> {
        self.signed.last().map(|(hash, _)| *hash)
    }
}

/// What the chain says of everything that was signed for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnChain {
    Nowhere,
    In { hash: B256, succeeded: bool, confirmations: u64 },
}

/// All transactions of all relayers.
#[derive(Debug, Default)]
pub struct Book {
    entries: BTreeMap<u64, Entry>,
    taken: u64,
}

impl Book {
    /// Takes a request, whatever was taken before: the same one twice is two.
    pub fn take(
        &mut self,
        relayer: usize,
        request: Request,
        mishap: Option<Mishap>,
        now_ms: u64,
    ) -> &Entry {
        self.taken += 1;
        let number = self.taken;
        let entry = Entry {
            number,
            id: id_of(relayer, number, now_ms),
            relayer,
            request,
            status: Status::Pending,
            status_reason: None,
            nonce: None,
            signed: Vec::new(),
            fee: 0,
            mishap,
            created_ms: now_ms,
            sent_ms: None,
            confirmed_ms: None,
            ended_ms: None,
        };
        self.entries.entry(number).or_insert(entry)
    }

    pub fn find(&self, relayer: usize, id: &str) -> Option<&Entry> {
        self.of(relayer).find(|entry| entry.id == id)
    }

    /// A relayer's transactions, newest first.
    pub fn of(&self, relayer: usize) -> impl Iterator<Item = &Entry> {
        self.entries.values().rev().filter(move |entry| entry.relayer == relayer)
    }

    /// A relayer's transactions that are still worked on, oldest first.
    pub fn open(&self, relayer: usize) -> Vec<Entry> {
        let mine = self.entries.values().filter(|entry| entry.relayer == relayer);
        mine.filter(|entry| !entry.status.is_final()).cloned().collect()
    }

    /// How many were ever taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// It was signed, under a nonce; not sent yet.
    pub fn signed(&mut self, number: u64, nonce: u64, fee: u128, (hash, bytes): (B256, Vec<u8>)) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.nonce = Some(nonce);
        entry.fee = fee;
        entry.signed.push((hash, bytes));
        if entry.status == Status::Pending {
            entry.status = Status::Sent;
        }
    }

    /// A node has it.
    pub fn submitted(&mut self, number: u64, now_ms: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.sent_ms = Some(now_ms);
        if entry.status != Status::Sent {
            return;
        }
        match entry.mishap {
            Some(Mishap::EndsFalsely(status)) => {
                self.end(number, status, "by the relayer's own account", now_ms);
            }
            _ => entry.status = Status::Submitted,
        }
    }

    /// What the chain shows of it now; a block that holds it may fall off again.
    pub fn seen(&mut self, number: u64, on_chain: OnChain, wanted: u64, now_ms: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        match on_chain {
            OnChain::Nowhere if entry.status == Status::Mined => entry.status = Status::Submitted,
            OnChain::Nowhere => {}
            OnChain::In { hash, succeeded, confirmations } => {
                // The one that landed is shown from now on.
                let place = entry.signed.iter().position(|(known, _)| *known == hash);
                if let Some(place) = place {
                    let landed = entry.signed.remove(place);
                    entry.signed.push(landed);
                }
                entry.status = Status::Mined;
                if confirmations < wanted {
                    return;
                }
                match succeeded {
                    true => {
                        entry.confirmed_ms = Some(now_ms);
                        entry.status = Status::Confirmed;
                        entry.ended_ms = Some(now_ms);
                    }
                    false => self.end(number, Status::Failed, "Transaction reverted", now_ms),
                }
            }
        }
    }

    /// It is over, by the relayer's own account.
    pub fn end(&mut self, number: u64, status: Status, reason: &str, now_ms: u64) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.status = status;
            entry.status_reason = Some(reason.to_owned());
            entry.ended_ms = Some(now_ms);
        }
    }

    /// Deletes what has been final for so long.
    pub fn forget(&mut self, after_ms: u64, now_ms: u64) {
        let is_old = |entry: &Entry| entry.ended_ms.is_some_and(|at| at + after_ms <= now_ms);
        self.entries.retain(|_, entry| !is_old(entry));
    }
}

/// Looks like the real one's, and says nothing.
fn id_of(relayer: usize, number: u64, now_ms: u64) -> String {
    let digest = alloy_primitives::keccak256(format!("{relayer} {number} {now_ms}"));
    let hex = alloy_primitives::hex::encode(&digest[..16]);
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn request() -> Request {
        Request::read(br#"{"to":"0x1111111111111111111111111111111111111111","value":1}"#).unwrap()
    }

    fn hash(byte: u8) -> (B256, Vec<u8>) {
        (B256::repeat_byte(byte), vec![byte])
    }

    fn status(book: &Book, number: u64) -> Status {
        book.of(0).find(|entry| entry.number == number).map(|entry| entry.status).unwrap()
    }

    fn landed(byte: u8, confirmations: u64) -> OnChain {
        OnChain::In { hash: B256::repeat_byte(byte), succeeded: true, confirmations }
    }

    #[test]
    fn the_same_request_twice_is_two_transactions() {
        let mut book = Book::default();
        let first = book.take(0, request(), None, 1).id.clone();
        let second = book.take(0, request(), None, 1).id.clone();
        assert_ne!(first, second);
        assert_eq!(book.of(0).count(), 2);
        assert!(book.find(1, &first).is_none(), "it is another relayer's");
    }

    #[test]
    fn a_transaction_goes_from_pending_to_confirmed_and_back_where_its_block_falls_off() {
        let mut book = Book::default();
        let number = book.take(0, request(), None, 1).number;
        book.signed(number, 7, 9, hash(1));
        assert_eq!(status(&book, number), Status::Sent);
        book.submitted(number, 2);
        book.seen(number, landed(1, 0), 2, 3);
        assert_eq!(status(&book, number), Status::Mined);
        book.seen(number, OnChain::Nowhere, 2, 4);
        assert_eq!(status(&book, number), Status::Submitted);
        book.seen(number, landed(1, 2), 2, 5);
        assert_eq!(status(&book, number), Status::Confirmed);
        assert!(book.open(0).is_empty());
    }

    #[test]
    fn only_the_newest_hash_is_shown_until_another_lands() {
        let mut book = Book::default();
        let number = book.take(0, request(), None, 1).number;
        book.signed(number, 7, 9, hash(1));
        book.signed(number, 7, 12, hash(2));
        let shown = |book: &Book| book.of(0).next().and_then(Entry::hash);
        assert_eq!(shown(&book), Some(B256::repeat_byte(2)));
        book.seen(number, landed(1, 0), 2, 3);
        assert_eq!(shown(&book), Some(B256::repeat_byte(1)));
    }

    #[test]
    fn what_was_sent_may_be_given_out_for_ended() {
        let mut book = Book::default();
        let mishap = Some(Mishap::EndsFalsely(Status::Expired));
        let number = book.take(0, request(), mishap, 1).number;
        book.signed(number, 7, 9, hash(1));
        book.submitted(number, 2);
        assert_eq!(status(&book, number), Status::Expired);
    }

    #[test]
    fn what_is_final_is_forgotten_after_a_while_and_nothing_else() {
        let mut book = Book::default();
        let ended = book.take(0, request(), None, 1).number;
        book.take(0, request(), None, 1);
        book.end(ended, Status::Failed, "no funds", 10);
        book.forget(4 * HOUR_MS, 4 * HOUR_MS + 9);
        assert_eq!(book.of(0).count(), 2);
        book.forget(4 * HOUR_MS, 4 * HOUR_MS + 10);
        assert_eq!(book.of(0).count(), 1);
        assert_eq!(book.taken(), 2);
    }
}
