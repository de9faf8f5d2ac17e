//! What the chain and a relayer's words come to together.

use alloy_primitives::B256;
use landfall_core::{AttemptId, Epoch, TransferId};
use landfall_rpc::{HttpTransport, Transport, Url};

use super::super::settings::{RelayerSettings, Routes, Shape};
use super::super::wire;
use super::*;

const TICKET: Ticket =
    Ticket { forwarder: Address::repeat_byte(1), signer: Address::repeat_byte(2), nonce: 4 };

fn attempt() -> Attempt {
    Attempt {
        id: AttemptId(1),
        rail: RailName::Evm,
        lane: LaneId::new("evm:1:relayer:one"),
        epoch: Epoch(1),
        nonce: Nonce(7),
        purpose: Purpose::Pay,
        hash: "handover:0x".into(),
        bytes: Vec::new(),
        seq: 1,
        base: None,
        expires_height: None,
        variants: Vec::new(),
        members: vec![TransferId(1)],
        opened_ms: 0,
        sightings: Vec::new(),
        fate: None,
        decided_ms: None,
    }
}

fn used(success: bool) -> Used {
    let transaction = B256::repeat_byte(9);
    Used { success, transaction, block_number: 8, block_hash: B256::repeat_byte(8) }
}

fn pursued(status: &str, renumbered: bool) -> Pursued {
    let told = json!({ "id": "a", "status": status, "status_reason": "no funds" });
    let told = wire::told(&told, Shape::Enveloped).expect("an id");
    Pursued { told, hashes: Vec::new(), renumbered }
}

fn foreign() -> Foreign {
    let certificate = Certificate {
        kind: CertificateKind::Displaced,
        summary: "nonce 3 was used otherwise".into(),
        evidence: json!({ "nonce": 3 }),
    };
    Foreign { reason: "nonce 3 was used otherwise".into(), certificate: Some(certificate) }
}

#[test]
fn a_request_that_was_executed_landed_under_the_hash_of_whoever_submitted_it() {
    let landed = |success| match judged(&attempt(), &TICKET, used(success), Carried::Ours) {
        Look::Landed(landing) => landing,
        other => panic!("{other:?}"),
    };
    let landing = landed(true);
    assert_eq!(landing.hash, Some(B256::repeat_byte(9).to_string()));
    assert_eq!((landing.block_height, landing.outcomes), (8, vec![Outcome::Done]));
    assert!(matches!(landed(false).outcomes[..], [Outcome::OwnFault { .. }]));
}

#[test]
fn a_nonce_that_another_request_has_used_sinks_ours_and_one_of_which_nothing_is_told_does_not() {
    let look = |carried| judged(&attempt(), &TICKET, used(true), carried);
    let Look::Sunk(certificate) = look(Carried::Another) else { panic!("not sunk") };
    assert_eq!(certificate.kind, CertificateKind::Displaced);
    assert_eq!(certificate.evidence["nonce"], 4);
    assert!(matches!(look(Carried::Unclear), Look::Adrift { .. }));
}

#[test]
fn what_has_lost_its_nonce_is_sunk_once_its_relayer_has_given_it_up() {
    for status in ["failed", "expired", "canceled"] {
        let Look::Sunk(certificate) = displaced(foreign(), &pursued(status, false)) else {
            panic!("{status} is not sunk")
        };
        assert_eq!(certificate.evidence["relayer_says"], format!("{status}: no funds"));
    }
}

#[test]
fn what_its_relayer_may_yet_sign_or_has_signed_under_two_nonces_is_not_sunk() {
    for status in ["pending", "sent", "submitted", "mined", "confirmed", "strange"] {
        let look = displaced(foreign(), &pursued(status, false));
        assert!(matches!(look, Look::Adrift { .. }), "{status}: {look:?}");
    }
    assert!(matches!(displaced(foreign(), &pursued("failed", true)), Look::Adrift { .. }));
    let unproven = Foreign { certificate: None, ..foreign() };
    assert!(matches!(displaced(unproven, &pursued("failed", false)), Look::Adrift { .. }));
}

#[test]
fn a_request_is_read_back_from_what_the_forwarder_is_called_with() {
    let request = ForwardRequest {
        from: TICKET.signer,
        to: Address::repeat_byte(3),
        value: Default::default(),
        gas: alloy_primitives::U256::from(5),
        nonce: alloy_primitives::U256::from(TICKET.nonce),
        deadline: Default::default(),
        data: alloy_primitives::Bytes::from_static(&[1]),
    };
    let handover = |data| Handover {
        relayer: "one".into(),
        to: TICKET.forwarder,
        value: Default::default(),
        data,
        gas: 1,
        speed: Default::default(),
        request: Some(Requested { ticket: TICKET, since: 0 }),
    };
    let data = crate::forward::execution(&request, &Default::default());
    assert_eq!(request_in(&handover(data), &TICKET), Some(request));
    assert_eq!(request_in(&handover(Default::default()), &TICKET), None);
}

fn rail(chain_id: u64) -> RelayerRail {
    let clock: Arc<dyn Clock> = Arc::new(landfall_lanes::SystemClock::default());
    let transport: Arc<dyn Transport> = Arc::new(HttpTransport::new());
    // Nobody is there, and nobody is asked.
    let url = || Url::parse("http://127.0.0.1:1").expect("a URL");
    let endpoints =
        Endpoints::new(vec![url()], transport.clone(), clock.clone(), Default::default());
    let relayer = |name| RelayerSettings::new(name, url(), Routes::openzeppelin(name));
    let relayers = Relayers::new(["two", "one"].map(relayer).into(), &transport, &clock);
    let relayers = Arc::new(relayers.expect("two names"));
    let settings = EvmSettings::new("base", chain_id, Vec::new());
    RelayerRail::new(settings, HANDED_OVER, endpoints.expect("one"), relayers, clock)
        .expect("a rail")
}

#[tokio::test]
async fn a_chain_s_calls_go_by_its_own_relayers_each_with_a_lane_and_marks_of_its_own() {
    let rail = rail(5);
    let lanes = rail.lanes();
    assert_eq!(lanes, ["evm:5:relayer:one", "evm:5:relayer:two"].map(LaneId::new));
    assert!(lanes.iter().all(|lane| rail.owns(lane)));
    assert!(!rail.owns(&LaneId::new("evm:6:relayer:one")));
    assert!(!rail.owns(&crate::lane_id(5, Address::ZERO)), "a signer's");
    let marks = |nonce| [0, 1].map(|place| rail.mark(&lanes[place], Nonce(nonce)));
    assert_eq!(marks(1), [Some((2, "one")), Some((3, "two"))]);
    assert_eq!(marks(2), [Some((4, "one")), Some((5, "two"))]);
    assert_eq!(rail.mark(&LaneId::new("evm:5:relayer:gone"), Nonce(1)), None);
    let call = |chain_id| {
        let terms = evm::Terms { chain: "base".into(), chain_id, forwarder: None };
        let to = Address::repeat_byte(1).to_string();
        let fields = evm::DirectFields { to: &to, ..Default::default() };
        Payload::Evm(Call::direct(&terms, &fields).expect("a call"))
    };
    assert!(rail.takes(&call(5)));
    assert!(!rail.takes(&call(6)), "another chain's");
}
