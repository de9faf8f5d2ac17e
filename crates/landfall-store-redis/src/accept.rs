//! New transfers: created, already there, or in conflict.
//!
//! **Invariant:** a key, once taken, belongs to its transfer for ever: no key here expires. Whoever
//! removes old records one day leaves the fingerprint in the key's place.

use std::borrow::Cow;
use std::sync::Arc;

use landfall_core::store::Accepted;
use landfall_core::{Fingerprint, NewTransfer, Payload, RailName, Transfer, TransferId, trail};
use redis::Value;
use serde::{Deserialize, Serialize};

use crate::RedisStore;
use crate::answer;
use crate::codes::code;
use crate::facts::Facts;
use crate::fault::{Done, corrupt, unreadable};
use crate::keys::scoped;
use crate::link::Link;
use crate::script::{Args, SCRIPTS};

/// What never changes of a transfer, as the first element of its events.
#[derive(Serialize, Deserialize)]
pub(crate) struct Asked<'a> {
    pub tenant: Cow<'a, str>,
    pub key: Cow<'a, str>,
    /// In hexadecimal.
    pub fingerprint: String,
    pub created_ms: u64,
    pub payload: Cow<'a, Payload>,
}

impl Asked<'_> {
    pub(crate) fn fingerprint(&self) -> Done<Fingerprint> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&self.fingerprint, &mut bytes)
            .map_err(|_| corrupt("a stored fingerprint does not parse"))?;
        Ok(Fingerprint(bytes))
    }
}

fn encode(new: &NewTransfer) -> Done<Args> {
    let asked = Asked {
        tenant: Cow::Borrowed(&new.tenant),
        key: Cow::Borrowed(&new.key),
        fingerprint: hex::encode(new.fingerprint.0),
        created_ms: new.created_ms,
        payload: Cow::Borrowed(&new.payload),
    };
    Ok(vec![
        new.payload.rail().as_str().into(),
        scoped(&new.tenant, &new.key).into(),
        new.payload.receiver().as_bytes().to_vec(),
        code(new.state).into(),
        new.due_ms.map_or(Vec::new(), |ms| ms.to_string().into()),
        Facts::new(new.created_ms).to_string().into(),
        serde_json::to_vec(&asked).map_err(unreadable)?,
        trail::encode(&new.trail),
    ])
}

/// Accepts a batch: per transfer its new id, or minus the id that has its key.
pub(crate) async fn accept(link: Arc<Link>, batch: Vec<Args>) -> Done<Vec<i64>> {
    let args = batch.into_iter().flatten().collect();
    let answers = link.run(&SCRIPTS.accept, args).await?;
    answer::list(answers)?.into_iter().map(answer::number).collect()
}

impl RedisStore {
    pub(crate) async fn accept_batch(&self, batch: Vec<NewTransfer>) -> Done<Vec<Accepted>> {
        let jobs = batch.iter().map(encode).collect::<Done<Vec<_>>>()?;
        let numbers = self.accepts.call_now(jobs).await?;
        let taken: Vec<TransferId> = numbers
            .iter()
            .filter(|number| **number < 0)
            .map(|number| TransferId(number.unsigned_abs()))
            .collect();
        let mut stored = self.read_transfers(&taken).await?.into_iter();
        let mut answers = Vec::with_capacity(batch.len());
        for (new, number) in batch.into_iter().zip(numbers) {
            if number > 0 {
                let created = new.accepted_as(TransferId(number.unsigned_abs()));
                answers.push(Accepted::Created(created));
                continue;
            }
            let transfer: Transfer = answer::required(stored.next())?;
            if transfer.key != new.key || transfer.tenant != new.tenant {
                return Err(corrupt(format!("transfer {} has another key", transfer.id)));
            }
            let same = transfer.fingerprint == new.fingerprint;
            let answer = if same { Accepted::Already } else { Accepted::Conflict };
            answers.push(answer(transfer));
        }
        Ok(answers)
    }

    pub(crate) async fn find_key(
        &self,
        rail: RailName,
        tenant: &str,
        key: &str,
    ) -> Done<Option<Transfer>> {
        let mut ask = redis::cmd("HGET");
        ask.arg(self.link.keys.keys(rail)).arg(scoped(tenant, key));
        let found = match self.link.command(&ask).await? {
            Value::Nil => return Ok(None),
            found => answer::required(answer::text(found)?)?,
        };
        let id = TransferId(answer::parsed(&found)?);
        answer::required(self.read_transfers(&[id]).await?.pop()).map(Some)
    }
}
