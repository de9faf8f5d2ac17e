//! Step 5 of the protocol: one attempt, from its first broadcast (or from recovery) to its fate.
//!
//! **Invariant:** a refusal counts only for the very first broadcast of bytes that this process
//! itself has just stored. After a crash one may have been made, so recovery never believes it.
//! **Invariant:** only stored bytes are sent, again and again, the newest of them; nothing here
//! ever signs.
//! Not here: writing down what is found out (`record`).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use landfall_core::attempt::Variant;
use landfall_core::guard::{self, Guard};
use landfall_core::ledger::{Broadcast, Later, Look, Manner, Order, Refusal};
use landfall_core::store::StoreError;
use landfall_core::wound::{self, Wound};
use landfall_core::{
    Attempt, Certificate, CertificateKind, Epoch, Fate, Landing, Nonce, Purpose, Transfer,
};
use tokio::sync::mpsc;

use crate::fleet::Shared;
use crate::gate::Standing;
use crate::handle::{LaneHandle, TroubleAt};
use crate::silence::Silence;
use crate::watched::Watcher;

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
pub(crate) enum Seen {
    Fate(Fate),
    Foreign(String),
    Included,
    /// A node has it; that is all.
    Sent,
    /// Nobody has it who was asked.
    Unknown,
    /// Nobody could be asked.
    Silent,
    /// Our epoch is old.
    Fenced,
}

/// One attempt on its way to its fate.
pub(crate) struct Resolve {
    pub shared: Arc<Shared>,
    pub handle: Arc<LaneHandle>,
    pub epoch: Epoch,
    /// The lane's base: nonces up to it were adopted by an operator, whoever used them.
    pub base: Option<Nonce>,
    pub carried: Carried,
    /// Stored by this process just now, and never sent.
    pub fresh: bool,
    /// Tells that the attempt before this one has left, if that is to be waited for.
    pub after: Option<Watcher<bool>>,
    /// Other bytes for it, as they are stored.
    pub variants: mpsc::UnboundedReceiver<Variant>,
    /// How many of the newest bytes are left out of the next broadcast: those that nobody took.
    pub left_out: usize,
    /// How many broadcasts were refused one after the other.
    pub refusals: usize,
    /// Why its own bytes can never enter the ledger, on which others queue behind it.
    pub refused: Option<Refusal>,
    /// Whether its members are as the store has them.
    pub members_known: bool,
    /// Tells the lane how far the attempt has come.
    pub progress: mpsc::UnboundedSender<(Nonce, Standing)>,
    /// Operators are told that nobody says what became of its members.
    pub silence: Option<Silence>,
}

/// Why a wait ended.
#[derive(Debug, PartialEq, Eq)]
enum Woken {
    /// The ledger has used its nonce.
    Passed,
    /// The time is over, or somebody nudged: what blocked the relay may be gone.
    Elapsed,
    /// There are other bytes to be sent.
    Varied,
}

impl Resolve {
    pub async fn run(mut self) -> Ended {
        if let Some(mut after) = self.after.take() {
            after.until(|departed| *departed).await;
            // Others may have decided it meanwhile; while that cannot be told it must not be sent.
            loop {
                match self.is_open().await {
                    Some(true) => break,
                    Some(false) => return self.ended_elsewhere(),
                    None => self.pause(self.shared.settings.retry_ms).await,
                }
            }
        }
        let manner = self.handle.ledger.manner;
        let mut round = 0;
        let (mut included_since_ms, mut told_final) = (None, false);
        let mut wait_ms = if self.fresh { manner.rebroadcast_ms } else { 0 };
        let mut seen = match self.fresh {
            true => self.send(&mut round).await,
            false => self.search(false).await,
        };
        loop {
            match seen {
                Seen::Fate(fate) => return self.settle(fate).await,
                Seen::Foreign(reason) => return Ended::Foreign(reason),
                Seen::Fenced => return Ended::Fenced,
                Seen::Included => {
                    let now_ms = self.shared.clock.monotonic_ms();
                    let since_ms = *included_since_ms.get_or_insert(now_ms);
                    if now_ms < since_ms + manner.finality_ms {
                        told_final = self.until_final(&manner, !told_final).await;
                        seen = self.search(true).await;
                        continue;
                    }
                    // In a block that does not become final: a node may show a fork for ever.
                    self.tell_unsure();
                    self.pause(wait_ms).await;
                }
                Seen::Sent | Seen::Unknown | Seen::Silent => {
                    included_since_ms = None;
                    // What a node has needs time rather than to be sent again, unless nodes keep
                    // nothing for long, and nothing waits behind it.
                    let patience_ms = match seen {
                        Seen::Sent if manner.order != Order::Free => {
                            wait_ms.max(manner.inclusion_ms / 2)
                        }
                        _ => wait_ms,
                    };
                    match self.until_passed(patience_ms).await {
                        Woken::Passed => {
                            seen = self.search(true).await;
                            if !matches!(seen, Seen::Unknown | Seen::Silent) {
                                continue;
                            }
                            // Whatever passed is not known yet; once in a wait is enough.
                            self.pause(wait_ms).await;
                        }
                        Woken::Varied => wait_ms = 0,
                        Woken::Elapsed => {}
                    }
                }
            }
            wait_ms = (wait_ms * 2).clamp(manner.rebroadcast_ms, manner.rebroadcast_max_ms);
            seen = match self.is_open().await {
                Some(true) if manner.repeats => self.repeat(&mut round).await,
                Some(true) => self.search(false).await,
                Some(false) => return self.ended_elsewhere(),
                None => Seen::Unknown,
            };
        }
    }

