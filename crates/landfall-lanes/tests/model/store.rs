//! The modelled store: one lane, its attempts, two transfers; and writes that arrive when they do.
//!
//! What may be opened and which variants may be added is asked of the real rule
//! (`landfall_core::opening`). Settling is each store's own: here as the seam documents it.

use std::convert::Infallible;

use landfall_core::attempt::{Purpose, Signed, VariantKind};
use landfall_core::opening::{
    Known, Reached, Standing, Underway, refusal, stale_members, variant_refusal,
};
use landfall_core::store::{AddVariant, Added, OpenAttempt, Opened};
use landfall_core::{AttemptId, Epoch, LaneId, Move, Nonce, RailName, State, TransferId, near};

use crate::ledger::Bytes;
use crate::properties::Broken;
use crate::world::Fault;

const INCARNATION: &str = "only";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    Landed,
    Sunk,
}

/// A write on its way to the store, from whoever held the lane under `epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Write {
    /// Pays nobody if it is a fence.
    Open {
        epoch: u8,
        nonce: u8,
        pays: Option<u8>,
    },
    Variant {
        epoch: u8,
        nonce: u8,
        number: u8,
        cancels: bool,
    },
    Settle {
        epoch: u8,
        nonce: u8,
        fate: Fate,
    },
}

impl Write {
    pub fn epoch(&self) -> u8 {
        match self {
            Write::Open { epoch, .. }
            | Write::Variant { epoch, .. }
            | Write::Settle { epoch, .. } => *epoch,
        }
    }
}

/// What the writer does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Stored,
    /// Nothing was stored; the lane is still held.
    Dropped,
    /// The lane must be leased again.
    Fenced,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Attempt {
    pub nonce: u8,
    pub epoch: u8,
    pub pays: Option<u8>,
    /// Whether each cancels, and under which epoch it was signed.
    pub variants: Vec<(bool, u8)>,
    pub fate: Option<Fate>,
}

impl Attempt {
    /// What was signed for it; 0 is its own.
    pub fn bytes(&self, number: u8) -> Bytes {
        let (cancels, epoch) = match number.checked_sub(1) {
            None => (false, self.epoch),
            Some(index) => self.variants[index as usize],
        };
        Bytes { nonce: self.nonce, number, pays: self.pays.filter(|_| !cancels), epoch }
    }

    pub fn all_bytes(&self) -> impl Iterator<Item = Bytes> {
        (0..=self.variants.len() as u8).map(|number| self.bytes(number))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transfer {
    Waiting,
    /// By the attempt with this nonce.
    Carried(u8),
    Completed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    pub epoch: u8,
    /// False once the holder has given the lane back.
    pub held: bool,
    pub next: u8,
    pub attempts: Vec<Attempt>,
    pub transfers: Vec<Transfer>,
}

impl Store {
    pub fn new(transfers: u8) -> Store {
        let transfers = vec![Transfer::Waiting; transfers.into()];
        Store { epoch: 0, held: false, next: 1, attempts: Vec::new(), transfers }
    }

    pub fn attempt(&self, nonce: u8) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.nonce == nonce)
    }

    pub fn holds(&self, epoch: u8) -> bool {
        self.held && self.epoch == epoch
    }

    pub fn has(&self, bytes: &Bytes) -> bool {
        let attempt = self.attempt(bytes.nonce);
        attempt.is_some_and(|attempt| attempt.all_bytes().any(|stored| stored == *bytes))
    }

    /// Writes what is legal, and tells what that broke: nothing, unless a check was taken out.
    pub fn apply(&mut self, write: Write, fault: Option<Fault>) -> (Answer, Option<Broken>) {
        let by_old_epoch = !self.holds(write.epoch());
        let is_decided = match write {
            Write::Open { .. } => false,
            Write::Variant { nonce, .. } | Write::Settle { nonce, .. } => {
                self.attempt(nonce).is_some_and(|attempt| attempt.fate.is_some())
            }
        };
        let answer = match write {
            Write::Open { epoch, nonce, pays } => self.open(epoch, nonce, pays, fault),
            Write::Variant { epoch, nonce, number, cancels } => {
                self.add_variant((epoch, nonce, number, cancels), fault)
            }
            Write::Settle { epoch, nonce, fate } => self.settle(epoch, nonce, fate, fault),
        };
        let broken = match answer {
            Answer::Stored if by_old_epoch => Some(Broken::OldEpochStored),
            Answer::Stored if is_decided => Some(Broken::DecidedAgain),
            _ => None,
        };
        (answer, broken)
    }

    fn standing(&self, asker: u8, fault: Option<Fault>) -> Standing {
        // Told that whoever asks holds the lane, the rule checks no epoch.
        let unchecked = fault == Some(Fault::EpochUnchecked);
        let held = if unchecked { Some(asker) } else { self.held.then_some(self.epoch) };
        let variants: usize = self.attempts.iter().map(|attempt| attempt.variants.len()).sum();
        Standing {
            held: held.map(|epoch| Epoch(epoch.into())),
            halted: None,
            reached: Reached {
                next_nonce: Some(Nonce(self.next.into())),
                seq: (self.attempts.len() + variants) as u64,
            },
        }
    }

