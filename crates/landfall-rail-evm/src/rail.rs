//! The seam: [`Ledger`] and [`Rail`] for one EVM chain, signed here.
//!
//! **Invariant:** a call of another chain is never signed.
//! **Rule:** lanes count nonces from 1, the chain from 0.
//! Not here: sending (`broadcast`), what a look proves (`look`), encoding (`encode`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use alloy_primitives::{Address, B256, Bytes, U256};
use async_trait::async_trait;
use futures::future::{join_all, try_join_all};
use landfall_core::attempt::{Signed, VariantKind};
use landfall_core::claim::ClaimKey;
use landfall_core::clock::Clock;
use landfall_core::evm::{self, Call, Work};
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Reach, Waiting,
};
use landfall_core::machine::AttemptStages;
use landfall_core::rail::{EndpointHealth, Funds, Pace, Rail, Remedies};
use landfall_core::{Attempt, BadField, LaneId, Nonce, Payload, Purpose, RailName};
use landfall_rpc::{Endpoints, health, unavailable};

use crate::encode::{self, Draft};
use crate::fees::{Market, Offer, Speed};
use crate::forward::{ForwardRequest, Forwarder};
use crate::keys::Key;
use crate::look::{Looker, Read, settled};
use crate::market::{Markets, reached};
use crate::node::{At, Nodes};
use crate::settings::EvmSettings;

/// Gas of a transaction that does nothing.
const PLAIN_GAS: u64 = 21_000;
/// Gas that a signer should always be able to pay for: a call of ordinary size.
const FLOOR_GAS: u128 = 200_000;

/// A mistake in the settings, for the configuration to name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("signers: at least one key is needed")]
    NoKeys,
    #[error("signers: the key of {0} is given twice")]
    SameKey(Address),
}

/// Calls on one chain.
pub struct EvmRail {
    pub(crate) settings: EvmSettings,
    keys: BTreeMap<LaneId, Key>,
    pub(crate) nodes: Nodes,
    pub(crate) looker: Looker,
    markets: Markets,
    /// The forwarder with the name by which its signatures know it, once a quorum has told it.
    forwarder: tokio::sync::Mutex<Option<Forwarder>>,
}

/// The lane of a signer.
pub fn lane_id(chain_id: u64, signer: Address) -> LaneId {
    LaneId::new(format!("evm:{chain_id}:{signer}"))
}

/// The signer of a lane of this chain.
pub fn signer_of(lane: &LaneId, chain_id: u64) -> Option<Address> {
    let (rail, rest) = lane.as_str().split_once(':')?;
    let (chain, signer) = rest.split_once(':')?;
    let ours = rail == "evm" && chain.parse() == Ok(chain_id);
    ours.then(|| signer.parse().ok()).flatten()
}

pub fn address(address: evm::Address) -> Address {
    Address::from(address.0)
}

impl EvmRail {
    pub fn new(
        settings: EvmSettings,
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
    ) -> Result<EvmRail, BadSettings> {
        match settings.keys.is_empty() {
            true => Err(BadSettings::NoKeys),
            false => EvmRail::with_or_without_keys(settings, endpoints, clock),
        }
    }

    /// Without keys nothing can be signed: for a process that only takes transfers.
    pub fn with_or_without_keys(
        settings: EvmSettings,
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
    ) -> Result<EvmRail, BadSettings> {
        let mut keys = BTreeMap::new();
        for key in &settings.keys {
            let lane = lane_id(settings.chain_id, key.address());
            if keys.insert(lane, key.clone()).is_some() {
                return Err(BadSettings::SameKey(key.address()));
            }
        }
        let looker = Looker::new(&settings, endpoints.count());
        let nodes = Nodes::new(endpoints, clock, settings.chain_id);
        let (markets, forwarder) = Default::default();
        Ok(EvmRail { settings, keys, nodes, looker, markets, forwarder })
    }

