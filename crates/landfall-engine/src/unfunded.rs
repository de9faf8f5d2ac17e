//! Lanes that may be out of the ledger's own coin, where each has funds of its own: they alone are
//! given nothing until their funds were looked at, ever more rarely while they are short.
//!
//! Where all lanes spend from one account a lack of it stops the rail (`trouble`).
//! Not here: asking (`pay`). Times are of the process's own clock.

use std::collections::BTreeMap;

use landfall_core::LaneId;

use crate::schedule;
use crate::settings::Settings;

/// The lanes whose funds are in doubt.
#[derive(Default)]
pub(crate) struct Unfunded(BTreeMap<LaneId, Doubt>);

struct Doubt {
    reason: String,
    /// When to look at them, and how often that was in vain.
    until_ms: u64,
    looks: u32,
}

impl Unfunded {
    /// Somebody says that the lane has too little: that is looked at before anything is given to
    /// it.
    pub fn doubt(&mut self, lane: &LaneId, reason: String, now_ms: u64) {
        let doubt = Doubt { reason, until_ms: now_ms, looks: 0 };
        self.0.entry(lane.clone()).or_insert(doubt);
    }

    pub fn contains(&self, lane: &LaneId) -> bool {
        self.0.contains_key(lane)
    }

    /// A lane whose funds are to be looked at now.
    pub fn due(&self, now_ms: u64) -> Option<LaneId> {
        let mut due = self.0.iter().filter(|(_, doubt)| doubt.until_ms <= now_ms);
        due.next().map(|(lane, _)| lane.clone())
    }

    /// How long until the next look; for ever if nobody's funds are in doubt.
    pub fn wait_ms(&self, now_ms: u64) -> u64 {
        let next = self.0.values().map(|doubt| doubt.until_ms).min();
        next.map_or(u64::MAX, |until_ms| until_ms.saturating_sub(now_ms))
    }

    /// They were looked at. Returns whether they are back: what waits for them can be tried again.
    pub fn looked(
        &mut self,
        lane: &LaneId,
        funded: bool,
        now_ms: u64,
        settings: &Settings,
    ) -> bool {
        match self.0.get_mut(lane) {
            Some(doubt) if !funded => {
                doubt.until_ms = now_ms + schedule::pause_ms(settings, doubt.looks);
                doubt.looks += 1;
                false
            }
            _ => self.0.remove(lane).is_some_and(|doubt| doubt.looks > 0),
        }
    }

    /// Something of the lane has landed.
    pub fn served(&mut self, lane: &LaneId) {
        self.0.remove(lane);
    }

    /// The lanes that were found short, for operators.
    pub fn report(&self) -> Option<String> {
        let mut short = self.0.iter().filter(|(_, doubt)| doubt.looks > 0);
        let (lane, doubt) = short.next()?;
        let more = match short.count() {
            0 => String::new(),
            count => format!("; and {count} lanes more"),
        };
        Some(format!("{lane}: {}{more}", doubt.reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_in_doubt_is_looked_at_first_and_then_ever_more_rarely() {
        let settings = Settings { pause_ms: 2, pause_max_ms: 8, ..Settings::default() };
        let (poor, rich) = (LaneId::new("poor"), LaneId::new("rich"));
        let mut unfunded = Unfunded::default();
        unfunded.doubt(&poor, "no coin".into(), 0);
        unfunded.doubt(&rich, "no coin".into(), 0);
        assert!(!unfunded.looked(&rich, true, 0, &settings), "they were never missed");
        assert!(!unfunded.contains(&rich) && unfunded.contains(&poor));
        let mut now_ms = 0;
        for pause_ms in [2, 4, 8, 8] {
            assert_eq!(unfunded.due(now_ms), Some(poor.clone()));
            assert!(!unfunded.looked(&poor, false, now_ms, &settings));
            unfunded.doubt(&poor, "said again".into(), now_ms);
            assert_eq!((unfunded.due(now_ms), unfunded.wait_ms(now_ms)), (None, pause_ms));
            now_ms += pause_ms;
        }
        assert_eq!(unfunded.report().as_deref(), Some("poor: no coin"));
        assert!(unfunded.looked(&poor, true, now_ms, &settings), "they are back");
        assert_eq!((unfunded.report(), unfunded.wait_ms(now_ms)), (None, u64::MAX));
    }
}