    /// The first broadcast. Who knows nothing afterwards looks before anything else.
    async fn send(&mut self, round: &mut u32) -> Seen {
        match self.broadcast(round).await {
            Seen::Unknown => self.look(false).await,
            seen => seen,
        }
    }

    /// Stored bytes again, or for the first time those of a variant.
    async fn repeat(&mut self, round: &mut u32) -> Seen {
        match self.broadcast(round).await {
            // Where attempts queue only a nonce that is used decides anything, which a pulse tells.
            Seen::Sent if self.queues() => Seen::Sent,
            Seen::Unknown | Seen::Sent => self.search(false).await,
            seen => seen,
        }
    }

    /// From the cheap question to the proof of death.
    async fn search(&mut self, passed: bool) -> Seen {
        match self.look(passed).await {
            Seen::Unknown => self.inquest().await,
            seen => seen,
        }
    }

    fn queues(&self) -> bool {
        self.handle.ledger.manner.order == Order::Queues
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

    /// Whether these bytes of it are stored, by us or by whoever has held the lane since. None if
    /// that cannot be told now.
    async fn is_stored(&mut self, hash: &str) -> Option<bool> {
        let attempt = &mut self.carried.attempt;
        let knows = |attempt: &Attempt| attempt.hashes().any(|known| known == hash);
        if knows(attempt) {
            return Some(true);
        }
        let stored = self.shared.store.attempt(attempt.id).await.ok()??;
        Some(stored.hash == attempt.hash && knows(&stored))
    }

    pub fn ended_elsewhere(&self) -> Ended {
        guard::met(Guard::SettledElsewhere);
        let attempt = &self.carried.attempt;
        self.handle.overcome(TroubleAt::Settling(attempt.nonce));
        self.handle.ledger.owner.forgotten(&attempt.members);
        // Whatever became of it: the ledger is asked before the lane signs again.
        Ended::Settled { nonce: attempt.nonce, sunk: true }
    }

    /// Waits for the ledger to use its nonce, for a while.
    async fn until_passed(&mut self, ms: u64) -> Woken {
        let (mut seen, nonce) = (self.handle.seen.watch(), self.carried.attempt.nonce);
        let nudge = self.handle.nudge.clone();
        tokio::select! {
            biased;
            Some(variant) = self.variants.recv() => {
                self.learn(variant);
                Woken::Varied
            }
            _ = nudge.notified() => Woken::Elapsed,
            _ = self.shared.clock.sleep(Duration::from_millis(ms)) => Woken::Elapsed,
            _ = seen.until(|seen| seen.included.has(nonce)) => Woken::Passed,
        }
    }

    /// Learns of all other bytes that are stored: whatever is asked of the ledger is asked of them.
    fn learn_variants(&mut self) {
        while let Ok(variant) = self.variants.try_recv() {
            self.learn(variant);
        }
    }

    fn learn(&mut self, variant: Variant) {
        self.carried.attempt.variants.push(variant);
        self.left_out = 0;
    }

    /// The attempt as it is sent next. The newest bytes are the best, but nodes may refuse them for
    /// ever, and have dropped the others meanwhile.
    fn to_send(&self) -> Cow<'_, Attempt> {
        let attempt = &self.carried.attempt;
        if self.left_out == 0 {
            return Cow::Borrowed(attempt);
        }
        let mut older = attempt.clone();
        older.variants.truncate(attempt.variants.len() - self.left_out);
        Cow::Owned(older)
    }

