//! The seam: [`Ledger`] and [`Rail`] for NEAR.
//!
//! Holds keys, endpoints and short-lived knowledge (a base block, the least deposit); never a
//! transfer.
//! **Invariant:** a broadcast is one POST to one node; a lost answer is "unsure", whatever the node
//! may have done. A refusal is heard from a quorum, each asked with the bytes themselves.
//! **Invariant:** a payout of another network, token or account is never signed.
//! Not here: what a look proves (`look`, `witness`), encoding (`encode`), the table (`sort`), what
//! refusals come to (`refusals`).

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::future::join_all;
use landfall_core::attempt::{BaseBlock, Signed};
use landfall_core::claim::ClaimKey;
use landfall_core::clock::Clock;
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Reach, Waiting,
};
use landfall_core::machine::AttemptStages;
use landfall_core::near::{self, Payout};
use landfall_core::rail::{EndpointHealth, Funds, Pace, Rail, Remedies};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, LaneId, Nonce, Outcome, Payload, Purpose, RailName};
use landfall_rpc::{AtBlock, Endpoints, Moment, RpcError, Said, health};
use near_primitives::account::id::AccountId;
use serde_json::json;

use crate::answer::{self, Effect, KeyView, Nonces, Stage};
use crate::encode::{self, Envelope, Stored};
use crate::keys::{Key, lane_id, parse_lane_id};
use crate::knowledge::Knowledge;
use crate::look::{Looker, ft_balance, is_registered, stored, surely_registered};
use crate::node::{At, Nodes};
use crate::refusals::{Refusals, Refused};
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

    /// The last block in which the attempt can land, as a quorum of nodes has it.
    pub async fn expiry(&self, attempt: &Attempt) -> Result<u64, RailError> {
        let validity = self.settings.validity_blocks;
        let ask = async |endpoint| expiry_on(&self.nodes, attempt, validity, endpoint).await;
        self.nodes.constant(&format!("the expiry of {}", attempt.hash), ask).await
    }

    /// Which of the attempt's sightings a quorum of nodes does not refute, if any. For an operator
    /// whose word would contradict it.
    pub async fn standing_sighting(&self, attempt: &Attempt) -> Result<Option<String>, RailError> {
        self.looker.standing_sighting(&self.nodes, attempt).await
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

    /// An access key, as a quorum has it.
    async fn key(
        &self,
        account: &str,
        public_key: &str,
    ) -> Result<AtBlock<Option<KeyView>>, RailError> {
        let ask = async |endpoint, at: Moment| {
            self.nodes.key_on(endpoint, account, public_key, at.into()).await
        };
        self.nodes.agreed(&format!("{public_key} of {account}"), ask).await
    }

    /// Which endpoint is asked first: rounds go round them. Lanes begin at different ones, and a
    /// lane with a window always at the same, so that its attempts arrive in order.
    fn rotation(&self, attempt: &Attempt, round: u32) -> u64 {
        let begin = match self.settings.manner.window {
            1 => attempt.nonce.0,
            _ => attempt.lane.as_str().bytes().map(u64::from).sum(),
        };
        begin.wrapping_add(u64::from(round))
    }

    /// What a result of `send_tx` comes to.
    async fn weigh_sent(
        &self,
        attempt: &Attempt,
        endpoint: usize,
        result: &serde_json::value::RawValue,
        waits_for_nothing: bool,
    ) -> Broadcast {
        let view = match answer::tx(result) {
            Ok(view) => view,
            Err(error) => return unsure(error.to_string()),
        };
        let another = view.hash.as_ref().is_some_and(|hash| *hash != attempt.hash);
        if view.hash.is_none() && view.stage == Stage::None && waits_for_nothing {
            return Broadcast::Sent(None);
        }
        if another || view.stage == Stage::None || matches!(view.effect, Effect::Invalid(_)) {
            return unsure("the answer does not say that it is on the ledger".to_owned());
        }
        let look = match stored(attempt) {
            Ok(stored) => {
                let seen = vec![Said { endpoint, fact: view }];
                let look = self.looker.weigh(&self.nodes, attempt, &stored, seen).await;
                self.remember_reverts(&stored, &look);
                look
            }
            Err(error) => Err(error),
        };
        Broadcast::Sent(look.ok())
    }

    /// What a revert makes doubtful: a deposit may have been too small because the contract's
    /// bounds have changed, and a receiver may never have been registered, though a node said so.
    fn remember_reverts(&self, stored: &Stored, look: &Result<Look, RailError>) {
        let Ok(Look::Landed(landing)) = look else { return };
        if landing.outcomes.iter().all(|outcome| *outcome == Outcome::Done) {
            return;
        }
        self.knowledge.forget_deposit();
        for ((receiver, _), outcome) in stored.payments.iter().zip(&landing.outcomes) {
            if matches!(outcome, Outcome::Unprepared { .. }) {
                self.knowledge.doubt_registration(receiver);
            }
        }
    }

    /// Whether a receiver is registered: one node's word, unless that has led astray before.
    async fn is_prepared(&self, receiver: &str) -> Result<bool, RailError> {
        let (nodes, token) = (&self.nodes, self.token.as_str());
        if !self.knowledge.doubts_registration(receiver) {
            return is_registered(nodes, token, receiver).await;
        }
        let registered = surely_registered(nodes, token, receiver).await?;
        self.knowledge.trust_registration(receiver);
        Ok(registered)
    }

    /// The configured lanes among an account's keys.
    fn known_lanes(&self, keys: Nonces) -> Vec<(LaneId, Nonce)> {
        let (network, account) = (&self.settings.network, self.account.as_str());
        let lanes = keys.into_iter().map(|(key, nonce)| {
            (LaneId::new(format!("near:{network}:{account}:{key}")), Nonce(nonce))
        });
        lanes.filter(|(lane, _)| self.keys.contains_key(lane)).collect()
    }

    async fn check_key(&self, lane: &LaneId) -> Result<(), RailError> {
        let Some((account, key)) = parse_lane_id(lane, &self.settings.network) else {
            return Err(RailError::Misconfigured(format!("{lane} is no lane of this rail")));
        };
        match self.key(account, key).await?.value {
            Some(view) if view.full_access => Ok(()),
            _ => {
                let why = format!("{key} is no full-access key of {account}");
                Err(RailError::Misconfigured(why))
            }
        }
    }

    /// Nodes that refuse what a quorum has on the ledger contradict it.
    fn catch_refusers(&self, refusals: &Refusals, broadcast: &Broadcast, hash: &str) {
        if let Broadcast::Sent(Some(Look::Landed(landing))) = broadcast {
            for Refused { endpoint, reason, .. } in &refusals.0 {
                let landed = format!("{hash}: final in block {}", landing.block_hash);
                self.nodes.endpoints.catch(*endpoint, format!("{hash}: {reason}"), landed);
            }
        }
    }
}

