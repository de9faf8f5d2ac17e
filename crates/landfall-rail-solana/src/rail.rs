//! The seam: [`Ledger`] and [`Rail`] for one shield pool on Solana.
//!
//! **Invariant:** only stored bytes are sent, to every node, as often as the lanes ask for it: one
//! signature lands once. A refusal is a quorum's, and counts only where nobody took them.
//! **Invariant:** a withdraw of another network or pool is never signed.
//! Not here: what a look proves (`look`), encoding (`encode`), the table (`refusal`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::future::{join_all, try_join_all};
use futures::stream::FuturesUnordered;
use landfall_core::attempt::{BaseBlock, Shortage, Signed};
use landfall_core::claim::ClaimKey;
use landfall_core::clock::Clock;
use landfall_core::guard::{self, Guard};
use landfall_core::ledger::{
    Broadcast, Later, Ledger, LedgerNonce, Look, Manner, Progress, RailError, Reach, Refusal,
    Waiting,
};
use landfall_core::machine::AttemptStages;
use landfall_core::rail::{EndpointHealth, Funds, Pace, Rail, Remedies};
use landfall_core::{Attempt, BadField, LaneId, Nonce, Payload, Purpose, RailName, solana};
use landfall_rpc::{Endpoints, RpcError, health, reached, unavailable};
use serde_json::{Value, json};
use solana_address::Address;

use crate::answer::Surety;
use crate::base::Bases;
use crate::encode::{self, Draft, UNITS};
use crate::fees;
use crate::keys::{self, Key};
use crate::look::Looker;
use crate::node::Nodes;
use crate::preflight::preflight;
use crate::refusal::{self, Meaning};
use crate::request;
use crate::roots::Roots;
use crate::settings::SolanaSettings;
use crate::shield::{Accounts, Withdraw};

/// Transactions that a fee payer should always be able to pay for.
const FLOOR_TRANSACTIONS: u64 = 100;
/// What an account must keep to exist, in lamports.
const RENT: u64 = 890_880;
/// How long the others may still take once one node has taken a broadcast, in milliseconds.
const BROADCAST_GRACE_MS: u64 = 100;

/// A mistake in the settings, for the configuration to name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    #[error("the keypair of {0} is given twice")]
    SameKey(Address),
}

/// Withdraws from one pool.
pub struct SolanaRail {
    settings: SolanaSettings,
    keys: BTreeMap<LaneId, Key>,
    pub nodes: Nodes,
    looker: Looker,
    bases: Bases,
    roots: Roots,
}

impl SolanaRail {
    /// Without keys nothing can be signed: for a process that only takes transfers.
    pub fn new(
        mut settings: SolanaSettings,
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
    ) -> Result<SolanaRail, BadSettings> {
        let mut keys = BTreeMap::new();
        for key in std::mem::take(&mut settings.keys) {
            let address = key.address();
            if keys.insert(keys::lane_id(&settings.network, &address), key).is_some() {
                return Err(BadSettings::SameKey(address));
            }
        }
        let nodes = Nodes::new(endpoints, clock, &settings.network, settings.genesis.clone());
        let looker = Looker::new(settings.program);
        let (bases, roots) = Default::default();
        Ok(SolanaRail { settings, keys, nodes, looker, bases, roots })
    }

    pub fn network(&self) -> &str {
        &self.settings.network
    }

    pub fn program(&self) -> &Address {
        &self.settings.program
    }

    fn is_ours(&self, withdraw: &solana::Withdraw) -> bool {
        withdraw.network == self.settings.network
            && withdraw.program == self.settings.program.to_string()
    }

