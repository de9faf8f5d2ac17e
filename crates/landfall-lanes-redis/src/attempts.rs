//! Attempts: opened with their record moved, given variants, seen, settled once.

use std::collections::HashMap;
use std::convert::Infallible;

use landfall_core::attempt::Fate;
use landfall_core::lane::Mark;
use landfall_core::opening::{Known, Reached, Underway, refusal, stale_members, variant_refusal};
use landfall_core::store::{
    AddVariant, Added, OpenAttempt, Opened, Result, Settled, Settlement, Sight, StoreError,
};
use landfall_core::{Attempt, AttemptId, LaneId, Move, Nonce};
use landfall_lanes_http::wire;

use crate::lanes::Seen;
use crate::records::StoredRecord;
use crate::server::{Commit, Kept, TRIES, crowded, read};
use crate::{RedisLanes, names};

/// How much of a lane's stream is kept.
const STREAM_MAX: &str = "10000";
/// Attempts that are read in one round trip.
const PAGE: usize = 100;

/// All that an opening is judged by.
struct Read<'a> {
    incarnation: &'a str,
    seen: &'a Seen,
    marks: &'a HashMap<LaneId, Reached>,
}

impl Read<'_> {
    fn judged<T>(&self, judge: impl FnOnce(&Known<'_>) -> T) -> T {
        let standing = self.seen.standing();
        let reached = |lane: &LaneId| self.marks.get(lane).copied();
        let incarnation = Some(self.incarnation);
        judge(&Known { incarnation, lane: standing.as_ref(), reached: &reached })
    }

    fn refuses(&self, open: &OpenAttempt, record: Option<&StoredRecord>) -> Option<Opened> {
        let is_current = |step: &Move| Ok(record.is_some_and(|record| record.is_current(step)));
        let stale = || stale_members(open.moves.iter().map(|step| (step, step)), is_current);
        let Ok::<_, Infallible>(refused) = self.judged(|known| refusal(open, known, stale));
        refused
    }

    fn refuses_variant(
        &self,
        add: &AddVariant,
        attempt: Option<&wire::Attempt>,
    ) -> Result<Option<Added>> {
        let underway = attempt.map(|attempt| Underway {
            is_of_lane: attempt.lane == add.lane,
            is_decided: attempt.fate.is_some(),
            variants: attempt.variants.len() as u32,
        });
        self.judged(|known| variant_refusal(add, known, underway))
    }
}

impl RedisLanes {
    pub(crate) async fn attempt_by_name(
        &self,
        name: String,
    ) -> Result<Option<Kept<wire::Attempt>>> {
        self.server.get(name).await
    }

    pub(crate) async fn attempt_by_id(&self, id: AttemptId) -> Result<Option<Kept<wire::Attempt>>> {
        let name: Option<String> = self.server.one(&["GET", &names::attempt_id(id)]).await?;
        match name {
            Some(name) => self.attempt_by_name(name).await,
            None => Ok(None),
        }
    }

    async fn attempt_kept(&self, id: AttemptId) -> Result<Kept<wire::Attempt>> {
        let lost = || StoreError::Corrupt(format!("attempt {id} is not in the store"));
        self.attempt_by_id(id).await?.ok_or_else(lost)
    }

    /// Attempts of a list of nonces, by nonce; above a nonce, those that sank left out.
    pub(crate) async fn listed(
        &self,
        list: &str,
        above: Option<Nonce>,
        limit: usize,
    ) -> Result<Vec<Attempt>> {
        let above_text = above.map_or("-inf".to_owned(), |nonce| format!("({nonce}"));
        let range = ["ZRANGEBYSCORE", list, &above_text, "+inf"];
        let all: Vec<String> = self.server.one(&range).await?;
        let mut found: Vec<Attempt> = Vec::new();
        for page in all.chunks(PAGE) {
            let mut command = vec!["MGET"];
            command.extend(page.iter().map(String::as_str));
            let texts: Vec<Option<String>> = self.server.one(&command).await?;
            for (name, text) in page.iter().zip(texts) {
                let Some(text) = text else { continue };
                let attempt: Attempt = read::<wire::Attempt>(name, &text)?.into();
                let is_sunk = matches!(attempt.fate, Some(Fate::Sunk(_)));
                if !(above.is_some() && is_sunk) {
                    found.push(attempt);
                }
            }
            if found.len() >= limit {
                found.truncate(limit);
                break;
            }
        }
        Ok(found)
    }

    /// How far the lanes of these marks have come.
    async fn reached(&self, marks: &[(LaneId, Mark)]) -> Result<HashMap<LaneId, Reached>> {
        let mut all = HashMap::new();
        for (lane, _) in marks {
            if !all.contains_key(lane)
                && let Some(standing) = self.see(lane).await?.standing()
            {
                all.insert(lane.clone(), standing.reached);
            }
        }
        Ok(all)
    }

    /// The record that an opening moves, as it is.
    async fn carried(&self, open: &OpenAttempt) -> Result<Option<Kept<StoredRecord>>> {
        match open.moves.as_slice() {
            [] => Ok(None),
            [step] => self.record_by_id(step.id).await,
            _ => Err(StoreError::Corrupt("an execution is carried alone".into())),
        }
    }

