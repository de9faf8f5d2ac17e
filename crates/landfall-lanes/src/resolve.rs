//! Step 5 of the protocol: one attempt, from its first broadcast (or from recovery) to its fate.
//!
//! **Invariant:** a refusal counts only for the very first broadcast of bytes that this process
//! itself has just stored. After a crash one may have been made, so recovery never believes it.
//! **Invariant:** the same bytes are sent again and again; nothing here ever signs.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::attempt::Sighting;
use landfall_core::guard::{self, Guard};
use landfall_core::rail::{Broadcast, Later, Look};
use landfall_core::store::{Settled, Settlement, Sight, StoreError};
use landfall_core::wound::{self, Wound};
use landfall_core::{
    Attempt, Certificate, CertificateKind, Epoch, Fate, Landing, Nonce, Purpose, Transfer,
};
use tokio::sync::mpsc;

use crate::fleet::{Face, Place, Shared};

/// How many of a lane's later attempts, sunk ones aside, a look is shown: the nearest ones decide.
const LATER_MAX: usize = 64;

/// An attempt and the transfers it carries, as its opening left them.
#[derive(Debug, Clone)]
pub(crate) struct Carried {
    pub attempt: Attempt,
    pub members: Vec<Transfer>,
}

/// How a resolution ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Decided and settled, by us or by somebody before us.
    Settled { nonce: Nonce, sunk: bool },
    /// Our epoch is old: somebody else holds the lane.
    Fenced,
    /// The ledger shows what no stored attempt explains.
    Foreign(String),
}

/// What one look or broadcast told.
enum Seen {
    Fate(Fate),
    Foreign(String),
    Included,
    Unknown,
    /// Our epoch is old.
    Fenced,
}

/// One attempt on its way to its fate.
pub(crate) struct Resolve {
    pub shared: Arc<Shared>,
    pub epoch: Epoch,
    /// The lane's base: nonces up to it were adopted by an operator, whoever used them.
    pub base: Option<Nonce>,
    pub carried: Carried,
    /// Stored by this process just now, and never sent.
    pub fresh: bool,
    /// Tells the lane whether the attempt is in a block.
    pub progress: mpsc::UnboundedSender<(Nonce, bool)>,
    pub face: Arc<Face>,
}

impl Resolve {
    pub async fn run(mut self) -> Ended {
        let mut round = 0;
        let mut included_since_ms = None;
        let mut wait_ms = if self.fresh { self.shared.settings.rebroadcast_ms } else { 0 };
        let mut seen = match self.fresh {
            true => self.broadcast(&mut round).await,
            false => Seen::Unknown,
        };
        loop {
            if matches!(seen, Seen::Unknown) {
                seen = self.look().await;
            }
            match seen {
                Seen::Fate(fate) => return self.settle(fate).await,
                Seen::Foreign(reason) => return Ended::Foreign(reason),
                Seen::Fenced => return Ended::Fenced,
                Seen::Included => {
                    let now_ms = self.shared.clock.monotonic_ms();
                    let since_ms = *included_since_ms.get_or_insert(now_ms);
                    if now_ms < since_ms + self.shared.settings.fence_after_ms {
                        self.pause(self.shared.settings.look_ms).await;
                        seen = self.look().await;
                        continue;
                    }
                    // In a block that does not become final: a node may show a fork for ever.
                    self.tell(false);
                }
                Seen::Unknown => included_since_ms = None,
            }
            self.pause(wait_ms).await;
            let settings = &self.shared.settings;
            wait_ms = (wait_ms * 2).clamp(settings.rebroadcast_ms, settings.rebroadcast_max_ms);
            seen = match self.is_open().await {
                Some(true) => self.broadcast(&mut round).await,
                Some(false) => return self.ended_elsewhere(),
                None => Seen::Unknown,
            };
        }
    }

    /// Whether it still waits for its fate, as the store has it: an operator may have decided it,
    /// and then it must not be sent any more. None if that cannot be told now.
    async fn is_open(&self) -> Option<bool> {
        let Attempt { id, hash, .. } = &self.carried.attempt;
        let stored = self.shared.store.attempt(*id).await.ok()?;
        // A store that has forgotten it is found out by its lanes.
        let same = stored.filter(|stored| stored.hash == *hash);
        same.map(|stored| stored.fate.is_none())
    }

    fn ended_elsewhere(&self) -> Ended {
        guard::met(Guard::SettledElsewhere);
        let attempt = &self.carried.attempt;
        self.face.overcome(Place::Settling(attempt.nonce));
        self.shared.owner.forgotten(&attempt.members);
        // Whatever became of it: the ledger is asked before the lane signs again.
        Ended::Settled { nonce: attempt.nonce, sunk: true }
    }

    /// Ends early when nudged: what blocked the relay may be gone.
    async fn pause(&self, ms: u64) {
        tokio::select! {
            biased;
            _ = self.face.nudge.notified() => {}
            _ = self.shared.clock.sleep(Duration::from_millis(ms)) => {}
        }
    }

