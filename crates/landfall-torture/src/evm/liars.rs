//! Nodes that lie, fewer than a quorum of them, for a while or for good.
//!
//! | lie | to | what is told |
//! |---|---|---|
//! | refused | sends | a refusal that would be certain, were it true |
//! | done, reverted | receipts, blocks | in a block that does not hold it, or with the other end |
//! | unknown | receipts, blocks | what is in a block is in none |
//! | finality | blocks by their tags | the newest block is final; the chain is longer than it is |
//! | nonces | counts | too high or too low |
//! | fees | fees, balances | absurd, or none |
//! | tried | estimates, calls | it would fail; it takes next to no gas |
//! | chain | the chain's id | another network |
//!
//! What a liar is given it passes on at once, later, or never. Liars share one memory: they tell
//! the same tale of the same transaction.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use alloy_primitives::{B256, Bytes, keccak256};
use landfall_core::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::network::Network;
use super::plan::Lies;
use crate::plan::Plan;
use crate::seat::Dice;

/// Bytes are kept back for at most so long.
const KEPT_BACK_MS: u64 = 120_000;
/// Words that would be certain, were a quorum to say them.
const REFUSALS: [&str; 3] =
    ["invalid sender", "exceeds block gas limit", "intrinsic gas too low: gas 1, minimum needed 2"];

/// What is told of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    Reverted,
    Unknown,
}

/// In which block it is said to be.
#[derive(Clone, Copy)]
struct Tale {
    told: Told,
    number: u64,
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
    tales: Mutex<BTreeMap<B256, Tale>>,
}

impl Liars {
    pub fn new(
        plan: Arc<Plan>,
        dice: Arc<Dice>,
        clock: Arc<dyn Clock>,
        network: Weak<Network>,
    ) -> Liars {
        let lying = AtomicBool::new(plan.evm.for_good);
        Liars {
            plan,
            dice,
            clock,
            network,
            lying,
            kept_back: Arc::default(),
            tales: Mutex::default(),
        }
    }

    pub fn lie(&self, lying: bool) {
        self.lying.store(lying, Ordering::Relaxed);
    }

    fn lies(&self) -> &Lies {
        &self.plan.evm.lies
    }

    /// Chance that knows no calm: a liar for good lies on.
    fn chance(&self, rate: f64) -> bool {
        rate > 0.0 && (self.dice.between(0, 999) as f64) < rate * 1_000.0
    }

    /// What a liar answers in the place of node `index`.
    pub fn answer(&self, network: &Network, index: usize, request: &Value) -> Value {
        if !self.lying.load(Ordering::Relaxed) {
            return network.answer(index, request);
        }
        let method = request["method"].as_str().unwrap_or_default();
        if method == "eth_sendRawTransaction" {
            return self.sent(network, index, request);
        }
        let request = &self.misread(method, request);
        let mut answer = network.answer(index, request);
        let lies = self.lies();
        match method {
            "eth_getBlockByNumber" | "eth_getBlockByHash" => {
                self.twist_block(&mut answer["result"])
            }
            "eth_getBlockReceipts" => self.twist_receipts(network, request, &mut answer["result"]),
            "eth_getTransactionReceipt" => {
                self.twist_receipt(network, request, &mut answer["result"]);
            }
            "eth_getTransactionCount" if self.chance(lies.nonces) => {
                skew(&self.dice, &mut answer["result"]);
            }
            "eth_getBalance" | "eth_gasPrice" if self.chance(lies.fees) => {
                let absurd = ["0x0", "0x1", "0xffffffffffffffffffff"];
                answer["result"] = json!(absurd[self.dice.between(0, 2) as usize]);
            }
            "eth_feeHistory" if self.chance(lies.fees) => self.twist_fees(&mut answer["result"]),
            "eth_estimateGas" | "eth_call" if self.chance(lies.tried) => {
                answer = self.twist_trial(request);
            }
            "eth_chainId" if self.chance(lies.chain) => answer["result"] = json!("0x1"),
            _ => {}
        }
        answer
    }

    /// What is asked of the newest final block is answered with the newest of all.
    fn misread(&self, method: &str, request: &Value) -> Value {
        let mut misread = request.clone();
        let tag = misread.pointer_mut("/params/0").filter(|_| method == "eth_getBlockByNumber");
        let tag = tag.filter(|tag| *tag == "finalized" || *tag == "safe");
        if let Some(tag) = tag.filter(|_| self.chance(self.lies().finality)) {
            *tag = json!("latest");
        }
        misread
    }

    fn sent(&self, network: &Network, index: usize, request: &Value) -> Value {
        let raw: Option<Bytes> = serde_json::from_value(request["params"][0].clone()).ok();
        let Some(raw) = raw else { return network.answer(index, request) };
        let hash = keccak256(&raw);
        if self.chance(self.lies().refused) {
            self.pass_on(network, index, request);
            let words = REFUSALS[self.dice.between(0, REFUSALS.len() as u64 - 1) as usize];
            return error(request, -32_000, words);
        }
        let Some(told) = self.what_is_told() else { return network.answer(index, request) };
        let number = network.ledger.lock().height();
        self.tales.lock().insert(hash, Tale { told, number });
        self.pass_on(network, index, request);
        json!({"jsonrpc": "2.0", "id": request["id"], "result": hash})
    }

