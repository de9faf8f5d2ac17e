//! The questions this rail asks nodes, over the shared endpoints.
//!
//! Every question is a read, at a final block unless its name says otherwise, and every answer is
//! either what was asked or an error that decides nothing.
//! **Invariant:** an endpoint is used only after it has shown that it serves the configured
//! network.
//! Not here: what the answers prove (`look`), broadcasting (`rail`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

use crate::answer::{self, AccountView, BlockView, KeyView, KeysView, Queried, TxView, Unreadable};

/// How long after a failed introduction an endpoint is asked again, in milliseconds.
const INTRODUCTION_MS: u64 = 2_000;

/// Times an endpoint is asked before it counts as silent in a question to a quorum.
const QUORUM_TRIES: usize = 3;

/// How long the others may still speak once a quorum has answered, in milliseconds: a node that is
/// well answers within this, and one that is not must not hold up a start.
const QUORUM_GRACE_MS: u64 = 100;

/// At which block a question is asked.
#[derive(Clone, Copy, Debug)]
pub enum At<'a> {
    Final,
    /// The newest block, which may yet fall off the chain.
    Head,
    Hash(&'a str),
}

impl At<'_> {
    fn put(self, mut params: Value) -> Value {
        match self {
            At::Final => params["finality"] = json!("final"),
            At::Head => params["finality"] = json!("optimistic"),
            At::Hash(hash) => params["block_id"] = json!(hash),
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
    genesis: Mutex<Option<String>>,
    introduced: Mutex<Vec<bool>>,
    introduced_count: AtomicUsize,
    next_introduction_ms: Mutex<u64>,
}

pub fn unavailable(error: impl std::fmt::Display) -> RailError {
    RailError::Unavailable(error.to_string())
}

impl Nodes {
    /// `genesis` is the hash of the first block, if the configuration pins it; otherwise the
    /// endpoints must agree with the first that answers.
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
        let genesis = self.genesis.lock().get_or_insert(status.genesis_hash.clone()).clone();
        if status.genesis_hash != genesis {
            return refuse(format!("begins at {}, not {genesis}", status.genesis_hash));
        }
        self.endpoints.exclude(endpoint, None);
        let mut introduced = self.introduced.lock();
        if !std::mem::replace(&mut introduced[endpoint], true) {
            self.introduced_count.fetch_add(1, Ordering::AcqRel);
        }
        Ok(())
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

    pub async fn final_block(&self) -> Result<BlockView, RailError> {
        self.ask("block", &At::Final.put(json!({})), answer::block).await
    }

    pub async fn block_by_hash(&self, hash: &str) -> Result<BlockView, RailError> {
        self.ask("block", &At::Hash(hash).put(json!({})), answer::block).await
    }

    /// How many blocks a transaction lives.
    pub async fn validity_period(&self) -> Result<u64, RailError> {
        self.ask("genesis_config", &Value::Null, answer::validity_period).await
    }

    /// The same, as one endpoint has it.
    pub async fn validity_on(&self, endpoint: usize) -> Result<u64, RailError> {
        let answer = self.endpoints.call_on(endpoint, "genesis_config", &Value::Null).await;
        answer::validity_period(&answer.map_err(unavailable)?).map_err(unavailable)
    }

    pub async fn account(&self, account: &str) -> Result<AccountView, RailError> {
        let params = json!({"request_type": "view_account", "account_id": account});
        self.ask("query", &At::Final.put(params), answer::account).await
    }

    /// The account's full-access keys in the newest block.
    pub async fn keys_at_head(&self, account: &str) -> Result<KeysView, RailError> {
        self.ask("query", &keys_params(account, At::Head), answer::access_keys).await
    }

    /// The account's full-access keys at a final block, asked of one endpoint.
    pub async fn keys_on(&self, endpoint: usize, account: &str) -> Result<KeysView, RailError> {
        let params = keys_params(account, At::Final);
        let answer = self.endpoints.call_on(endpoint, "query", &params).await;
        answer::access_keys(&answer.map_err(unavailable)?).map_err(unavailable)
    }

    /// A view call of a contract, at a final block.
    pub async fn view(
        &self,
        contract: &str,
        method: &str,
        args: &Value,
    ) -> Result<Value, RailError> {
        let params = json!({"request_type": "call_function", "account_id": contract,
            "method_name": method, "args_base64": STANDARD.encode(args.to_string())});
        match self.ask("query", &At::Final.put(params), answer::call_function).await? {
            Queried::Found(value) => Ok(value),
            Queried::Denied(why) => Err(unavailable(format!("{method} of {contract}: {why}"))),
        }
    }

    /// Looks a transaction up on any endpoint. Returns also who answered.
    pub async fn tx(&self, hash: &str, signer: &str) -> Result<(usize, Sight), RailError> {
        self.introduce().await?;
        let params = tx_params(hash, signer);
        match self.endpoints.call("tx", &params).await {
            Ok(answer) => Ok((answer.endpoint, sight(Ok(&answer.result), hash)?)),
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

    /// An access key at a block, asked of one endpoint. None: the account has no such key there.
    pub async fn key_on(
        &self,
        endpoint: usize,
        account: &str,
        public_key: &str,
        at: At<'_>,
    ) -> Result<Option<KeyView>, RailError> {
        let params = at.put(json!({"request_type": "view_access_key",
            "account_id": account, "public_key": public_key}));
        let answer = self.endpoints.call_on(endpoint, "query", &params).await;
        let answer = answer.map_err(unavailable)?;
        match answer::access_key(&answer).map_err(unavailable)? {
            Queried::Found(key) => Ok(Some(key)),
            Queried::Denied(why) if why.contains("does not exist") => Ok(None),
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

    /// The same question to all endpoints at once, strangers introduced on the way. Returns when
    /// everybody has answered, or a quorum has and the rest was given a moment.
    pub async fn ask_quorum<T, F>(&self, ask: impl Fn(usize) -> F) -> Vec<T>
    where
        F: Future<Output = Result<T, RailError>>,
    {
        let ask = &ask;
        let one = |endpoint: usize| async move {
            for _ in 0..QUORUM_TRIES {
                let known = self.introduced.lock()[endpoint];
                if !known && self.introduce_one(endpoint).await.is_err() {
                    continue;
                }
                if let Ok(answer) = ask(endpoint).await {
                    return Some(answer);
                }
            }
            None
        };
        let mut asked: FuturesUnordered<_> = (0..self.endpoints.count()).map(one).collect();
        let mut answers = Vec::new();
        while answers.len() < self.endpoints.quorum() {
            match asked.next().await {
                Some(answer) => answers.extend(answer),
                None => return answers,
            }
        }
        let rest = async {
            while let Some(answer) = asked.next().await {
                answers.extend(answer);
            }
        };
        tokio::select! {
            biased;
            _ = rest => {}
            _ = self.clock.sleep(Duration::from_millis(QUORUM_GRACE_MS)) => {}
        }
        answers
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
