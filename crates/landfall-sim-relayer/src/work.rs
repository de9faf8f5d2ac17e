//! What a relayer does between requests: signs what is pending, sends it, watches it, sends it
//! again for more money where it is stuck, and forgets.
//!
//! One round at a time and relayer; nothing of it is in the way of requests.

use std::sync::Arc;

use alloy_primitives::B256;
use futures::future::join_all;

use crate::World;
use crate::book::{Entry, Mishap, OnChain, Status};
use crate::chain::{self, NoResult};

/// The fee of a replacement, in percent of what it replaces: nodes want 110 at least.
const BUMP_PERCENT: u128 = 125;
/// Questions to the node at a time.
const LOOKS_AT_ONCE: usize = 32;

/// One relayer's rounds.
pub struct Worker {
    pub world: Arc<World>,
    pub relayer: usize,
    /// The next nonce of its key; none until the chain was asked.
    pub next_nonce: Option<u64>,
}

impl Worker {
    /// Everything there is to do now. What a node does not answer is left for the next round.
    pub async fn round(&mut self, now_ms: u64) {
        if let Err(error) = self.sign(now_ms).await {
            tracing::debug!(%error, "not signed yet");
        }
        self.send(now_ms).await;
        if let Err(error) = self.watch(now_ms).await {
            tracing::debug!(%error, "not watched now");
        }
        let forget_after_ms = self.world.forget_after_ms(self.relayer);
        self.world.book.lock().forget(forget_after_ms, now_ms);
    }

    fn open(&self, status: Status) -> Vec<Entry> {
        let mut open = self.world.book.lock().open(self.relayer);
        open.retain(|entry| entry.status == status);
        open
    }

    async fn sign(&mut self, now_ms: u64) -> Result<(), NoResult> {
        let pending = self.open(Status::Pending);
        if pending.is_empty() {
            return Ok(());
        }
        let price = self.world.chain.price().await?;
        for entry in pending {
            if entry.mishap == Some(Mishap::NeverSent) {
                let reason = "Insufficient balance";
                self.world.book.lock().end(entry.number, Status::Failed, reason, now_ms);
                continue;
            }
            let fee = price * 2 * u128::from(entry.request.speed.percent()) / 100;
            let nonce = self.take_nonce().await?;
            self.sign_one(&entry, nonce, fee)?;
        }
        Ok(())
    }

    async fn take_nonce(&mut self) -> Result<u64, NoResult> {
        let nonce = match self.next_nonce {
            Some(next) => next,
            None => self.world.chain.next_nonce(self.world.signers[self.relayer].address).await?,
        };
        self.next_nonce = Some(nonce + 1);
        Ok(nonce)
    }

    fn sign_one(&self, entry: &Entry, nonce: u64, fee: u128) -> Result<(), NoResult> {
        let key = &self.world.signers[self.relayer].key;
        let signed = chain::sign(&entry.request, self.world.chain_id, nonce, fee, key)?;
        self.world.book.lock().signed(entry.number, nonce, fee, signed);
        Ok(())
    }

    async fn send(&mut self, now_ms: u64) {
        for entry in self.open(Status::Sent) {
            let Some((_, bytes)) = entry.signed.last() else { continue };
            match self.world.chain.send(bytes).await {
                Ok(()) => {
                    self.world.book.lock().submitted(entry.number, now_ms);
                    if entry.mishap == Some(Mishap::SignedTwice) {
                        self.send_anew(&entry).await;
                    }
                }
                Err(error) => tracing::debug!(id = entry.id, %error, "not sent yet"),
            }
        }
    }

    /// The mistake of a relayer that takes a lost answer for a failure: it pays twice.
    async fn send_anew(&mut self, entry: &Entry) {
        let Ok(nonce) = self.take_nonce().await else { return };
        if self.sign_one(entry, nonce, entry.fee).is_err() {
            return;
        }
        let newest = self.world.book.lock().find(self.relayer, &entry.id).cloned();
        if let Some((_, bytes)) = newest.as_ref().and_then(|entry| entry.signed.last())
            && let Err(error) = self.world.chain.send(bytes).await
        {
            tracing::debug!(id = entry.id, %error, "not sent anew");
        }
    }

    async fn watch(&self, now_ms: u64) -> Result<(), NoResult> {
        let mut waiting = self.open(Status::Submitted);
        waiting.extend(self.open(Status::Mined));
        if waiting.is_empty() {
            return Ok(());
        }
        let head = self.world.chain.head().await?;
        for some in waiting.chunks(LOOKS_AT_ONCE) {
            let looks = some.iter().map(|entry| async move {
                let hashes: Vec<B256> = entry.signed.iter().rev().map(|(hash, _)| *hash).collect();
                (entry, self.world.chain.look(&hashes, head).await)
            });
            for (entry, seen) in join_all(looks).await {
                self.seen(entry, seen?, now_ms).await;
            }
        }
        Ok(())
    }

    async fn seen(&self, entry: &Entry, seen: OnChain, now_ms: u64) {
        let wanted = self.world.confirmations;
        self.world.book.lock().seen(entry.number, seen, wanted, now_ms);
        let is_stuck = entry.sent_ms.is_some_and(|at| at + self.world.resubmit_ms <= now_ms);
        let (OnChain::Nowhere, true, Some(nonce)) = (seen, is_stuck, entry.nonce) else { return };
        if self.sign_one(entry, nonce, entry.fee * BUMP_PERCENT / 100).is_err() {
            return;
        }
        let newest = self.world.book.lock().find(self.relayer, &entry.id).cloned();
        let Some((_, bytes)) = newest.as_ref().and_then(|entry| entry.signed.last()) else {
            return;
        };
        match self.world.chain.send(bytes).await {
            Ok(()) => self.world.book.lock().submitted(entry.number, now_ms),
            Err(error) => tracing::debug!(id = entry.id, %error, "not replaced yet"),
        }
    }
}
