//! What clients ask for: takes submissions and answers questions.
//!
//! **Invariant:** a submission is answered after the commit that survives `kill -9`.
//! Not here: HTTP (`landfall-api`), validation of a rail's fields (`landfall_core::near`).

use std::sync::atomic::Ordering;
use std::time::Duration;

use landfall_core::BadField;
use landfall_core::guard::{self, Guard};
use landfall_core::store::{Accepted, ListFilter, StoreError};
use landfall_core::{
    Lane, NewTransfer, Payload, RailName, Stage, State, TrailEntry, Transfer, TransferId,
};

use tokio::sync::SemaphorePermit;

use crate::engine::Engine;

/// Reads for clients under way at once: more than a store has connections for them.
pub(crate) const READS_MAX: usize = 64;
/// How long a client waits for its turn to read.
const TURN: Duration = Duration::from_secs(10);

/// A validated request to move value.
#[derive(Debug, Clone)]
pub struct Submission {
    /// Scope of the key; empty where no API keys are in use.
    pub tenant: String,
    pub key: String,
    pub payload: Payload,
}

/// Why a submission was not taken. Nothing was stored, or it is not known whether it was: the
/// same key can be sent again either way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// Too much is waiting. Come back later.
    #[error("too many transfers are waiting; try again in {retry_after_s} s")]
    Busy { retry_after_s: u64 },
    /// The engine is stopping.
    #[error("shutting down; try again in {retry_after_s} s")]
    Stopping { retry_after_s: u64 },
    #[error("the rail {0} is not configured")]
    NoSuchRail(RailName),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Engine {
    /// Accepts a batch in one commit. One answer each, in order.
    pub async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Accepted>, SubmitError> {
        self.admit(batch.len())?;
        let _waiting = self.intake_guard(batch.len());
        let now_ms = self.clock().now_ms();
        let mut fresh = Vec::with_capacity(batch.len());
        for submission in batch {
            fresh.push(self.begin(submission, now_ms)?);
        }
        let newest = self.gauges().newest.load(Ordering::Relaxed);
        let answers = self.store().accept(fresh).await?;
        self.check_ids(&answers, newest);
        if answers.iter().any(|answer| matches!(answer, Accepted::Conflict(_))) {
            guard::met(Guard::OtherParameters);
        }
        let created = answers.iter().filter_map(|answer| match answer {
            Accepted::Created(transfer) => Some(transfer.clone()),
            _ => None,
        });
        self.take_up(created.collect()).await;
        Ok(answers)
    }

    /// An id at or below one that was given before this batch was sent: the store has gone back,
    /// and what it has forgotten may be on its way. Nobody signs before an operator has looked.
    fn check_ids(&self, answers: &[Accepted], newest: u64) {
        for answer in answers {
            let Accepted::Created(transfer) = answer else { continue };
            if transfer.id.0 <= newest {
                let id = transfer.id;
                self.suspect(&format!("the store has given id {id} before: it has gone back"));
            }
            self.gauges().newest.fetch_max(transfer.id.0, Ordering::Relaxed);
        }
    }

    fn admit(&self, count: usize) -> Result<(), SubmitError> {
        if self.is_stopping() {
            return Err(SubmitError::Stopping { retry_after_s: 5 });
        }
        let settings = self.settings();
        let waiting = self.gauges().intake.load(Ordering::Relaxed) + count;
        let backlog = self.gauges().backlog.load(Ordering::Relaxed);
        if waiting > settings.intake_max || backlog > settings.backlog_max {
            return Err(SubmitError::Busy { retry_after_s: 1 });
        }
        Ok(())
    }

    /// The first commit of a transfer.
    fn begin(&self, submission: Submission, now_ms: u64) -> Result<NewTransfer, SubmitError> {
        let rail = submission.payload.rail();
        let events = self.first_events(&submission.payload);
        let events = events.ok_or(SubmitError::NoSuchRail(rail))?;
        let first = State::all(rail)[0];
        let scope = (submission.tenant, submission.key);
        let fingerprint = submission.payload.fingerprint();
        let claims = submission.payload.claims();
        let mut fresh =
            NewTransfer::begin(scope, fingerprint, submission.payload, first, events, now_ms)
                .expect("every machine begins with its rail's first events");
        fresh.claims = claims;
        fresh.due_ms = Some(now_ms + self.settings().hint_grace_ms);
        Ok(fresh)
    }

    /// Whether a new transfer can be taken at all, by what its rail knows. Asked before
    /// [`Engine::submit`] where a refusal should name the field to blame.
    pub async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        match self.active(payload) {
            Some(active) => active.screen(payload).await,
            None => Ok(()),
        }
    }

    pub async fn find(
        &self,
        rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Result<Option<Transfer>, StoreError> {
        let _turn = self.turn().await?;
        self.store().by_key(rail, tenant, key).await
    }

    pub async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>, StoreError> {
        let _turn = self.turn().await?;
        self.store().trail(id).await
    }

    /// A turn to read for a client. When thousands of them hear of an end at once, they read one
    /// after the other instead of failing together.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let turns = &self.gauges().turns;
        if let Ok(turn) = turns.try_acquire() {
            return Ok(turn);
        }
        let busy = || StoreError::Unavailable("too many wait to read".to_owned());
        tokio::select! {
            biased;
            turn = turns.acquire() => turn.map_err(|_| busy()),
            () = self.clock().sleep(TURN) => Err(busy()),
        }
    }

    /// Waits until the transfer is final, at most `patience`, and returns it as it then is; not at
    /// all where too many wait already, or the engine stops.
    pub async fn wait_final(
        &self,
        transfer: Transfer,
        patience: Duration,
    ) -> Result<Transfer, StoreError> {
        if transfer.state.is_final() || patience.is_zero() {
            return Ok(transfer);
        }
        let Some(mut waiter) = self.watch().enter(transfer.id, self.settings().waits_max) else {
            return Ok(transfer);
        };
        tokio::select! {
            biased;
            () = waiter.is_final() => {}
            () = self.stops() => {}
            () = self.clock().sleep(patience) => {}
        }
        Ok(waiter.last().unwrap_or(transfer))
    }

    pub async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>, StoreError> {
        self.store().list(filter).await
    }

    pub async fn counts(&self) -> Result<Vec<(State, u64)>, StoreError> {
        self.store().counts().await
    }

    pub async fn lanes(&self) -> Result<Vec<Lane>, StoreError> {
        self.store().lanes().await
    }

    /// Hints waiting for a stage.
    pub async fn depth(&self, stage: Stage) -> usize {
        self.queue().depth(stage).await.unwrap_or(0)
    }
}
