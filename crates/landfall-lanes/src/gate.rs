//! The gate: what a lane may sign, as pure functions of its manner and what it has in flight.
//!
//! **Rule:** an attempt that may or may not have arrived closes the window, wherever a later one
//! can outlive it or has to wait behind it. Only a fence passes a closed gate; other bytes for an
//! attempt that is in flight need none.
//! Not here: leases, halts and suspicion, which close every gate (`driver`).

use landfall_core::Purpose;
use landfall_core::attempt::VariantKind;
use landfall_core::ledger::{Manner, Order};

/// How far an open attempt has come, as this process knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Stored just now by this process; its first broadcast is not answered yet.
    Leaving,
    /// A node has it.
    Sent,
    /// It may have arrived, or may never have left.
    Unsure,
    /// Its bytes can never enter the ledger, on which others queue behind it: something else must
    /// use its nonce.
    Refused,
    /// In a block, or passed by one that is.
    Included,
}

/// An open attempt as the gate sees it.
#[derive(Debug, Clone)]
pub struct InFlight {
    /// On the process's own clock, so that a jump of the wall clock delays no fence.
    pub since_ms: u64,
    pub purpose: Purpose,
    pub standing: Standing,
    /// When other bytes for it were last signed, or sought in vain; at first when it was opened.
    pub varied_ms: u64,
    /// Whether some of its bytes cancel it.
    pub cancelled: bool,
}

/// How many more attempts the lane may sign.
pub fn room(manner: &Manner, in_flight: impl IntoIterator<Item = Standing>) -> usize {
    let mut waiting = 0;
    for standing in in_flight {
        match standing {
            Standing::Included => {}
            Standing::Unsure | Standing::Refused if manner.order != Order::Free => return 0,
            Standing::Leaving | Standing::Sent | Standing::Unsure | Standing::Refused => {
                waiting += 1;
            }
        }
    }
    manner.window.saturating_sub(waiting)
}

/// Whether operators should be shown it: in no block for longer than is normal, or in one that
/// should be final by now.
pub fn is_adrift(manner: &Manner, attempt: &InFlight, now_ms: u64) -> bool {
    let patience_ms = match attempt.standing {
        // In a block is no fate: what should be final by then is of unknown fate, too.
        Standing::Included => manner.finality_ms,
        Standing::Leaving | Standing::Sent | Standing::Unsure | Standing::Refused => {
            manner.inclusion_ms.min(manner.fence_after_ms)
        }
    };
    attempt.since_ms + patience_ms < now_ms
}

/// Whether a fence is due: one of these, by nonce, is in no block for too long, and no younger one
/// would decide it by landing.
pub fn needs_fence(manner: &Manner, in_flight: &[&InFlight], now_ms: u64) -> bool {
    let overdue = |attempt: &InFlight| attempt.since_ms + manner.fence_after_ms <= now_ms;
    let adrift = |attempt: &InFlight| attempt.standing != Standing::Included && overdue(attempt);
    // A fence that another attempt already passes decides nothing more.
    let newest_is_old = in_flight.last().is_some_and(|attempt| overdue(attempt));
    let fenced = |attempt: &InFlight| attempt.purpose == Purpose::Fence && !overdue(attempt);
    manner.order == Order::Overtakes
        && in_flight.iter().any(|attempt| adrift(attempt))
        && !in_flight.iter().any(|attempt| fenced(attempt))
        && newest_is_old
}

