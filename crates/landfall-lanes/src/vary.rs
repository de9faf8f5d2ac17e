//! Other bytes for an attempt in flight, where attempts queue behind each other: on better terms,
//! or such that do nothing in its place.
//!
//! **Invariant:** a variant is stored, and noted outside the store, before its first byte leaves.
//! Not here: whether one is due (`gate`), sending it (`resolve`), which terms are better (`owner`).

use landfall_core::attempt::VariantKind;
use landfall_core::store::{AddVariant, Added};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, Nonce, Transfer};

use crate::driver::{Driver, Leave};
use crate::gate;
use crate::held::HeldLane;

impl Driver {
    /// Seeks other bytes for whatever is due for some, the oldest first.
    pub async fn vary(&self, held: &mut HeldLane) -> Option<Leave> {
        let now_ms = self.shared.clock.monotonic_ms();
        let manner = &self.handle.ledger.manner;
        let due = held.in_flight.iter().filter_map(|(nonce, attempt)| {
            Some((*nonce, gate::variant_due(manner, attempt, now_ms)?))
        });
        for (nonce, kind) in due.collect::<Vec<_>>() {
            if let Some(leave) = self.vary_one(held, nonce, kind).await {
                return Some(leave);
            }
        }
        None
    }

    /// Sign, store, note, and only then hand it on.
    async fn vary_one(
        &self,
        held: &mut HeldLane,
        nonce: Nonce,
        kind: VariantKind,
    ) -> Option<Leave> {
        let (mut attempt, members) = self.undecided(held, nonce).await?;
        let signed = self.owner().sign_variant(&attempt, &members, kind).await;
        let now_ms = self.shared.clock.monotonic_ms();
        let signed = match signed {
            Ok(Some(signed)) if self.may_sign() => signed,
            Ok(_) => {
                held.vary(nonce, None, now_ms);
                return None;
            }
            Err(error) => {
                tracing::warn!(tx = %attempt.hash, %error, "no other bytes can be signed now");
                held.vary(nonce, None, now_ms);
                return None;
            }
        };
        let add = AddVariant {
            attempt: attempt.id,
            lane: self.handle.id.clone(),
            epoch: held.epoch(),
            number: attempt.variants.len() as u32 + 1,
            kind,
            signed,
            marks: self.shared.high_water.marks(),
            incarnation: self.handle.ledger.incarnation(),
            now_ms: self.shared.clock.now_ms(),
        };
        if wound::is(Wound::VariantAfterSent) {
            self.send_variant_too_early(&attempt, &add).await;
        }
        match self.shared.store.add_variant(add).await {
            Ok(Added::Stored(variant)) => {
                attempt.variants.push(*variant.clone());
                if self.mark(held.epoch(), &attempt).is_err() {
                    return Some(Leave::Died);
                }
                let (tx, number) = (&attempt.hash, variant.number);
                tracing::info!(
                    tx,
                    number,
                    hash = variant.signed.hash,
                    kind = kind.as_str(),
                    "varied"
                );
                held.vary(nonce, Some(*variant), now_ms);
                None
            }
            // Whoever pursues it learns of that.
            Ok(Added::Decided) => None,
            Ok(Added::Behind(why)) => Some(self.behind(&why)),
            Ok(Added::Restarted) => Some(self.restarted()),
            Ok(Added::Fenced(why)) => Some(self.outdated(&why)),
            Ok(Added::StaleNumber) => Some(self.outdated("there are more variants")),
            Err(error) => {
                // It may have been stored: recovery finds it.
                tracing::warn!(tx = %attempt.hash, %error, "not known if a variant was stored");
                Some(Leave::Again)
            }
        }
    }

    /// The attempt as the store has it, with its members; none if there is nothing to vary, or if
    /// that cannot be told now.
    async fn undecided(&self, held: &HeldLane, nonce: Nonce) -> Option<(Attempt, Vec<Transfer>)> {
        let (id, hash) = held.attempt_at(nonce).filter(|_| self.may_sign())?;
        let store = &self.shared.store;
        let attempt = store.attempt(id).await.ok()??;
        if attempt.fate.is_some() || attempt.hash != hash {
            return None;
        }
        let members = store.transfers(&attempt.members).await.ok()?;
        let is_whole = members.iter().map(|member| member.id).eq(attempt.members.iter().copied());
        is_whole.then_some((attempt, members))
    }

    /// The mistake of a wounded build.
    async fn send_variant_too_early(&self, attempt: &Attempt, add: &AddVariant) {
        let mut early = attempt.clone();
        early.variants.push(add.stored_as(0));
        self.handle.ledger.ledger.broadcast(&early, 0).await;
    }
}