    pub(crate) async fn open_one(&self, open: OpenAttempt) -> Result<Opened> {
        let incarnation = self.server.identity().await?.incarnation;
        for _ in 0..TRIES {
            let mut seen = self.see(&open.lane).await?;
            let marks = self.reached(&open.marks).await?;
            let record = self.carried(&open).await?;
            let read = Read { incarnation: &incarnation, seen: &seen, marks: &marks };
            if let Some(refused) = read.refuses(&open, record.as_ref().map(|kept| &kept.value)) {
                return Ok(refused);
            }
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            seen.state.seq += 1;
            let id = AttemptId(self.server.fresh("attempt").await?);
            let attempt = open.opened_as(id, seen.state.seq);
            commit.set(&names::lane(&open.lane), &seen.state)?;
            self.store_attempt(&attempt, &mut commit)?;
            if let (Some(kept), Some(step)) = (&record, open.moves.first()) {
                commit.unchanged(kept);
                self.keep(&kept.value.moved(step, Some(id)), &mut commit)?;
                self.stream(&attempt, &kept.value.key, &mut commit);
            }
            if self.server.commit(&commit).await? {
                return Ok(Opened::Stored(Box::new(attempt)));
            }
        }
        Err(crowded())
    }

    fn store_attempt(&self, attempt: &Attempt, commit: &mut Commit) -> Result<()> {
        let (lane, nonce) = (&attempt.lane, attempt.nonce.to_string());
        let name = names::attempt(lane, attempt.nonce);
        commit.expect(name.clone(), None);
        commit.run(&["SET", &names::nonce(lane), &nonce]);
        commit.set(&name, &wire::Attempt::from(attempt.clone()))?;
        commit.run(&["SET", &names::attempt_id(attempt.id), &name]);
        commit.run(&["ZADD", &names::attempts(lane), &nonce, &name]);
        commit.run(&["ZADD", &names::open(lane), &nonce, &name]);
        Ok(())
    }

    fn stream(&self, attempt: &Attempt, key: &str, commit: &mut Commit) {
        if self.has_streams {
            let (stream, nonce) = (names::stream(&attempt.lane), attempt.nonce.to_string());
            let fields = ["key", key, "nonce", &nonce, "hash", &attempt.hash];
            let to = ["XADD", &stream, "MAXLEN", "~", STREAM_MAX, "*"];
            commit.run(&[&to[..], &fields[..]].concat());
        }
    }

    pub(crate) async fn vary(&self, add: AddVariant) -> Result<Added> {
        let incarnation = self.server.identity().await?.incarnation;
        for _ in 0..TRIES {
            let mut seen = self.see(&add.lane).await?;
            let marks = self.reached(&add.marks).await?;
            let kept = self.attempt_by_id(add.attempt).await?;
            let read = Read { incarnation: &incarnation, seen: &seen, marks: &marks };
            if let Some(refused) =
                read.refuses_variant(&add, kept.as_ref().map(|kept| &kept.value))?
            {
                return Ok(refused);
            }
            let Some(mut kept) = kept else { continue };
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            commit.unchanged(&kept);
            seen.state.seq += 1;
            let variant = add.stored_as(seen.state.seq);
            kept.value.variants.push(variant.clone().into());
            commit.set(&names::lane(&add.lane), &seen.state)?;
            commit.set(&kept.name, &kept.value)?;
            if self.server.commit(&commit).await? {
                return Ok(Added::Stored(Box::new(variant)));
            }
        }
        Err(crowded())
    }

    pub(crate) async fn note(&self, sight: Sight) -> Result<bool> {
        sight.check()?;
        for _ in 0..TRIES {
            let Some(mut kept) = self.attempt_by_id(sight.attempt).await? else { return Ok(false) };
            let seen = self.see(&sight.lane).await?;
            let is_open = kept.value.fate.is_none() && kept.value.lane == sight.lane;
            if !is_open || seen.held() != Some(sight.epoch) {
                return Ok(false);
            }
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            commit.unchanged(&kept);
            kept.value.sightings.extend(sight.sightings.clone());
            commit.set(&kept.name, &kept.value)?;
            if self.server.commit(&commit).await? {
                return Ok(true);
            }
        }
        Err(crowded())
    }

    pub(crate) async fn decide(&self, settlement: Settlement) -> Result<Settled> {
        for _ in 0..TRIES {
            let mut kept = self.attempt_kept(settlement.attempt).await?;
            let seen = self.see(&settlement.lane).await?;
            let is_theirs = kept.value.lane == settlement.lane;
            if !is_theirs || seen.held() != Some(settlement.epoch) {
                return Ok(Settled::Fenced);
            }
            if kept.value.fate.is_some() {
                return Ok(Settled::AlreadyDecided);
            }
            let mut commit = Commit::default();
            seen.unchanged(&mut commit);
            commit.unchanged(&kept);
            let mut moved = Vec::new();
            if let Some(id) = kept.value.record
                && let Some(record) = self.record_by_id(id).await?
                && record.value.attempt == Some(settlement.attempt)
            {
                let fits = |step: &&Move| record.value.is_current(step);
                let Some(step) = settlement.moves.iter().find(fits) else {
                    let why = "has no move that fits its record";
                    let id = settlement.attempt;
                    return Err(StoreError::Corrupt(format!("the settlement of {id} {why}")));
                };
                commit.unchanged(&record);
                self.keep(&record.value.moved(step, None), &mut commit)?;
                moved.push(id);
            }
            kept.value.fate = Some(settlement.fate.clone());
            kept.value.decided_ms = Some(settlement.now_ms);
            commit.set(&kept.name, &kept.value)?;
            commit.run(&["ZREM", &names::open(&settlement.lane), &kept.name]);
            if self.server.commit(&commit).await? {
                return Ok(Settled::Done { moved, released: Vec::new() });
            }
        }
        Err(crowded())
    }
}
