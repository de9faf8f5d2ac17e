//! Nodes that lie, fewer than a quorum of them, for a while or for good.
//!
//! | lie | to | what is told |
//! |---|---|---|
//! | refused | send | a refusal, half of them such as would be certain, were they true |
//! | done | send, look | FINAL success of what was never passed on, or was reverted |
//! | reverted | send, look | FINAL failure of an action, or of the transaction itself |
//! | included | send, look | in a block for ever: INCLUDED, or executed and never final |
//! | unknown | send, look, blocks | what it knows it does not know, what it is given it swallows |
//! | other | send, look | another transaction's answer, by its own name or this one's |
//! | nonces | keys, one or all | too high or low, at head, final and old blocks; no such key |
//! | heights | blocks, status, queries | too high or too low; blocks that are not there |
//! | chunks | blocks, chunks | a transaction left out of its block, or put into another |
//! | contract | views, balances | registered or not, rich or poor, absurd deposits |
//! | chain | status, genesis | another network or genesis, another life of transactions |
//! | replay | all but sends | the first answer to the same question, again |
//!
//! Where a transaction is said to be: its true block, another one, an invented one, or none. What a
//! liar is given it passes on at once, later, or never, and perhaps again, out of spite.
//!
//! Liars share one memory: they tell the same tale of the same transaction, until they feel like
//! another. To whom a tale is told is part of it: to looks, to sends, or to both.
//! **Rule:** who lies in a run is settled by its plan. A node that lied and one that lies now would
//! be two liars to whoever asks both.
//! Not here: how answers are forged (`forge`), when liars lie (`chaos`).

mod forge;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::Clock;
use landfall_sim_near::rpc::{self, Answer, Body};
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::plan::Lies;
use crate::near::network::{Honest, Liar, Network};
use crate::plan::Plan;
use crate::seat::Dice;
use forge::{Tale, Told};

/// Bytes are kept back for at most so long.
const KEPT_BACK_MS: u64 = 120_000;
/// Blocks until bytes that were passed on are final, or will never be.
const LANDING_BLOCKS: u64 = 6;
/// A tale is told again so many times out of so many, where it could be another.
const FAITHFUL: (u64, u64) = (9, 10);
/// One of so many answers of a liar goes with bytes that it passes on out of spite.
const SPITE: u64 = 40;

/// When bytes that a liar is given reach the ledger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassedOn {
    AtOnce,
    Later,
    Never,
}

/// What all liars of a run know.
#[derive(Default)]
struct Memory {
    /// What they were given.
    bytes: BTreeMap<CryptoHash, Arc<SignedTransaction>>,
    tales: BTreeMap<CryptoHash, Tale>,
    /// The first answers, by question.
    answers: BTreeMap<String, Answer>,
    /// By how much a key's nonce is told wrong.
    skews: BTreeMap<String, i64>,
}

/// The liars of a run, in concert.
pub struct Liars {
    plan: Arc<Plan>,
    dice: Arc<Dice>,
    clock: Arc<dyn Clock>,
    network: Weak<Network>,
    lying: AtomicBool,
    /// Bytes that are kept back and will be passed on.
    pub kept_back: Arc<AtomicUsize>,
    memory: Mutex<Memory>,
}

impl Liars {
    /// Puts the plan's liars into their nodes.
    pub fn settle(
        plan: &Arc<Plan>,
        dice: &Arc<Dice>,
        clock: &Arc<dyn Clock>,
        network: &Arc<Network>,
    ) -> Arc<Liars> {
        let liars = Arc::new(Liars {
            plan: plan.clone(),
            dice: dice.clone(),
            clock: clock.clone(),
            network: Arc::downgrade(network),
            lying: AtomicBool::new(plan.near.for_good),
            kept_back: Arc::default(),
            memory: Mutex::default(),
        });
        for node in (0..plan.near.nodes).filter(|node| plan.near.lies_at(*node)) {
            network.node(node, |switch| switch.liar = Some(liars.clone()));
        }
        liars
    }

    pub fn lie(&self, lying: bool) {
        self.lying.store(lying, Ordering::Relaxed);
    }

    fn lies(&self) -> &Lies {
        &self.plan.near.lies
    }

    /// Chance that knows no calm: a liar for good lies on.
    fn chance(&self, rate: f64) -> bool {
        const FINE: u64 = 1_000_000;
        rate > 0.0 && self.dice.between(1, FINE) <= (rate * FINE as f64) as u64
    }

    fn one_in(&self, many: u64) -> bool {
        self.dice.between(1, many) == 1
    }

    fn remember(&self, signed: &Arc<SignedTransaction>) {
        self.memory.lock().bytes.insert(*signed.hash(), signed.clone());
    }

