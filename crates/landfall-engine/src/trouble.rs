//! Whose fault it is when an attempt fails by what looks like the relay's own: one member's, or
//! everybody's. The ledger's words do not tell; what happens next does.
//!
//! Whoever was named travels alone from then on ([`settle::is_marked`]), and its siblings go on
//! without it. If it fails alone as well it is set aside: tried ever more rarely, alone, one payout
//! at a time of its receiver. If several receivers are named and nobody is served in between, the
//! fault meets everybody: the stage pauses, each pause longer than the last, and after each of them
//! one member is sent as a probe. Once somebody is served, everything flows again and the growth
//! begins anew.
//!
//! A restart forgets what is remembered here; the marks are in the store, with the count of tries.
//! So who was named still travels alone, as rarely as before. A fault that meets everybody costs up
//! to an attempt per lane until it is noticed again, and a receiver's other payouts one batch.
//! Not here: the moves (`settle`), the sending (`pay`). Times are of the process's own clock.

use std::collections::{BTreeMap, BTreeSet};

use landfall_core::attempt::Shortage;
use landfall_core::rail::Remedies;
use landfall_core::{Purpose, Transfer, TransferId};

use crate::schedule;
use crate::settings::Settings;
use crate::settle;

/// Receivers named for the first time, with nobody served in between, from which it is everybody's
/// fault: two may be chance.
const EVERYBODY: usize = 3;
/// Receivers remembered as failing: a few hundred bytes each. Beyond it the marks in the store do.
const OFFENDERS_MAX: usize = 10_000;

/// What stands in the way of a rail's stages: being prepared says nothing of being paid.
#[derive(Default)]
pub(crate) struct Troubles {
    prepare: Trouble,
    pay: Trouble,
    funds: Option<Funds>,
    remedies: Remedies,
}

/// The relay may be out of the ledger's own coin, without which no stage can do anything.
#[derive(Debug)]
struct Funds {
    reason: String,
    /// When to look at them, and how often that was in vain.
    until_ms: u64,
    looks: u32,
}

impl Troubles {
    pub fn new(remedies: Remedies) -> Troubles {
        let stage = || Trouble { remedies, ..Trouble::default() };
        Troubles { prepare: stage(), pay: stage(), funds: None, remedies }
    }

    pub fn of(&mut self, purpose: Purpose) -> &mut Trouble {
        match purpose {
            Purpose::Prepare => &mut self.prepare,
            Purpose::Pay | Purpose::Fence => &mut self.pay,
        }
    }

    pub fn all(&mut self) -> [&mut Trouble; 2] {
        [&mut self.pay, &mut self.prepare]
    }

    pub fn gate(&mut self, purpose: Purpose, now_ms: u64) -> Gate {
        match &self.funds {
            Some(funds) if now_ms < funds.until_ms => Gate::Closed(funds.until_ms - now_ms),
            Some(_) => Gate::Funds,
            None => self.of(purpose).gate(now_ms),
        }
    }

    /// Somebody says that there are too few: they are looked at before anything else is sent.
    pub fn doubt_funds(&mut self, message: &str, now_ms: u64) {
        let reason = self.remedies.describe(Shortage::Native, message);
        self.funds.get_or_insert(Funds { reason, until_ms: now_ms, looks: 0 });
    }

    /// They were looked at. Returns whether they are back: what waits for them can be tried again.
    /// Funds that were never missed are no such news, whoever says that they were.
    pub fn funded(&mut self, funded: bool, now_ms: u64, settings: &Settings) -> bool {
        match &mut self.funds {
            Some(funds) if !funded => {
                funds.until_ms = now_ms + schedule::pause_ms(settings, funds.looks);
                funds.looks += 1;
                false
            }
            _ => self.funds.take().is_some_and(|funds| funds.looks > 0),
        }
    }

    /// These were served, in a block of this height. Returns who can be tried again at once.
    pub fn serve(
        &mut self,
        purpose: Purpose,
        members: &[Transfer],
        height: u64,
        now_ms: u64,
    ) -> Vec<TransferId> {
        self.funds = None;
        self.of(purpose).serve(members, height, now_ms)
    }

    /// Why a stage serves nobody.
    pub fn paused(&self) -> Option<String> {
        let stages = [&self.pay, &self.prepare].into_iter();
        let pauses = stages.filter_map(|stage| stage.pause.as_ref()).map(|pause| &pause.reason);
        self.funds.iter().map(|funds| &funds.reason).chain(pauses).next().cloned()
    }

    /// The members that fail alone, for operators.
    pub fn aside(&self) -> Option<String> {
        let failing = [&self.pay, &self.prepare].into_iter().flat_map(|one| &one.offenders);
        let mut failing = failing.filter(|(_, offender)| offender.tries > 0);
        let (receiver, Offender { key, message, .. }) = failing.next()?;
        let more = match failing.count() {
            0 => String::new(),
            count => format!("; and payouts to {count} receivers more"),
        };
        Some(format!("{key} to {receiver} fails also alone: {message}{more}"))
    }
}