    fn what_is_told(&self) -> Option<Told> {
        let lies = self.lies();
        let kinds = [
            (lies.done, Told::Done),
            (lies.reverted, Told::Reverted),
            (lies.unknown, Told::Unknown),
        ];
        // Whoever comes first would be told most often.
        let first = self.dice.between(0, kinds.len() as u64 - 1) as usize;
        let mut kinds = (0..kinds.len()).map(|index| kinds[(first + index) % kinds.len()]);
        kinds.find(|(rate, _)| self.chance(*rate)).map(|(_, told)| told)
    }

    /// At once, later, or never.
    fn pass_on(&self, network: &Network, index: usize, request: &Value) {
        match self.dice.between(0, 2) {
            0 => drop(network.answer(index, request)),
            1 => {
                let after = Duration::from_millis(self.dice.between(500, KEPT_BACK_MS));
                let (clock, network) = (self.clock.clone(), self.network.clone());
                let (request, kept_back) = (request.clone(), self.kept_back.clone());
                kept_back.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(async move {
                    clock.sleep(after).await;
                    if let Some(network) = network.upgrade() {
                        network.answer(index, &request);
                    }
                    kept_back.fetch_sub(1, Ordering::Relaxed);
                });
            }
            _ => {}
        }
    }

    /// Puts what is told to be in the block into it, and takes what is not out.
    fn twist_block(&self, block: &mut Value) {
        let Some(number) = number_in(&block["number"]) else { return };
        let tales = self.tales.lock();
        let Some(holds) = block["transactions"].as_array_mut() else { return };
        let named =
            |one: &Value| one.as_str().or(one["hash"].as_str()).and_then(|hash| hash.parse().ok());
        let hidden = |one: &Value| {
            let tale = named(one).and_then(|hash: B256| tales.get(&hash));
            tale.is_some_and(|tale| tale.told == Told::Unknown || tale.number != number)
        };
        holds.retain(|one| !hidden(one));
        let whole = holds.iter().any(Value::is_object);
        for (hash, tale) in tales.iter().filter(|_| !whole) {
            let told = json!(hash);
            if tale.told != Told::Unknown && tale.number == number && !holds.contains(&told) {
                holds.push(told);
            }
        }
        drop(tales);
        if self.chance(self.lies().finality / 4.0) {
            block["number"] = json!(format!("{:#x}", number + self.dice.between(1, 50)));
        }
    }

    fn twist_receipts(&self, network: &Network, request: &Value, receipts: &mut Value) {
        let Some(number) = number_in(&request["params"][0]) else { return };
        let Some(receipts) = receipts.as_array_mut() else { return };
        let tales = self.tales.lock();
        let of = |one: &Value| one["transactionHash"].as_str().and_then(|hash| hash.parse().ok());
        receipts.retain(|one| of(one).is_none_or(|hash: B256| !tales.contains_key(&hash)));
        for (hash, tale) in tales.iter().filter(|(_, tale)| tale.number == number) {
            receipts.extend(forged(network, hash, tale));
        }
    }

    fn twist_receipt(&self, network: &Network, request: &Value, receipt: &mut Value) {
        let hash = request["params"][0].as_str().and_then(|hash| hash.parse().ok());
        let Some(hash): Option<B256> = hash else { return };
        if let Some(tale) = self.tales.lock().get(&hash) {
            *receipt = forged(network, &hash, tale).unwrap_or_default();
        }
    }

    fn twist_fees(&self, history: &mut Value) {
        let absurd = ["0x0", "0x1", "0xffffffffffffffff"][self.dice.between(0, 2) as usize];
        for fee in history["baseFeePerGas"].as_array_mut().into_iter().flatten() {
            *fee = json!(absurd);
        }
        let rewards = history["reward"].as_array_mut().into_iter().flatten();
        for tip in rewards.filter_map(Value::as_array_mut).flatten() {
            *tip = json!(absurd);
        }
    }

    fn twist_trial(&self, request: &Value) -> Value {
        match self.dice.between(0, 1) {
            0 => error(request, 3, "execution reverted: no"),
            _ => json!({"jsonrpc": "2.0", "id": request["id"], "result": "0x5208"}),
        }
    }
}

/// The receipt of a tale; none where it is told to be in no block.
fn forged(network: &Network, hash: &B256, tale: &Tale) -> Option<Value> {
    let status = match tale.told {
        Told::Done => "0x1",
        Told::Reverted => "0x0",
        Told::Unknown => return None,
    };
    let ledger = network.ledger.lock();
    let block = ledger.block(tale.number)?;
    Some(json!({
        "transactionHash": hash, "blockHash": block.hash,
        "blockNumber": format!("{:#x}", tale.number),
        "from": ledger.genesis().signers[0], "status": status, "gasUsed": "0x5208",
    }))
}

fn error(request: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})
}

fn number_in(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn skew(dice: &Dice, count: &mut Value) {
    let Some(true_count) = number_in(count) else { return };
    let far = dice.between(1, 5_000);
    let told = match dice.between(0, 3) {
        0 => true_count + 1,
        1 => true_count + far,
        2 => true_count.saturating_sub(1),
        _ => true_count.saturating_sub(far),
    };
    *count = json!(format!("{told:#x}"));
}
