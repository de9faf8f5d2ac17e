//! The seam to the engine: what the routes ask of it, and nothing more.
//!
//! [`Engine`] is the one implementation outside tests; this file is the only one that names it.

use std::time::Duration;

use async_trait::async_trait;
use landfall_core::BadField;
use landfall_core::cache::StatusCache;
use landfall_core::store::{Accepted, ListFilter, StoreError};
use landfall_core::{Payload, RailName, TrailEntry, Transfer, TransferId};
use landfall_engine::dead::{Replay, ReplayError};
use landfall_engine::{Engine, Snapshot, Submission, SubmitError};

/// Takes submissions and answers questions. What each method means is said at [`Engine`].
#[async_trait]
pub trait Relay: Send + Sync + 'static {
    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Accepted>, SubmitError>;
    async fn screen(&self, payload: &Payload) -> Result<(), BadField>;
    async fn find(
        &self,
        rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Result<Option<Transfer>, StoreError>;
    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>, StoreError>;
    async fn wait_final(
        &self,
        transfer: Transfer,
        patience: Duration,
    ) -> Result<Transfer, StoreError>;
    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>, StoreError>;
    async fn dead(
        &self,
        rail: Option<RailName>,
        before: Option<TransferId>,
        limit: usize,
    ) -> Result<Vec<Transfer>, StoreError>;
    async fn dead_letter(
        &self,
        id: TransferId,
    ) -> Result<Option<(Transfer, Vec<Transfer>)>, StoreError>;
    async fn replay(
        &self,
        cache: Option<&dyn StatusCache>,
        id: TransferId,
        wish: &Replay,
    ) -> Result<Transfer, ReplayError>;
    async fn snapshot(&self) -> Snapshot;
    /// Prometheus text.
    fn render_metrics(&self, snapshot: &Snapshot) -> String;
}

#[async_trait]
impl Relay for Engine {
    async fn submit(&self, batch: Vec<Submission>) -> Result<Vec<Accepted>, SubmitError> {
        Engine::submit(self, batch).await
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        Engine::screen(self, payload).await
    }

    async fn find(
        &self,
        rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Result<Option<Transfer>, StoreError> {
        Engine::find(self, rail, tenant, key).await
    }

    async fn trail(&self, id: TransferId) -> Result<Vec<TrailEntry>, StoreError> {
        Engine::trail(self, id).await
    }

    async fn wait_final(
        &self,
        transfer: Transfer,
        patience: Duration,
    ) -> Result<Transfer, StoreError> {
        Engine::wait_final(self, transfer, patience).await
    }

    async fn list(&self, filter: ListFilter) -> Result<Vec<Transfer>, StoreError> {
        Engine::list(self, filter).await
    }

    async fn dead(
        &self,
        rail: Option<RailName>,
        before: Option<TransferId>,
        limit: usize,
    ) -> Result<Vec<Transfer>, StoreError> {
        Engine::dead(self, rail, before, limit).await
    }

    async fn dead_letter(
        &self,
        id: TransferId,
    ) -> Result<Option<(Transfer, Vec<Transfer>)>, StoreError> {
        Engine::dead_letter(self, id).await
    }

    async fn replay(
        &self,
        cache: Option<&dyn StatusCache>,
        id: TransferId,
        wish: &Replay,
    ) -> Result<Transfer, ReplayError> {
        Engine::replay(self, cache, id, wish).await
    }

    async fn snapshot(&self) -> Snapshot {
        Engine::snapshot(self).await
    }

    fn render_metrics(&self, snapshot: &Snapshot) -> String {
        Engine::render_metrics(self, snapshot)
    }
}