#[async_trait]
impl Ledger for NearRail {
    fn name(&self) -> RailName {
        RailName::Near
    }

    fn manner(&self) -> Manner {
        self.settings.manner
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.keys.keys().cloned().collect()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        parse_lane_id(lane, &self.settings.network).is_some()
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        if let Err(error) = self.nodes.introduce().await {
            return Broadcast::Unsure { cause: error.to_string(), shortage: None };
        }
        // The answer comes when it is final: one call is then the whole life of an attempt. In a
        // window the next one waits for this to have left, and a pulse tells when to look.
        let leaves_others_behind = self.settings.manner.window > 1 && round == 0;
        let wait_until = if leaves_others_behind { "NONE" } else { "FINAL" };
        let bytes = STANDARD.encode(&attempt.bytes);
        let params = json!({ "signed_tx_base64": bytes, "wait_until": wait_until });
        let rotation = self.rotation(attempt, round);
        let timeout = self.settings.broadcast_timeout;
        let quorum = self.nodes.endpoints.quorum();
        let mut refusals = Refusals::default();
        loop {
            let refusing = refusals.endpoints();
            let call = ("send_tx", &params);
            let (endpoint, answer) =
                self.nodes.endpoints.send_once(rotation, &refusing, call, timeout).await;
            let (endpoint, error) = match (endpoint, answer) {
                (Some(endpoint), Ok(result)) => {
                    let broadcast =
                        self.weigh_sent(attempt, endpoint, &result, leaves_others_behind).await;
                    self.catch_refusers(&refusals, &broadcast, &attempt.hash);
                    return broadcast;
                }
                (Some(endpoint), Err(error)) => (endpoint, error),
                (None, answer) => {
                    return unsure(match (refusals.not_shared(), answer) {
                        (Some(reason), _) => {
                            format!("refused by {} nodes alone: {reason}", refusing.len())
                        }
                        (None, Err(error)) => error.to_string(),
                        (None, Ok(_)) => "an answer of nobody".to_owned(),
                    });
                }
            };
            if does_not_know_the_block(&error) {
                self.nodes.endpoints.distrust(endpoint, LAGGING_MS);
            }
            let (reason, certain) = match sort::broadcast_error(&error) {
                Verdict::RefusedForCertain(reason) => (reason, true),
                Verdict::RefusedForNow(reason) => (reason, false),
                Verdict::Sent => return Broadcast::Sent(None),
                Verdict::Unsure { cause, shortage } => {
                    refusals.not_shared();
                    return Broadcast::Unsure { cause, shortage };
                }
            };
            // The same bytes go to another: what one refuses alone is no refusal.
            if let Some(told) = refusals.hear(Refused { endpoint, reason, certain }, quorum) {
                return told;
            }
        }
    }