    /// Waits for about a block, or until a pulse tells that it is final; returns whether one did.
    /// Who was told so in vain heeds none the next time: a pulse is no fate, and goes on saying it.
    async fn until_final(&self, manner: &Manner, heeds: bool) -> bool {
        let (mut seen, nonce) = (self.handle.seen.watch(), self.carried.attempt.nonce);
        let heeds = heeds && manner.pulse_tells_finality;
        tokio::select! {
            biased;
            _ = self.pause(manner.look_ms) => false,
            _ = seen.until(|seen| seen.finished.has(nonce)), if heeds => true,
        }
    }

    /// Ends early when nudged: what blocked the relay may be gone.
    pub async fn pause(&self, ms: u64) {
        tokio::select! {
            biased;
            _ = self.handle.nudge.notified() => {}
            _ = self.shared.clock.sleep(Duration::from_millis(ms)) => {}
        }
    }

    async fn broadcast(&mut self, round: &mut u32) -> Seen {
        self.learn_variants();
        let first = std::mem::take(&mut self.fresh);
        let answer = self.handle.ledger.ledger.broadcast(&self.to_send(), *round).await;
        *round += 1;
        self.left_out = match answer {
            Broadcast::Sent(_) => 0,
            _ => (self.left_out + 1) % (self.carried.attempt.variants.len() + 1),
        };
        self.refusals = match answer {
            Broadcast::Refused(_) => self.refusals + 1,
            _ => 0,
        };
        let all_are_refused = self.refusals > self.carried.attempt.variants.len();
        match answer {
            Broadcast::Refused(refusal) if !all_are_refused => {
                // Of these bytes only: others of the attempt may land.
                tracing::info!(
                    tx = %self.carried.attempt.hash, reason = %refusal.reason, "variant refused"
                );
                if wound::is(Wound::VariantRefusedSinks) {
                    return Seen::Fate(unproven());
                }
                self.tell_unsure();
                Seen::Unknown
            }
            Broadcast::Refused(refusal) if self.queues() => {
                // Its nonce must be used before anything behind it can land: by a cancel, which
                // decides it, even if these bytes were sent before.
                tracing::warn!(
                    tx = %self.carried.attempt.hash, reason = %refusal.reason, "to be cancelled"
                );
                self.refused = Some(refusal);
                self.tell_unsure();
                Seen::Unknown
            }
            Broadcast::Refused(refusal) if first || wound::is(Wound::RefusedTooLate) => {
                guard::met(Guard::RefusedForCertain);
                tracing::warn!(
                    tx = %self.carried.attempt.hash, reason = %refusal.reason, "refused for certain"
                );
                Seen::Fate(Fate::Sunk(Certificate {
                    kind: CertificateKind::Refused,
                    summary: format!("refused at its first broadcast: {}", refusal.reason),
                    evidence: refusal.evidence(),
                }))
            }
            Broadcast::Refused(_) => {
                guard::met(Guard::RefusedTooLate);
                Seen::Unknown
            }
            Broadcast::Sent(Some(look)) => self.weigh(look).await,
            Broadcast::Sent(None) => {
                self.tell(Standing::Sent);
                Seen::Sent
            }
            Broadcast::Unsure { cause, shortage } => {
                tracing::debug!(tx = %self.carried.attempt.hash, %cause, "unsure");
                self.tell_unsure();
                if let Some(shortage) = shortage {
                    self.handle.ledger.owner.shortage(&self.handle.id, shortage, &cause);
                }
                if wound::is(Wound::TimeoutIsFailure) {
                    return Seen::Fate(unproven());
                }
                Seen::Unknown
            }
        }
    }

    async fn look(&mut self, passed: bool) -> Seen {
        self.learn_variants();
        match self.handle.ledger.ledger.look(&self.carried.attempt, passed).await {
            Ok(look) => self.weigh(look).await,
            Err(error) => {
                tracing::debug!(tx = %self.carried.attempt.hash, %error, "look failed");
                Seen::Silent
            }
        }
    }

    async fn inquest(&mut self) -> Seen {
        self.learn_variants();
        let attempt = &self.carried.attempt;
        let later = self.shared.store.attempts_after(&attempt.lane, attempt.nonce, LATER_MAX).await;
        let (fenced, later): (bool, Vec<Later>) = match later {
            Ok(attempts) => {
                (attempts.iter().any(is_open_fence), attempts.iter().filter_map(as_later).collect())
            }
            Err(_) => return Seen::Unknown,
        };
        let mut told = self.handle.ledger.ledger.inquest(attempt, &later).await;
        if matches!(told, Ok(Look::Foreign(_))) {
            let Ok(ruled) = self.ruled_after().await else { return Seen::Unknown };
            if !ruled.is_empty() {
                told = self.handle.ledger.ledger.inquest(attempt, &[later, ruled].concat()).await;
            }
        }
        match told {
            Ok(Look::Adrift { .. }) if fenced && wound::is(Wound::OpenFenceLanded) => {
                Seen::Fate(unproven())
            }
            Ok(look) => self.weigh(look).await,
            Err(error) => {
                tracing::debug!(tx = %attempt.hash, %error, "inquest failed");
                Seen::Unknown
            }
        }
    }

