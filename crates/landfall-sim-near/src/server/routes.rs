//! The `/sim` routes: what a test may see and do that no node would allow. Never faulty.
//!
//! - `GET /sim/transfers`: every `ft_transfer` that took effect, in order, as
//!   `[{receiver_id, amount, memo, tx_hash, nonce, block}]`.
//! - `GET /sim/balances`: `{tokens: {account: amount}, near: {account: yocto}, registered: [id]}`.
//! - `GET /sim/stats`: `{calls: {method: count}, total, height, final_height, pool}`; calls count
//!   requests that arrived at any node, whatever became of them.
//! - `GET /sim/faults`: `{nodes: [faults]}`. `POST /sim/faults`: sets those of one node (`node`) or
//!   of all; what is not given stays. The fields are those of [`super::Faults`].
//! - `POST /sim/mint` `{account_id, amount}`: tokens out of nothing; registers the account.
//! - `POST /sim/fund` `{account_id, amount}`: yoctoNEAR out of nothing; creates the account.
//! - `POST /sim/drain` `{account_id, tokens?, near?}`: sets what is given.
//! - `POST /sim/register` `{account_ids: [id]}`: as `storage_deposit` would, for nothing.
//! - `POST /sim/unregister` `{account_id}`: burns what it held.
//! - `POST /sim/reorg` `{depth, drop?}`: drops the last blocks, none of them final; their
//!   transactions go back to the pool unless `drop`. Answers `{dropped}`.
//! - `POST /sim/foreign` `{key}`: somebody else spends the next nonce of the relay's key of that
//!   number. Answers `{tx_hash, nonce, landed}` when it is final.
//! - `POST /sim/sign` `{key, nonce, payouts: [{receiver_id, amount}]}`: the relay's transaction
//!   that pays them, signed with its key of that number, not sent. Answers `{signed_tx_base64}`.
//! - `POST /sim/invalidate` `{count, again?}`: the next transactions put in chunks fail as
//!   transactions (InvalidTxError, no nonce used); with `again` they land in a later block.
//!
//! Changes of balances and registrations take effect in the next block; the answer comes when
//! that block is final. Amounts are decimal strings (numbers are taken too).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use landfall_sim_front::routes::{self, refuse};
use near_primitives::action::Action;
use near_primitives::borsh;
use near_primitives::types::AccountId;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::super::keys;
use super::super::ledger::block::FINALITY_BLOCKS;
use super::super::ledger::record::Stage;
use super::super::ledger::state::Slot;
use super::super::ledger::{Decree, Refusals};
use super::super::rpc::TIMEOUT_MS;
use super::World;

/// Enough for a list of a hundred thousand accounts.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

pub fn router(world: Arc<World>) -> Router {
    Router::new()
        .route("/sim/transfers", get(transfers))
        .route("/sim/balances", get(balances))
        .route("/sim/stats", get(stats))
        .route("/sim/mint", post(mint))
        .route("/sim/fund", post(fund))
        .route("/sim/drain", post(drain))
        .route("/sim/register", post(register))
        .route("/sim/unregister", post(unregister))
        .route("/sim/reorg", post(reorg))
        .route("/sim/foreign", post(foreign))
        .route("/sim/sign", post(sign))
        .route("/sim/invalidate", post(invalidate))
        .merge(routes::faults())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .with_state(world)
}

type Sim = State<Arc<World>>;

async fn transfers(State(world): Sim) -> Response {
    let transfers = world.chain.lock().ledger.transfers().to_vec();
    Json(transfers).into_response()
}

async fn balances(State(world): Sim) -> Json<Value> {
    let (mut tokens, mut near) = (BTreeMap::new(), BTreeMap::new());
    for (slot, amount) in world.chain.lock().ledger.balances() {
        match slot {
            Slot::Token(account) => tokens.insert(account.to_string(), amount.to_string()),
            Slot::Near(account) => near.insert(account.to_string(), amount.to_string()),
            _ => None,
        };
    }
    let registered: Vec<&String> = tokens.keys().collect();
    Json(json!({ "registered": registered, "tokens": tokens, "near": near }))
}

async fn stats(State(world): Sim) -> Json<Value> {
    let calls = world.front.calls();
    let chain = world.chain.lock();
    Json(json!({
        "total": calls.values().sum::<u64>(),
        "calls": calls,
        "height": chain.ledger.height(),
        "final_height": chain.ledger.view(0).final_height(),
        "pool": chain.ledger.pool_len(),
    }))
}

#[derive(Deserialize)]
struct AmountBody {
    account_id: AccountId,
    #[serde(deserialize_with = "amount")]
    amount: u128,
}

async fn mint(State(world): Sim, Json(body): Json<AmountBody>) -> Response {
    let AmountBody { account_id, amount } = body;
    world.obey(vec![Decree::Mint { account_id, amount }]).await
}

async fn fund(State(world): Sim, Json(body): Json<AmountBody>) -> Response {
    let AmountBody { account_id, amount } = body;
    world.obey(vec![Decree::Fund { account_id, amount }]).await
}

#[derive(Deserialize)]
struct DrainBody {
    account_id: AccountId,
    #[serde(default, deserialize_with = "amount_if_given")]
    tokens: Option<u128>,
    #[serde(default, deserialize_with = "amount_if_given")]
    near: Option<u128>,
}

