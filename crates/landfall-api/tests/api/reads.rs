//! `GET /transfer/{key}`.

use std::sync::Arc;
use std::time::Duration;

use landfall_core::{Certificate, CertificateKind, Clock, Event, Fault, Note};
use landfall_lanes::{SystemClock, TimerClock};
use serde_json::json;

use crate::world::{TO_COMPLETED, World};

#[tokio::test]
async fn a_transfer_is_shown_with_its_whole_trail() {
    let world = World::new();
    world.pay_alice("k").await;
    world.pass_ms(5_001);
    let stored = [Event::Prepared, Event::Enqueued, Event::AttemptStored];
    world.advance("k", &stored, |step| step.with(|entry| entry.tx_hash = Some("Hash1".into())));
    world.pass_ms(1_000);
    let fault = Fault {
        error_type: "RpcTimeout".into(),
        message: "no answer in 10 s".into(),
        retry_count: 1,
        will_retry: true,
    };
    let certificate = Certificate {
        kind: CertificateKind::NoncePassed,
        summary: "a later nonce is final".into(),
        evidence: json!({"height": 7}),
    };
    world.advance("k", &[], |step| {
        let step = step.note(Note::Retry).with(|entry| entry.error = Some(fault.clone()));
        let step = step.note(Note::Sunk).with(|entry| entry.certificate = Some(certificate));
        let mut step = step.fire(Event::Sunk).unwrap();
        step.tx_hash = Some("Hash1".into());
        step.error = Some(fault);
        step.retry_count = 1;
        step.aside = Some("waits for funds".into());
        step
    });
    let answer = world.get("/transfer/k").await;
    assert_eq!(answer.status, 200);
    let fault = json!({"error_type": "RpcTimeout", "message": "no answer in 10 s",
        "retry_count": 1, "will_retry": true});
    assert_eq!(
        answer.json(),
        json!({
            "transfer_id": "k",
            "status": "QUEUED_TRANSFER",
            "receiver_id": "alice.near",
            "amount": "1",
            "tx_hash": "Hash1",
            "created_at": "2025-10-10T10:00:00.000Z",
            "updated_at": "2025-10-10T10:00:06.001Z",
            "completed_at": null,
            "retry_count": 1,
            "error": fault,
            "aside": "waits for funds",
            "events": [
                {"time": "2025-10-10T10:00:00.000Z", "event": "RECEIVED"},
                {"time": "2025-10-10T10:00:00.000Z", "event": "QUEUED_REGISTRATION"},
                {"time": "2025-10-10T10:00:05.001Z", "event": "REGISTERED"},
                {"time": "2025-10-10T10:00:05.001Z", "event": "QUEUED_TRANSFER"},
                {"time": "2025-10-10T10:00:05.001Z", "event": "SUBMITTED", "tx_hash": "Hash1"},
                {"time": "2025-10-10T10:00:06.001Z", "event": "RETRY",
                 "error_type": "RpcTimeout", "message": "no answer in 10 s",
                 "retry_count": 1, "will_retry": true},
                {"time": "2025-10-10T10:00:06.001Z", "event": "SUNK",
                 "certificate": {"kind": "nonce_passed", "summary": "a later nonce is final",
                                 "evidence": {"height": 7}}},
                {"time": "2025-10-10T10:00:06.001Z", "event": "QUEUED_TRANSFER"},
            ],
        })
    );
}

#[tokio::test]
async fn a_key_of_any_characters_is_found_by_its_encoded_name() {
    let world = World::new();
    world.pay_alice("a/b?c#d%e+\"f\"").await;
    let answer = world.get("/transfer/a%2Fb%3Fc%23d%25e+%22f%22").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()["transfer_id"], "a/b?c#d%e+\"f\"");
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_returns_when_the_transfer_is_final() {
    let world = Arc::new(World::new());
    world.pay_alice("k").await;
    let waiting = tokio::spawn({
        let world = world.clone();
        async move { world.get("/transfer/k?wait=30s").await }
    });
    SystemClock::default().sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished());
    world.advance("k", &TO_COMPLETED, |step| step);
    let answer = waiting.await.unwrap().json();
    assert_eq!(answer["status"], "COMPLETED");
    assert_eq!(answer["events"].as_array().unwrap().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_ends_with_its_patience() {
    let world = World::new();
    world.pay_alice("k").await;
    let check = async |wait: &str, ms: u64| {
        let timer = TimerClock::starting_at(0);
        let answer = world.get(&format!("/transfer/k?wait={wait}")).await;
        assert_eq!(answer.json()["status"], "QUEUED_REGISTRATION");
        assert_eq!(timer.now_ms(), ms, "{wait}");
    };
    check("30s", 30_000).await;
    check("60", 60_000).await;
    check("500ms", 500).await;
    check("0", 0).await;
    world.advance("k", &TO_COMPLETED, |step| step);
    let timer = TimerClock::starting_at(0);
    world.get("/transfer/k?wait=60s").await;
    assert_eq!(timer.now_ms(), 0);
}
