//! How far a client has come with its request, and for how long it has been there.

use std::sync::Arc;

use landfall_core::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Patience;

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing of the first one has arrived.
    New,
    /// Nothing of the next one has arrived.
    Idle,
    /// Some of its head has.
    Head,
    /// Its head has, and not all of its body.
    Body,
    /// It is whole, and has no answer yet.
    Whole,
}

#[derive(Debug, Clone, Copy)]
struct State {
    phase: Phase,
    since_ms: u64,
    /// Since when the client has taken nothing of what is being sent.
    stalled_ms: Option<u64>,
}

/// One client, as the doors see it.
pub struct Presence {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// An answer was given.
    answered: Notify,
    shown_out: Notify,
}

impl Presence {
    pub fn new(clock: Arc<dyn Clock>) -> Presence {
        let state = State { phase: Phase::New, since_ms: clock.monotonic_ms(), stalled_ms: None };
        let (answered, shown_out) = (Notify::new(), Notify::new());
        Presence { clock, state: Mutex::new(state), answered, shown_out }
    }

    fn enter(&self, phase: Phase) {
        let mut state = self.state.lock();
        (state.phase, state.since_ms) = (phase, self.clock.monotonic_ms());
    }

    /// Something arrived. Of a body, the last part is noticed by whoever reads it.
    pub fn heard(&self) {
        if matches!(self.state.lock().phase, Phase::New | Phase::Idle) {
            self.enter(Phase::Head);
        }
    }

    /// The head is there.
    pub fn asked(&self, whole: bool) {
        self.enter(if whole { Phase::Whole } else { Phase::Body });
    }

    /// The rest of the body is there.
    pub fn has_all(&self) {
        if self.state.lock().phase == Phase::Body {
            self.enter(Phase::Whole);
        }
    }

    pub fn answered(&self) {
        self.enter(Phase::Idle);
        self.answered.notify_waiters();
    }

    /// Whether the client takes what is sent to it.
    pub fn takes(&self, taken: bool) {
        let mut state = self.state.lock();
        state.stalled_ms = match taken {
            true => None,
            false => state.stalled_ms.or(Some(self.clock.monotonic_ms())),
        };
    }

    pub fn is_served(&self) -> bool {
        self.state.lock().phase == Phase::Whole
    }

    /// Since when the client has kept us waiting; none while it waits for us.
    pub fn waits(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.phase != Phase::Whole).then_some(state.since_ms)
    }

    pub fn show_out(&self) {
        self.shown_out.notify_one();
    }

    /// Returns when the client has to go: patience is at an end, or its place is needed.
    pub async fn outstays(&self, patience: Patience) {
        loop {
            let left_ms = self.left_ms(patience);
            if left_ms == 0 {
                return;
            }
            tokio::select! {
                () = self.shown_out.notified() => return,
                () = self.clock.sleep(std::time::Duration::from_millis(left_ms)) => {}
            }
        }
    }

    /// How long nothing has to be done about the client.
    fn left_ms(&self, patience: Patience) -> u64 {
        let (state, now_ms) = (*self.state.lock(), self.clock.monotonic_ms());
        let left = |since_ms: u64, most_ms: u64| (since_ms + most_ms).saturating_sub(now_ms);
        let phase_ms = match state.phase {
            Phase::New | Phase::Head => left(state.since_ms, patience.head_ms),
            Phase::Idle => left(state.since_ms, patience.idle_ms),
            Phase::Body => {
                patience.body_ms.map_or(patience.head_ms, |most_ms| left(state.since_ms, most_ms))
            }
            // Looked at again after that.
            Phase::Whole => patience.head_ms,
        };
        let stalled_ms = state.stalled_ms.map(|since_ms| left(since_ms, patience.idle_ms));
        // A phase can begin right after this look; its patience is no shorter than these.
        phase_ms.min(stalled_ms.unwrap_or(phase_ms)).min(patience.head_ms.max(1))
    }

    /// Returns when no whole request is without its answer.
    pub async fn at_rest(&self) {
        loop {
            let answered = self.answered.notified();
            if !self.is_served() {
                return;
            }
            answered.await;
        }
    }

    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }
}

#[cfg(test)]
mod tests {
    use landfall_lanes::TimerClock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_part_of_a_request_has_its_time() {
        let patience = Patience { head_ms: 100, body_ms: Some(300), idle_ms: 700 };
        let clock: Arc<dyn Clock> = Arc::new(TimerClock::starting_at(0));
        let outstayed_ms = async |arrive: &dyn Fn(&Presence), patience: Patience| {
            let presence = Presence::new(clock.clone());
            arrive(&presence);
            let began_ms = clock.monotonic_ms();
            let most = std::time::Duration::from_secs(10);
            let over = tokio::time::timeout(most, presence.outstays(patience)).await;
            over.is_ok().then(|| clock.monotonic_ms() - began_ms)
        };
        assert_eq!(outstayed_ms(&|_| {}, patience).await, Some(100));
        assert_eq!(outstayed_ms(&Presence::heard, patience).await, Some(100));
        assert_eq!(outstayed_ms(&|client| client.asked(false), patience).await, Some(300));
        assert_eq!(outstayed_ms(&Presence::answered, patience).await, Some(700));
        assert_eq!(outstayed_ms(&|client| client.asked(true), patience).await, None);
        let elsewhere = Patience { body_ms: None, ..patience };
        assert_eq!(outstayed_ms(&|client| client.asked(false), elsewhere).await, None);
    }
}
