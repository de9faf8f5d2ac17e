//! Idempotency records, as other tools may read them.

use landfall_core::store::{Accepted, Result, StoreError};
use landfall_core::{AttemptId, Move, NewTransfer, Payload, Transfer, TransferId};
use landfall_lanes_http::{transfer_of, wire};
use serde::{Deserialize, Serialize};

use crate::server::{Commit, Kept, TRIES, crowded, written};
use crate::{RedisLanes, names};

/// A record as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredRecord {
    pub id: TransferId,
    pub key: String,
    pub digest: String,
    pub status: String,
    pub version: u64,
    pub attempt: Option<AttemptId>,
    pub tx_hash: Option<String>,
    /// Why it failed.
    pub outcome: Option<String>,
    pub error_type: Option<String>,
    pub created_at: u64,
    pub updated_at: u64,
    pub completed_at: Option<u64>,
}

impl StoredRecord {
    pub fn transfer(self) -> Result<Transfer> {
        let error = self.outcome.map(|message| wire::RecordError {
            error_type: self.error_type.unwrap_or_default(),
            message,
        });
        transfer_of(wire::Record {
            id: self.id,
            key: self.key,
            digest: self.digest,
            status: self.status,
            version: self.version,
            attempt: self.attempt,
            hash: self.tx_hash,
            error,
            created_ms: self.created_at,
            updated_ms: self.updated_at,
            completed_ms: self.completed_at,
        })
    }

    /// Whether a move is of this very record as it is.
    pub fn is_current(&self, step: &Move) -> bool {
        let as_expected =
            |version| self.version == version && self.updated_at == step.from_updated_ms;
        self.id == step.id
            && self.status == step.from_state.name()
            && self.attempt == step.from_attempt
            && step.from_version.is_none_or(as_expected)
    }

    pub fn moved(&self, step: &Move, attempt: Option<AttemptId>) -> StoredRecord {
        StoredRecord {
            status: step.state.name().to_owned(),
            version: self.version + 1,
            attempt,
            tx_hash: step.tx_hash.clone(),
            outcome: step.error.as_ref().map(|fault| fault.message.clone()),
            error_type: step.error.as_ref().map(|fault| fault.error_type.clone()),
            updated_at: step.at_ms,
            completed_at: step.completed_ms,
            ..self.clone()
        }
    }
}

impl RedisLanes {
    pub(crate) async fn record_by_key(&self, key: &str) -> Result<Option<Kept<StoredRecord>>> {
        self.server.get(names::record(key)).await
    }

    pub(crate) async fn record_by_id(&self, id: TransferId) -> Result<Option<Kept<StoredRecord>>> {
        let key: Option<String> = self.server.one(&["GET", &names::record_id(id)]).await?;
        let Some(key) = key else { return Ok(None) };
        let found = self.record_by_key(&key).await?;
        Ok(found.filter(|kept| kept.value.id == id))
    }

    pub(crate) async fn record_new(&self, new: NewTransfer) -> Result<Accepted> {
        let Payload::Lanes(execution) = &new.payload else {
            return Err(StoreError::Corrupt("a record is of an execution".into()));
        };
        for _ in 0..TRIES {
            if let Some(known) = self.record_by_key(&new.key).await? {
                let record = known.value.transfer()?;
                return Ok(match record.fingerprint == new.fingerprint {
                    true => Accepted::Already(record),
                    false => Accepted::Conflict(record),
                });
            }
            let record = StoredRecord {
                id: TransferId(self.server.fresh("record").await?),
                key: new.key.clone(),
                digest: execution.digest.clone(),
                status: new.state.name().to_owned(),
                version: landfall_core::transfer::FIRST_VERSION,
                attempt: None,
                tx_hash: None,
                outcome: None,
                error_type: None,
                created_at: new.created_ms,
                updated_at: new.created_ms,
                completed_at: None,
            };
            let mut commit = Commit::default();
            commit.expect(names::record(&new.key), None);
            commit.set(&names::record(&new.key), &record)?;
            commit.run(&["SET", &names::record_id(record.id), &new.key]);
            if self.server.commit(&commit).await? {
                return Ok(Accepted::Created(record.transfer()?));
            }
        }
        Err(crowded())
    }

    /// Writes a record that has moved; one that is final has its time from here on.
    pub(crate) fn keep(&self, record: &StoredRecord, commit: &mut Commit) -> Result<()> {
        let (name, text) = (names::record(&record.key), written(record)?);
        if record.completed_at.is_none() {
            commit.run(&["SET", &name, &text]);
            return Ok(());
        }
        let retention_ms = self.retention_ms.max(1).to_string();
        commit.run(&["SET", &name, &text, "PX", &retention_ms]);
        commit.run(&["PEXPIRE", &names::record_id(record.id), &retention_ms]);
        Ok(())
    }
}
