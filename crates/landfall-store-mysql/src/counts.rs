//! How many transfers are in each state, without counting them and without a row that all wait for.
//!
//! Each count is spread over [`SHARDS`] rows, and a connection adds to the row of its own number.
//! So a writer waits for another only if their connections share a shard, and then only from the
//! last statement before the commit to the commit. A reader adds up a state's shards: some hundred
//! rows, in one statement and so of one moment. A shard may fall below zero; the sum never does.

use std::collections::BTreeMap;

use landfall_core::State;

use crate::Core;
use crate::connections::take;
use crate::fault::{Done, uint};
use crate::migrations::SHARDS;
use crate::sql::Script;

/// How many transfers entered (or left) each state, by code.
#[derive(Debug, Default)]
pub(crate) struct Entered(BTreeMap<i64, i64>);

impl Entered {
    pub(crate) fn count(&mut self, code: i64, by: i64) {
        *self.0.entry(code).or_default() += by;
    }

    /// Adds them to the shard of the connection. Written last: its rows are what others may want.
    pub(crate) fn write(&self, script: &mut Script, connection: u32) {
        let changed = self.0.iter().filter(|(_, by)| **by != 0);
        let tail = " ON DUPLICATE KEY UPDATE transfers = transfers + VALUES(transfers)";
        let head = "INSERT INTO landfall_counts (state, shard, transfers) VALUES";
        script.rows(head, changed, tail, |row, (code, by)| {
            row.int(*code).int(connection % SHARDS).int(*by);
        });
    }
}

impl Core {
    /// States that have transfers, in the order of their codes.
    pub(crate) async fn counts(&self) -> Done<Vec<(State, u64)>> {
        let script = || {
            let mut script = Script::default();
            script.say(
                "SELECT state, CAST(SUM(transfers) AS SIGNED) FROM landfall_counts
                 GROUP BY state ORDER BY state",
            );
            script
        };
        let mut counts = Vec::new();
        for mut row in self.connections.ask(script).await?.remove(0).rows {
            let (code, transfers) = (take(&mut row, 0)?, uint(take(&mut row, 1)?)?);
            if transfers > 0 {
                counts.push((self.codes.state(code)?, transfers));
            }
        }
        Ok(counts)
    }
}
