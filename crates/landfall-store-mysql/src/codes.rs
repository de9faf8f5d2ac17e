//! States as small numbers, by a dictionary kept in the store.

use landfall_core::{RailName, State};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::fault::{Done, corrupt};

/// The dictionary, read once when the store is opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codes(Vec<(i64, State)>);

impl Codes {
    /// Gives a code to every state that has none yet. Called by whoever holds the migration lock.
    pub(crate) async fn define(conn: &mut Conn) -> Done<()> {
        let known = named(conn).await?;
        for state in RailName::ALL.into_iter().flat_map(State::all) {
            let (rail, name) = (state.rail().as_str(), state.name());
            if !known.iter().any(|(_, one, other)| one == rail && other == name) {
                // Both are words of our own.
                let sql =
                    format!("INSERT INTO landfall_states (rail, name) VALUES ('{rail}', '{name}')");
                conn.query_drop(sql).await?;
            }
        }
        Ok(())
    }

    pub(crate) async fn load(conn: &mut Conn) -> Done<Codes> {
        let mut codes = Vec::new();
        for (code, rail, name) in named(conn).await? {
            let state = rail_named(&rail).map(|rail| State::parse(rail, &name))?;
            let state = state.ok_or_else(|| corrupt(format!("unknown state {rail} {name}")))?;
            codes.push((code, state));
        }
        Ok(Codes(codes))
    }

    pub(crate) fn code(&self, state: State) -> Done<i64> {
        let found = self.0.iter().find(|(_, known)| *known == state);
        found.map(|(code, _)| *code).ok_or_else(|| corrupt(format!("state {state} has no code")))
    }

    pub(crate) fn state(&self, code: i64) -> Done<State> {
        let found = self.0.iter().find(|(known, _)| *known == code);
        found.map(|(_, state)| *state).ok_or_else(|| corrupt(format!("no state has code {code}")))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (i64, State)> + '_ {
        self.0.iter().copied()
    }
}

async fn named(conn: &mut Conn) -> Done<Vec<(i64, String, String)>> {
    Ok(conn.query("SELECT code, rail, name FROM landfall_states ORDER BY code").await?)
}

pub(crate) fn rail_named(name: &str) -> Done<RailName> {
    RailName::parse(name).ok_or_else(|| corrupt(format!("unknown rail {name:?}")))
}
