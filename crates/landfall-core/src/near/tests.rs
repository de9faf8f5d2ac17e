use super::*;

/// Every legal step, and nothing else.
#[test]
fn only_the_listed_steps_are_legal() {
    use {Event as E, State as S};
    let legal = [
        (S::Received, E::Enqueued, S::QueuedRegistration),
        (S::QueuedRegistration, E::Prepared, S::Registered),
        (S::QueuedRegistration, E::Refused, S::Failed),
        (S::QueuedRegistration, E::GaveUp, S::Failed),
        (S::Registered, E::Enqueued, S::QueuedTransfer),
        (S::QueuedTransfer, E::AttemptStored, S::Submitted),
        (S::QueuedTransfer, E::Refused, S::Failed),
        (S::QueuedTransfer, E::GaveUp, S::Failed),
        (S::Submitted, E::Enqueued, S::QueuedVerification),
        (S::Submitted, E::Landed, S::Completed),
        (S::Submitted, E::Sunk, S::QueuedTransfer),
        (S::Submitted, E::Unpaid, S::QueuedTransfer),
        (S::Submitted, E::Unprepared, S::QueuedRegistration),
        (S::Submitted, E::Refused, S::Failed),
        (S::Submitted, E::GaveUp, S::Failed),
        (S::QueuedVerification, E::Landed, S::Completed),
        (S::QueuedVerification, E::Sunk, S::QueuedTransfer),
        (S::QueuedVerification, E::Unpaid, S::QueuedTransfer),
        (S::QueuedVerification, E::Unprepared, S::QueuedRegistration),
        (S::QueuedVerification, E::Refused, S::Failed),
        (S::QueuedVerification, E::GaveUp, S::Failed),
        (S::Failed, E::Replayed, S::QueuedRegistration),
    ];
    for state in State::ALL {
        for event in Event::ALL {
            let expected =
                legal.iter().find(|row| row.0 == state && row.1 == event).map(|row| row.2);
            assert_eq!(next(state, event), expected, "{state:?} × {event:?}");
        }
    }
}

#[test]
fn nothing_but_a_replay_leaves_a_final_state() {
    for state in [State::Completed, State::Failed] {
        for event in Event::ALL {
            let left = next(state, event).is_some();
            assert_eq!(left, state == State::Failed && event == Event::Replayed);
        }
    }
}

fn terms() -> Terms {
    Terms { network: "simnet".into(), token: "token.near".into(), sender: "relay.near".into() }
}

#[test]
fn amounts_are_whole_positive_and_fit_the_ledger() {
    let check = |amount: &str, good: bool| {
        let result = Payout::new(&terms(), "alice.near", amount, None);
        assert_eq!(result.is_ok(), good, "{amount:?}: {result:?}");
        if let Err(error) = result {
            assert_eq!(error.field, "amount");
        }
    };
    check("1", true);
    check("340282366920938463463374607431768211455", true);
    check("340282366920938463463374607431768211456", false);
    check("007", true);
    for amount in ["", "0", "000", "-1", "+1", "1.5", "1e3", " 1", "1 ", "0x10", "١"] {
        check(amount, false);
    }
}

#[test]
fn the_fingerprint_is_canonical_and_covers_every_parameter() {
    let of = |receiver: &str, amount: &str, memo: Option<&str>| {
        Payout::new(&terms(), receiver, amount, memo).unwrap().fingerprint()
    };
    assert_eq!(of("alice.near", "10", None), of("alice.near", "0010", None));
    assert_ne!(of("alice.near", "10", None), of("alice.near", "11", None));
    assert_ne!(of("alice.near", "10", None), of("bob.near", "10", None));
    assert_ne!(of("alice.near", "10", None), of("alice.near", "10", Some("none")));
    assert_ne!(of("alice.near", "10", Some("")), of("alice.near", "10", None));
}

#[test]
fn the_relay_cannot_pay_itself() {
    let error = Payout::new(&terms(), "relay.near", "1", None).unwrap_err();
    assert_eq!(error.field, "receiver_id");
}