    fn withdraw(&self, payloads: &[&Payload]) -> Result<Withdraw, RailError> {
        let [payload] = payloads else {
            return Err(RailError::Misconfigured("one withdraw at a time can be signed".into()));
        };
        match payload.solana() {
            Some(stored) if self.is_ours(stored) => {
                request::thawed(stored).map_err(RailError::Misconfigured)
            }
            Some(stored) => Err(RailError::Misconfigured(format!(
                "a withdraw from pool {} on {} is not for pool {} on {}",
                stored.program, stored.network, self.settings.program, self.settings.network
            ))),
            None => Err(RailError::Misconfigured(format!(
                "a transfer of rail {} is not for this rail",
                payload.rail()
            ))),
        }
    }

    pub(crate) fn payer(&self, lane: &LaneId) -> Result<Address, RailError> {
        let strange = || RailError::Misconfigured(format!("{lane} is no lane of this rail"));
        keys::parse_lane_id(lane, &self.settings.network).ok_or_else(strange)
    }

    async fn draft(&self, withdraw: Withdraw) -> Result<(Draft, BaseBlock, u64), RailError> {
        let SolanaSettings { program, bounds, fresh_ms, .. } = &self.settings;
        let pool = Accounts::of(program).pool;
        let base = self.bases.base(&self.nodes, *fresh_ms).await?;
        // What nobody tells is offered the least.
        let price = self.bases.price(&self.nodes, &pool, bounds, *fresh_ms).await;
        let price = price.unwrap_or(bounds.price_min);
        let draft =
            Draft { program: *program, withdraw, blockhash: base.hash, units: UNITS, price };
        let block = BaseBlock { hash: base.hash.to_string(), height: base.slot };
        Ok((draft, block, base.last_valid_height))
    }

    async fn balance(&self, payer: &Address) -> Result<u64, RailError> {
        let quorum = self.nodes.endpoints.quorum();
        let said = self.nodes.ask_quorum(|endpoint| self.nodes.balance_on(endpoint, payer)).await;
        let balance = reached(said.iter().map(|one| one.fact), quorum);
        balance.ok_or_else(|| unavailable(format!("{} of {quorum} nodes answer", said.len())))
    }
}

/// What one node says to a broadcast.
enum Heard {
    Taken,
    Refused(String),
    Short(String),
    Unsure(String),
}

fn heard(answer: Result<Box<serde_json::value::RawValue>, RpcError>, signature: &str) -> Heard {
    match answer {
        Ok(raw) => match serde_json::from_str::<Value>(raw.get()) {
            Ok(Value::String(said)) if said == signature => Heard::Taken,
            _ => Heard::Unsure("another signature than ours".to_owned()),
        },
        Err(RpcError::Answered(error)) if !error.is_technical() => {
            let reason: String = landfall_core::plain(&error.message).chars().take(300).collect();
            match refusal::meaning(error.code, &error.message, &error.data) {
                Meaning::Known => Heard::Taken,
                Meaning::Refused(_) => Heard::Refused(reason),
                Meaning::Short => Heard::Short(reason),
                Meaning::Unsure(_) => Heard::Unsure(reason),
            }
        }
        Err(error) => Heard::Unsure(error.to_string()),
    }
}

/// What all of them together say.
fn told(heard: Vec<Heard>, quorum: usize) -> Broadcast {
    if heard.iter().any(|one| matches!(one, Heard::Taken)) {
        return Broadcast::Sent(None);
    }
    let refusals: Vec<&String> = heard
        .iter()
        .filter_map(|one| match one {
            Heard::Refused(reason) => Some(reason),
            _ => None,
        })
        .collect();
    // Who said nothing that can be understood may have taken it.
    if refusals.len() >= quorum && refusals.len() == heard.len() {
        return Broadcast::Refused(Refusal { reason: refusals[0].clone(), relays_fault: true });
    }
    if !refusals.is_empty() {
        guard::met(Guard::RefusalNotShared);
    }
    let short = heard.iter().find_map(|one| match one {
        Heard::Short(reason) => Some(reason.clone()),
        _ => None,
    });
    let shortage = short.as_ref().map(|_| Shortage::Native);
    let cause = short.or_else(|| {
        heard.into_iter().find_map(|one| match one {
            Heard::Unsure(cause) | Heard::Refused(cause) => Some(cause),
            _ => None,
        })
    });
    Broadcast::Unsure { cause: cause.unwrap_or_else(|| "no node answers".to_owned()), shortage }
}

