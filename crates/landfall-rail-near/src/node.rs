//! The questions this rail asks nodes, over the shared endpoints.
//!
//! Every question is a read, at a final block unless its name says otherwise, and every answer is
//! either what was asked or an error that decides nothing.
//! **Invariant:** an endpoint is used only after it has shown that it serves the configured
//! network: the chain of the configured first block, or else of the one that a quorum names.
//! Not here: what a quorum says (`quorum`), what the answers prove (`look`), broadcasting (`rail`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use landfall_core::clock::Clock;
use landfall_core::rail::RailError;
use landfall_rpc::{Endpoints, RpcError};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{
    self, AccountView, AtBlock, BlockView, KeyView, Nonces, Queried, TxView, Unreadable,
};
use crate::quorum::{Said, shared};

/// How long after a failed introduction an endpoint is asked again, in milliseconds.
const INTRODUCTION_MS: u64 = 2_000;

/// At which block a question is asked.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    Final,
    /// The newest block, which may yet fall off the chain.
    Head,
    Hash(&'a str),
    /// The block of the node's own chain.
    Height(u64),
}

impl At<'_> {
    fn put(self, mut params: Value) -> Value {
        match self {
            At::Final => params["finality"] = json!("final"),
            At::Head => params["finality"] = json!("optimistic"),
            At::Hash(hash) => params["block_id"] = json!(hash),
            At::Height(height) => params["block_id"] = json!(height),
        }
        params
    }
}

/// What one node says of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// The node does not know it: never arrived, waiting in a pool, dropped, or collected.
    Unknown,
    Known(TxView),
}

/// What one node says of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chained {
    Block(BlockView),
    /// The node has no such block.
    Unknown,
}

/// The nodes of the configured network.
pub struct Nodes {
    pub endpoints: Endpoints,
    pub clock: Arc<dyn Clock>,
    network: String,
    /// The hash of the first block, once it is known.
    genesis: Mutex<Option<String>>,
    /// The first block that each endpoint has named.
    named: Mutex<Vec<Said<String>>>,
    introduced: Mutex<Vec<bool>>,
    introduced_count: AtomicUsize,
    next_introduction_ms: Mutex<u64>,
}

pub fn unavailable(error: impl std::fmt::Display) -> RailError {
    RailError::Unavailable(error.to_string())
}

impl Nodes {
    /// `genesis` is the hash of the first block, if the configuration pins it; otherwise it is
    /// the one that a quorum names.
    pub fn new(
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
        network: String,
        genesis: Option<String>,
    ) -> Self {
        let count = endpoints.count();
        for endpoint in 0..count {
            endpoints.exclude(endpoint, Some("not yet known to serve the network".into()));
        }
        Self {
            endpoints,
            clock,
            network,
            genesis: Mutex::new(genesis),
            named: Mutex::default(),
            introduced: Mutex::new(vec![false; count]),
            introduced_count: AtomicUsize::new(0),
            next_introduction_ms: Mutex::new(0),
        }
    }

    /// Waits until a quorum of endpoints serves the network for sure, or none is left to ask.
    pub async fn introduce(&self) -> Result<(), RailError> {
        let quorum = self.endpoints.quorum();
        if self.introduced_count.load(Ordering::Acquire) >= quorum {
            return Ok(());
        }
        if self.introduction_due() {
            self.introduce_until(quorum).await;
        }
        match self.introduced_count.load(Ordering::Acquire) {
            0 => Err(RailError::Unavailable(self.why_none())),
            _ => Ok(()),
        }
    }

    /// Asks until a quorum is introduced, or nobody is left to ask.
    pub async fn introduce_quorum(&self) {
        let quorum = self.endpoints.quorum();
        if self.introduced_count.load(Ordering::Acquire) < quorum {
            self.introduce_until(quorum).await;
        }
    }

    /// Asks those that have not answered yet. For calls that nobody waits for.
    pub async fn introduce_rest(&self) {
        let count = self.endpoints.count();
        if self.introduced_count.load(Ordering::Acquire) < count && self.introduction_due() {
            self.introduce_until(count).await;
        }
    }

    /// Asks all that have not answered yet, now: whoever may object must be heard.
    pub async fn introduce_all(&self) {
        self.introduce_until(self.endpoints.count()).await;
    }

