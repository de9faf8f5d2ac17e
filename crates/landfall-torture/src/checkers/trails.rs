//! Invariant 10 and the audit trail: complete, in legal order, ending where the transfer is.

use landfall_core::{Note, State, TrailEntry, TrailEvent, Transfer};

use super::Broken;

const RULE: &str = "the trail is complete and legal";

pub fn check(transfer: &Transfer, trail: &[TrailEntry]) -> Result<(), Broken> {
    let broken = |what: String| Err(Broken::new(RULE, Some(&transfer.key), what));
    let mut state: Option<State> = None;
    let mut confirmed = false;
    for entry in trail {
        confirmed |= entry.event == TrailEvent::Noted(Note::Confirmed);
        let TrailEvent::Entered(entered) = entry.event else { continue };
        let legal = match state {
            None => Some(entered) == State::all(entered.rail()).first().copied(),
            Some(before) => before.leads_to(confirmed, entered),
        };
        if !legal {
            let before = state.map_or("nothing", State::name);
            return broken(format!("{}: {} after {before}", transfer.key, entered.name()));
        }
        state = Some(entered);
    }
    match state == Some(transfer.state) {
        true => Ok(()),
        false => broken(format!(
            "{} is {}, its trail ends with {}",
            transfer.key,
            transfer.state,
            state.map_or("nothing", State::name)
        )),
    }
}