#[async_trait]
impl Ledger for SolanaRail {
    fn name(&self) -> RailName {
        RailName::Solana
    }

    fn manner(&self) -> Manner {
        self.settings.manner
    }

    fn lanes(&self) -> Vec<LaneId> {
        self.keys.keys().cloned().collect()
    }

    fn owns(&self, lane: &LaneId) -> bool {
        keys::parse_lane_id(lane, &self.settings.network).is_some()
    }

    /// To all nodes at once: the leader takes the first that reaches it. Who is slow must not hold
    /// up the rest; it has the bytes from the next round.
    async fn broadcast(&self, attempt: &Attempt, round: u32) -> Broadcast {
        if let Err(error) = self.nodes.introduce().await {
            return Broadcast::Unsure { cause: error.to_string(), shortage: None };
        }
        // Our own preflight is done; what a node's would say changes nothing about these bytes.
        let options = json!({ "encoding": "base64", "skipPreflight": true, "maxRetries": 0 });
        let params = json!([STANDARD.encode(&attempt.bytes), options]);
        let endpoints = &self.nodes.endpoints;
        let timeout = self.settings.broadcast_timeout;
        let all = endpoints.order(u64::from(round));
        let send = async |endpoint: usize| {
            let but: Vec<usize> = all.iter().copied().filter(|one| *one != endpoint).collect();
            let call = ("sendTransaction", &params);
            let (_, answer) = endpoints.send_once(0, &but, call, timeout).await;
            heard(answer, &attempt.hash)
        };
        let mut sent: FuturesUnordered<_> = all.iter().map(|endpoint| send(*endpoint)).collect();
        let mut said = Vec::new();
        while let Some(one) = sent.next().await {
            let is_taken = matches!(one, Heard::Taken);
            said.push(one);
            if is_taken {
                break;
            }
        }
        let rest = async {
            while let Some(one) = sent.next().await {
                said.push(one);
            }
        };
        tokio::select! {
            biased;
            () = rest => {}
            () = self.nodes.clock.sleep(Duration::from_millis(BROADCAST_GRACE_MS)) => {}
        }
        told(said, endpoints.quorum())
    }

    async fn look(&self, attempt: &Attempt, _: bool) -> Result<Look, RailError> {
        self.looker.look(&self.nodes, attempt).await
    }

    async fn inquest(&self, attempt: &Attempt, _: &[Later]) -> Result<Look, RailError> {
        self.looker.inquest(&self.nodes, attempt).await
    }

    /// The chain keeps no nonces for a fee payer: our own numbers alone count.
    async fn nonce(&self, lane: &LaneId) -> Result<Option<LedgerNonce>, RailError> {
        self.payer(lane).map(|_| None)
    }

    async fn nonces(&self) -> Result<Vec<(LaneId, LedgerNonce)>, RailError> {
        Ok(Vec::new())
    }

    async fn pulse(&self, waiting: &[Waiting]) -> Result<Vec<Progress>, RailError> {
        self.nodes.introduce_rest().await;
        let asked_ms = self.nodes.clock.monotonic_ms();
        let signatures: Vec<String> =
            waiting.iter().flat_map(|one| one.hashes.iter().cloned()).collect();
        self.looker.recent.refresh(&self.nodes, &signatures).await;
        let quorum = self.nodes.endpoints.quorum();
        let progress = |one: &Waiting| {
            let signature = one.hashes.first()?;
            let said = self.looker.recent.said(signature, quorum, asked_ms)?;
            let count = |surety| said.iter().filter(|one| one.fact.surety >= surety).count();
            let is_final = count(Surety::Finalized) >= quorum;
            let (lane, reach) = (one.lane.clone(), Reach::Only(one.nonce));
            let is_seen = count(Surety::Confirmed) >= quorum;
            is_seen.then_some(Progress { lane, reach, is_final })
        };
        Ok(waiting.iter().filter_map(progress).collect())
    }
}