    fn open(&mut self, epoch: u8, nonce: u8, pays: Option<u8>, fault: Option<Fault>) -> Answer {
        let open = opening(epoch, nonce, pays);
        let standing = self.standing(epoch, fault);
        let reached = |_: &LaneId| Some(standing.reached);
        let known =
            Known { incarnation: Some(INCARNATION), lane: Some(&standing), reached: &reached };
        let is_current = |id: TransferId| {
            let waits = self.transfers[id.0 as usize] == Transfer::Waiting;
            Ok::<_, Infallible>(waits || fault == Some(Fault::HintOverStore))
        };
        let moves = open.moves.iter().map(|step| (step, step.id));
        let Ok(refused) = refusal(&open, &known, || stale_members(moves, is_current));
        match refused {
            None => {}
            Some(Opened::StaleMembers(_)) => return Answer::Dropped,
            Some(_) => return Answer::Fenced,
        }
        if let Some(transfer) = pays {
            self.transfers[transfer as usize] = Transfer::Carried(nonce);
        }
        self.attempts.push(Attempt { nonce, epoch, pays, variants: Vec::new(), fate: None });
        self.next = if fault == Some(Fault::NonceReused) { nonce } else { nonce + 1 };
        Answer::Stored
    }

    fn add_variant(
        &mut self,
        (epoch, nonce, number, cancels): (u8, u8, u8, bool),
        fault: Option<Fault>,
    ) -> Answer {
        let add = AddVariant {
            attempt: AttemptId(nonce.into()),
            lane: lane(),
            epoch: Epoch(epoch.into()),
            number: number.into(),
            kind: if cancels { VariantKind::Cancels } else { VariantKind::Replaces },
            signed: signed(),
            marks: Vec::new(),
            incarnation: INCARNATION.to_owned(),
            now_ms: 0,
        };
        let standing = self.standing(epoch, fault);
        let reached = |_: &LaneId| Some(standing.reached);
        let known =
            Known { incarnation: Some(INCARNATION), lane: Some(&standing), reached: &reached };
        let underway = self.attempt(nonce).map(|attempt| Underway {
            is_of_lane: true,
            is_decided: attempt.fate.is_some() && fault != Some(Fault::DecidedUnchecked),
            variants: attempt.variants.len() as u32,
        });
        match variant_refusal(&add, &known, underway).expect("attempts are not forgotten") {
            None => {}
            Some(Added::Decided | Added::StaleNumber) => return Answer::Dropped,
            Some(_) => return Answer::Fenced,
        }
        let mut attempts = self.attempts.iter_mut();
        if let Some(attempt) = attempts.find(|attempt| attempt.nonce == nonce) {
            attempt.variants.push((cancels, epoch));
        }
        Answer::Stored
    }

    /// As `Store::settle` says: by the holder, once, moving the members that it still carries.
    fn settle(&mut self, epoch: u8, nonce: u8, fate: Fate, fault: Option<Fault>) -> Answer {
        if !self.holds(epoch) && fault != Some(Fault::EpochUnchecked) {
            return Answer::Fenced;
        }
        let again = fault == Some(Fault::DecidedUnchecked);
        let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.nonce == nonce) else {
            return Answer::Fenced;
        };
        if attempt.fate.is_some() && !again {
            return Answer::Dropped;
        }
        attempt.fate = Some(fate);
        let member = attempt.pays.map(|transfer| &mut self.transfers[transfer as usize]);
        if let Some(member) = member.filter(|member| again || **member == Transfer::Carried(nonce))
        {
            *member = match fate {
                Fate::Landed => Transfer::Completed,
                Fate::Sunk => Transfer::Waiting,
            };
        }
        Answer::Stored
    }
}

fn lane() -> LaneId {
    LaneId::new("near:model:relay:key")
}

fn signed() -> Signed {
    Signed { bytes: Vec::new(), hash: String::new(), base: None, expires_height: None }
}

/// Marks are left out: this store forgets nothing, and torture's do.
fn opening(epoch: u8, nonce: u8, pays: Option<u8>) -> OpenAttempt {
    OpenAttempt {
        rail: RailName::Near,
        lane: lane(),
        epoch: Epoch(epoch.into()),
        nonce: Nonce(nonce.into()),
        purpose: if pays.is_some() { Purpose::Pay } else { Purpose::Fence },
        signed: signed(),
        moves: pays.map(member).into_iter().collect(),
        marks: Vec::new(),
        incarnation: INCARNATION.to_owned(),
        now_ms: 0,
    }
}

/// What the opener expects of its member: that it waits.
fn member(transfer: u8) -> Move {
    Move {
        id: TransferId(transfer.into()),
        from_state: State::Near(near::State::QueuedTransfer),
        from_version: Some(1),
        from_updated_ms: 0,
        from_attempt: None,
        state: State::Near(near::State::QueuedVerification),
        confirmed: false,
        attempt: None,
        stage_retries: 0,
        retry_count: 0,
        due_ms: None,
        aside: None,
        tx_hash: None,
        error: None,
        completed_ms: None,
        at_ms: 0,
        trail: Vec::new(),
        claims: Vec::new(),
    }
}
