//! The seam: [`Rail`] for NEAR.
//!
//! Holds keys, endpoints and short-lived knowledge (a base block, the least deposit); never a
//! transfer.
//! **Invariant:** a broadcast is one POST; a lost answer is "unsure", whatever the node may have
//! done.
//! **Invariant:** a payout of another network, token or account is never signed.
//! Not here: what a look proves (`look`, `witness`), encoding (`encode`), the table (`sort`).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::future::join_all;
use landfall_core::attempt::Signed;
use landfall_core::claim::ClaimKey;
use landfall_core::clock::Clock;
use landfall_core::machine::AttemptStages;
use landfall_core::near::{self, Payout};
use landfall_core::rail::{
    Broadcast, EndpointHealth, Funds, Later, LedgerNonce, Look, Rail, RailError, Refusal,
};
use landfall_core::{Attempt, LaneId, Nonce, Payload, Purpose, RailName};
use landfall_rpc::{BreakerState, EndpointSnapshot, Endpoints, RpcError};
use near_primitives::account::id::AccountId;
use serde_json::json;

use crate::answer::{self, Effect, Stage};
use crate::encode::{self, Envelope};
use crate::keys::{Key, lane_id, parse_lane_id};
use crate::knowledge::Knowledge;
use crate::look::{Looker, ft_balance, is_registered, stored};
use crate::node::{At, Nodes, unavailable};
use crate::settings::NearSettings;
use crate::sort::{self, Verdict};
use crate::testimony::expiry_on;

/// The ledger's price of one byte of storage, in yoctoNEAR: that much of a balance cannot be spent.
const STORAGE_PRICE: u128 = 10_000_000_000_000_000_000;
/// Attached gas is bought at this price, in yoctoNEAR per gas (protocol 85), and refunded later.
const GAS_PRICE: u128 = 1_000_000_000;
/// Gas of a full transaction beside what is attached to its actions.
const ENVELOPE_GAS: u64 = 100 * encode::TGAS;
/// An endpoint that does not know our base block yet lags; it is asked last for this long.
const LAGGING_MS: u64 = 5_000;

/// A mistake in the settings, for the configuration to name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("token: {0:?} is no NEAR account id")]
    Token(String),
    #[error("account: {0:?} is no NEAR account id")]
    Account(String),
    #[error("keys: at least one access key is needed")]
    NoKeys,
    #[error("keys: {0} is given twice")]
    SameKey(String),
}

/// Token payouts on NEAR.
pub struct NearRail {
    settings: NearSettings,
    token: AccountId,
    account: AccountId,
    keys: BTreeMap<LaneId, Key>,
    nodes: Nodes,
    looker: Looker,
    knowledge: Knowledge,
}