/// What stands in the way of one stage.
#[derive(Default)]
pub(crate) struct Trouble {
    /// By receiver.
    offenders: BTreeMap<String, Offender>,
    /// Receivers named for the first time since somebody was last served.
    named: BTreeSet<String>,
    /// The newest blocks in which somebody was named, and in which somebody was served.
    named_height: u64,
    served_height: u64,
    pause: Option<Pause>,
    /// Pauses since somebody was last served.
    pauses: u32,
    remedies: Remedies,
}

/// A receiver whose payouts fail.
#[derive(Debug)]
struct Offender {
    key: String,
    message: String,
    /// When it was last of any concern.
    seen_ms: u64,
    /// Failures alone, while the fault was not everybody's.
    tries: u32,
    /// The block of its last failure.
    height: u64,
    /// None of its payouts is sent before.
    until_ms: u64,
    /// Its payouts that were set aside.
    waiting: BTreeSet<TransferId>,
}

/// Why nobody is served.
#[derive(Debug)]
struct Pause {
    reason: String,
    /// The ledger does not even take what is signed.
    refused: bool,
    until_ms: u64,
    /// On its way, and when it counts as lost: somebody else may have taken its lane.
    probe: Option<(TransferId, u64)>,
}

/// What a stage may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    /// Nothing for so long.
    Closed(u64),
    /// One member, to see whether it is over.
    Probe,
    /// What the relay's funds allow: they are to be looked at first.
    Funds,
}

/// How a member may travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stance {
    Together,
    Alone,
    /// Not for so long: its receiver's turn has not come.
    Later(u64),
}

/// A member that was named by a failed attempt.
pub(crate) struct Named<'a> {
    /// As it was when the attempt was decided.
    pub member: &'a Transfer,
    pub shortage: Shortage,
    pub message: &'a str,
    pub height: u64,
    /// It was the only one.
    pub alone: bool,
    /// The attempt was refused as a whole: that it is this member's doing would be new.
    pub refused: bool,
    /// Its failures alone, this one included, and when it may be tried again.
    pub tries: u32,
    pub until_ms: u64,
}

impl Trouble {
    fn gate(&self, now_ms: u64) -> Gate {
        let Some(pause) = &self.pause else { return Gate::Open };
        match pause.probe {
            Some((_, lost_ms)) if now_ms < lost_ms => Gate::Closed(lost_ms - now_ms),
            _ if now_ms < pause.until_ms => Gate::Closed(pause.until_ms - now_ms),
            _ => Gate::Probe,
        }
    }

    pub fn stance(&self, member: &Transfer, now_ms: u64) -> Stance {
        match self.offenders.get(member.payload.receiver().as_ref()) {
            Some(offender) if now_ms < offender.until_ms => {
                Stance::Later(offender.until_ms - now_ms)
            }
            Some(_) => Stance::Alone,
            None if settle::is_marked(member) => Stance::Alone,
            None => Stance::Together,
        }
    }

    /// This member goes alone: the next of its receiver when it is decided, or counts as lost.
    pub fn sent_alone(&mut self, member: &Transfer, now_ms: u64, settings: &Settings) {
        if let Some(offender) = self.offenders.get_mut(member.payload.receiver().as_ref()) {
            offender.until_ms = now_ms + schedule::aside_ms(settings, offender.tries);
            offender.seen_ms = now_ms;
        }
        if let Some(pause) = &mut self.pause {
            pause.probe = Some((member.id, now_ms + settings.pause_max_ms));
        }
    }

    /// These were not decided: nothing was learnt, and they may go again.
    pub fn came_back(&mut self, members: &[Transfer]) {
        for member in members {
            self.forgot(&[member.id]);
            if let Some(offender) = self.offenders.get_mut(member.payload.receiver().as_ref()) {
                offender.until_ms = 0;
            }
        }
    }

    /// These are somebody else's business now.
    pub fn forgot(&mut self, members: &[TransferId]) {
        if let Some(pause) = &mut self.pause
            && pause.probe.is_some_and(|(probe, _)| members.contains(&probe))
        {
            pause.probe = None;
        }
    }

    /// Remembers whom its receiver keeps waiting.
    pub fn waits(&mut self, member: &Transfer, now_ms: u64) {
        if let Some(offender) = self.offenders.get_mut(member.payload.receiver().as_ref()) {
            offender.seen_ms = now_ms;
            offender.waiting.insert(member.id);
        }
    }

    /// Whether a failure says nothing of the member: everybody meets it, or nobody else was tried.
    pub fn is_everybodys(&self, member: &Transfer, refused: bool) -> bool {
        self.pause.is_some() || (refused && self.is_news(member))
    }