/// Which other bytes are due for it, if any: nothing behind it lands before it does. Once it is
/// cancelled it stays so, since what was done twice on better terms each time might never end.
pub fn variant_due(manner: &Manner, attempt: &InFlight, now_ms: u64) -> Option<VariantKind> {
    let is_old = attempt.varied_ms + manner.replace_after_ms <= now_ms;
    match attempt.standing {
        _ if manner.order != Order::Queues => None,
        Standing::Included => None,
        Standing::Refused if !attempt.cancelled => Some(VariantKind::Cancels),
        _ if !is_old => None,
        _ if attempt.cancelled => Some(VariantKind::Cancels),
        _ => Some(VariantKind::Replaces),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Order; 3] = [Order::Overtakes, Order::Queues, Order::Free];

    fn manner(order: Order, window: usize) -> Manner {
        Manner { order, window, ..Manner::OVERTAKES }
    }

    #[test]
    fn a_window_counts_what_is_not_in_a_block() {
        use Standing::{Included, Leaving, Sent};
        for order in ALL {
            let room = |standings: &[Standing]| room(&manner(order, 3), standings.iter().copied());
            assert_eq!(room(&[]), 3);
            assert_eq!(room(&[Included, Included, Included, Included]), 3);
            assert_eq!(room(&[Included, Sent, Leaving]), 1);
            assert_eq!(room(&[Sent, Sent, Sent, Sent]), 0);
        }
    }

    #[test]
    fn an_unsure_attempt_closes_the_window_unless_attempts_are_free_of_each_other() {
        for unsure in [Standing::Unsure, Standing::Refused] {
            let room = |order| room(&manner(order, 3), [Standing::Included, unsure]);
            assert_eq!(ALL.map(room), [0, 0, 2]);
        }
    }

    fn in_flight(since_ms: u64, purpose: Purpose, standing: Standing) -> InFlight {
        InFlight { since_ms, purpose, standing, varied_ms: since_ms, cancelled: false }
    }

    #[test]
    fn a_fence_is_due_once_and_only_where_a_later_nonce_decides() {
        let manner = |order| Manner { fence_after_ms: 60, ..manner(order, 3) };
        let lost = in_flight(0, Purpose::Pay, Standing::Unsure);
        let sent = in_flight(0, Purpose::Pay, Standing::Sent);
        let landed = in_flight(0, Purpose::Pay, Standing::Included);
        let young = in_flight(50, Purpose::Pay, Standing::Included);
        let fence = in_flight(50, Purpose::Fence, Standing::Leaving);
        let due = |order, all: &[&InFlight]| needs_fence(&manner(order), all, 60);
        assert_eq!(ALL.map(|order| due(order, &[&lost])), [true, false, false]);
        assert!(due(Order::Overtakes, &[&sent]));
        assert!(due(Order::Overtakes, &[&lost, &landed]), "in a block that may fall off");
        assert!(!due(Order::Overtakes, &[&landed]));
        assert!(!due(Order::Overtakes, &[&lost, &fence]));
        assert!(!due(Order::Overtakes, &[&lost, &young]), "which decides it by landing");
        assert!(!needs_fence(&manner(Order::Overtakes), &[&lost], 59));
    }

    #[test]
    fn other_bytes_are_due_where_attempts_queue_and_the_newest_are_in_no_block_for_long() {
        let manner = |order| Manner { replace_after_ms: 30, ..manner(order, 3) };
        let sent = in_flight(0, Purpose::Pay, Standing::Sent);
        let due = |attempt: &InFlight, now_ms| variant_due(&manner(Order::Queues), attempt, now_ms);
        let everywhere = |order| variant_due(&manner(order), &sent, 30);
        assert_eq!(ALL.map(everywhere), [None, Some(VariantKind::Replaces), None]);
        assert_eq!(due(&sent, 29), None);
        let again = InFlight { varied_ms: 25, ..sent.clone() };
        assert_eq!([54, 55].map(|now| due(&again, now)), [None, Some(VariantKind::Replaces)]);
        assert_eq!(due(&in_flight(0, Purpose::Pay, Standing::Included), 99), None);
    }

    #[test]
    fn what_can_never_land_is_cancelled_at_once_and_what_is_cancelled_stays_so() {
        let manner = Manner { replace_after_ms: 30, ..manner(Order::Queues, 3) };
        let due = |attempt: &InFlight, now_ms| variant_due(&manner, attempt, now_ms);
        let refused = in_flight(0, Purpose::Pay, Standing::Refused);
        assert_eq!(due(&refused, 0), Some(VariantKind::Cancels));
        let cancelled = InFlight { cancelled: true, varied_ms: 5, ..refused };
        assert_eq!([34, 35].map(|now| due(&cancelled, now)), [None, Some(VariantKind::Cancels)]);
        let sent = InFlight { standing: Standing::Sent, ..cancelled };
        assert_eq!(due(&sent, 35), Some(VariantKind::Cancels));
    }

    #[test]
    fn what_is_not_final_in_time_is_adrift_like_what_is_in_no_block() {
        let manner = Manner {
            inclusion_ms: 10,
            finality_ms: 900,
            fence_after_ms: 9_000,
            ..manner(Order::Queues, 3)
        };
        let since = |standing| in_flight(0, Purpose::Pay, standing);
        assert!(!is_adrift(&manner, &since(Standing::Sent), 10));
        assert!(is_adrift(&manner, &since(Standing::Sent), 11));
        assert!(!is_adrift(&manner, &since(Standing::Included), 900));
        assert!(is_adrift(&manner, &since(Standing::Included), 901));
    }
}