    fn introduction_due(&self) -> bool {
        let now_ms = self.clock.now_ms();
        let mut next_ms = self.next_introduction_ms.lock();
        let none_yet = self.introduced_count.load(Ordering::Acquire) == 0;
        // A clock that was set back must not silence it.
        let due = none_yet || now_ms >= *next_ms || *next_ms - now_ms > INTRODUCTION_MS;
        if due {
            *next_ms = now_ms + INTRODUCTION_MS;
        }
        due
    }

    async fn introduce_until(&self, enough: usize) {
        let strangers: Vec<usize> = {
            let introduced = self.introduced.lock();
            (0..introduced.len()).filter(|endpoint| !introduced[*endpoint]).collect()
        };
        let mut asked: FuturesUnordered<_> =
            strangers.into_iter().map(|endpoint| self.introduce_one(endpoint)).collect();
        while let Some(outcome) = asked.next().await {
            if let Err((endpoint, why)) = outcome {
                tracing::warn!(endpoint = self.endpoints.origin(endpoint), %why, "not used");
            }
            if self.introduced_count.load(Ordering::Acquire) >= enough {
                return;
            }
        }
    }

    /// Lets one endpoint in if it serves the network.
    pub async fn introduce_one(&self, endpoint: usize) -> Result<(), (usize, String)> {
        let status = self.endpoints.call_on(endpoint, "status", &json!([])).await;
        let status = status.map_err(|error| (endpoint, error.to_string()))?;
        let status = answer::status(&status).map_err(|error| (endpoint, error.to_string()))?;
        let refuse = |why: String| {
            self.endpoints.exclude(endpoint, Some(why.clone()));
            Err((endpoint, why))
        };
        if status.chain_id != self.network {
            return refuse(format!("serves {}, not {}", status.chain_id, self.network));
        }
        let Some(genesis) = self.first_block(endpoint, &status.genesis_hash) else {
            return Err((endpoint, "no quorum names its first block yet".to_owned()));
        };
        if status.genesis_hash != genesis {
            return refuse(format!("begins at {}, not {genesis}", status.genesis_hash));
        }
        self.let_in(endpoint);
        let named = std::mem::take(&mut *self.named.lock());
        for other in named.into_iter().filter(|other| other.fact == genesis) {
            self.let_in(other.endpoint);
        }
        Ok(())
    }

    /// The chain's first block: pinned, or as a quorum names it.
    fn first_block(&self, endpoint: usize, named: &str) -> Option<String> {
        let mut genesis = self.genesis.lock();
        if genesis.is_none() {
            let mut all = self.named.lock();
            all.retain(|other| other.endpoint != endpoint);
            all.push(Said { endpoint, fact: named.to_owned() });
            *genesis = shared(&all, self.endpoints.quorum()).cloned();
        }
        genesis.clone()
    }

    fn let_in(&self, endpoint: usize) {
        self.endpoints.exclude(endpoint, None);
        let mut introduced = self.introduced.lock();
        if !std::mem::replace(&mut introduced[endpoint], true) {
            self.introduced_count.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub fn is_introduced(&self, endpoint: usize) -> bool {
        self.introduced.lock()[endpoint]
    }

    fn why_none(&self) -> String {
        let reasons = self.endpoints.snapshot().into_iter();
        let reasons: Vec<String> = reasons
            .map(|one| format!("{}: {}", one.origin, one.excluded.unwrap_or_default()))
            .collect();
        format!("no endpoint serves {} for sure ({})", self.network, reasons.join("; "))
    }

    /// A read of any introduced endpoint.
    async fn ask<T>(
        &self,
        method: &str,
        params: &Value,
        read: impl FnOnce(&RawValue) -> Result<T, Unreadable>,
    ) -> Result<T, RailError> {
        self.introduce().await?;
        let answer = self.endpoints.call(method, params).await.map_err(unavailable)?;
        read(&answer.result).map_err(|error| {
            self.endpoints.distrust(answer.endpoint, INTRODUCTION_MS);
            unavailable(error)
        })
    }

    /// How many blocks a transaction lives, as one endpoint has it.
    pub async fn validity_on(&self, endpoint: usize) -> Result<u64, RailError> {
        let answer = self.endpoints.call_on(endpoint, "genesis_config", &Value::Null).await;
        answer::validity_period(&answer.map_err(unavailable)?).map_err(unavailable)
    }

    /// How many blocks a transaction lives.
    pub async fn validity(&self) -> Result<u64, RailError> {
        self.constant("the life of a transaction", |endpoint| self.validity_on(endpoint)).await
    }

    /// A final block, as a quorum has it.
    pub async fn final_block(&self) -> Result<AtBlock<String>, RailError> {
        let ask = async |endpoint, at: At<'static>| {
            let params = at.put(json!({}));
            let answer = self.endpoints.call_on(endpoint, "block", &params).await;
            let block = answer::block(&answer.map_err(unavailable)?).map_err(unavailable)?;
            Ok(AtBlock { height: block.height, value: block.hash })
        };
        self.agreed("the final block", ask).await
    }

    /// An account's balance, as a quorum has it.
    pub async fn account(&self, account: &str) -> Result<AccountView, RailError> {
        let ask = async |endpoint, at: At<'static>| {
            let params = json!({"request_type": "view_account", "account_id": account});
            let answer = self.endpoints.call_on(endpoint, "query", &at.put(params)).await;
            answer::account(&answer.map_err(unavailable)?).map_err(unavailable)
        };
        Ok(self.agreed(&format!("the balance of {account}"), ask).await?.value)
    }