    async fn broadcast(&mut self, round: &mut u32) -> Seen {
        let first = std::mem::take(&mut self.fresh);
        let answer = self.shared.rail.broadcast(&self.carried.attempt, *round).await;
        *round += 1;
        match answer {
            Broadcast::Refused(refusal) if first || wound::is(Wound::RefusedTooLate) => {
                guard::met(Guard::RefusedForCertain);
                tracing::warn!(
                    tx = %self.carried.attempt.hash, reason = %refusal.reason, "refused for certain"
                );
                let evidence = serde_json::json!({
                    "reason": refusal.reason, "relays_fault": refusal.relays_fault,
                });
                Seen::Fate(Fate::Sunk(Certificate {
                    kind: CertificateKind::Refused,
                    summary: format!("refused at its first broadcast: {}", refusal.reason),
                    evidence,
                }))
            }
            Broadcast::Refused(_) => {
                guard::met(Guard::RefusedTooLate);
                Seen::Unknown
            }
            Broadcast::Sent(None) => Seen::Unknown,
            Broadcast::Sent(Some(look)) => self.weigh(look).await,
            Broadcast::Unsure { cause, shortage } => {
                tracing::debug!(tx = %self.carried.attempt.hash, %cause, "unsure");
                if let Some(shortage) = shortage {
                    self.shared.owner.shortage(shortage, &cause);
                }
                if wound::is(Wound::TimeoutIsFailure) {
                    return Seen::Fate(unproven());
                }
                Seen::Unknown
            }
        }
    }

    async fn look(&mut self) -> Seen {
        let attempt = &self.carried.attempt;
        let later = self.shared.store.attempts_after(&attempt.lane, attempt.nonce, LATER_MAX).await;
        let (fenced, later): (bool, Vec<Later>) = match later {
            Ok(attempts) => {
                (attempts.iter().any(is_open_fence), attempts.iter().filter_map(as_later).collect())
            }
            Err(_) => return Seen::Unknown,
        };
        match self.shared.rail.look(attempt, &later).await {
            Ok(Look::Adrift { sightings, .. })
                if fenced && sightings.is_empty() && wound::is(Wound::OpenFenceLanded) =>
            {
                Seen::Fate(unproven())
            }
            Ok(look) => self.weigh(look).await,
            Err(error) => {
                tracing::debug!(tx = %attempt.hash, %error, "look failed");
                Seen::Unknown
            }
        }
    }

    async fn weigh(&mut self, look: Look) -> Seen {
        match look {
            Look::Landed(landing) => self.landed(landing),
            Look::Sunk(certificate) => Seen::Fate(Fate::Sunk(certificate)),
            Look::Foreign(reason) if self.base >= Some(self.carried.attempt.nonce) => {
                // The lane was adopted since. This attempt stays adrift until an operator decides.
                let tx = &self.carried.attempt.hash;
                tracing::warn!(tx, reason, "only an operator can decide");
                Seen::Unknown
            }
            Look::Foreign(_) if wound::is(Wound::ForeignUnheeded) => Seen::Unknown,
            Look::Foreign(reason) => Seen::Foreign(reason),
            Look::Adrift { sightings, .. } if !sightings.is_empty() => {
                self.sighted(sightings).await
            }
            Look::Adrift { .. } if wound::is(Wound::NewBytesWhileAdrift) => Seen::Fate(unproven()),
            Look::Adrift { .. } => {
                self.tell(false);
                Seen::Unknown
            }
        }
    }

    /// Which member was paid must be told for each: silence about one proves nothing.
    fn landed(&self, landing: Landing) -> Seen {
        let (outcomes, members) = (landing.outcomes.len(), self.carried.members.len());
        if outcomes == members {
            return Seen::Fate(Fate::Landed(landing));
        }
        let message = format!(
            "{} landed with {outcomes} outcomes for {members} members; it is left open",
            self.carried.attempt.hash
        );
        self.shared.owner.alert("outcomes_missing", message);
        Seen::Unknown
    }

    /// A sighting is stored before anything relies on it: it vetoes a certificate later.
    async fn sighted(&mut self, sightings: Vec<Sighting>) -> Seen {
        let attempt = &mut self.carried.attempt;
        for sighting in sightings {
            if attempt.has_heard(&sighting) {
                continue;
            }
            let sight = Sight {
                attempt: attempt.id,
                lane: attempt.lane.clone(),
                epoch: self.epoch,
                sightings: vec![sighting.clone()],
                moves: Vec::new(),
            };
            match self.shared.store.sight(sight).await {
                Ok(true) => attempt.sightings.push(sighting),
                Ok(false) => return Seen::Fenced,
                Err(_) => return Seen::Unknown,
            }
        }
        self.tell(true);
        Seen::Included
    }

    fn tell(&self, included: bool) {
        // The lane may be gone; then nobody waits for this.
        let _ = self.progress.send((self.carried.attempt.nonce, included));
    }

    async fn settle(&self, fate: Fate) -> Ended {
        let Carried { attempt, members } = &self.carried;
        let sunk = matches!(fate, Fate::Sunk(_));
        let nonce = attempt.nonce;
        loop {
            let now_ms = self.shared.clock.now_ms();
            let moves = self.shared.owner.settling(attempt, members, &fate, now_ms);
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
                    self.face.overcome(Place::Settling(nonce));
                    let owner = &self.shared.owner;
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
                        self.face.meet(Place::Settling(nonce), trouble);
                    }
                    self.pause(self.shared.settings.retry_ms).await;
                }
            }
        }
    }
}

/// The mistake of a wounded build: a death without a certificate.
fn unproven() -> Fate {
    Fate::Sunk(Certificate {
        kind: CertificateKind::Operator,
        summary: "unproven".to_owned(),
        evidence: serde_json::Value::Null,
    })
}

fn is_open_fence(attempt: &Attempt) -> bool {
    attempt.purpose == Purpose::Fence && attempt.fate.is_none()
}

/// A later attempt as the look sees it; a sunk one explains nothing and is left out.
fn as_later(attempt: &Attempt) -> Option<Later> {
    let landed_height = match &attempt.fate {
        None => None,
        Some(Fate::Landed(landing)) => Some(landing.block_height),
        Some(Fate::Sunk(_)) => return None,
    };
    Some(Later { nonce: attempt.nonce, hash: attempt.hash.clone(), landed_height })
}
