//! What workers, the sweeper, operators and metrics ask.
//!
//! **Rule:** nothing looks for work by walking over keys: whatever is asked has an index, or is a
//! walk over ids from the newest down, page by page, so that no single command keeps the server.

use landfall_core::store::{ListFilter, StoreIdentity};
use landfall_core::{AttemptId, Stage, State, TrailEntry, Transfer, TransferId, trail};
use redis::{Pipeline, Value};

use crate::RedisStore;
use crate::accept::Asked;
use crate::answer::{self, Fields};
use crate::codes;
use crate::facts::{Facts, Trouble};
use crate::fault::{Done, corrupt, unreadable};
use crate::lanes::LONGEST_MS;
use crate::script::{Args, SCRIPTS};
use crate::server::Facts as ServerFacts;

/// Transfers read in one round trip; the server answers for a few milliseconds.
const PAGE: usize = 500;

/// Most transfers that one sweep takes.
const SWEEP_MOST: usize = 10_000;

/// What `identity` answers when the environment that was opened is no longer there.
const EMPTIED: &str = "emptied";

/// The fields of a transfer, in the order in which they are read.
const FIELDS: [&str; 7] = ["state", "version", "attempt", "due_ms", "facts", "tx_hash", "trouble"];

/// Where a list takes its ids from, newest first.
enum Source {
    /// A sorted set of ids, by id.
    Index(String),
    /// Every id that was given.
    All,
    /// These, which are few.
    Ids(Vec<TransferId>),
}

impl RedisStore {
    /// Read from the server every time: it may have been emptied or replaced.
    pub(crate) async fn read_identity(&self) -> Done<StoreIdentity> {
        let mut pipeline = Pipeline::new();
        pipeline.cmd("HGET").arg(self.link.keys.store()).arg("identity");
        pipeline.cmd("INFO").arg("server").arg("replication");
        let mut answers = self.link.pipeline(&pipeline).await?.into_iter();
        let id = answer::text(answers.next().unwrap_or(Value::Nil))?;
        let info = answer::required(answer::text(answers.next().unwrap_or(Value::Nil))?)?;
        let facts = ServerFacts::new(&info, None);
        Ok(StoreIdentity {
            id: id.unwrap_or_else(|| EMPTIED.into()),
            // A restart has another run id; a promotion within one run, another replication id.
            incarnation: format!("{}:{}", facts.info("run_id"), facts.info("master_replid")),
            shared: true,
        })
    }

