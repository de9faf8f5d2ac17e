use super::*;

#[test]
fn only_the_listed_steps_are_legal() {
    use {Event as E, State as S};
    let legal = [
        (S::Pending, E::AttemptStored, S::Submitted),
        (S::Pending, E::Refused, S::Failed),
        (S::Pending, E::GaveUp, S::Failed),
        (S::Submitted, E::Included, S::Mined),
        (S::Submitted, E::Landed, S::Success),
        (S::Submitted, E::Sunk, S::Pending),
        (S::Submitted, E::Unpaid, S::Pending),
        (S::Submitted, E::Refused, S::Failed),
        (S::Submitted, E::GaveUp, S::Failed),
        (S::Mined, E::FellOff, S::Submitted),
        (S::Mined, E::Landed, S::Success),
        (S::Mined, E::Sunk, S::Pending),
        (S::Mined, E::Unpaid, S::Pending),
        (S::Mined, E::Refused, S::Failed),
        (S::Mined, E::GaveUp, S::Failed),
        (S::Failed, E::Replayed, S::Pending),
    ];
    for state in State::ALL {
        for event in Event::ALL {
            let expected =
                legal.iter().find(|row| row.0 == state && row.1 == event).map(|row| row.2);
            assert_eq!(next(state, event), expected, "{state:?} × {event:?}");
        }
    }
}

const FORWARDER: &str = "0x5FbDB2315678afecb367f032d93F642f64180aa3";
const ALICE: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";

fn terms() -> Terms {
    let forwarder = Some(Address::parse(FORWARDER).unwrap());
    Terms { chain: "main".into(), chain_id: 31_337, forwarder }
}

fn direct(fields: DirectFields<'_>) -> Result<Call, BadField> {
    Call::direct(&terms(), &fields)
}

fn request() -> GaslessFields<'static> {
    GaslessFields {
        from: ALICE,
        to: FORWARDER,
        value: "0",
        gas: "50000",
        nonce: "7",
        deadline: "1900000000",
        data: "0x01",
        signature: Box::leak(format!("0x{}", "ab".repeat(65)).into_boxed_str()),
        forwarder: None,
        speed: None,
    }
}

#[test]
fn an_address_is_taken_with_its_checksum_or_in_letters_of_one_case() {
    let small = ALICE.to_lowercase();
    let large = format!("0x{}", ALICE[2..].to_uppercase());
    for good in [ALICE, &small, &large] {
        assert_eq!(Address::parse(good).unwrap().to_string(), ALICE);
    }
    let mistyped = ALICE.replace('C', "c");
    assert!(Address::parse(&mistyped).unwrap_err().contains("checksum"));
    for bad in ["", "0x", &ALICE[2..], &ALICE[..41], &format!("{ALICE}0"), "0xzz"] {
        assert!(Address::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn values_are_exact_in_decimal_and_in_hex() {
    let value =
        |value| direct(DirectFields { to: ALICE, value: Some(value), ..Default::default() });
    for (text, wei) in [("0", 0), ("1000000000000000001", 1_000_000_000_000_000_001), ("0xff", 255)]
    {
        assert_eq!(value(text).unwrap().value(), wei);
    }
    let most = u128::MAX.to_string();
    assert_eq!(value(&most).unwrap().value(), u128::MAX);
    for bad in ["", "0x", "-1", "+1", "1.0", "1e18", " 1", "0xg", &format!("{most}0")] {
        assert_eq!(value(bad).unwrap_err().field, "value", "{bad:?}");
    }
}

#[test]
fn gas_is_bounded_and_may_be_left_to_the_nodes() {
    let gas = |gas| direct(DirectFields { to: ALICE, gas, ..Default::default() });
    assert!(gas(None).is_ok() && gas(Some("21000")).is_ok() && gas(Some("0x5208")).is_ok());
    for bad in ["0", "20999", "60000001", "many"] {
        assert_eq!(gas(Some(bad)).unwrap_err().field, "gas", "{bad:?}");
    }
}

#[test]
fn the_fingerprint_covers_every_field_of_a_call_and_none_of_its_spelling() {
    let base = DirectFields { to: ALICE, value: Some("255"), ..Default::default() };
    let print = |fields| direct(fields).unwrap().fingerprint();
    let small = ALICE.to_lowercase();
    let same = [
        DirectFields { to: &small, ..base },
        DirectFields { value: Some("0xff"), ..base },
        DirectFields { data: Some("0x"), ..base },
        DirectFields { speed: Some("average"), ..base },
    ];
    for fields in same {
        assert_eq!(print(fields), print(base), "{fields:?}");
    }
    let others = [
        DirectFields { to: FORWARDER, ..base },
        DirectFields { value: Some("256"), ..base },
        DirectFields { data: Some("0x00"), ..base },
        DirectFields { gas: Some("21000"), ..base },
        DirectFields { speed: Some("fast"), ..base },
    ];
    for fields in others {
        assert_ne!(print(fields), print(base), "{fields:?}");
    }
    let elsewhere = Terms { chain: "other".into(), ..terms() };
    assert_ne!(Call::direct(&elsewhere, &base).unwrap().fingerprint(), print(base));
}

#[test]
fn a_request_claims_its_users_nonce_at_the_forwarder() {
    let claims = |fields| Call::gasless(&terms(), &fields).unwrap().claims();
    let small: &'static str = Box::leak(ALICE.to_lowercase().into_boxed_str());
    let first = claims(request());
    assert_eq!(first.len(), 1);
    assert_eq!(claims(GaslessFields { from: small, data: "0x02", ..request() }), first);
    assert_ne!(claims(GaslessFields { nonce: "8", ..request() }), first);
    assert_ne!(claims(GaslessFields { from: FORWARDER, ..request() }), first);
    assert!(direct(DirectFields { to: ALICE, ..Default::default() }).unwrap().claims().is_empty());
}

#[test]
fn a_request_for_another_forwarder_or_with_half_a_signature_is_not_taken() {
    let refused = |fields| Call::gasless(&terms(), &fields).unwrap_err().field;
    assert_eq!(refused(GaslessFields { forwarder: Some(ALICE), ..request() }), "forwarder");
    assert_eq!(refused(GaslessFields { signature: "0xabcd", ..request() }), "signature");
    assert_eq!(refused(GaslessFields { deadline: "281474976710656", ..request() }), "deadline");
    assert_eq!(refused(GaslessFields { gas: "0", ..request() }), "gas");
    let none = Terms { forwarder: None, ..terms() };
    assert_eq!(Call::gasless(&none, &request()).unwrap_err().field, "forwarder");
}

#[test]
fn a_call_survives_being_kept() {
    let calls = [
        direct(DirectFields { to: ALICE, data: Some("0x01ff"), ..Default::default() }).unwrap(),
        Call::gasless(&terms(), &request()).unwrap(),
    ];
    for call in calls {
        let kept = serde_json::to_string(&call).unwrap();
        assert_eq!(serde_json::from_str::<Call>(&kept).unwrap(), call);
    }
}

/// Transactions are stored under these ids: they never change.
#[test]
fn a_clients_key_names_the_same_transaction_for_ever() {
    let id = transaction_id("acme", "call-1").to_string();
    assert_eq!(id, "26c7eb0c-d17c-8e12-aaf7-739dfb9fc33f");
    assert_ne!(transaction_id("", "call-1").to_string(), id);
}
