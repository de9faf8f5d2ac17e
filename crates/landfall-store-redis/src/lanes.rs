//! Lanes: leases with epochs, nonces, halts.
//!
//! **Invariant:** every lease has a new epoch, and an epoch ends with its lease: whoever gave a
//! lane back, or lost it, stores nothing on it any more.

use std::collections::HashMap;

use landfall_core::lane::{Halt, Lane};
use landfall_core::store::{LEASE_MAX_MS, Leased};
use landfall_core::{Epoch, LaneId, Nonce, RailName};
use redis::{Pipeline, Value};

use crate::RedisStore;
use crate::answer;
use crate::codes;
use crate::fault::{Done, corrupt};
use crate::script::{Args, SCRIPTS, Script};

/// Longer than anything is to last, and exact as a Lua number added to a time.
pub(crate) const LONGEST_MS: u64 = 1 << 52;

fn lane_from(id: LaneId, hash: Value) -> Done<Lane> {
    let mut fields: HashMap<String, String> = HashMap::new();
    // HGETALL is a map, or a list of names and values when a script hands it on.
    match hash {
        Value::Map(pairs) => {
            for (name, value) in pairs {
                let name = answer::required(answer::text(name)?)?;
                fields.insert(name, answer::required(answer::text(value)?)?);
            }
        }
        other => {
            let mut items = answer::texts(other)?.into_iter();
            while let (Some(name), Some(value)) = (items.next(), items.next()) {
                fields.insert(name, value);
            }
        }
    }
    let number = |name: &str| fields.get(name).map(|text| answer::parsed::<u64>(text)).transpose();
    let text = |name: &str| fields.get(name).cloned();
    let halted = match (text("halt_reason"), number("halt_at_ms")?) {
        (Some(reason), Some(at_ms)) => Some(Halt { reason, at_ms }),
        _ => None,
    };
    Ok(Lane {
        id,
        rail: codes::rail(&answer::required(text("rail"))?)?,
        epoch: Epoch(answer::required(number("epoch")?)?),
        holder: text("holder"),
        lease_until_ms: answer::required(number("lease_until_ms")?)?,
        base_nonce: number("base_nonce")?.map(Nonce),
        next_nonce: number("next_nonce")?.map(Nonce),
        seq: number("seq")?.unwrap_or(0),
        halted,
    })
}

fn held(lanes: &[(LaneId, Epoch)]) -> impl Iterator<Item = Vec<u8>> + '_ {
    lanes.iter().flat_map(|(id, epoch)| [id.as_str().into(), epoch.to_string().into()])
}

/// A nonce and the one after it, as text. The last number there is has none after it.
pub(crate) fn with_next(nonce: Nonce) -> Done<[Vec<u8>; 2]> {
    let next = nonce.0.checked_add(1).ok_or_else(|| corrupt("a nonce has no successor"))?;
    Ok([nonce.to_string().into(), next.to_string().into()])
}

impl RedisStore {
    pub(crate) async fn lease_lane(
        &self,
        id: &LaneId,
        rail: RailName,
        holder: &str,
        ttl_ms: u64,
    ) -> Done<Leased> {
        let args = vec![
            id.as_str().into(),
            rail.as_str().into(),
            holder.into(),
            ttl_ms.min(LONGEST_MS).to_string().into(),
            LEASE_MAX_MS.to_string().into(),
        ];
        let mut answers = answer::list(self.link.run(&SCRIPTS.lease, args).await?)?.into_iter();
        let mut next = || answer::required(answers.next());
        match answer::text(next()?)?.as_deref() {
            Some("yours") => Ok(Leased::Yours(lane_from(id.clone(), next()?)?)),
            _ => {
                let holder = answer::required(answer::text(next()?)?)?;
                let until = answer::required(answer::text(next()?)?)?;
                Ok(Leased::Busy { holder, until_ms: answer::parsed(&until)? })
            }
        }
    }

    pub(crate) async fn renew_leases(
        &self,
        lanes: &[(LaneId, Epoch)],
        ttl_ms: u64,
    ) -> Done<Vec<bool>> {
        let ttl = ttl_ms.min(LONGEST_MS).to_string().into_bytes();
        let args: Args = [ttl].into_iter().chain(held(lanes)).collect();
        let answers = self.link.run(&SCRIPTS.renew, args).await?;
        answer::list(answers)?.into_iter().map(answer::yes).collect()
    }

    pub(crate) async fn release_leases(&self, lanes: &[(LaneId, Epoch)]) -> Done<()> {
        self.link.run(&SCRIPTS.release, held(lanes).collect()).await.map(|_| ())
    }

    pub(crate) async fn start(&self, id: &LaneId, epoch: Epoch, ledger: Nonce) -> Done<bool> {
        let mut args = vec![id.as_str().into(), epoch.to_string().into()];
        args.extend(with_next(ledger)?);
        answer::yes(self.link.run(&SCRIPTS.start, args).await?)
    }

    pub(crate) async fn halt_lane(&self, id: &LaneId, reason: &str) -> Done<()> {
        self.known(id, &SCRIPTS.halt, vec![id.as_str().into(), reason.into()]).await
    }

    pub(crate) async fn adopt_lane(&self, id: &LaneId, ledger: Nonce) -> Done<()> {
        let mut args: Args = vec![id.as_str().into()];
        args.extend(with_next(ledger)?);
        self.known(id, &SCRIPTS.adopt, args).await
    }

    async fn known(&self, id: &LaneId, script: &Script, args: Args) -> Done<()> {
        if answer::yes(self.link.run(script, args).await?)? {
            return Ok(());
        }
        Err(corrupt(format!("lane {id} is not in the store")))
    }

    pub(crate) async fn all_lanes(&self) -> Done<Vec<Lane>> {
        let mut ask = redis::cmd("ZRANGE");
        ask.arg(self.link.keys.lanes()).arg(0).arg(-1);
        let names = answer::texts(self.link.command(&ask).await?)?;
        let ids: Vec<LaneId> = names.iter().map(LaneId::new).collect();
        let mut pipeline = Pipeline::with_capacity(ids.len());
        for id in &ids {
            pipeline.cmd("HGETALL").arg(self.link.keys.lane(id));
        }
        let found = self.link.pipeline(&pipeline).await?;
        ids.into_iter().zip(found).map(|(id, hash)| lane_from(id, hash)).collect()
    }
}