    async fn look(&self, attempt: &Attempt, passed: bool) -> Result<Look, RailError> {
        let stored = stored(attempt)?;
        let look = self.looker.look(&self.nodes, attempt, &stored, passed).await;
        self.remember_reverts(&stored, &look);
        look
    }

    async fn inquest(&self, attempt: &Attempt, later: &[Later]) -> Result<Look, RailError> {
        let stored = stored(attempt)?;
        let look = self.looker.inquest(&self.nodes, attempt, &stored, later).await;
        self.remember_reverts(&stored, &look);
        look
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        let Some((account, key)) = parse_lane_id(lane, &self.settings.network) else {
            return Err(RailError::Misconfigured(format!("{lane} is no lane of this rail")));
        };
        let agreed = match wound::is(Wound::OneNodesNonce) {
            true => self.nodes.key_on(0, account, key, At::Final).await?,
            false => self.key(account, key).await?,
        };
        match agreed.value {
            Some(view) => {
                Ok(Some(LedgerNonce { nonce: Nonce(view.nonce), final_height: agreed.height }))
            }
            None => Err(RailError::Misconfigured(format!("{key} is no access key of {account}"))),
        }
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        let account = self.account.as_str();
        let ask =
            async |endpoint, at: Moment| self.nodes.keys_on(endpoint, account, at.into()).await;
        let agreed = match wound::is(Wound::OneNodesNonce) {
            true => self.nodes.keys_on(0, account, At::Final).await?,
            false => self.nodes.agreed(&format!("the keys of {account}"), ask).await?,
        };
        let final_height = agreed.height;
        let lanes = self.known_lanes(agreed.value).into_iter();
        Ok(lanes.map(|(lane, nonce)| (lane, LedgerNonce { nonce, final_height })).collect())
    }

    async fn pulse(&self, _: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        self.nodes.introduce_rest().await;
        let lanes = self.known_lanes(self.nodes.keys_at_head(self.account.as_str()).await?);
        let progress =
            |(lane, nonce)| Progress { lane, reach: Reach::UpTo(nonce), is_final: false };
        Ok(lanes.into_iter().map(progress).collect())
    }
}

#[async_trait]
impl Rail for NearRail {
    fn stages(&self) -> AttemptStages {
        near::STAGES
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
        futures::stream::iter(asked)
            .map(|receiver| async move { self.is_prepared(&receiver).await })
            .buffered(self.settings.views_in_flight.max(1))
            .collect()
            .await
    }

    fn pace(&self) -> Pace {
        self.settings.pace
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
        // What can be told without a node is told before anything is stored: a refusal for such a
        // reason is a lie then.
        encode::check(&bytes, &hash, limits).map_err(RailError::Misconfigured)?;
        Ok(Signed {
            bytes,
            hash,
            base: Some(BaseBlock { hash: base.text.clone(), height: base.height }),
            expires_height: Some(base.height.saturating_add(validity)),
        })
    }

    /// All keys are of one account.
    async fn funds(&self, _: Option<&LaneId>) -> Result<Funds, RailError> {
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

    fn remedies(&self) -> Remedies {
        Remedies {
            gas: "the gas attached per transfer is too little: raise gas_per_transfer_tgas",
            contract: "the token contract refuses the relay: is it paused or missing, the relay \
                       unregistered?",
            ..Remedies::default()
        }
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.nodes.endpoints.snapshot().into_iter().enumerate().map(health).collect()
    }

    async fn check(&self) -> Result<String, RailError> {
        self.nodes.introduce_all().await;
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
        if !surely_registered(&self.nodes, self.token.as_str(), self.account.as_str()).await? {
            let (account, token) = (&self.account, &self.token);
            return Err(RailError::Misconfigured(format!(
                "{account} is not registered with {token}: call its storage_deposit first"
            )));
        }
        Ok(format!(
            "{} on {}: endpoints {}, keys {}, transactions live {validity} blocks, a registration \
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

fn unsure(cause: String) -> Broadcast {
    Broadcast::Unsure { cause, shortage: None }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;