    /// Later attempts that an operator called sunk. What was reverted is called so, too: its nonce
    /// is used then, and by us.
    async fn ruled_after(&self) -> Result<Vec<Later>, StoreError> {
        let Attempt { lane, nonce, .. } = &self.carried.attempt;
        let mut ruled = Vec::new();
        for above in 1..=LATER_MAX as u64 {
            let at = Nonce(nonce.0.saturating_add(above));
            let stored = self.shared.store.attempt_at(lane, at).await?;
            if let Some(attempt) = stored.filter(is_ruled_sunk) {
                ruled.push(Later { nonce: at, hash: attempt.hash, landed_height: None });
            }
        }
        Ok(ruled)
    }

    async fn weigh(&mut self, look: Look) -> Seen {
        match look {
            Look::Landed(landing) => self.landed(landing).await,
            Look::Sunk(certificate) => Seen::Fate(Fate::Sunk(certificate)),
            Look::Foreign(foreign) if self.base >= Some(self.carried.attempt.nonce) => {
                // The lane was adopted since: what is proven counts.
                if let Some(certificate) = foreign.certificate {
                    return Seen::Fate(Fate::Sunk(certificate));
                }
                // This attempt stays adrift until an operator decides.
                let (tx, reason) = (&self.carried.attempt.hash, &foreign.reason);
                tracing::warn!(tx, reason, "only an operator can decide");
                Seen::Unknown
            }
            Look::Foreign(_) if wound::is(Wound::ForeignUnheeded) => Seen::Unknown,
            Look::Foreign(foreign) => Seen::Foreign(foreign.reason),
            Look::Adrift { sightings, .. } if !sightings.is_empty() => {
                self.sighted(sightings).await
            }
            Look::Adrift { .. } if wound::is(Wound::NewBytesWhileAdrift) => Seen::Fate(unproven()),
            Look::Adrift { .. } => {
                self.tell_unsure();
                self.show_members(Vec::new(), false).await.unwrap_or(Seen::Unknown)
            }
        }
    }

    /// Which member was paid must be told for each: silence about one proves nothing.
    async fn landed(&mut self, landing: Landing) -> Seen {
        // Who signs for us chooses the hash: what is stored is the request, which is sent once.
        if let Some(hash) = landing.hash.as_ref().filter(|_| self.handle.ledger.manner.repeats) {
            match self.is_stored(hash).await {
                Some(true) => {}
                None => return Seen::Unknown,
                Some(false) if wound::is(Wound::ContentUnheeded) => return Seen::Fate(unproven()),
                Some(false) => {
                    // Ours by what it does: its members are paid. Who knows what else is forgotten.
                    let Attempt { hash: original, lane, nonce, .. } = &self.carried.attempt;
                    self.shared.suspect(&format!(
                        "{hash} landed with nonce {nonce} of {lane} and does what {original} was \
                         to do, but is not stored"
                    ));
                }
            }
        }
        let attempt = &self.carried.attempt;
        let (outcomes, members) = (landing.outcomes.len(), self.carried.members.len());
        if outcomes == members {
            return Seen::Fate(Fate::Landed(landing));
        }
        let message = format!(
            "{} landed with {outcomes} outcomes for {members} members; it is left open",
            attempt.hash
        );
        let (ledger, attempt) = (&self.handle.ledger, &self.carried.attempt);
        self.silence.get_or_insert_with(|| Silence::about(ledger, attempt, message));
        Seen::Unknown
    }

    pub fn tell(&self, standing: Standing) {
        // The lane may be gone; then nobody waits for this.
        let _ = self.progress.send((self.carried.attempt.nonce, standing));
    }

    fn tell_unsure(&self) {
        self.tell(match self.refused {
            Some(_) => Standing::Refused,
            None => Standing::Unsure,
        });
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

fn is_ruled_sunk(attempt: &Attempt) -> bool {
    let ruled = |certificate: &Certificate| certificate.kind == CertificateKind::Operator;
    matches!(&attempt.fate, Some(Fate::Sunk(certificate)) if ruled(certificate))
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
