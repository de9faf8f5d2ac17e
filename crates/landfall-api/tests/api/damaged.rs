//! Damaged requests: whatever arrives, the answer is a clear one, nothing panics, and what is
//! stored is what a well-formed request asked for.

use axum::body::Body;
use axum::http::Request;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::world::World;

const ROUNDS: usize = 4_000;
const ONE: &[u8] = br#"{"receiver_id":"alice.near","amount":"1000000000","memo":"rent"}"#;
const MANY: &[u8] = br#"[
{"idempotency_key":"a","receiver_id":"alice.near","amount":"5","memo":"m"},
{"idempotency_key":"b","receiver_id":"bob.near","amount":"340282366920938463463374607431768211455"}
]"#;
const LINES: &[u8] =
    b"{\"idempotency_key\":\"a\",\"receiver_id\":\"alice.near\",\"amount\":\"5\"}\n
{\"idempotency_key\":\"b\",\"receiver_id\":\"bob.near\",\"amount\":\"6\"}\n";

/// Flips, cuts, doubles and inserts, up to a few times.
fn damaged(bytes: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..=4) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.random()),
            3 => bytes.insert(at, *b"{}[]\",:\\0-e"[..].get(at % 11).unwrap_or(&b'{')),
            _ => {
                let tail = bytes[at..].to_vec();
                bytes.extend(tail);
            }
        }
    }
    bytes
}

async fn check(path: &str, kind: &str, whole: &[u8]) {
    let world = World::new();
    let mut random = StdRng::seed_from_u64(whole.len() as u64);
    for round in 0..ROUNDS {
        let body = damaged(whole, &mut random);
        let request = Request::post(path)
            .header("content-type", kind)
            .header("x-idempotency-key", format!("key-{round}"))
            .body(Body::from(body.clone()))
            .expect("a well-formed request line");
        let answer = world.send(request).await;
        let shown = String::from_utf8_lossy(&body);
        let status = answer.status.as_u16();
        assert!([200, 201, 400, 409, 413].contains(&status), "{status} for {shown:?}");
        if status >= 400 {
            let error = answer.json()["error"].as_str().map(str::to_owned);
            assert!(error.is_some_and(|error| !error.is_empty()), "no reason for {shown:?}");
        }
    }
    // Damage may leave a well-formed request; then it was taken as it stands, by the rules.
    for (transfer, _) in &world.relay.book.lock().transfers {
        let payout = transfer.payload.near().expect("a payout");
        assert!(payout.receiver_id.parse::<near_account_id::AccountId>().is_ok());
        assert!(payout.amount > 0);
    }
}

#[tokio::test]
async fn damaged_single_requests_are_answered_clearly() {
    check("/transfer", "application/json", ONE).await;
}

#[tokio::test]
async fn damaged_batches_are_answered_clearly() {
    check("/transfers", "application/json", MANY).await;
}

#[tokio::test]
async fn damaged_lines_are_answered_clearly() {
    check("/transfers", "application/x-ndjson", LINES).await;
}
