//! Lanes: a lock with a token and a time of its own, and what outlives it.
//!
//! **Invariant:** a token has the epoch in it, which grows with every lease: nobody ever holds the
//! token of an earlier holder.

use landfall_core::lane::Halt;
use landfall_core::opening::Standing;
use landfall_core::store::{LEASE_MAX_MS, Leased, Result, StoreError};
use landfall_core::{Epoch, Lane, LaneId, Nonce, RailName};
use redis::Value;
use serde::{Deserialize, Serialize};

use crate::server::{Commit, TRIES, crowded, read, taken, written};
use crate::{RedisLanes, names};

/// What outlives the lock.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct LaneState {
    pub epoch: Epoch,
    pub base_nonce: Option<Nonce>,
    pub seq: u64,
    pub halted: Option<Halt>,
}

/// A lane as it was read.
pub(crate) struct Seen {
    id: LaneId,
    state_text: Option<String>,
    pub state: LaneState,
    token: Option<String>,
    left_ms: u64,
    nonce_text: Option<String>,
}

impl Seen {
    pub fn exists(&self) -> bool {
        self.state_text.is_some()
    }

    pub fn last_nonce(&self) -> Option<Nonce> {
        self.nonce_text.as_ref().and_then(|text| text.parse().ok()).map(Nonce)
    }

    /// Under which epoch somebody holds it.
    pub fn held(&self) -> Option<Epoch> {
        let (epoch, _) = self.token.as_ref()?.split_once(':')?;
        epoch.parse().ok().map(Epoch)
    }

    fn holder(&self) -> Option<&str> {
        Some(self.token.as_ref()?.split_once(':')?.1)
    }

    pub fn standing(&self) -> Option<Standing> {
        self.exists().then(|| {
            let mut standing = Standing::from(&self.lane(0));
            standing.held = self.held();
            standing
        })
    }

    fn lane(&self, now_ms: u64) -> Lane {
        Lane {
            id: self.id.clone(),
            rail: RailName::Lanes,
            epoch: self.state.epoch,
            holder: self.holder().map(str::to_owned),
            lease_until_ms: self.holder().map_or(0, |_| now_ms + self.left_ms),
            base_nonce: self.state.base_nonce,
            next_nonce: self.last_nonce().map(Nonce::next),
            seq: self.state.seq,
            halted: self.state.halted.clone(),
        }
    }

    /// That all of it is as it was.
    pub fn unchanged(&self, commit: &mut Commit) {
        commit.expect(names::lane(&self.id), self.state_text.as_deref());
        commit.expect(names::lock(&self.id), self.token.as_deref());
        commit.expect(names::nonce(&self.id), self.nonce_text.as_deref());
    }
}

impl RedisLanes {
    pub(crate) async fn see(&self, id: &LaneId) -> Result<Seen> {
        let (state, lock, nonce) = (names::lane(id), names::lock(id), names::nonce(id));
        let commands: [&[&str]; 4] =
            [&["GET", &state], &["GET", &lock], &["PTTL", &lock], &["GET", &nonce]];
        let lost = |_| StoreError::Unavailable("redis: not all was answered".into());
        let [text, token, left, nonce_text] =
            <[Value; 4]>::try_from(self.server.ask(&commands).await?).map_err(lost)?;
        let state_text: Option<String> = taken(text)?;
        let parsed = state_text.as_ref().map(|text| read(&state, text)).transpose()?;
        Ok(Seen {
            id: id.clone(),
            state_text,
            state: parsed.unwrap_or_default(),
            token: taken(token)?,
            left_ms: u64::try_from(taken::<i64>(left)?).unwrap_or_default(),
            nonce_text: taken(nonce_text)?,
        })
    }

    pub(crate) async fn take(&self, id: &LaneId, holder: &str, ttl_ms: u64) -> Result<Leased> {
        let ttl_ms = ttl_ms.clamp(1, LEASE_MAX_MS);
        for _ in 0..TRIES {
            let mut seen = self.see(id).await?;
            let now_ms = self.clock.now_ms();
            if let Some(other) = seen.holder().filter(|other| *other != holder) {
                let (holder, until_ms) = (other.to_owned(), now_ms + seen.left_ms);
                return Ok(Leased::Busy { holder, until_ms });
            }
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            seen.state.epoch = Epoch(seen.state.epoch.0 + 1);
            let token = format!("{}:{holder}", seen.state.epoch);
            commit.run(&["SET", &names::lock(id), &token, "PX", &ttl_ms.to_string()]);
            commit.set(&names::lane(id), &seen.state)?;
            commit.run(&["SADD", names::LANES, id.as_str()]);
            if self.server.commit(&commit).await? {
                (seen.token, seen.left_ms) = (Some(token), ttl_ms);
                return Ok(Leased::Yours(seen.lane(now_ms)));
            }
        }
        Err(crowded())
    }