#[async_trait]
impl Rail for SolanaRail {
    fn stages(&self) -> AttemptStages {
        solana::STAGES
    }

    fn takes(&self, payload: &Payload) -> bool {
        payload.solana().is_some_and(|withdraw| self.is_ours(withdraw))
    }

    /// Whether the pool knows the root, where that is to be known at the door.
    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        let Some(stored) = payload.solana().filter(|_| self.settings.screens_roots) else {
            return Ok(());
        };
        let Ok(withdraw) = request::thawed(stored) else { return Ok(()) };
        match self.roots.knows(&self.nodes, &self.settings.program, &withdraw.root).await {
            Some(false) => {
                let why = "the pool does not know this root, yet or any more: prove against a \
                           newer one";
                Err(BadField::new("public_inputs", why))
            }
            Some(true) | None => Ok(()),
        }
    }

    /// A withdraw needs nothing on the chain but its note.
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
        _: Nonce,
    ) -> Result<Signed, RailError> {
        if purpose != Purpose::Pay {
            return Err(RailError::Misconfigured("only withdraws are signed here".into()));
        }
        let missing = || RailError::Misconfigured(format!("no keypair for lane {lane}"));
        let key = self.keys.get(lane).ok_or_else(missing)?;
        let (draft, base, last_valid_height) = self.draft(self.withdraw(payloads)?).await?;
        preflight(&self.nodes, &draft, &key.address()).await?;
        let too_large = |error: encode::TooLarge| RailError::Hopeless(error.to_string());
        let (bytes, signature) = encode::sign(&draft, key).map_err(too_large)?;
        Ok(Signed {
            bytes,
            hash: signature.to_string(),
            base: Some(base),
            expires_height: Some(last_valid_height),
        })
    }

    fn shares_funds(&self) -> bool {
        false
    }

    /// Of the lane's fee payer; without one, of the poorest of them.
    async fn funds(&self, lane: Option<&LaneId>) -> Result<Funds, RailError> {
        let payers = match lane {
            Some(lane) => vec![self.payer(lane)?],
            None => self.keys.values().map(Key::address).collect(),
        };
        let balances = try_join_all(payers.iter().map(|payer| self.balance(payer))).await?;
        let each = fees::cost(self.settings.bounds.price_max, UNITS);
        Ok(Funds {
            tokens: u128::MAX,
            native: u128::from(balances.into_iter().min().unwrap_or_default()),
            native_floor: u128::from(RENT + each.saturating_mul(FLOOR_TRANSACTIONS)),
        })
    }

    fn remedies(&self) -> Remedies {
        Remedies {
            native: "a fee payer is out of SOL: fund it",
            refused: "the nodes refuse what the relay signs: check network and keypairs",
            contract: "the shield pool refuses the relay: is it the right program, and funded?",
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
        let SolanaSettings { network, program, .. } = &self.settings;
        let shard = Accounts::of(program).nullifier_shard;
        let ask = async |endpoint| self.nodes.account_on(endpoint, &shard, "finalized").await;
        if self.nodes.ask_quorum(ask).await.len() < self.nodes.endpoints.quorum() {
            let why = format!("no quorum shows a shield pool of {program}: is it the program?");
            return Err(RailError::Misconfigured(why));
        }
        let funds = self.funds(None).await?;
        if !self.keys.is_empty() && funds.native < funds.native_floor {
            return Err(RailError::Misconfigured(format!(
                "a fee payer has {} lamports, which is less than {FLOOR_TRANSACTIONS} withdraws \
                 may cost ({}): fund it",
                funds.native, funds.native_floor
            )));
        }
        Ok(format!(
            "{network}: pool {program}, endpoints {}, fee payers {}, the poorest has {} lamports",
            self.nodes.endpoints.count(),
            self.keys.len(),
            funds.native,
        ))
    }
}