    /// Something that they were given, if they were given anything.
    fn some_bytes(&self) -> Option<Arc<SignedTransaction>> {
        let memory = self.memory.lock();
        let last = (memory.bytes.len() as u64).checked_sub(1)?;
        memory.bytes.values().nth(self.dice.between(0, last) as usize).cloned()
    }

    fn pass_on(&self, signed: &Arc<SignedTransaction>, when: PassedOn) {
        let Some(network) = self.network.upgrade() else { return };
        match when {
            PassedOn::Never => {}
            PassedOn::AtOnce => network.ledger.lock().submit(signed.clone()),
            PassedOn::Later => {
                let after_ms = self.dice.between(100, KEPT_BACK_MS);
                let landed_ms = LANDING_BLOCKS * self.plan.near.block_ms;
                let (clock, signed) = (self.clock.clone(), signed.clone());
                let (network, kept_back) = (self.network.clone(), self.kept_back.clone());
                kept_back.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    clock.sleep(Duration::from_millis(after_ms)).await;
                    if let Some(network) = network.upgrade() {
                        network.ledger.lock().submit(signed);
                    }
                    clock.sleep(Duration::from_millis(landed_ms)).await;
                    kept_back.fetch_sub(1, Ordering::Relaxed);
                });
            }
        }
    }

    /// Passes on whatever they were ever given.
    pub fn send_on(&self) {
        let all: Vec<_> = self.memory.lock().bytes.values().cloned().collect();
        all.iter().for_each(|signed| self.pass_on(signed, PassedOn::AtOnce));
    }

    fn when(&self) -> PassedOn {
        match self.dice.between(0, 2) {
            0 => PassedOn::AtOnce,
            1 => PassedOn::Later,
            _ => PassedOn::Never,
        }
    }

    /// What this transaction is said to have come to, if they lie about it now.
    fn tale(&self, hash: &CryptoHash, signed: Option<&SignedTransaction>) -> Option<Tale> {
        let known = self.memory.lock().tales.get(hash).cloned();
        if let Some(tale) = known
            && self.dice.between(1, FAITHFUL.1) <= FAITHFUL.0
        {
            return Some(tale);
        }
        let told = self.what_is_told()?;
        let network = self.network.upgrade()?;
        let tale = Tale::invent(told, &self.dice, &network.ledger.lock(), hash, signed);
        self.memory.lock().tales.insert(*hash, tale.clone());
        Some(tale)
    }

    fn what_is_told(&self) -> Option<Told> {
        let lies = self.lies();
        let kinds = [
            (lies.done, Told::Done),
            (lies.reverted, Told::Reverted),
            (lies.included, Told::Included),
            (lies.unknown, Told::Unknown),
            (lies.other, Told::Other),
        ];
        // Whoever comes first would be told most often.
        let first = self.dice.between(0, kinds.len() as u64 - 1) as usize;
        let mut kinds = (0..kinds.len()).map(|index| kinds[(first + index) % kinds.len()]);
        kinds.find(|(rate, _)| self.chance(*rate)).map(|(_, told)| told)
    }

    async fn sent(&self, node: &Honest<'_>, request: &Value) -> Answer {
        let Some(signed) = rpc::signed_in(request).map(Arc::new) else {
            return node.answer(request).await;
        };
        self.remember(&signed);
        if self.chance(self.lies().refused) {
            self.pass_on(&signed, self.when());
            return forge::refusal(&self.dice, request, &signed);
        }
        match self.tale(signed.hash(), Some(&signed)).filter(|tale| tale.to_send) {
            Some(tale) => {
                self.pass_on(&signed, self.when());
                self.tell(node, request, signed.hash(), &tale).await
            }
            None => node.answer(request).await,
        }
    }

    async fn looked(&self, node: &Honest<'_>, request: &Value) -> Answer {
        let hash = request["params"]["tx_hash"].as_str().and_then(|hash| hash.parse().ok());
        let Some(hash) = hash else { return node.answer(request).await };
        let signed = self.memory.lock().bytes.get(&hash).cloned();
        match self.tale(&hash, signed.as_deref()).filter(|tale| tale.to_look) {
            Some(tale) => self.tell(node, request, &hash, &tale).await,
            None => self.repeat(request, node.answer(request).await),
        }
    }

    async fn tell(
        &self,
        node: &Honest<'_>,
        request: &Value,
        hash: &CryptoHash,
        tale: &Tale,
    ) -> Answer {
        if let (Told::Other, Some(other)) = (tale.told, self.some_bytes()) {
            let about_it = json!({"jsonrpc": "2.0", "id": request["id"], "method": "tx", "params": {
                "tx_hash": other.hash(), "sender_account_id": other.transaction.signer_id(),
                "wait_until": "NONE",
            }});
            let answer = node.answer(&about_it).await;
            return if tale.pasted { forge::under_the_name(answer, hash) } else { answer };
        }
        let signed = self.memory.lock().bytes.get(hash).cloned();
        // Of what they never saw they know the name alone.
        match signed.or_else(|| self.some_bytes()) {
            Some(signed) => tale.answer(request, hash, &signed),
            None => node.answer(request).await,
        }
    }

    /// The first answer to this question, again, or this one.
    fn repeat(&self, request: &Value, answer: Answer) -> Answer {
        let question = format!("{} {}", rpc::method_of(request), request["params"]);
        let old = self.memory.lock().answers.entry(question).or_insert(answer.clone()).clone();
        match self.chance(self.lies().replay) {
            true => forge::with_id(old, request),
            false => answer,
        }
    }

    /// By how much this key's nonce is told wrong.
    fn skew(&self, key: &str) -> i64 {
        let known = self.memory.lock().skews.get(key).copied();
        if let Some(skew) = known.filter(|_| !self.one_in(FAITHFUL.1)) {
            return skew;
        }
        let far = self.dice.between(1, 5_000) as i64;
        let skews = [1, 2, 5, far, 1_000_000_000_000, -1, -2, -far];
        let skew = skews[self.dice.between(0, skews.len() as u64 - 1) as usize];
        self.memory.lock().skews.insert(key.to_owned(), skew);
        skew
    }

    async fn asked(&self, node: &Honest<'_>, request: &Value) -> Answer {
        let answer = node.answer(request).await;
        let mut answer = self.repeat(request, answer);
        let Body::Json(body) = &mut answer.body else { return answer };
        let (lies, params) = (self.lies(), &request["params"]);
        let method = rpc::method_of(request);
        let about_block = matches!(method, "block" | "chunk") && !params["block_id"].is_null();
        if about_block && self.chance(lies.unknown) {
            return forge::unknown_block(request);
        }
        let result = &mut body["result"];
        if result.is_null() {
            return answer;
        }
        match method {
            "query" => self.twist_query(params, result),
            "block" => self.twist_block(result),
            "chunk" if self.chance(lies.chunks) => {
                forge::twist_chunk(&self.dice, result, self.some_bytes());
            }
            "status" => self.twist_status(result),
            "genesis_config" if self.chance(lies.chain) => {
                forge::twist_validity(&self.dice, result);
            }
            _ => {}
        }
        answer
    }

    fn twist_query(&self, params: &Value, result: &mut Value) {
        let lies = self.lies();
        if self.chance(lies.heights) {
            forge::twist_number(&self.dice, &mut result["block_height"]);
        }
        match params["request_type"].as_str() {
            Some("view_access_key") if self.chance(lies.nonces) => {
                let key = params["public_key"].as_str().unwrap_or_default();
                match self.one_in(FAITHFUL.1) {
                    true => forge::no_such_key(result, key),
                    false => forge::skew(&mut result["nonce"], self.skew(key)),
                }
            }
            Some("view_access_key_list") if self.chance(lies.nonces) => {
                for one in result["keys"].as_array_mut().into_iter().flatten() {
                    let skew = self.skew(one["public_key"].as_str().unwrap_or_default());
                    forge::skew(&mut one["access_key"]["nonce"], skew);
                }
            }
            Some("view_account") if self.chance(lies.contract) => {
                let amount = if self.one_in(2) { "0" } else { forge::ABSURD };
                result["amount"] = json!(amount);
            }
            Some("call_function") if self.chance(lies.contract) => {
                let method = params["method_name"].as_str().unwrap_or_default();
                forge::twist_view(&self.dice, method, result);
            }
            _ => {}
        }
    }

    fn twist_block(&self, result: &mut Value) {
        let lies = self.lies();
        if self.chance(lies.heights) {
            forge::twist_header(&self.dice, &mut result["header"]);
        }
        if self.chance(lies.chunks) {
            forge::hide_chunks(&self.dice, result);
        }
    }

    fn twist_status(&self, result: &mut Value) {
        let lies = self.lies();
        if self.chance(lies.heights) {
            forge::twist_number(&self.dice, &mut result["sync_info"]["latest_block_height"]);
        }
        if self.chance(lies.chain) {
            let field = if self.one_in(2) { "chain_id" } else { "genesis_hash" };
            result[field] = json!(forge::invented(&self.dice).to_string());
        }
    }
}

#[async_trait]
impl Liar for Liars {
    async fn answer(&self, node: Honest<'_>, request: &Value) -> Answer {
        if !self.lying.load(Ordering::Relaxed) {
            return node.answer(request).await;
        }
        if self.one_in(SPITE)
            && let Some(signed) = self.some_bytes()
        {
            self.pass_on(&signed, PassedOn::AtOnce);
        }
        match rpc::method_of(request) {
            "send_tx" => self.sent(&node, request).await,
            "tx" => self.looked(&node, request).await,
            _ => self.asked(&node, request).await,
        }
    }
}

#[cfg(test)]
mod tests;