async fn drain(State(world): Sim, Json(body): Json<DrainBody>) -> Response {
    let account_id = || body.account_id.clone();
    let tokens = body.tokens.map(|amount| Decree::SetTokens { account_id: account_id(), amount });
    let near = body.near.map(|amount| Decree::SetNear { account_id: account_id(), amount });
    world.obey(tokens.into_iter().chain(near).collect()).await
}

#[derive(Deserialize)]
struct RegisterBody {
    account_ids: Vec<AccountId>,
}

async fn register(State(world): Sim, Json(body): Json<RegisterBody>) -> Response {
    world.obey(vec![Decree::Register { account_ids: body.account_ids }]).await
}

#[derive(Deserialize)]
struct UnregisterBody {
    account_id: AccountId,
}

async fn unregister(State(world): Sim, Json(body): Json<UnregisterBody>) -> Response {
    world.obey(vec![Decree::Unregister { account_id: body.account_id }]).await
}

#[derive(Deserialize)]
struct ReorgBody {
    depth: u64,
    #[serde(default)]
    drop: bool,
}

async fn reorg(State(world): Sim, Json(body): Json<ReorgBody>) -> Response {
    match world.reorg(body.depth, body.drop) {
        Ok(dropped) => Json(json!({ "dropped": dropped })).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct ForeignBody {
    #[serde(default)]
    key: usize,
}

async fn foreign(State(world): Sim, Json(body): Json<ForeignBody>) -> Response {
    let Some(key) = world.keys.get(body.key) else {
        return refuse(&format!("key must be below {}", world.keys.len()));
    };
    let (hash, nonce) = {
        let mut chain = world.chain.lock();
        let relay = chain.ledger.genesis().relay.clone();
        let Some(nonce) = chain.ledger.next_nonce(&relay, &key.public_key()) else {
            return refuse("the relay has not got that key");
        };
        let base = chain.ledger.chain().head().hash;
        let signed = keys::sign(&relay, key, nonce, &relay, base, keys::transfer_of_nothing());
        let hash = *signed.hash();
        chain.ledger.submit_first(Arc::new(signed));
        (hash, nonce)
    };
    let landed = world
        .wait_for(|world| {
            let chain = world.chain.lock();
            let view = chain.ledger.view(0);
            view.run(&hash).is_some_and(|(_, run)| run.stage_at(view.head) == Stage::Final)
        })
        .await;
    Json(json!({ "tx_hash": hash, "nonce": nonce, "landed": landed })).into_response()
}

#[derive(Deserialize)]
struct SignBody {
    key: usize,
    nonce: u64,
    payouts: Vec<AmountOf>,
}

#[derive(Deserialize)]
struct AmountOf {
    receiver_id: AccountId,
    #[serde(deserialize_with = "amount")]
    amount: u128,
}

async fn sign(State(world): Sim, Json(body): Json<SignBody>) -> Response {
    let Some(key) = world.keys.get(body.key) else {
        return refuse(&format!("key must be below {}", world.keys.len()));
    };
    let payouts: Vec<Action> =
        body.payouts.iter().map(|to| keys::ft_transfer(&to.receiver_id, to.amount)).collect();
    let (relay, token, base) = {
        let chain = world.chain.lock();
        let genesis = chain.ledger.genesis();
        (genesis.relay.clone(), genesis.token.clone(), chain.ledger.chain().head().hash)
    };
    let signed = keys::sign(&relay, key, body.nonce, &token, base, payouts);
    let bytes = borsh::to_vec(&signed).expect("a Vec takes every byte");
    Json(json!({ "signed_tx_base64": BASE64.encode(bytes) })).into_response()
}

#[derive(Deserialize)]
struct InvalidateBody {
    count: u64,
    #[serde(default)]
    again: bool,
}

async fn invalidate(State(world): Sim, Json(body): Json<InvalidateBody>) -> Json<Value> {
    let InvalidateBody { count, again } = body;
    world.chain.lock().ledger.refuse_included(Refusals { count, again });
    Json(json!({ "count": count, "again": again }))
}

impl World {
    /// Queues decrees and answers when the block that obeys them is final.
    async fn obey(&self, decrees: Vec<Decree>) -> Response {
        let target = {
            let mut chain = self.chain.lock();
            decrees.into_iter().for_each(|decree| chain.ledger.decree(decree));
            chain.ledger.height() + 1
        };
        let is_final =
            |world: &World| world.chain.lock().ledger.height() >= target + FINALITY_BLOCKS;
        if self.wait_for(is_final).await {
            Json(json!({ "block": target })).into_response()
        } else {
            (StatusCode::GATEWAY_TIMEOUT, "no block came").into_response()
        }
    }

    /// Waits, block by block, until it holds; false when it took too long.
    async fn wait_for(&self, holds: impl Fn(&World) -> bool) -> bool {
        let mut blocks = self.blocks.subscribe();
        let waiting = async {
            while !holds(self) {
                if blocks.changed().await.is_err() {
                    return false;
                }
            }
            true
        };
        let patience = Duration::from_millis(TIMEOUT_MS);
        tokio::time::timeout(patience, waiting).await.unwrap_or(false)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Amount {
    Text(String),
    Number(u64),
}

fn amount<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
    match Amount::deserialize(deserializer)? {
        Amount::Number(number) => Ok(number.into()),
        Amount::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

fn amount_if_given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u128>, D::Error> {
    amount(deserializer).map(Some)
}