    pub(crate) async fn sweep_stage(
        &self,
        stage: Stage,
        limit: usize,
        (push_ms, horizon_ms): (u64, u64),
    ) -> Done<Vec<TransferId>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut args: Args = vec![
            limit.min(SWEEP_MOST).to_string().into(),
            push_ms.min(LONGEST_MS).to_string().into(),
            horizon_ms.min(LONGEST_MS).to_string().into(),
        ];
        args.extend(codes::of_stage(stage).map(|state| codes::code(state).into_bytes()));
        answer::ids(self.link.run(&SCRIPTS.sweep, args).await?, TransferId)
    }

    /// The transfers that exist, in the order of `ids`.
    pub(crate) async fn read_transfers(&self, ids: &[TransferId]) -> Done<Vec<Transfer>> {
        let mut found = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PAGE) {
            let mut pipeline = Pipeline::with_capacity(2 * ids.len());
            for id in ids {
                pipeline.cmd("HMGET").arg(self.link.keys.transfer(*id)).arg(&FIELDS);
                pipeline.cmd("LINDEX").arg(self.link.keys.events(*id)).arg(0);
            }
            let mut values = self.link.pipeline(&pipeline).await?.into_iter();
            for id in ids {
                let fields = values.next().unwrap_or(Value::Nil);
                let asked = values.next().unwrap_or(Value::Nil);
                found.extend(transfer_from(*id, Fields::of(fields)?, asked)?);
            }
        }
        Ok(found)
    }

    pub(crate) async fn read_trail(&self, id: TransferId) -> Done<Vec<TrailEntry>> {
        let mut ask = redis::cmd("LRANGE");
        ask.arg(self.link.keys.events(id)).arg(0).arg(-1);
        let mut moves = answer::texts(self.link.command(&ask).await?)?.into_iter();
        let Some(first) = moves.next() else { return Ok(Vec::new()) };
        let asked: Asked<'_> = serde_json::from_str(&first).map_err(unreadable)?;
        let rail = asked.payload.rail();
        let mut entries = Vec::new();
        for events in moves {
            entries.extend(trail::decode(rail, events.as_bytes()).map_err(corrupt)?);
        }
        Ok(entries)
    }

    pub(crate) async fn list_page(&self, filter: &ListFilter) -> Done<Vec<Transfer>> {
        let keys = &self.link.keys;
        let source = match (filter.adrift_before_ms, &filter.receiver, filter.state) {
            (Some(before_ms), _, _) => Source::Ids(self.adrift_before(before_ms).await?),
            (_, _, Some(state)) if !state.is_completed() => Source::Index(keys.state(state)),
            (_, Some(receiver), _) => Source::Index(keys.receiver(receiver)),
            _ => Source::All,
        };
        let mut page = Vec::new();
        let mut below = filter.before;
        while page.len() < filter.limit {
            let ids = self.ids_below(&source, below).await?;
            let Some(last) = ids.last() else { break };
            below = Some(*last);
            let found = self.read_transfers(&ids).await?;
            let passing = found.into_iter().filter(|transfer| passes(filter, transfer));
            page.extend(passing.take(filter.limit - page.len()));
        }
        Ok(page)
    }

    /// The next ids of the source below `below`, newest first; none if there are no more.
    async fn ids_below(&self, source: &Source, below: Option<TransferId>) -> Done<Vec<TransferId>> {
        match source {
            Source::Ids(ids) => {
                let left = ids.iter().filter(|id| below.is_none_or(|below| **id < below));
                Ok(left.copied().take(PAGE).collect())
            }
            Source::Index(key) => {
                let from = below.map_or("+inf".to_owned(), |below| format!("({below}"));
                let mut ask = redis::cmd("ZREVRANGEBYSCORE");
                ask.arg(key).arg(from).arg("-inf").arg("LIMIT").arg(0).arg(PAGE);
                answer::ids(self.link.command(&ask).await?, TransferId)
            }
            Source::All => {
                let newest = self.newest().await?;
                let first = below.map_or(newest, |below| newest.min(below.0.saturating_sub(1)));
                Ok((1..=first).rev().take(PAGE).map(TransferId).collect())
            }
        }
    }

    /// The last transfer id given; zero if none was.
    async fn newest(&self) -> Done<u64> {
        let mut ask = redis::cmd("HGET");
        ask.arg(self.link.keys.store()).arg("transfers");
        let found = answer::text(self.link.command(&ask).await?)?;
        found.map_or(Ok(0), |text| answer::parsed(&text))
    }

    /// States that have transfers, rail by rail in the order of their lives.
    pub(crate) async fn count_states(&self) -> Done<Vec<(State, u64)>> {
        let keys = &self.link.keys;
        let mut pipeline = Pipeline::new();
        // One moment for all of them.
        pipeline.atomic();
        for state in codes::all() {
            if state.is_completed() {
                pipeline.cmd("HGET").arg(keys.completed()).arg(codes::code(state));
            } else {
                pipeline.cmd("ZCARD").arg(keys.state(state));
            }
        }
        let mut counts = Vec::new();
        for (state, value) in codes::all().zip(self.link.pipeline(&pipeline).await?) {
            let transfers = answer::text(value)?.map_or(Ok(0), |text| answer::parsed(&text))?;
            if transfers > 0 {
                counts.push((state, transfers));
            }
        }
        Ok(counts)
    }
}

fn transfer_from(id: TransferId, mut fields: Fields, asked: Value) -> Done<Option<Transfer>> {
    let Some(state) = fields.text()? else { return Ok(None) };
    let asked = answer::required(answer::bytes(asked)?)?;
    let asked: Asked<'_> = serde_json::from_slice(&asked).map_err(unreadable)?;
    let fingerprint = asked.fingerprint()?;
    let (version, attempt) = (fields.parsed()?, fields.parsed()?);
    let due_ms = fields.parsed()?;
    let facts: Facts = fields.required()?.parse()?;
    let tx_hash = fields.text()?;
    let trouble: Trouble = fields.text()?.map_or(Ok(Trouble::default()), |text| text.parse())?;
    Ok(Some(Transfer {
        id,
        tenant: asked.tenant.into_owned(),
        key: asked.key.into_owned(),
        fingerprint,
        payload: asked.payload.into_owned(),
        state: codes::state(&state)?,
        confirmed: facts.confirmed,
        version: answer::required(version)?,
        attempt: attempt.map(AttemptId),
        stage_retries: facts.stage_retries,
        retry_count: facts.retry_count,
        due_ms,
        aside: trouble.aside,
        tx_hash,
        error: trouble.error,
        created_ms: asked.created_ms,
        updated_ms: facts.updated_ms,
        completed_ms: facts.completed_ms,
    }))
}

fn passes(filter: &ListFilter, transfer: &Transfer) -> bool {
    (filter.adrift_before_ms.is_none() || transfer.attempt.is_some())
        && filter.rail.is_none_or(|rail| transfer.payload.rail() == rail)
        && filter.tenant.as_ref().is_none_or(|tenant| transfer.tenant == *tenant)
        && filter.state.is_none_or(|state| transfer.state == state)
        && filter.receiver.as_ref().is_none_or(|name| transfer.payload.receiver() == *name)
        && filter.created_from_ms.is_none_or(|from| transfer.created_ms >= from)
        && filter.created_until_ms.is_none_or(|until| transfer.created_ms < until)
}