    pub(crate) fn call<'a>(&self, payloads: &[&'a Payload]) -> Result<&'a Call, RailError> {
        let [payload] = payloads else {
            return Err(RailError::Misconfigured("one call at a time can be signed".into()));
        };
        match payload.evm() {
            Some(call) if call.chain_id == self.settings.chain_id => Ok(call),
            Some(call) => Err(RailError::Misconfigured(format!(
                "a call on chain {} is not for {}",
                call.chain_id, self.settings.chain
            ))),
            None => Err(RailError::Misconfigured(format!(
                "a transfer of rail {} is not for this rail",
                payload.rail()
            ))),
        }
    }

    fn key(&self, lane: &LaneId) -> Result<&Key, RailError> {
        let missing = || RailError::Misconfigured(format!("no key for lane {lane}"));
        self.keys.get(lane).ok_or_else(missing)
    }

    fn signer(&self, lane: &LaneId) -> Result<Address, RailError> {
        let strange = || RailError::Misconfigured(format!("{lane} is no lane of this rail"));
        signer_of(lane, self.settings.chain_id).ok_or_else(strange)
    }

    async fn market(&self, speed: Speed) -> Result<Market, RailError> {
        self.markets.at(&self.nodes, speed, self.settings.market_ms).await
    }

    /// The forwarder, with its name as a quorum tells it.
    pub(crate) async fn forwarder(&self, at: Address) -> Result<Forwarder, RailError> {
        let mut known = self.forwarder.lock().await;
        if let Some(forwarder) = known.as_ref().filter(|known| known.address == at) {
            return Ok(forwarder.clone());
        }
        let ask = async |endpoint| {
            let input = Forwarder::question();
            let whom = (Address::ZERO, at, U256::ZERO);
            let answer = self.nodes.call_on(endpoint, whom, &input, At::Latest).await?;
            let name = answer.ok().and_then(|answer| Forwarder::name_in(&answer));
            name.ok_or_else(|| unavailable(format!("{at} does not answer as a forwarder")))
        };
        let name = self.nodes.constant(&format!("the name of forwarder {at}"), ask).await?;
        let forwarder = Forwarder { address: at, chain_id: self.settings.chain_id, name };
        *known = Some(forwarder.clone());
        Ok(forwarder)
    }

    /// What a call comes to on the chain, without nonce, gas and fees.
    pub(crate) fn draft(&self, call: &Call) -> Draft {
        let (to, value, input) = match &call.work {
            Work::Direct(direct) => {
                (address(direct.to), direct.value, Bytes::from(direct.data.0.clone()))
            }
            Work::Gasless(request) => {
                let (asked, signature) = forward_request(request);
                let input = crate::forward::execution(&asked, &signature);
                (address(request.forwarder), request.value, input)
            }
        };
        Draft {
            chain_id: self.settings.chain_id,
            nonce: 0,
            to,
            value: U256::from(value),
            input,
            gas: 0,
            offer: Offer::Legacy { gas_price: 0 },
        }
    }

    /// Whether signed bytes do what the call asks for.
    pub fn carries(&self, call: &Call, bytes: &[u8]) -> bool {
        let asked = self.draft(call);
        encode::content(bytes).is_ok_and(|does| {
            (does.to, does.value, does.input) == (Some(asked.to), asked.value, asked.input)
        })
    }

    fn signed(draft: &Draft, key: &Key) -> Signed {
        let (bytes, hash) = encode::sign(draft, key);
        Signed { bytes, hash: hash.to_string(), base: None, expires_height: None }
    }
}

/// A user's request as the forwarder knows it.
pub fn forward_request(request: &evm::Gasless) -> (ForwardRequest, Bytes) {
    let asked = ForwardRequest {
        from: address(request.from),
        to: address(request.to),
        value: U256::from(request.value),
        gas: U256::from(request.gas),
        nonce: U256::from(request.nonce),
        deadline: alloy_primitives::aliases::U48::from(request.deadline),
        data: request.data.0.clone().into(),
    };
    (asked, request.signature.0.clone().into())
}

/// The chain's own number for a lane's nonce.
fn chain_nonce(nonce: Nonce) -> Result<u64, RailError> {
    let none = || RailError::Misconfigured("lanes count from 1".into());
    nonce.0.checked_sub(1).ok_or_else(none)
}

#[async_trait]
impl Ledger for EvmRail {
    fn name(&self) -> RailName {
        RailName::Evm
    }

