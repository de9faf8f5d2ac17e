//! States and stages as small numbers, by dictionaries kept in the database.

use landfall_core::{RailName, Stage, State};
use tokio_postgres::Client;

use crate::fault::{Done, corrupt, get};

/// The dictionaries, read once when the store is opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct Codes {
    states: Vec<(i16, State)>,
    stages: Vec<(i16, String)>,
}

impl Codes {
    /// Gives a code to everything that has none yet. Wants the lock of migrations.
    pub(crate) async fn define(db: &Client) -> Done<()> {
        let (rails, names): (Vec<&str>, Vec<&str>) = RailName::ALL
            .into_iter()
            .flat_map(State::all)
            .map(|state| (state.rail().as_str(), state.name()))
            .unzip();
        let sql = "INSERT INTO states (code, rail, name)
            SELECT (SELECT coalesce(max(code), 0) FROM states) + row_number() OVER (), rail, name
            FROM (SELECT u.rail, u.name FROM unnest($1::text[], $2::text[]) WITH ORDINALITY
                    AS u(rail, name, number)
                WHERE NOT EXISTS (SELECT FROM states s WHERE s.rail = u.rail AND s.name = u.name)
                ORDER BY u.number) new";
        db.execute(sql, &[&rails, &names]).await?;
        let stages = Stage::ALL.map(|stage| stage.0).to_vec();
        let sql = "INSERT INTO stages (code, name)
            SELECT (SELECT coalesce(max(code), 0) FROM stages) + row_number() OVER (), u.name
            FROM unnest($1::text[]) AS u(name)
            WHERE NOT EXISTS (SELECT FROM stages s WHERE s.name = u.name)";
        db.execute(sql, &[&stages]).await?;
        Ok(())
    }

    pub(crate) async fn load(db: &Client) -> Done<Codes> {
        let mut codes = Codes::default();
        for row in db.query("SELECT code, rail, name FROM states ORDER BY code", &[]).await? {
            // A newer instance beside us may know more; only what is in such a state fails here.
            let rail = RailName::parse(get(&row, 1)?);
            let name: &str = get(&row, 2)?;
            if let Some(state) = rail.and_then(|rail| State::parse(rail, name)) {
                codes.states.push((get(&row, 0)?, state));
            }
        }
        for row in db.query("SELECT code, name FROM stages", &[]).await? {
            codes.stages.push((get(&row, 0)?, get(&row, 1)?));
        }
        Ok(codes)
    }

    /// Whether everything that this build knows has a code.
    pub(crate) fn are_complete(&self) -> bool {
        let states = RailName::ALL.into_iter().flat_map(State::all);
        states.into_iter().all(|state| self.code(state).is_ok())
            && Stage::ALL.into_iter().all(|stage| self.stage(stage).is_ok())
    }

    pub(crate) fn code(&self, state: State) -> Done<i16> {
        let found = self.states.iter().find(|(_, known)| *known == state);
        found.map(|(code, _)| *code).ok_or_else(|| corrupt(format!("state {state} has no code")))
    }

    pub(crate) fn state(&self, code: i16) -> Done<State> {
        let found = self.states.iter().find(|(known, _)| *known == code);
        found.map(|(_, state)| *state).ok_or_else(|| corrupt(format!("no state has code {code}")))
    }

    pub(crate) fn stage(&self, stage: Stage) -> Done<i16> {
        let found = self.stages.iter().find(|(_, known)| known == stage.0);
        found.map(|(code, _)| *code).ok_or_else(|| corrupt(format!("stage {stage} has no code")))
    }

    /// The stage to be swept for a transfer in this state; none if nothing is due.
    pub(crate) fn due_stage(&self, state: State, due_ms: Option<i64>) -> Done<Option<i16>> {
        match (due_ms, state.stage()) {
            (Some(_), Some(stage)) => self.stage(stage).map(Some),
            _ => Ok(None),
        }
    }
}

pub(crate) fn rail_named(name: &str) -> Done<RailName> {
    RailName::parse(name).ok_or_else(|| corrupt(format!("unknown rail {name:?}")))
}
