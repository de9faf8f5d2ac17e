//! What the sweeper, operators and metrics ask.

use landfall_core::store::ListFilter;
use landfall_core::{RailName, Stage, State, Transfer, TransferId};

use crate::Tables;

impl Tables {
    /// Takes what is due and pushes it on. `(push, horizon)` in milliseconds.
    pub(crate) fn sweep(
        &mut self,
        stage: Stage,
        limit: usize,
        (push_ms, horizon_ms): (u64, u64),
        now_ms: u64,
    ) -> Vec<TransferId> {
        let is_due = |due_ms: u64| due_ms <= now_ms || due_ms > now_ms.saturating_add(horizon_ms);
        let mut due: Vec<(u64, TransferId)> = self
            .transfers
            .values()
            .filter(|transfer| transfer.state.stage() == Some(stage))
            .filter_map(|transfer| Some((transfer.due_ms?, transfer.id)))
            .filter(|(due_ms, _)| is_due(*due_ms))
            .collect();
        due.sort_unstable();
        due.truncate(limit);
        for (_, id) in &due {
            self.transfers.entry(*id).and_modify(|transfer| {
                transfer.due_ms = Some(now_ms.saturating_add(push_ms));
            });
        }
        due.into_iter().map(|(_, id)| id).collect()
    }

    pub(crate) fn list(&self, filter: &ListFilter) -> Vec<Transfer> {
        self.transfers
            .values()
            .rev()
            .filter(|transfer| self.passes(filter, transfer))
            .take(filter.limit)
            .cloned()
            .collect()
    }

    fn passes(&self, filter: &ListFilter, transfer: &Transfer) -> bool {
        let carried_since = || {
            let attempt = transfer.attempt.and_then(|id| self.attempts.get(&id));
            attempt.map(|attempt| attempt.opened_ms)
        };
        filter.rail.is_none_or(|rail| transfer.payload.rail() == rail)
            && filter.tenant.as_ref().is_none_or(|tenant| transfer.tenant == *tenant)
            && filter.state.is_none_or(|state| transfer.state == state)
            && filter.receiver.as_ref().is_none_or(|name| transfer.payload.receiver() == *name)
            && filter.created_from_ms.is_none_or(|from| transfer.created_ms >= from)
            && filter.created_until_ms.is_none_or(|until| transfer.created_ms < until)
            && filter.before.is_none_or(|before| transfer.id < before)
            && filter
                .adrift_before_ms
                .is_none_or(|before| carried_since().is_some_and(|opened| opened < before))
    }

    /// States that have transfers, rail by rail in the order of their lives.
    pub(crate) fn counts(&self) -> Vec<(State, u64)> {
        let count = |state: State| {
            self.transfers.values().filter(|transfer| transfer.state == state).count() as u64
        };
        RailName::ALL
            .into_iter()
            .flat_map(State::all)
            .map(|state| (state, count(state)))
            .filter(|(_, transfers)| *transfers > 0)
            .collect()
    }
}
