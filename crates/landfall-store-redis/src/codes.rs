//! States as Redis keeps them: `near:QUEUED_TRANSFER`, readable, and unique over all rails.

use landfall_core::transfer::FIRST_VERSION;
use landfall_core::{RailName, Stage, State};

use crate::fault::{Done, corrupt};

pub(crate) fn code(state: State) -> String {
    format!("{}:{}", state.rail(), state.name())
}

pub(crate) fn state(code: &str) -> Done<State> {
    code.split_once(':')
        .and_then(|(rail, name)| State::parse(RailName::parse(rail)?, name))
        .ok_or_else(|| corrupt(format!("unknown state {code:?}")))
}

pub(crate) fn rail(name: &str) -> Done<RailName> {
    RailName::parse(name).ok_or_else(|| corrupt(format!("unknown rail {name:?}")))
}

/// Every state of every rail, rail by rail in the order of their lives.
pub(crate) fn all() -> impl Iterator<Item = State> {
    RailName::ALL.into_iter().flat_map(State::all)
}

pub(crate) fn of_stage(stage: Stage) -> impl Iterator<Item = State> {
    all().filter(move |state| state.stage() == Some(stage))
}

/// What scripts must know of the machines, as the lines above `scripts/common.lua`.
pub(crate) fn lua() -> String {
    let set = |pass: fn(State) -> bool| {
        let names = all().filter(|state| pass(*state)).map(|state| {
            let name = code(state);
            format!("[{name:?}] = true")
        });
        names.collect::<Vec<_>>().join(", ")
    };
    format!(
        "local final = {{ {} }}\nlocal completed = {{ {} }}\nlocal first_version = '{}'\n",
        set(State::is_final),
        set(State::is_completed),
        FIRST_VERSION,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_reads_back_from_its_code() {
        for known in all() {
            assert_eq!(state(&code(known)), Ok(known));
        }
        assert!(state("near:NOPE").is_err());
        assert!(state("COMPLETED").is_err());
    }

    #[test]
    fn scripts_are_told_which_states_are_final() {
        let lines = lua();
        assert!(lines.contains("local completed = { [\"near:COMPLETED\"] = true"), "{lines}");
        assert!(lines.contains("[\"near:FAILED\"] = true"), "{lines}");
    }
}