    /// The token under which the epoch holds the lane.
    async fn token(&self, id: &LaneId, epoch: Epoch) -> Result<Option<String>> {
        let seen = self.see(id).await?;
        let is_theirs = seen.held() == Some(epoch);
        Ok(seen.token.filter(|_| is_theirs))
    }

    pub(crate) async fn prolong(&self, id: &LaneId, epoch: Epoch, ttl_ms: u64) -> Result<bool> {
        let Some(token) = self.token(id, epoch).await? else { return Ok(false) };
        let mut commit = Commit::default();
        commit.expect(names::lock(id), Some(&token));
        let ttl_ms = ttl_ms.clamp(1, LEASE_MAX_MS).to_string();
        commit.run(&["PEXPIRE", &names::lock(id), &ttl_ms]);
        self.server.commit(&commit).await
    }

    pub(crate) async fn give_back(&self, id: &LaneId, epoch: Epoch) -> Result<()> {
        let Some(token) = self.token(id, epoch).await? else { return Ok(()) };
        let mut commit = Commit::default();
        commit.expect(names::lock(id), Some(&token));
        commit.run(&["DEL", &names::lock(id)]);
        self.server.commit(&commit).await.map(|_| ())
    }

    pub(crate) async fn begin(
        &self,
        id: &LaneId,
        epoch: Epoch,
        ledger_nonce: Nonce,
    ) -> Result<bool> {
        for _ in 0..TRIES {
            let mut seen = self.see(id).await?;
            if seen.held() != Some(epoch) || seen.nonce_text.is_some() {
                return Ok(false);
            }
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            seen.state.base_nonce = Some(ledger_nonce);
            commit.set(&names::lane(id), &seen.state)?;
            commit.run(&["SET", &names::nonce(id), &ledger_nonce.to_string()]);
            if self.server.commit(&commit).await? {
                return Ok(true);
            }
        }
        Err(crowded())
    }

    pub(crate) async fn stop(&self, id: &LaneId, reason: &str) -> Result<()> {
        let now_ms = self.clock.now_ms();
        self.change(id, |seen, commit| {
            let first = || Halt { reason: reason.to_owned(), at_ms: now_ms };
            seen.state.halted.get_or_insert_with(first);
            commit.set(&names::lane(&seen.id), &seen.state)
        })
        .await
    }

    pub(crate) async fn go_on(&self, id: &LaneId, ledger_nonce: Nonce) -> Result<()> {
        let now_ms = self.clock.now_ms();
        self.change(id, |seen, commit| {
            let state = &mut seen.state;
            state.halted = None;
            state.epoch = Epoch((state.epoch.0 + 1).max(now_ms));
            state.seq = state.seq.max(now_ms);
            state.base_nonce = state.base_nonce.max(Some(ledger_nonce));
            commit.run(&["SET", &names::lane(&seen.id), &written(&seen.state)?]);
            commit.run(&["DEL", &names::lock(&seen.id)]);
            let last = seen.last_nonce().max(Some(ledger_nonce)).unwrap_or_default();
            commit.run(&["SET", &names::nonce(&seen.id), &last.to_string()]);
            Ok(())
        })
        .await
    }

    async fn change(
        &self,
        id: &LaneId,
        act: impl Fn(&mut Seen, &mut Commit) -> Result<()>,
    ) -> Result<()> {
        for _ in 0..TRIES {
            let mut seen = self.see(id).await?;
            if !seen.exists() {
                return Err(StoreError::Corrupt(format!("lane {id} is not in the store")));
            }
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            act(&mut seen, &mut commit)?;
            if self.server.commit(&commit).await? {
                return Ok(());
            }
        }
        Err(crowded())
    }

    pub(crate) async fn all_lanes(&self) -> Result<Vec<Lane>> {
        let mut ids: Vec<String> = self.server.one(&["SMEMBERS", names::LANES]).await?;
        ids.sort();
        let mut lanes = Vec::with_capacity(ids.len());
        for id in ids {
            lanes.push(self.see(&LaneId::new(id)).await?.lane(self.clock.now_ms()));
        }
        Ok(lanes)
    }
}
