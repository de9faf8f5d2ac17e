//! Claims: asked for by transfers, ended by moves (`scripts/moves.lua`).
//!
//! **Invariant:** a claim has waiters only while it is held; whatever ends it makes them due in the
//! same commit.

use std::sync::Arc;

use landfall_core::TransferId;
use landfall_core::claim::{ClaimKey, Claimed};
use redis::{Pipeline, Value};

use crate::RedisStore;
use crate::answer;
use crate::fault::Done;
use crate::link::Link;
use crate::script::{Args, SCRIPTS};

/// What a claim's value is once it ended kept; until then it is its owner's id. An answer has the
/// owner after it, if that is known.
const KEPT: &str = "kept";

/// Claims a batch; one answer each.
pub(crate) async fn claim(link: Arc<Link>, batch: Vec<Args>) -> Done<Vec<Claimed>> {
    let args = batch.into_iter().flatten().collect();
    let answers = link.run(&SCRIPTS.claim, args).await?;
    answer::texts(answers)?
        .iter()
        .map(|answer| {
            Ok(match answer.as_str() {
                "yours" => Claimed::Yours,
                KEPT => Claimed::Kept { owner: None },
                other => match other.strip_prefix(KEPT) {
                    Some(owner) => {
                        let owner = TransferId(answer::parsed(owner.trim_start())?);
                        Claimed::Kept { owner: Some(owner) }
                    }
                    None => Claimed::Held { owner: TransferId(answer::parsed(other)?) },
                },
            })
        })
        .collect()
}

impl RedisStore {
    pub(crate) async fn claim_all(
        &self,
        claims: Vec<(ClaimKey, TransferId)>,
    ) -> Done<Vec<Claimed>> {
        let job = |(key, asker): (ClaimKey, TransferId)| {
            vec![key.space.into_bytes(), key.key.into_bytes(), asker.to_string().into_bytes()]
        };
        self.claims.call(claims.into_iter().map(job).collect()).await
    }

    pub(crate) async fn kept_marks(&self, keys: &[ClaimKey]) -> Done<Vec<bool>> {
        let mut pipeline = Pipeline::with_capacity(keys.len());
        for key in keys {
            pipeline.cmd("HGET").arg(self.link.keys.claims(&key.space)).arg(&key.key);
        }
        let found = self.link.pipeline(&pipeline).await?;
        let is_kept = |value: Value| Ok(answer::text(value)?.as_deref() == Some(KEPT));
        found.into_iter().map(is_kept).collect()
    }
}