impl NearRail {
    pub fn new(
        settings: NearSettings,
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BadSettings> {
        if settings.keys.is_empty() {
            return Err(BadSettings::NoKeys);
        }
        NearRail::with_or_without_keys(settings, endpoints, clock)
    }

    /// Without keys nothing can be signed: for a process that only takes transfers.
    pub fn with_or_without_keys(
        settings: NearSettings,
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BadSettings> {
        let bad_token = |_| BadSettings::Token(settings.token.clone());
        let token: AccountId = settings.token.parse().map_err(bad_token)?;
        let bad_account = |_| BadSettings::Account(settings.account.clone());
        let account: AccountId = settings.account.parse().map_err(bad_account)?;
        let mut keys = BTreeMap::new();
        for key in &settings.keys {
            let lane = lane_id(&settings.network, &settings.account, key.public());
            if keys.insert(lane, key.clone()).is_some() {
                return Err(BadSettings::SameKey(key.public().to_string()));
            }
        }
        let (network, genesis) = (settings.network.clone(), settings.genesis_hash.clone());
        Ok(Self {
            token,
            account,
            keys,
            nodes: Nodes::new(endpoints, clock, network, genesis),
            looker: Looker::new(&settings),
            knowledge: Knowledge::new(&settings),
            settings,
        })
    }

    /// The last block in which the attempt can land: the latest that a quorum of nodes names.
    pub async fn expiry(&self, attempt: &Attempt) -> Result<u64, RailError> {
        self.nodes.introduce_all().await;
        let validity = self.settings.validity_blocks;
        let asked = self
            .nodes
            .introduced()
            .into_iter()
            .map(|endpoint| expiry_on(&self.nodes, attempt, validity, endpoint));
        let told: Vec<u64> = join_all(asked).await.into_iter().filter_map(Result::ok).collect();
        match told.iter().max() {
            Some(latest) if told.len() >= self.nodes.endpoints.quorum() => Ok(*latest),
            _ => Err(unavailable("too few nodes know its base block")),
        }
    }

    /// The payouts behind payloads, all of them ours to pay.
    fn payouts<'a>(&self, payloads: &[&'a Payload]) -> Result<Vec<&'a Payout>, RailError> {
        let ours = |payout: &Payout| {
            payout.network == self.settings.network
                && payout.token == self.settings.token
                && payout.sender == self.settings.account
        };
        let mut payouts = Vec::with_capacity(payloads.len());
        for payload in payloads {
            let Some(payout) = payload.near() else {
                let why = format!("a transfer of rail {} is not for this rail", payload.rail());
                return Err(RailError::Misconfigured(why));
            };
            if !ours(payout) {
                return Err(RailError::Misconfigured(format!(
                    "a payout of {} from {} on {} is not for this rail",
                    payout.token, payout.sender, payout.network
                )));
            }
            payouts.push(payout);
        }
        Ok(payouts)
    }

    async fn key_everywhere(
        &self,
        account: &str,
        public_key: &str,
    ) -> Vec<Option<answer::KeyView>> {
        let ask = |endpoint| self.nodes.key_on(endpoint, account, public_key, At::Final);
        self.nodes.ask_quorum(ask).await
    }

    /// What a result of `send_tx` comes to.
    async fn weigh_sent(
        &self,
        attempt: &Attempt,
        endpoint: usize,
        result: &serde_json::value::RawValue,
    ) -> Broadcast {
        let unsure = |cause: String| Broadcast::Unsure { cause, shortage: None };
        let view = match answer::tx(result) {
            Ok(view) => view,
            Err(error) => return unsure(error.to_string()),
        };
        let another = view.hash.as_ref().is_some_and(|hash| *hash != attempt.hash);
        if another || view.stage == Stage::None || matches!(view.effect, Effect::Invalid(_)) {
            return unsure("the answer does not say that it is on the ledger".to_owned());
        }
        let look = match stored(attempt) {
            Ok(stored) => self.looker.weigh(&self.nodes, attempt, &stored, endpoint, view).await,
            Err(error) => Err(error),
        };
        self.remember_refusals(&look);
        Broadcast::Sent(look.ok())
    }

    /// A deposit that was too small means that the contract's bounds have changed.
    fn remember_refusals(&self, look: &Result<Look, RailError>) {
        let Ok(Look::Landed(landing)) = look else { return };
        let reverted = |outcome| !matches!(outcome, &landfall_core::Outcome::Done);
        if landing.outcomes.iter().any(reverted) {
            self.knowledge.forget_deposit();
        }
    }

    /// The configured lanes among an account's keys.
    fn known_lanes(&self, keys: answer::KeysView) -> Vec<(LaneId, Nonce)> {
        let (network, account) = (&self.settings.network, self.account.as_str());
        let lanes = keys.nonces.into_iter().map(|(key, nonce)| {
            (LaneId::new(format!("near:{network}:{account}:{key}")), Nonce(nonce))
        });
        lanes.filter(|(lane, _)| self.keys.contains_key(lane)).collect()
    }

    async fn check_key(&self, lane: &LaneId) -> Result<(), RailError> {
        let Some((account, key)) = parse_lane_id(lane, &self.settings.network) else {
            return Err(RailError::Misconfigured(format!("{lane} is no lane of this rail")));
        };
        let views = self.key_everywhere(account, key).await;
        if views.is_empty() {
            return Err(unavailable("no node answers for the keys"));
        }
        if views.into_iter().flatten().any(|view| view.full_access) {
            return Ok(());
        }
        Err(RailError::Misconfigured(format!("{key} is no full-access key of {account}")))
    }
}

#[async_trait]
impl Rail for NearRail {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn stages(&self) -> AttemptStages {
        near::STAGES
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.keys.keys().cloned().collect()
    }

