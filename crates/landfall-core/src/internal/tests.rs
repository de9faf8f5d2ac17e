use super::*;

/// The table of the design, written out once more by hand: state, event, next.
const TABLE: [(State, Event, State); 14] = [
    (State::Init, Event::SourceCall, State::SourcePending),
    (State::Init, Event::SourceOk, State::SourceDone),
    (State::Init, Event::SourceFail, State::Failed),
    (State::SourcePending, Event::SourceOk, State::SourceDone),
    (State::SourcePending, Event::SourceFail, State::Failed),
    (State::SourcePending, Event::Retry, State::SourcePending),
    (State::SourceDone, Event::TargetCall, State::TargetPending),
    (State::SourceDone, Event::TargetOk, State::Committed),
    (State::SourceDone, Event::TargetFail, State::Compensating),
    (State::TargetPending, Event::TargetOk, State::Committed),
    (State::TargetPending, Event::TargetFail, State::Compensating),
    (State::TargetPending, Event::Retry, State::TargetPending),
    (State::Compensating, Event::RollbackOk, State::RolledBack),
    (State::Compensating, Event::RollbackFail, State::Compensating),
];

#[test]
fn every_state_takes_exactly_the_events_of_the_table() {
    for confirmed in [false, true] {
        for state in State::ALL {
            for event in Event::ALL {
                let listed = TABLE.iter().find(|row| row.0 == state && row.1 == event);
                let expected = listed.map(|row| row.2).filter(|_| match event {
                    Event::TargetOk => confirmed,
                    Event::TargetFail => !confirmed,
                    _ => true,
                });
                assert_eq!(next(state, confirmed, event), expected, "{state:?} {event:?}");
            }
        }
    }
}

#[test]
fn nothing_leaves_a_final_state() {
    for state in State::ALL.into_iter().filter(|state| state.stage().is_none()) {
        for event in Event::ALL {
            assert_eq!(next(state, true, event), None);
            assert_eq!(next(state, false, event), None);
        }
    }
}

#[test]
fn a_confirmed_deposit_is_never_rolled_back() {
    for state in State::ALL {
        assert_ne!(next(state, true, Event::TargetFail), Some(State::Compensating));
    }
}

fn terms() -> Terms {
    Terms {
        services: vec!["funding".into(), "trading".into()],
        assets: vec![
            Asset { id: 1, symbol: "BTC".into(), decimals: 8 },
            Asset { id: 2, symbol: "USDT".into(), decimals: 6 },
            Asset { id: 3, symbol: "POINT".into(), decimals: 0 },
        ],
    }
}

fn asked(amount: &str) -> Asked<'_> {
    Asked { from: "funding", to: "trading", user_id: 4001, asset: "BTC", amount }
}

#[track_caller]
fn check_amount(text: &str, expected: Result<u64, &str>) {
    let got = Order::new(&terms(), asked(text));
    match expected {
        Ok(amount) => assert_eq!(got.map(|order| order.amount), Ok(amount), "{text}"),
        Err(part) => {
            let error = got.expect_err(text);
            assert_eq!(error.field, "amount");
            assert!(error.message.contains(part), "{text}: {error}");
        }
    }
}

#[test]
fn amounts_are_read_exactly_or_refused() {
    check_amount("1.5", Ok(150_000_000));
    check_amount("1.50", Ok(150_000_000));
    check_amount("0.00000001", Ok(1));
    check_amount("184467440737.09551615", Ok(u64::MAX));
    check_amount("184467440737.09551616", Err("larger than"));
    check_amount("0.000000001", Err("has 9 decimals; BTC has 8"));
    for zero in ["0", "0.0", "0.00000000"] {
        check_amount(zero, Err("more than 0"));
    }
    for broken in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", " 1", "1 ", "0x1", "1.5.0", "NaN"]
    {
        check_amount(broken, Err("positive decimal number"));
    }
}

#[test]
fn the_field_to_blame_is_named() {
    let check = |change: fn(&mut Asked<'_>), field: &str| {
        let mut asked = asked("1");
        change(&mut asked);
        assert_eq!(Order::new(&terms(), asked).expect_err(field).field, field);
    };
    check(|asked| asked.from = "vault", "from");
    check(|asked| asked.to = "vault", "to");
    check(|asked| asked.to = "funding", "to");
    check(|asked| asked.user_id = 0, "user_id");
    check(|asked| asked.asset = "btc", "asset");
}

#[test]
fn the_same_amount_written_otherwise_is_the_same_order() {
    let print = |amount| Order::new(&terms(), asked(amount)).unwrap().fingerprint();
    assert_eq!(print("1.5"), print("1.50"));
    assert_ne!(print("1.5"), print("1.51"));
}

#[test]
fn amounts_are_shown_as_short_as_they_are_exact() {
    let show = |amount| Order::new(&terms(), asked(amount)).unwrap().shown_amount();
    assert_eq!(show("1.50"), "1.5");
    assert_eq!(show("10"), "10");
    assert_eq!(show("0.00000001"), "0.00000001");
}

/// Services know requests by these ids: they never change.
#[test]
fn a_clients_key_names_the_same_request_for_ever() {
    let id = request_id("acme", "move-1").to_string();
    assert_eq!(id, "02dc566d-02f6-8371-bd08-92e033206ffc");
    assert_ne!(request_id("", "move-1").to_string(), id);
}
