//! What is found out about an attempt, written to the store: sightings, how its members stand, and
//! its fate.
//!
//! **Invariant:** a sighting is stored before anything relies on it, and a fate with what it means
//! for every member, in one commit.

use landfall_core::Fate;
use landfall_core::attempt::Sighting;
use landfall_core::guard::{self, Guard};
use landfall_core::store::{Settled, Settlement, Sight, StoreError};

use crate::gate::Standing;
use crate::handle::TroubleAt;
use crate::resolve::{Carried, Ended, Resolve, Seen};

impl Resolve {
    /// A sighting is stored before anything relies on it: it vetoes a certificate later.
    pub async fn sighted(&mut self, sightings: Vec<Sighting>) -> Seen {
        let attempt = &mut self.carried.attempt;
        let heard = attempt.sightings.len();
        for sighting in sightings {
            if !attempt.has_heard(&sighting) {
                attempt.sightings.push(sighting);
            }
        }
        let new = attempt.sightings.split_off(heard);
        match self.show_members(new, true).await {
            Some(seen) => seen,
            None => {
                self.tell(Standing::Included);
                Seen::Included
            }
        }
    }

    /// Stores what was newly seen, with what that shows of the members. None if that is done, or
    /// if there is nothing to store.
    pub async fn show_members(&mut self, sightings: Vec<Sighting>, included: bool) -> Option<Seen> {
        if !self.know_members().await {
            return Some(Seen::Unknown);
        }
        let Carried { attempt, members } = &mut self.carried;
        let owner = &self.handle.ledger.owner;
        let moves = owner.sighted(attempt, members, included, self.shared.clock.now_ms());
        if sightings.is_empty() && moves.is_empty() {
            return None;
        }
        let sight = Sight {
            attempt: attempt.id,
            lane: attempt.lane.clone(),
            epoch: self.epoch,
            sightings: sightings.clone(),
            moves: moves.clone(),
        };
        match self.shared.store.sight(sight).await {
            Ok(true) => {
                attempt.sightings.extend(sightings);
                for step in &moves {
                    let moved = members.iter_mut().find(|member| member.id == step.id);
                    moved.into_iter().for_each(|member| *member = step.applied_to(member));
                }
                None
            }
            Ok(false) => Some(Seen::Fenced),
            Err(_) => {
                // The members may have moved, or not.
                self.members_known = moves.is_empty();
                Some(Seen::Unknown)
            }
        }
    }

    /// Reads the members again where it is not known how the store has them. False if it cannot be
    /// told now.
    async fn know_members(&mut self) -> bool {
        if self.members_known {
            return true;
        }
        let Carried { attempt, members } = &mut self.carried;
        let Ok(stored) = self.shared.store.transfers(&attempt.members).await else { return false };
        if !stored.iter().map(|member| member.id).eq(attempt.members.iter().copied()) {
            return false;
        }
        *members = stored;
        self.members_known = true;
        true
    }

    /// Decides it, once, with what that means for its members.
    pub async fn settle(&mut self, mut fate: Fate) -> Ended {
        if let (Fate::Sunk(certificate), Some(refusal)) = (&mut fate, &self.refused) {
            certificate.cancelled_because(refusal);
        }
        while !self.know_members().await {
            self.pause(self.shared.settings.retry_ms).await;
        }
        let Carried { attempt, members } = &self.carried;
        let sunk = matches!(fate, Fate::Sunk(_));
        let nonce = attempt.nonce;
        loop {
            let now_ms = self.shared.clock.now_ms();
            let moves = self.handle.ledger.owner.settling(attempt, members, &fate, now_ms);
            assert_eq!(moves.len(), members.len(), "every member of an attempt is settled");
            let settlement = Settlement {
                attempt: attempt.id,
                lane: attempt.lane.clone(),
                epoch: self.epoch,
                fate: fate.clone(),
                moves: moves.clone(),
                now_ms,
            };
            match self.shared.store.settle(settlement).await {
                Ok(Settled::Done { moved, released }) => {
                    self.handle.overcome(TroubleAt::Settling(nonce));
                    let owner = &self.handle.ledger.owner;
                    owner.settled(attempt, members, &fate, moves, moved, released).await;
                    return Ended::Settled { nonce, sunk };
                }
                Ok(Settled::AlreadyDecided) => return self.ended_elsewhere(),
                Ok(Settled::Fenced) => {
                    guard::met(Guard::SettledFenced);
                    return Ended::Fenced;
                }
                Err(error) => {
                    tracing::warn!(tx = %attempt.hash, %error, "settlement not stored yet");
                    if matches!(error, StoreError::Corrupt(_)) {
                        let trouble = format!("attempt {} cannot be settled: {error}", attempt.id);
                        self.handle.meet(TroubleAt::Settling(nonce), trouble);
                    }
                    self.pause(self.shared.settings.retry_ms).await;
                }
            }
        }
    }
}
