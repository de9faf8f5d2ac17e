//! The store's past: a backup now and then, and the moment at which the store goes back to it.
//!
//! Once in a run, at a tick or at a call, so that two reads of one question may tell of two times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use landfall_core::Purpose;
use landfall_store_memory::{MemoryStore, Snapshot};
use parking_lot::Mutex;

use super::checkers::Promises;
use super::plan::Plan;
use super::seat::{Dice, Trace};

/// A backup is at most so many ticks old.
const BACKUP_TICKS: u64 = 60;
/// How much rarer the store goes back around the opening of an attempt, and after any read, than in
/// a recovery: there are many of them.
const BEFORE_OPEN: f64 = 0.1;
const AFTER_READ: f64 = 0.000_5;
/// How often a payment is forgotten as soon as it is stored, where a store may. Only with one
/// instance about: if the one that sends it were paused now, no other could tell.
const FORGOTTEN_AT_ONCE: f64 = 0.6;

/// The store of a world, and where it may go back to.
pub struct Past {
    pub store: Arc<MemoryStore>,
    pub plan: Arc<Plan>,
    pub dice: Arc<Dice>,
    pub trace: Arc<Trace>,
    pub promises: Arc<Mutex<Promises>>,
    pub backup: Mutex<Option<Backup>>,
    /// Whether the backup lacks an attempt that was opened since.
    pub lacks_an_attempt: AtomicBool,
    /// Whether the attempt that is being opened will be forgotten at once.
    pub forgets_at_once: AtomicBool,
}

/// The store at one moment.
pub struct Backup {
    taken: u64,
    /// The tick of the next one.
    until: u64,
    snapshot: Snapshot,
}

impl Past {
    /// Makes a backup if the last one is old, and may go back to it.
    pub fn tick(&self, tick: u64) {
        if self.plan.store_rollback == 0.0 || self.promises.lock().store_went_back {
            return;
        }
        let mut backup = self.backup.lock();
        if backup.as_ref().is_none_or(|last| last.until <= tick) {
            let until = tick + self.dice.between(1, BACKUP_TICKS);
            *backup = Some(Backup { taken: tick, until, snapshot: self.store.snapshot() });
            self.lacks_an_attempt.store(false, Ordering::Relaxed);
        }
        drop(backup);
        self.may_go_back(self.plan.store_rollback / 4.0);
    }

    /// May go back, now that somebody has read something and perhaps reads on.
    pub fn after_read(&self) {
        self.may_go_back(self.plan.store_back_at_call * AFTER_READ);
    }

    /// May go back before an attempt is opened, if another is forgotten by it. Or this one will be,
    /// as soon as it is stored: those whom it pays wait in the backup.
    pub fn before_open(&self, purpose: Purpose) {
        if self.lacks_an_attempt.load(Ordering::Relaxed) {
            self.may_go_back(self.plan.store_back_at_call * BEFORE_OPEN);
        }
        // Where bumps are to be forgotten, attempts must live to be bumped.
        if purpose == Purpose::Pay && self.plan.evm.bump_forgotten == 0.0 {
            self.may_forget_at_once(self.plan.store_back_in_place * FORGOTTEN_AT_ONCE);
        }
    }

    /// Other bytes for an attempt may be forgotten as soon as they are stored.
    pub fn before_vary(&self) {
        self.may_forget_at_once(self.plan.evm.bump_forgotten);
    }

    fn may_forget_at_once(&self, rate: f64) {
        if self.dice.strikes(rate)
            && let Some(backup) = self.backup.lock().as_mut()
        {
            backup.snapshot = self.store.snapshot();
            self.forgets_at_once.store(true, Ordering::Relaxed);
        }
    }

    /// The same in the middle of a recovery.
    pub fn in_recovery(&self) {
        if self.lacks_an_attempt.load(Ordering::Relaxed) {
            self.may_go_back(self.plan.store_back_at_call);
        }
    }

    pub fn opened(&self) {
        self.lacks_an_attempt.store(true, Ordering::Relaxed);
        if self.forgets_at_once.swap(false, Ordering::Relaxed) {
            self.go_back();
        }
    }

    fn may_go_back(&self, rate: f64) {
        if self.dice.strikes(rate) {
            self.go_back();
        }
    }

    /// At most once, and only if there is a backup.
    fn go_back(&self) {
        let Some(Backup { taken, snapshot, .. }) = self.backup.lock().take() else { return };
        if std::mem::replace(&mut self.promises.lock().store_went_back, true) {
            return;
        }
        let in_place = self.plan.store_back_in_place > 0.0;
        let how = if in_place { " in the same life" } else { "" };
        self.trace.line(format!("the store goes back to tick {taken}{how}"));
        match in_place {
            true => self.store.restore_in_place(snapshot),
            false => self.store.restore(snapshot),
        }
    }
}
