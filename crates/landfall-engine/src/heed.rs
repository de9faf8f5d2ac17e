//! What a decided attempt tells: each member's move, and whose fault a failure is.
//!
//! The moves are made before the settlement is stored ([`Runner::settle_member`], from what is
//! known by then), the lessons drawn after it ([`Runner::heed`]): what is not stored teaches
//! nothing.
//! Not here: what a fate means for a member (`settle`), how lessons add up (`trouble`).

use landfall_core::attempt::{Outcome, Shortage};
use landfall_core::{Attempt, Fate, Move, Purpose, Transfer, TransferId};
use landfall_lanes::{Batch, Owner};

use crate::runner::Runner;
use crate::trouble::Named;
use crate::{schedule, settle};

impl Runner {
    /// The move of one member of a decided attempt.
    pub fn settle_member(
        &self,
        attempt: &Attempt,
        member: &Transfer,
        fate: &Fate,
        index: usize,
        now_ms: u64,
    ) -> Move {
        let settings = &self.core.settings;
        let pace = self.rail.pace();
        let retries = match attempt.purpose {
            Purpose::Prepare => pace.prepare_retries,
            Purpose::Pay | Purpose::Fence => pace.pay_retries,
        };
        let (everybody, others_spared, tries) = {
            let mut troubles = self.troubles.lock();
            let trouble = troubles.of(attempt.purpose);
            let refused = matches!(fate, Fate::Sunk(_));
            let everybody = trouble.is_everybodys(member, refused);
            (everybody, trouble.spared_others(member), trouble.tries(member))
        };
        let terms = settle::Terms {
            everybody,
            others_spared,
            tries,
            aside_ms: schedule::aside_ms(settings, tries),
            now_ms,
            retries,
            backoff_ms: &|retries| self.backoff_ms(retries),
            claim: self.rail.preparation(&member.payload),
            ready_due_ms: now_ms + settings.hint_grace_ms,
        };
        settle::member(attempt, member, fate, index, &terms)
    }

    /// What a fate says about the relay itself, and about the members it names. Returns who can be
    /// tried again at once.
    pub fn heed(
        &self,
        attempt: &Attempt,
        members: &[Transfer],
        fate: &Fate,
        moves: &[Move],
    ) -> Vec<TransferId> {
        let (now_ms, settings) = (self.mono_ms(), &self.core.settings);
        let landing = match fate {
            Fate::Landed(landing) => landing,
            Fate::Sunk(certificate) => {
                let refused = certificate.evidence["relays_fault"] == true;
                let (shortage, why) = (Shortage::Refused, &certificate.summary);
                match (refused, members) {
                    (true, [member]) => self.name(attempt, (member, &moves[0]), shortage, why, 0),
                    (true, _) => {
                        let mut troubles = self.troubles.lock();
                        troubles.of(attempt.purpose).pause(shortage, why, now_ms, settings);
                    }
                    (false, _) => self.troubles.lock().of(attempt.purpose).came_back(members),
                }
                return Vec::new();
            }
        };
        let height = landing.block_height;
        if landing.outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
            self.unfunded.lock().served(&attempt.lane);
            return self.troubles.lock().serve(attempt.purpose, members, height, now_ms);
        }
        let back = self.troubles.lock().of(attempt.purpose).landed(now_ms);
        for ((member, step), outcome) in members.iter().zip(moves).zip(&landing.outcomes) {
            match outcome {
                Outcome::RelayFault { shortage, message }
                    if members.len() > 1 && settle::names_all(landing) =>
                {
                    let mut troubles = self.troubles.lock();
                    troubles.of(attempt.purpose).pause(*shortage, message, now_ms, settings);
                }
                Outcome::RelayFault { shortage, message } => {
                    self.name(attempt, (member, step), *shortage, message, height);
                }
                Outcome::Unexplained { message } => {
                    self.name(attempt, (member, step), Shortage::Contract, message, height);
                }
                Outcome::Unprepared { .. } => {
                    if let Some(key) = self.rail.preparation(&member.payload) {
                        self.known.lock().remove(&key);
                    }
                }
                _ => {}
            }
        }
        // A probe that failed by its own fault tells nothing of others.
        self.troubles.lock().of(attempt.purpose).forgot(&attempt.members);
        back
    }

    /// A failed attempt named this member, and its move says when it may go again.
    fn name(
        &self,
        attempt: &Attempt,
        (member, step): (&Transfer, &Move),
        shortage: Shortage,
        message: &str,
        height: u64,
    ) {
        if shortage == Shortage::Tokens {
            self.shortfall.lock().suspect();
        }
        let (now_ms, settings) = (self.mono_ms(), &self.core.settings);
        let after = step.applied_to(member);
        let wait_ms = match after.aside.is_some() || after.retry_count > member.retry_count {
            true => after.due_ms.unwrap_or(0).saturating_sub(self.now_ms()),
            false => 0,
        };
        let named = Named {
            member,
            shortage,
            message,
            height,
            alone: attempt.members.len() == 1,
            refused: shortage == Shortage::Refused,
            // Nobody needs to look after one that was given up.
            tries: if after.state.is_final() { 0 } else { settle::tries(&after) },
            until_ms: now_ms + wait_ms,
        };
        self.troubles.lock().of(attempt.purpose).name(named, now_ms, settings);
        if shortage == Shortage::Native {
            self.shortage(&attempt.lane, shortage, message);
        }
    }

    /// Tells operators who fails alone, and why a stage stands still; or that it is over.
    pub fn report(&self) {
        let (paused, aside) = {
            let troubles = self.troubles.lock();
            (troubles.paused(), troubles.aside())
        };
        for (kind, message) in [("rail_paused", paused), ("set_aside", aside)] {
            match message {
                Some(message) => self.alert(kind, message),
                None => self.calm(kind),
            }
        }
    }

    /// No attempt has these: nothing was learnt.
    pub fn take_back(&self, batch: &Batch) {
        self.troubles.lock().of(batch.purpose).came_back(&batch.members);
        self.shortfall.lock().handed_on(batch.members.iter().map(|member| member.id));
    }
}
