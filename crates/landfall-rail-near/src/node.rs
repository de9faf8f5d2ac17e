//! The questions this rail asks nodes, over the shared endpoints.
//!
//! Every question is a read, at a final block unless its name says otherwise, and every answer is
//! either what was asked or an error that decides nothing.
//! Not here: who is asked, and what a quorum says (`landfall-rpc`), what the answers prove
//! (`look`), broadcasting (`rail`).

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use landfall_core::clock::Clock;
use landfall_core::rail::RailError;
use landfall_rpc::{
    AtBlock, Endpoints, INTRODUCTION_MS, Introducer, Introduction, Moment, Peers, RpcError,
    unavailable,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::answer::{self, AccountView, BlockView, KeyView, Nonces, Queried, TxView, Unreadable};

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

impl From<Moment> for At<'static> {
    fn from(moment: Moment) -> At<'static> {
        match moment {
            Moment::Final => At::Final,
            Moment::Height(height) => At::Height(height),
        }
    }
}

/// A NEAR node's `status`.
struct Status;

#[async_trait]
impl Introducer for Status {
    async fn ask(&self, endpoints: &Endpoints, endpoint: usize) -> Result<Introduction, String> {
        let status = endpoints.call_on(endpoint, "status", &json!([])).await;
        let status = status.map_err(|error| error.to_string())?;
        let status = answer::status(&status).map_err(|error| error.to_string())?;
        Ok(Introduction { network: status.chain_id, first_block: status.genesis_hash })
    }
}

/// The nodes of the configured network, and the questions that they are asked.
pub struct Nodes(Peers);

impl Deref for Nodes {
    type Target = Peers;

    fn deref(&self) -> &Peers {
        &self.0
    }
}

impl Nodes {
    /// See [`Peers::new`].
    pub fn new(
        endpoints: Endpoints,
        clock: Arc<dyn Clock>,
        network: String,
        genesis: Option<String>,
    ) -> Self {
        Self(Peers::new(endpoints, clock, Status, network, genesis))
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
        let ask = async |endpoint, at: Moment| {
            let params = At::from(at).put(json!({}));
            let answer = self.endpoints.call_on(endpoint, "block", &params).await;
            let block = answer::block(&answer.map_err(unavailable)?).map_err(unavailable)?;
            Ok(AtBlock { height: block.height, value: block.hash })
        };
        self.agreed("the final block", ask).await
    }

    /// An account's balance, as a quorum has it.
    pub async fn account(&self, account: &str) -> Result<AccountView, RailError> {
        let ask = async |endpoint, at: Moment| {
            let params = json!({"request_type": "view_account", "account_id": account});
            let params = At::from(at).put(params);
            let answer = self.endpoints.call_on(endpoint, "query", &params).await;
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
        let ask = async |endpoint, at: Moment| {
            let params = view_params(contract, method, args, at.into());
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