    fn preparation(&self, payload: &Payload) -> Option<ClaimKey> {
        payload.near().map(|payout| ClaimKey {
            space: format!("near-registered:{}:{}", payout.network, payout.token),
            key: payout.receiver_id.clone(),
        })
    }

    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>> {
        let asked: Vec<String> =
            payloads.iter().map(|payload| payload.receiver().into_owned()).collect();
        let token = self.token.as_str();
        futures::stream::iter(asked)
            .map(|receiver| async move { is_registered(&self.nodes, token, &receiver).await })
            .buffered(self.settings.views_in_flight.max(1))
            .collect()
            .await
    }

    fn fit(&self, purpose: Purpose, payloads: &[&Payload]) -> usize {
        let few = payloads.iter().take(self.settings.limits.actions);
        let payouts: Vec<&Payout> = few.map_while(|payload| payload.near()).collect();
        self.settings.limits.fit(purpose, &payouts)
    }

    async fn sign(
        &self,
        purpose: Purpose,
        payloads: &[&Payload],
        lane: &LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError> {
        let payouts = self.payouts(payloads)?;
        let Some(key) = self.keys.get(lane) else {
            return Err(RailError::Misconfigured(format!("no key for lane {lane}")));
        };
        let limits = &self.settings.limits;
        let (receiver, actions) = match purpose {
            Purpose::Pay => (&self.token, encode::transfers(&payouts, limits)),
            Purpose::Prepare => {
                let deposit = self.knowledge.least_deposit(&self.nodes).await?;
                (&self.token, encode::registrations(&payouts, deposit, limits))
            }
            Purpose::Fence => (&self.account, encode::fence()),
        };
        let validity = self.knowledge.validity(&self.nodes).await?;
        let base = self.knowledge.base_block(&self.nodes, validity).await?;
        let signer = &self.account;
        let envelope = Envelope { signer, key, nonce: nonce.0, receiver, block_hash: base.hash };
        let (bytes, hash) = encode::sign(&envelope, actions);
        Ok(Signed {
            bytes,
            hash,
            base_block: base.text.clone(),
            base_height: base.height,
            expires_height: base.height.saturating_add(validity),
        })
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        if let Err(error) = self.nodes.introduce().await {
            return Broadcast::Unsure { cause: error.to_string(), shortage: None };
        }
        // The answer comes when it is final: one call is then the whole life of an attempt.
        let params = json!({
            "signed_tx_base64": STANDARD.encode(&attempt.bytes), "wait_until": "FINAL",
        });
        // Lanes begin at different endpoints; rounds go round them.
        let rotation = attempt.nonce.0.wrapping_add(u64::from(round));
        let timeout = self.settings.broadcast_timeout;
        let (endpoint, answer) =
            self.nodes.endpoints.send_once(rotation, "send_tx", &params, timeout).await;
        let error = match answer {
            Ok(result) => {
                return self.weigh_sent(attempt, endpoint.unwrap_or_default(), &result).await;
            }
            Err(error) => error,
        };
        if let (Some(endpoint), true) = (endpoint, does_not_know_the_block(&error)) {
            self.nodes.endpoints.distrust(endpoint, LAGGING_MS);
        }
        match sort::broadcast_error(&error) {
            Verdict::RefusedForCertain(reason) => {
                Broadcast::Refused(Refusal { reason, relays_fault: true })
            }
            Verdict::Sent => Broadcast::Sent(None),
            Verdict::Unsure { cause, shortage } => Broadcast::Unsure { cause, shortage },
        }
    }

    async fn look(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        let look = self.looker.look(&self.nodes, attempt, later).await;
        self.remember_refusals(&look);
        look
    }

    async fn nonce(&self, lane: &LaneId) -> Result<LedgerNonce, RailError> {
        let Some((account, key)) = parse_lane_id(lane, &self.settings.network) else {
            return Err(RailError::Misconfigured(format!("{lane} is no lane of this rail")));
        };
        let answers = self.key_everywhere(account, key).await;
        let quorum = self.nodes.endpoints.quorum();
        let height = |view: &Option<answer::KeyView>| view.as_ref().map_or(0, |v| v.block_height);
        match furthest(answers, quorum, height)? {
            Some(view) => {
                Ok(LedgerNonce { nonce: Nonce(view.nonce), final_height: view.block_height })
            }
            None => Err(RailError::Misconfigured(format!("{key} is no access key of {account}"))),
        }
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        let ask = |endpoint| self.nodes.keys_on(endpoint, self.account.as_str());
        let answers = self.nodes.ask_quorum(ask).await;
        let furthest = furthest(answers, self.nodes.endpoints.quorum(), |view| view.block_height)?;
        let final_height = furthest.block_height;
        let lanes = self.known_lanes(furthest).into_iter();
        Ok(lanes.map(|(lane, nonce)| (lane, LedgerNonce { nonce, final_height })).collect())
    }

    async fn pulse(&self) -> Result<Vec<(LaneId, Nonce)>, RailError> {
        self.nodes.introduce_rest().await;
        Ok(self.known_lanes(self.nodes.keys_at_head(self.account.as_str()).await?))
    }

    async fn funds(&self) -> Result<Funds, RailError> {
        let account = self.account.as_str();
        let tokens = ft_balance(&self.nodes, self.token.as_str(), account);
        let (tokens, native) = futures::join!(tokens, self.nodes.account(account));
        let native = native?;
        let locked = u128::from(native.storage_usage).saturating_mul(STORAGE_PRICE);
        let limits = &self.settings.limits;
        let gas = u128::from(limits.transaction_gas.saturating_add(ENVELOPE_GAS)) * GAS_PRICE;
        let deposit = self.knowledge.last_deposit().unwrap_or_default();
        let deposits = deposit.saturating_mul(limits.actions as u128);
        Ok(Funds {
            tokens: tokens?,
            native: native.amount.saturating_sub(locked),
            native_floor: gas.saturating_add(deposits),
        })
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.nodes.endpoints.snapshot().into_iter().map(health).collect()
    }

    async fn check(&self) -> Result<String, RailError> {
        let all = 0..self.nodes.endpoints.count();
        let asked = all.map(|endpoint| self.nodes.introduce_one(endpoint));
        for outcome in join_all(asked).await {
            if let Err((endpoint, why)) = outcome {
                let origin = self.nodes.endpoints.origin(endpoint);
                return Err(RailError::Misconfigured(format!("{origin}: {why}")));
            }
        }
        for lane in self.keys.keys() {
            self.check_key(lane).await?;
        }
        let validity = self.knowledge.validity(&self.nodes).await?;
        let least = self.knowledge.least_deposit(&self.nodes).await?;
        if !is_registered(&self.nodes, self.token.as_str(), self.account.as_str()).await? {
            let (account, token) = (&self.account, &self.token);
            return Err(RailError::Misconfigured(format!(
                "{account} is not registered with {token}: call its storage_deposit first"
            )));
        }
        Ok(format!(
            "{} on {}: {} endpoints, {} keys, transactions live {validity} blocks, a registration \
             costs {least} yoctoNEAR",
            self.token,
            self.settings.network,
            self.nodes.endpoints.count(),
            self.keys.len(),
        ))
    }
}

/// "Expired" for a base block that is young: the node has not seen it yet.
fn does_not_know_the_block(error: &RpcError) -> bool {
    let RpcError::Answered(error) = error else { return false };
    error.data["TxExecutionError"]["InvalidTxError"] == "Expired"
}

/// The answer of the node that is furthest, if a quorum answers: one that lags shows old nonces.
fn furthest<T>(answers: Vec<T>, quorum: usize, height: impl Fn(&T) -> u64) -> Result<T, RailError> {
    let count = answers.len();
    let furthest = answers.into_iter().max_by_key(height);
    furthest
        .filter(|_| count >= quorum)
        .ok_or_else(|| unavailable(format!("{count} of {quorum} nodes answer")))
}

fn health(one: EndpointSnapshot) -> EndpointHealth {
    let detail = match (&one.excluded, one.breaker) {
        (Some(why), _) => why.clone(),
        (None, BreakerState::Closed) if one.healthy => "ok".to_owned(),
        (None, BreakerState::Closed) => "failed a moment ago".to_owned(),
        (None, BreakerState::Open) => "breaker open".to_owned(),
        (None, BreakerState::HalfOpen) => "breaker half open".to_owned(),
    };
    EndpointHealth {
        endpoint: one.origin,
        up: one.healthy,
        detail,
        calls: one.calls,
        errors: one.errors,
        breaker_open: one.breaker == BreakerState::Open,
        mean_latency_ms: match one.calls {
            0 => 0.0,
            calls => one.latency_total_ms as f64 / calls as f64,
        },
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
