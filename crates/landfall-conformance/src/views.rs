//! Transfers whose rows in the views of SQL stores are known: [`fill`] writes them.
//!
//! Not here: reading the views, which each store does in its own SQL.

use landfall_core::evm::{Call, DirectFields, GaslessFields, Terms};
use landfall_core::{Event, Fault, Move, NewTransfer, Payload, RailName, State, Transfer, evm};
use serde_json::{Value, json};

use crate::world::{TENANT, World};

const TO: &str = "0x5fbdb2315678afecb367f032d93f642f64180aa3";
const USER: &str = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8";
const FORWARDER: &str = "0xe7f1725e7734ce288f8367e1bb143e90bb3f0512";

/// 2025-10-10T10:00:00Z, to the millisecond.
const AT_MS: u64 = 1_760_090_400_789;

/// What the columns of each row hold, in the order of the ids. JSON is JSON, times are texts such
/// as `2025-10-10 10:00:00.789`, in UTC.
pub struct Rows {
    /// `id, type, status, request, result, error_message, hash, createdAt, confirmedAt, updatedAt,
    /// tenant`.
    pub transactions: Vec<Value>,
    /// `req_id, source, target, user_id, asset_id, amount, state, created_at, updated_at, error,
    /// retry_count, tenant`; numbers are texts.
    pub internal_transfers: Vec<Value>,
}

fn direct() -> Call {
    let terms = Terms { chain: "sim".into(), chain_id: 31_337, forwarder: None };
    let most = u128::MAX.to_string();
    let (data, value, gas) = (Some("0xd09de08a"), Some(most.as_str()), Some("100000"));
    let fields = DirectFields { to: TO, data, value, gas, speed: Some("fast") };
    Call::direct(&terms, &fields).expect("a good call")
}

fn gasless() -> Call {
    let forwarder = evm::Address::parse(FORWARDER).ok();
    let terms = Terms { chain: "sim".into(), chain_id: 31_337, forwarder };
    let signature = format!("0x{}", "1b".repeat(65));
    let fields = GaslessFields {
        from: USER,
        to: TO,
        value: "0",
        gas: "50000",
        nonce: "7",
        deadline: "1790000000",
        data: "0x",
        signature: &signature,
        ..GaslessFields::default()
    };
    Call::gasless(&terms, &fields).expect("a good request")
}

async fn call(world: &World, key: &str, call: Call, events: &[Event]) -> Transfer {
    let (payload, first) = (Payload::Evm(call), State::all(RailName::Evm)[0]);
    let scope = (TENANT.to_owned(), key.to_owned());
    let new = NewTransfer::begin(scope, payload.fingerprint(), payload, first, &[], AT_MS);
    let transfer = world.accept(new.expect("a legal beginning")).await;
    if events.is_empty() {
        return transfer;
    }
    let mut step = Move::of(&transfer, AT_MS + 1_000);
    for event in events {
        step = step.fire(*event).expect("a legal event");
    }
    step.tx_hash = Some("0xabc".into());
    step.retry_count = 2;
    step.error = Some(fault());
    world.apply(step).await;
    world.get(transfer.id).await
}

fn fault() -> Fault {
    let message = "the contract says \"no\"".to_owned();
    Fault { error_type: "reverted".into(), message, retry_count: 2, will_retry: false }
}

/// Writes them.
pub async fn fill(world: &World) -> Rows {
    write(world).await;
    rows()
}

async fn write(world: &World) {
    let landed = [Event::AttemptStored, Event::Included, Event::Landed];
    call(world, "1-success", direct(), &landed).await;
    call(world, "2-failed", direct(), &[Event::Refused]).await;
    call(world, "3-mined", gasless(), &landed[..2]).await;
    call(world, "4-pending", direct(), &[]).await;
    let order = NewTransfer { created_ms: AT_MS, ..world.order("5-order") };
    world.accept(order).await;
    world.accept(world.fresh("a payout, which is in neither")).await;
}

fn rows() -> Rows {
    let (created, moved) = ("2025-10-10 10:00:00.789", "2025-10-10 10:00:01.789");
    let (said, hash) = (fault().message, "0xabc");
    let sent = json!({"to": TO, "data": "0xd09de08a", "value": u128::MAX.to_string(),
        "gas": 100_000, "speed": "fast", "chain": "sim"});
    let signed = json!({"forwarder": FORWARDER, "from": USER, "to": TO, "value": "0",
        "gas": 50_000, "nonce": 7, "deadline": 1_790_000_000, "data": "0x",
        "signature": format!("0x{}", "1b".repeat(65)), "speed": "average", "chain": "sim"});
    let result = json!({"hash": hash, "chain": "sim", "chainId": 31_337, "retries": 2});
    Rows {
        transactions: vec![
            json!([
                "1-success",
                "direct",
                "success",
                sent,
                result,
                null,
                hash,
                created,
                moved,
                moved,
                TENANT
            ]),
            json!([
                "2-failed", "direct", "failed", sent, null, said, hash, created, null, moved,
                TENANT
            ]),
            json!([
                "3-mined", "gasless", "pending", signed, null, said, hash, created, null, moved,
                TENANT
            ]),
            json!([
                "4-pending",
                "direct",
                "pending",
                sent,
                null,
                null,
                null,
                created,
                null,
                created,
                TENANT
            ]),
        ],
        internal_transfers: vec![json!([
            "5-order",
            "funding",
            "trading",
            "4001",
            "1",
            u64::MAX.to_string(),
            "init",
            AT_MS.to_string(),
            AT_MS.to_string(),
            null,
            "0",
            TENANT
        ])],
    }
}

/// Columns of `transactions` that hold JSON.
const JSON: [usize; 2] = [3, 4];

/// A row of `transactions` whose columns were read as texts.
pub fn transaction(columns: Vec<Option<String>>) -> Value {
    let read = |(place, text): (usize, Option<String>)| match text {
        Some(text) if JSON.contains(&place) => serde_json::from_str(&text).expect("JSON"),
        text => json!(text),
    };
    columns.into_iter().enumerate().map(read).collect()
}
