//! States as small numbers, by a dictionary kept in the file.

use landfall_core::{RailName, State};
use rusqlite::Connection;

use crate::fault::{Done, corrupt};

/// The dictionary, read once when the file is opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codes(Vec<(i64, State)>);

impl Codes {
    /// Gives a code to every state that has none yet.
    pub(crate) fn define(db: &Connection) -> Done<()> {
        for state in RailName::ALL.into_iter().flat_map(State::all) {
            let names = (state.rail().as_str(), state.name());
            db.execute("INSERT OR IGNORE INTO states (rail, name) VALUES (?1, ?2)", names)?;
        }
        Ok(())
    }

    pub(crate) fn load(db: &Connection) -> Done<Codes> {
        let mut codes = Vec::new();
        let mut statement = db.prepare("SELECT code, rail, name FROM states ORDER BY code")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (rail, name): (String, String) = (row.get(1)?, row.get(2)?);
            let state = rail_named(&rail).map(|rail| State::parse(rail, &name))?;
            let state = state.ok_or_else(|| corrupt(format!("unknown state {rail} {name}")))?;
            codes.push((row.get(0)?, state));
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

pub(crate) fn rail_named(name: &str) -> Done<RailName> {
    RailName::parse(name).ok_or_else(|| corrupt(format!("unknown rail {name:?}")))
}