    /// Whether others were served since the member's receiver last failed.
    pub fn spared_others(&self, member: &Transfer) -> bool {
        let offender = self.offenders.get(member.payload.receiver().as_ref());
        offender.is_some_and(|offender| self.served_height > offender.height)
    }

    /// Its failures alone so far: those of its receiver, or, after a restart, its own.
    pub fn tries(&self, member: &Transfer) -> u32 {
        let offender = self.offenders.get(member.payload.receiver().as_ref());
        offender.map_or(0, |offender| offender.tries).max(settle::tries(member))
    }

    fn is_news(&self, member: &Transfer) -> bool {
        let known = self.offenders.contains_key(member.payload.receiver().as_ref());
        !known && !settle::is_marked(member)
    }

    /// A member was named.
    pub fn name(&mut self, named: Named<'_>, now_ms: u64, settings: &Settings) {
        let Named { member, shortage, alone, refused, .. } = named;
        let news = self.is_news(member);
        self.named_height = self.named_height.max(named.height);
        self.remember(&named, now_ms);
        // Too few funds for a batch is no fault; too few for one that was found affordable is.
        let lacks_funds = matches!(shortage, Shortage::Tokens | Shortage::Native);
        if news && (alone || !lacks_funds) {
            self.named.insert(member.payload.receiver().into_owned());
        }
        let probe = self.pause.as_ref().and_then(|pause| pause.probe);
        if probe.is_some_and(|(probe, _)| probe == member.id) {
            self.pause = None;
            self.pause(shortage, named.message, now_ms, settings);
        } else if self.named.len() >= EVERYBODY || (refused && news) {
            self.pause(shortage, named.message, now_ms, settings);
        }
    }

    fn remember(&mut self, named: &Named<'_>, now_ms: u64) {
        if self.offenders.len() >= OFFENDERS_MAX {
            self.offenders.clear();
        }
        let receiver = named.member.payload.receiver().into_owned();
        let offender = self.offenders.entry(receiver).or_insert_with(|| Offender {
            key: String::new(),
            message: String::new(),
            seen_ms: now_ms,
            tries: 0,
            height: 0,
            until_ms: 0,
            waiting: BTreeSet::new(),
        });
        offender.key = named.member.key.clone();
        offender.message = named.message.to_owned();
        offender.seen_ms = now_ms;
        offender.tries = named.tries;
        offender.height = offender.height.max(named.height);
        offender.until_ms = named.until_ms;
        offender.waiting.insert(named.member.id);
    }

    /// Nobody is served for a while, longer each time.
    pub fn pause(&mut self, shortage: Shortage, message: &str, now_ms: u64, settings: &Settings) {
        if self.pause.is_some() {
            return;
        }
        let reason = self.remedies.describe(shortage, message);
        let until_ms = now_ms + schedule::pause_ms(settings, self.pauses);
        self.pauses += 1;
        let refused = shortage == Shortage::Refused;
        self.pause = Some(Pause { reason, refused, until_ms, probe: None });
    }

    fn serve(&mut self, members: &[Transfer], height: u64, now_ms: u64) -> Vec<TransferId> {
        self.served_height = self.served_height.max(height);
        let mut back = Vec::new();
        if !self.offenders.is_empty() {
            for member in members {
                let offender = self.offenders.remove(member.payload.receiver().as_ref());
                back.extend(offender.into_iter().flat_map(|offender| offender.waiting));
            }
        }
        // What landed before the fault does not tell that it is over.
        if height > self.named_height {
            self.named.clear();
            self.pauses = 0;
            back.extend(self.resume(now_ms));
        }
        back.retain(|id| !members.iter().any(|member| member.id == *id));
        back
    }

    /// An attempt is in a block, whatever became of its members: the ledger takes what is signed.
    /// Else who always fails by its own fault would do so for ever uncharged, if nobody is left
    /// who could be served. Returns who can be tried again at once.
    pub fn landed(&mut self, now_ms: u64) -> Vec<TransferId> {
        match &self.pause {
            Some(pause) if pause.refused => self.resume(now_ms),
            _ => Vec::new(),
        }
    }

    /// Ends the pause. Who failed during it may have failed because of it.
    fn resume(&mut self, now_ms: u64) -> Vec<TransferId> {
        let mut back = Vec::new();
        if self.pause.take().is_some() {
            for offender in self.offenders.values_mut() {
                offender.until_ms = 0;
                offender.seen_ms = now_ms;
                back.extend(std::mem::take(&mut offender.waiting));
            }
        }
        back
    }

    /// Forgets receivers that nobody has tried for long: their payouts are others' now, or gone.
    pub fn tidy(&mut self, now_ms: u64, settings: &Settings) {
        if self.pause.is_none() {
            let patience_ms = 2 * settings.aside_max_ms;
            self.offenders.retain(|_, one| now_ms < one.seen_ms + patience_ms);
        }
    }
}

#[cfg(test)]
mod tests;
