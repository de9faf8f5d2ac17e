//! New transfers: created, already there, in conflict, or after something that is claimed.
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
    let mut args: Args = vec![
        new.payload.rail().as_str().into(),
        scoped(&new.tenant, &new.key).into(),
        new.payload.receiver().as_bytes().to_vec(),
        code(new.state).into(),
        new.due_ms.map_or(Vec::new(), |ms| ms.to_string().into()),
        Facts::new(new.created_ms).to_string().into(),
        serde_json::to_vec(&asked).map_err(unreadable)?,
        trail::encode(&new.trail),
        new.claims.len().to_string().into(),
    ];
    for claim in &new.claims {
        args.extend([claim.space.clone().into(), claim.key.clone().into()]);
    }
    Ok(args)
}

/// What became of a new transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Judged {
    New(TransferId),
    /// Its key is that transfer's.
    Known(TransferId),
    /// This claim of its own, by place, is taken.
    Claimed {
        claim: usize,
        owner: Option<TransferId>,
    },
}

/// Accepts a batch.
pub(crate) async fn accept(link: Arc<Link>, batch: Vec<Args>) -> Done<Vec<Judged>> {
    let args = batch.into_iter().flatten().collect();
    let answers = link.run(&SCRIPTS.accept, args).await?;
    answer::list(answers)?.into_iter().map(judged).collect()
}

fn judged(value: Value) -> Done<Judged> {
    if let Value::Int(number) = value {
        let id = TransferId(number.unsigned_abs());
        return Ok(if number > 0 { Judged::New(id) } else { Judged::Known(id) });
    }
    let mut parts = answer::list(value)?.into_iter();
    let claim = answer::number(answer::required(parts.next())?)?;
    let claim = usize::try_from(claim).map_err(|_| corrupt("a claim before the first"))?;
    let owner = answer::text(parts.next().unwrap_or(Value::Nil))?.filter(|id| !id.is_empty());
    let owner = owner.map(|id| answer::parsed(&id).map(TransferId)).transpose()?;
    Ok(Judged::Claimed { claim, owner })
}

impl RedisStore {
    pub(crate) async fn accept_batch(&self, batch: Vec<NewTransfer>) -> Done<Vec<Accepted>> {
        let jobs = batch.iter().map(encode).collect::<Done<Vec<_>>>()?;
        let judged = self.accepts.call_now(jobs).await?;
        let known = judged.iter().filter_map(|judged| match judged {
            Judged::Known(id) => Some(*id),
            _ => None,
        });
        let known: Vec<TransferId> = known.collect();
        let mut stored = self.read_transfers(&known).await?.into_iter();
        let mut answers = Vec::with_capacity(batch.len());
        for (new, judged) in batch.into_iter().zip(judged) {
            match judged {
                Judged::New(id) => {
                    answers.push(Accepted::Created(new.accepted_as(id)));
                    continue;
                }
                Judged::Claimed { claim, owner } => {
                    let key = answer::required(new.claims.get(claim))?.clone();
                    answers.push(Accepted::Claimed { key, owner });
                    continue;
                }
                Judged::Known(_) => {}
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