    fn manner(&self) -> Manner {
        self.settings.manner
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.keys.keys().cloned().collect()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        signer_of(lane, self.settings.chain_id).is_some()
    }

    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        self.send(attempt, round).await
    }

    async fn look(&self, attempt: &Attempt, passed: bool) -> Result<Look, RailError> {
        let read = Read::of(attempt, self.signer(&attempt.lane)?)?;
        self.looker.look(&self.nodes, attempt, &read, passed).await
    }

    async fn inquest(&self, attempt: &Attempt, _: &[Later]) -> Result<Look, RailError> {
        let read = Read::of(attempt, self.signer(&attempt.lane)?)?;
        self.looker.inquest(&self.nodes, attempt, &read).await
    }

    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        let used = self.looker.count(&self.nodes, self.signer(lane)?).await?;
        Ok(Some(LedgerNonce { nonce: Nonce(used.value), final_height: used.height }))
    }

    async fn first_nonce(
        &self,
        lane: &LaneId,
        last: Option<LedgerNonce>,
    ) -> Result<Option<LedgerNonce>, RailError> {
        let signer = self.signer(lane)?;
        let ask = async |endpoint| self.nodes.count_on(endpoint, signer, At::Latest).await;
        let said = self.nodes.ask_quorum(ask).await;
        let quorum = self.nodes.endpoints.quorum();
        let newest = landfall_rpc::reached(said.iter().map(|one| one.fact), quorum);
        let newest = newest.ok_or_else(|| unavailable("no quorum tells the signer's nonce"))?;
        Ok(last.map(|last| LedgerNonce { nonce: last.nonce.max(Nonce(newest)), ..last }))
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        let each = self.keys.keys().map(async |lane| {
            let nonce = self.nonce(lane).await?;
            Ok::<_, RailError>(nonce.map(|nonce| (lane.clone(), nonce)))
        });
        Ok(try_join_all(each).await?.into_iter().flatten().collect())
    }

    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        self.nodes.introduce_rest().await;
        let hashes = |one: &Waiting| -> Vec<B256> {
            one.hashes.iter().filter_map(|hash| hash.parse().ok()).collect()
        };
        let all: HashSet<B256> = waiting.iter().flat_map(hashes).collect();
        self.looker.refresh(&self.nodes, &all).await;
        let quorum = self.nodes.endpoints.quorum();
        let progress = |one: &Waiting| {
            let said = self.looker.recent.said(&hashes(one));
            let is_final = settled(&said, quorum).is_some();
            let (lane, reach) = (one.lane.clone(), Reach::Only(one.nonce));
            (said.len() >= quorum).then_some(Progress { lane, reach, is_final })
        };
        Ok(waiting.iter().filter_map(progress).collect())
    }
}

#[async_trait]
impl Rail for EvmRail {
    fn stages(&self) -> AttemptStages {
        evm::STAGES
    }

    fn takes(&self, payload: &Payload) -> bool {
        payload.evm().is_some_and(|call| call.chain_id == self.settings.chain_id)
    }