    /// The account's full-access keys in the newest block of any endpoint.
    pub async fn keys_at_head(&self, account: &str) -> Result<Nonces, RailError> {
        let keys = self.ask("query", &keys_params(account, At::Head), answer::access_keys).await?;
        Ok(keys.value)
    }

    /// The account's full-access keys, asked of one endpoint.
    pub async fn keys_on(
        &self,
        endpoint: usize,
        account: &str,
        at: At<'_>,
    ) -> Result<AtBlock<Nonces>, RailError> {
        let answer = self.endpoints.call_on(endpoint, "query", &keys_params(account, at)).await;
        answer::access_keys(&answer.map_err(unavailable)?).map_err(unavailable)
    }

    /// A view call of a contract, at a final block of any endpoint.
    pub async fn view(
        &self,
        contract: &str,
        method: &str,
        args: &Value,
    ) -> Result<Value, RailError> {
        let params = view_params(contract, method, args, At::Final);
        found(method, self.ask("query", &params, answer::call_function).await?).map(|at| at.value)
    }

    /// A view call of a contract, as a quorum has it.
    pub async fn agreed_view(
        &self,
        contract: &str,
        method: &str,
        args: &Value,
    ) -> Result<Value, RailError> {
        let ask = async |endpoint, at: At<'static>| {
            let params = view_params(contract, method, args, at);
            let answer = self.endpoints.call_on(endpoint, "query", &params).await;
            let answer = answer::call_function(&answer.map_err(unavailable)?);
            found(method, answer.map_err(unavailable)?)
        };
        Ok(self.agreed(&format!("{method}{args} of {contract}"), ask).await?.value)
    }

    /// Looks a transaction up on any endpoint. Returns also who answered.
    /// `passed`: it is worth waiting for the end of it, at the node.
    pub async fn tx(
        &self,
        hash: &str,
        signer: &str,
        passed: bool,
    ) -> Result<(usize, Sight), RailError> {
        self.introduce().await?;
        let mut params = tx_params(hash, signer);
        if passed {
            params["wait_until"] = json!("FINAL");
        }
        match self.endpoints.call("tx", &params).await {
            Ok(answer) => Ok((answer.endpoint, sight(Ok(&answer.result), hash)?)),
            // It waited, and the end did not come: as good as unknown.
            Err(RpcError::Answered(error)) if passed && error.cause_name == "TIMEOUT_ERROR" => {
                Ok((0, Sight::Unknown))
            }
            // Who did not know it does not matter: somebody does not.
            Err(error) => Ok((0, sight(Err(&error), hash)?)),
        }
    }

    pub async fn tx_on(
        &self,
        endpoint: usize,
        hash: &str,
        signer: &str,
    ) -> Result<Sight, RailError> {
        let answer = self.endpoints.call_on(endpoint, "tx", &tx_params(hash, signer)).await;
        sight(answer.as_deref(), hash)
    }

    /// The same of an endpoint that is known to have it: it answers when it is final there.
    pub async fn final_tx_on(
        &self,
        endpoint: usize,
        hash: &str,
        signer: &str,
    ) -> Result<Sight, RailError> {
        let mut params = tx_params(hash, signer);
        params["wait_until"] = json!("FINAL");
        let answer = self.endpoints.call_on(endpoint, "tx", &params).await;
        sight(answer.as_deref(), hash)
    }

    /// An access key at a block, asked of one endpoint. None: the account has no such key there.
    pub async fn key_on(
        &self,
        endpoint: usize,
        account: &str,
        public_key: &str,
        at: At<'_>,
    ) -> Result<AtBlock<Option<KeyView>>, RailError> {
        let params = at.put(json!({"request_type": "view_access_key",
            "account_id": account, "public_key": public_key}));
        let answer = self.endpoints.call_on(endpoint, "query", &params).await;
        let answer = answer.map_err(unavailable)?;
        let AtBlock { height, value } = answer::access_key(&answer).map_err(unavailable)?;
        match value {
            Queried::Found(key) => Ok(AtBlock { height, value: Some(key) }),
            Queried::Denied(why) if why.contains("does not exist") => {
                Ok(AtBlock { height, value: None })
            }
            Queried::Denied(why) => Err(unavailable(why)),
        }
    }

    /// A block by hash or height, asked of one endpoint.
    pub async fn block_on(&self, endpoint: usize, id: Value) -> Result<Chained, RailError> {
        let params = json!({"block_id": id});
        match self.endpoints.call_on(endpoint, "block", &params).await {
            Ok(raw) => answer::block(&raw).map(Chained::Block).map_err(unavailable),
            Err(RpcError::Answered(error)) if error.cause_name == "UNKNOWN_BLOCK" => {
                Ok(Chained::Unknown)
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    /// The hashes of the transactions of a chunk, asked of one endpoint.
    pub async fn chunk_on(&self, endpoint: usize, chunk: &str) -> Result<Vec<String>, RailError> {
        let answer = self.endpoints.call_on(endpoint, "chunk", &json!({"chunk_id": chunk})).await;
        answer::chunk(&answer.map_err(unavailable)?).map_err(unavailable)
    }

    /// The endpoints that may bear witness.
    pub fn introduced(&self) -> Vec<usize> {
        let introduced = self.introduced.lock();
        (0..introduced.len()).filter(|endpoint| introduced[*endpoint]).collect()
    }
}

fn keys_params(account: &str, at: At<'_>) -> Value {
    at.put(json!({"request_type": "view_access_key_list", "account_id": account}))
}

fn view_params(contract: &str, method: &str, args: &Value, at: At<'_>) -> Value {
    at.put(json!({"request_type": "call_function", "account_id": contract,
        "method_name": method, "args_base64": STANDARD.encode(args.to_string())}))
}

/// What a contract returned; an error if it, or the node, would not say.
fn found(method: &str, answer: AtBlock<Queried<Value>>) -> Result<AtBlock<Value>, RailError> {
    match answer.value {
        Queried::Found(value) => Ok(AtBlock { height: answer.height, value }),
        Queried::Denied(why) => Err(unavailable(format!("{method}: {why}"))),
    }
}

fn tx_params(hash: &str, signer: &str) -> Value {
    // Any other wait would hold an unknown hash for ten seconds and then say nothing.
    json!({"tx_hash": hash, "sender_account_id": signer, "wait_until": "NONE"})
}

/// What an answer of `tx` says of this hash. An answer about another one says nothing.
fn sight(answer: Result<&RawValue, &RpcError>, hash: &str) -> Result<Sight, RailError> {
    match answer {
        Ok(raw) => {
            let view = answer::tx(raw).map_err(unavailable)?;
            match &view.hash {
                Some(other) if other != hash => Err(unavailable("the answer of another hash")),
                _ => Ok(Sight::Known(view)),
            }
        }
        Err(RpcError::Answered(error))
            if error.cause_name == "UNKNOWN_TRANSACTION"
                && error.status == 200
                && error.info["requested_transaction_hash"] == hash =>
        {
            Ok(Sight::Unknown)
        }
        Err(error) => Err(unavailable(error)),
    }
}