    /// Whether a user has signed the request, as far as that can be told.
    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        let Some(Work::Gasless(request)) = payload.evm().map(|call| &call.work) else {
            return Ok(());
        };
        // Where no node answers, the preflight finds it out.
        let Ok(forwarder) = self.forwarder(address(request.forwarder)).await else {
            return Ok(());
        };
        let (asked, signature) = forward_request(request);
        let verified = forwarder.verify(&asked, &signature);
        verified.map_err(|error| BadField::new("signature", error.to_string()))
    }

    /// A call needs nothing on the chain but its signer's balance.
    fn preparation(&self, _: &Payload) -> Option<ClaimKey> {
        None
    }

    async fn prepared(&self, payloads: &[&Payload]) -> Vec<Result<bool, RailError>> {
        payloads.iter().map(|_| Ok(true)).collect()
    }

    fn pace(&self) -> Pace {
        self.settings.pace
    }

    fn fit(&self, _: Purpose, payloads: &[&Payload]) -> usize {
        payloads.len().min(1)
    }

    async fn sign(
        &self,
        purpose: Purpose,
        payloads: &[&Payload],
        lane: &LaneId,
        nonce: Nonce,
    ) -> Result<Signed, RailError> {
        let key = self.key(lane)?;
        let nonce = chain_nonce(nonce)?;
        let (draft, gas, speed) = match purpose {
            Purpose::Pay => {
                let call = self.call(payloads)?;
                let draft = self.draft(call);
                let gas = self.gas(key.address(), call, &draft).await?;
                (draft, gas, call.speed)
            }
            Purpose::Fence => (self.nothing(key.address()), PLAIN_GAS, Speed::Fast),
            Purpose::Prepare => {
                return Err(RailError::Misconfigured("there is nothing to prepare".into()));
            }
        };
        let offer = Offer::at(self.market(speed).await?, speed, &self.settings.caps);
        Ok(EvmRail::signed(&Draft { nonce, gas, offer, ..draft }, key))
    }

    async fn sign_variant(
        &self,
        attempt: &Attempt,
        payloads: &[&Payload],
        kind: VariantKind,
    ) -> Result<Option<Signed>, RailError> {
        let key = self.key(&attempt.lane)?;
        let wrong = |error: encode::Unreadable| RailError::Misconfigured(error.to_string());
        let offered = encode::offer(&attempt.newest().bytes).map_err(wrong)?;
        let draft = match kind {
            VariantKind::Replaces => encode::draft(&attempt.bytes).map_err(wrong)?,
            VariantKind::Cancels => self.nothing(key.address()),
        };
        let nonce = chain_nonce(attempt.nonce)?;
        let speed = match payloads {
            [payload] => payload.evm().map_or(Speed::Fast, |call| call.speed),
            _ => Speed::Fast,
        };
        let market = self.market(speed).await?;
        // What would be taken as it is needs time, or to be sent again; a cancel must outbid.
        if kind == VariantKind::Replaces && offered.suffices(market) {
            return Ok(None);
        }
        let outbid = offered.outbid(market, speed, &self.settings.caps);
        let offer = match (outbid, kind) {
            (Some(offer), _) => offer,
            // Nobody may have what it would have to outbid.
            (None, VariantKind::Cancels) => Offer::at(market, speed, &self.settings.caps),
            (None, VariantKind::Replaces) => return Ok(None),
        };
        Ok(Some(EvmRail::signed(&Draft { nonce, offer, ..draft }, key)))
    }

    fn shares_funds(&self) -> bool {
        false
    }

    /// Of the lane's signer; without one, of the poorest of them.
    async fn funds(&self, lane: Option<&LaneId>) -> Result<Funds, RailError> {
        let signers = match lane {
            Some(lane) => vec![self.signer(lane)?],
            None => self.keys.values().map(Key::address).collect(),
        };
        let quorum = self.nodes.endpoints.quorum();
        let balances = signers.into_iter().map(async |signer| {
            let ask = async |endpoint| self.nodes.balance_on(endpoint, signer).await;
            let said = self.nodes.ask_quorum(ask).await;
            if said.len() < quorum {
                return Err(unavailable(format!("{} of {quorum} nodes answer", said.len())));
            }
            Ok(reached(said.iter().map(|one| one.fact.saturating_to()), quorum))
        });
        let poorest = try_join_all(balances).await?.into_iter().min().unwrap_or_default();
        let market = self.market(Speed::Average).await?;
        let price = Offer::at(market, Speed::Average, &self.settings.caps).most();
        Ok(Funds {
            tokens: u128::MAX,
            native: poorest,
            native_floor: price.saturating_mul(FLOOR_GAS),
        })
    }

    fn remedies(&self) -> Remedies {
        Remedies {
            native: "a signer is out of the chain's own coin: fund it",
            refused: "the nodes refuse what the relay signs: check chain, signers and caps",
            ..Remedies::default()
        }
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.nodes.endpoints.snapshot().into_iter().enumerate().map(health).collect()
    }

    async fn check(&self) -> Result<String, RailError> {
        self.nodes.introduce_all().await;
        let all = 0..self.nodes.endpoints.count();
        for outcome in join_all(all.map(|endpoint| self.nodes.introduce_one(endpoint))).await {
            if let Err((endpoint, why)) = outcome {
                let origin = self.nodes.endpoints.origin(endpoint);
                return Err(RailError::Misconfigured(format!("{origin}: {why}")));
            }
        }
        if let Some(forwarder) = self.settings.forwarder {
            self.forwarder(forwarder).await?;
        }
        let funds = self.funds(None).await?;
        if !self.keys.is_empty() && funds.native < funds.native_floor {
            return Err(RailError::Misconfigured(format!(
                "a signer has {} wei, which is less than one ordinary call may cost ({}): fund it",
                funds.native, funds.native_floor
            )));
        }
        Ok(format!(
            "{} (chain {}): endpoints {}, signers {}, the poorest has {} wei",
            self.settings.chain,
            self.settings.chain_id,
            self.nodes.endpoints.count(),
            self.keys.len(),
            funds.native,
        ))
    }
}

impl EvmRail {
    /// A transaction that uses a nonce and does nothing.
    fn nothing(&self, signer: Address) -> Draft {
        Draft {
            chain_id: self.settings.chain_id,
            nonce: 0,
            to: signer,
            value: U256::ZERO,
            input: Bytes::new(),
            gas: PLAIN_GAS,
            offer: Offer::Legacy { gas_price: 0 },
        }
    }
}
