//! The next block, and taking blocks back.
//!
//! A block applies decrees, then its chunk's transactions, then receipts (local, delayed,
//! incoming) while there is gas; then the next chunk is chosen from the pool.
//! **Invariant:** a block depends on its [`BlockInput`] and the ledger before it alone, so a chain
//! is rebuilt by giving its inputs again.
//! **Invariant:** a final block is never taken back.

use std::sync::Arc;

use near_primitives::account::AccessKey;
use near_primitives::errors::{InvalidTxError, TxExecutionError};
use near_primitives::gas::Gas as NearGas;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::Balance;
use near_primitives::views::{ExecutionMetadataView, ExecutionOutcomeView, ExecutionStatusView};

use super::block::{Block, FINALITY_BLOCKS};
use super::execute::{self, Place};
use super::fees::{self, Gas, TGAS};
use super::pool::Taken;
use super::record::{Ran, Receipt, Record, Run, Work};
use super::state::{Slot, Value};
use super::verify;
use super::{Decree, Ledger, Rewind, Transfer};

/// Gas that turning transactions into receipts may take of a chunk (`max_tx_gas`).
const CHUNK_TRANSACTION_GAS: u64 = 500 * TGAS;

/// What a block was made from: enough to make it again.
#[derive(Clone, Debug, Default)]
pub struct BlockInput {
    pub timestamp_ns: u64,
    pub decrees: Vec<Decree>,
    /// Transactions of its chunk that fail as transactions.
    pub refused: Vec<CryptoHash>,
    /// The chunk chosen for the block after it.
    pub next_chunk: Vec<Arc<SignedTransaction>>,
}

/// A block that was made.
#[derive(Clone, Debug)]
pub struct Produced {
    pub block: Arc<Block>,
    pub input: BlockInput,
}

/// The work of one block, until its hash is known.
struct Draft {
    place_height: u64,
    gas_used: u64,
    /// (transaction, outcome, first receipt's id)
    applied: Vec<(CryptoHash, ExecutionOutcomeView)>,
    /// (transaction, receipt, outcome)
    ran: Vec<(CryptoHash, CryptoHash, ExecutionOutcomeView)>,
    outgoing: Vec<Arc<Receipt>>,
}

impl Ledger {
    /// Makes the next block and chooses the chunk after it from the pool.
    pub fn produce(&mut self, timestamp_ns: u64) -> Produced {
        let decrees = std::mem::take(&mut self.decrees);
        let chosen = self.refusals.count.min(self.queues.chunk.len() as u64);
        self.refusals.count -= chosen;
        let unlucky = self.queues.chunk.iter().take(chosen as usize);
        let refused: Vec<Arc<SignedTransaction>> = unlucky.cloned().collect();
        let mut input = BlockInput {
            timestamp_ns,
            decrees,
            refused: refused.iter().map(|signed| *signed.hash()).collect(),
            next_chunk: Vec::new(),
        };
        let block = self.apply(&input);
        if self.refusals.again {
            refused.into_iter().for_each(|signed| self.pool.insert(signed));
        }
        input.next_chunk = self.choose();
        let again = self.landed_before(&input.next_chunk);
        input.next_chunk.extend(again);
        self.adopt(&input.next_chunk);
        Produced { block, input }
    }

    /// Makes a block again from what it was made of.
    pub fn replay(&mut self, input: &BlockInput) -> Arc<Block> {
        self.decrees.clear();
        let block = self.apply(input);
        self.adopt(&input.next_chunk);
        block
    }

    /// Drops the last `depth` blocks, none of them final. Their transactions go back to the pool,
    /// or are forgotten when `drop` says so. Returns how many blocks were dropped.
    pub fn reorg(&mut self, depth: u64, drop: bool) -> u64 {
        let depth = depth.min(self.rewinds.len() as u64);
        if depth == 0 {
            return 0;
        }
        let mut homeless = std::mem::take(&mut self.queues.chunk);
        for _ in 0..depth {
            let (block, before) = self.chain.pop();
            homeless.extend(block.transactions.iter().cloned());
            self.state.undo(before);
            let rewind = self.rewinds.pop_back().expect("one for each block not final");
            self.queues = rewind.queues;
            self.decrees.splice(0..0, rewind.decrees);
        }
        self.queues.chunk.clear();
        self.forks += 1;
        let height = self.height();
        for signed in &homeless {
            if let Some(record) = self.records.get_mut(signed.hash())
                && !record.rewind(height)
            {
                self.records.remove(signed.hash());
            }
        }
        // Receipts of earlier blocks may have run in a dropped one.
        self.records.values_mut().for_each(|record| {
            record.rewind(height);
        });
        self.transfers.retain(|transfer| transfer.block <= height);
        if !drop {
            homeless.into_iter().for_each(|signed| self.pool.insert(signed));
        }
        depth
    }

    fn apply(&mut self, input: &BlockInput) -> Arc<Block> {
        let prev = self.chain.head().clone();
        let before = self.queues.clone();
        let height = prev.height + 1;
        let mut draft = Draft {
            place_height: height,
            gas_used: 0,
            applied: Vec::new(),
            ran: Vec::new(),
            outgoing: Vec::new(),
        };
        self.obey(&input.decrees);
        let chunk = std::mem::take(&mut self.queues.chunk);
        let mut local = Vec::new();
        for signed in &chunk {
            let refused = input.refused.contains(signed.hash());
            self.apply_transaction(signed, refused, prev.hash, &mut draft, &mut local);
        }
        self.run_receipts(local, prev.hash, &mut draft);
        let block =
            Block::seal(height, prev.hash, self.forks, input.timestamp_ns, chunk, draft.gas_used);
        self.note(&block, &draft);
        self.queues.incoming = draft.outgoing;
        let delta = self.state.seal();
        self.chain.push(block, delta);
        self.rewinds.push_back(Rewind { queues: before, decrees: input.decrees.clone() });
        if self.rewinds.len() as u64 > FINALITY_BLOCKS {
            self.rewinds.pop_front();
        }
        self.final_height = self.final_height.max(height.saturating_sub(FINALITY_BLOCKS));
        self.collect();
        self.chain.head().clone()
    }

    fn apply_transaction(
        &mut self,
        signed: &Arc<SignedTransaction>,
        refused: bool,
        prev_hash: CryptoHash,
        draft: &mut Draft,
        local: &mut Vec<Arc<Receipt>>,
    ) {
        let state = &self.state;
        let height = Some(draft.place_height);
        let charge = match verify::charge(|slot| state.get(slot).cloned(), signed, height) {
            Ok(charge) if !refused => charge,
            Ok(charge) => return draft.refuse(signed, not_enough(signed, charge.gas)),
            Err(error) => return draft.refuse(signed, error),
        };
        let gas = charge.gas;
        self.state.begin();
        verify::take(&mut self.state, signed, charge);
        self.state.commit();
        let receipt = Arc::new(Receipt {
            id: execute::receipt_id(signed.hash(), &self.place(draft.place_height, prev_hash), 0),
            origin: *signed.hash(),
            predecessor_id: signed.transaction.signer_id().clone(),
            receiver_id: signed.transaction.receiver_id().clone(),
            work: Work::Actions(signed.clone()),
            prepaid_gas: gas.prepaid(),
            gas_payer: signed.transaction.signer_id().clone(),
            refund: false,
        });
        draft.gas_used += gas.send;
        let status = ExecutionStatusView::SuccessReceiptId(receipt.id);
        let outcome = transaction_outcome(signed, gas.send, vec![receipt.id], status);
        draft.applied.push((*signed.hash(), outcome));
        if let Some(record) = self.records.get_mut(signed.hash()) {
            record.last_run().expect(receipt.clone(), draft.place_height);
        }
        if signed.transaction.signer_id() == signed.transaction.receiver_id() {
            local.push(receipt);
        } else {
            draft.outgoing.push(receipt);
        }
    }

    /// Runs receipts while there is gas; the others are delayed to the next block.
    fn run_receipts(&mut self, local: Vec<Arc<Receipt>>, prev_hash: CryptoHash, draft: &mut Draft) {
        let limit = self.genesis.settings.chunk_gas.unwrap_or(u64::MAX);
        let delayed = std::mem::take(&mut self.queues.delayed);
        let incoming = std::mem::take(&mut self.queues.incoming);
        for receipt in local.into_iter().chain(delayed).chain(incoming) {
            if draft.gas_used >= limit {
                self.queues.delayed.push_back(receipt);
                continue;
            }
            self.run_receipt(&receipt, prev_hash, draft);
        }
    }

    fn run_receipt(&mut self, receipt: &Receipt, prev_hash: CryptoHash, draft: &mut Draft) {
        let place = Place {
            token: &self.genesis.token,
            system: &self.system,
            height: draft.place_height,
            prev_hash,
            code_hash: self.code_hash,
        };
        let effects = execute::run(&mut self.state, receipt, &place);
        draft.gas_used += effects.outcome.gas_burnt.as_gas();
        for made in effects.receipts {
            let made = Arc::new(made);
            let record = self.records.get_mut(&receipt.origin);
            if let Some(run) = record.and_then(|record| record.run_of(&receipt.id)) {
                run.expect(made.clone(), draft.place_height);
            }
            draft.outgoing.push(made);
        }
        draft.ran.push((receipt.origin, receipt.id, effects.outcome));
        if let Work::Actions(signed) = &receipt.work {
            let nonce = signed.transaction.nonce().nonce();
            self.transfers.extend(effects.moved.into_iter().map(|moved| Transfer {
                receiver_id: moved.receiver_id,
                amount: moved.amount,
                memo: moved.memo,
                tx_hash: receipt.origin,
                nonce,
                block: draft.place_height,
            }));
        }
    }

    fn place(&self, height: u64, prev_hash: CryptoHash) -> Place<'_> {
        let (token, system) = (&self.genesis.token, &self.system);
        Place { token, system, height, prev_hash, code_hash: self.code_hash }
    }

    /// Writes the outcomes of a block into the records.
    fn note(&mut self, block: &Block, draft: &Draft) {
        let ran = |outcome: &ExecutionOutcomeView| Ran {
            height: block.height,
            block_hash: block.hash,
            outcome: outcome.clone(),
        };
        for (hash, outcome) in &draft.applied {
            if let Some(record) = self.records.get_mut(hash) {
                record.last_run().ran = Some(ran(outcome));
            }
        }
        for (origin, id, outcome) in &draft.ran {
            let run = self.records.get_mut(origin).and_then(|record| record.run_of(id));
            let Some(run) = run else { continue };
            if let Some(receipt) = run.receipts.iter_mut().find(|one| &one.receipt.id == id) {
                receipt.ran = Some(ran(outcome));
            }
        }
    }

    /// Chooses the next chunk: what is valid now, in order, up to the chunk's gas.
    fn choose(&mut self) -> Vec<Arc<SignedTransaction>> {
        let limit = self.genesis.settings.chunk_gas.map(|_| CHUNK_TRANSACTION_GAS);
        let next_height = self.height() + 1;
        let head = self.height();
        let (state, chain) = (&mut self.state, &self.chain);
        let validity = self.genesis.settings.validity_blocks;
        let mut chosen = Vec::new();
        let mut gas_used = 0;
        state.begin();
        self.pool.drain(|signed| {
            if limit.is_some_and(|limit| gas_used >= limit) {
                return Taken::Full;
            }
            let base = chain.canonical_height(signed.transaction.block_hash());
            if base.is_none_or(|base| head - base > validity) {
                return Taken::Dropped;
            }
            let height = Some(next_height);
            match verify::charge(|slot| state.get(slot).cloned(), signed, height) {
                Ok(charge) => {
                    gas_used += charge.gas.send;
                    verify::take(state, signed, charge);
                    chosen.push(signed.clone());
                    Taken::Yes
                }
                Err(_) => Taken::Dropped,
            }
        });
        state.rollback();
        chosen
    }

    /// What is to be included although it landed: the latest that did, each once.
    fn landed_before(&mut self, chunk: &[Arc<SignedTransaction>]) -> Vec<Arc<SignedTransaction>> {
        let wanted = std::mem::take(&mut self.inclusions) as usize;
        let heights = (self.chain.earliest().height..=self.height()).rev();
        let blocks = heights.filter_map(|height| self.chain.at(height));
        let once = |signed: &&Arc<SignedTransaction>| {
            let record = self.records.get(signed.hash());
            let landed =
                record.is_some_and(|record| record.runs.len() == 1 && record.landed().is_some());
            landed && !chunk.iter().any(|other| other.hash() == signed.hash())
        };
        let landed = blocks.flat_map(|block| &block.transactions).filter(once);
        landed.take(wanted).cloned().collect()
    }

    /// Makes a chunk the next one: from here on its transactions are seen as included.
    fn adopt(&mut self, chunk: &[Arc<SignedTransaction>]) {
        let height = self.height() + 1;
        for signed in chunk {
            self.pool.remove(signed);
            let record = self
                .records
                .entry(*signed.hash())
                .or_insert_with(|| Record { signed: signed.clone(), runs: Vec::new() });
            record.runs.push(Run { height, ran: None, receipts: Vec::new() });
        }
        self.queues.chunk = chunk.to_vec();
    }

    fn collect(&mut self) {
        let gone = self.chain.collect(self.genesis.settings.history_blocks);
        let Some(last) = gone.last() else { return };
        let height = last.height;
        let gone_with_it = |run: &Run| {
            run.height <= height
                && run.settled_height().is_some_and(|last| last <= height + FINALITY_BLOCKS)
        };
        for signed in gone.iter().flat_map(|block| &block.transactions) {
            let Some(record) = self.records.get_mut(signed.hash()) else { continue };
            record.runs.retain(|run| !gone_with_it(run));
            if record.runs.is_empty() {
                self.records.remove(signed.hash());
            }
        }
    }

    fn obey(&mut self, decrees: &[Decree]) {
        self.state.begin();
        for decree in decrees {
            match decree {
                Decree::Mint { account_id, amount } => {
                    let held = self.state.amount(&Slot::Token(account_id.clone())).unwrap_or(0);
                    self.set_tokens(Slot::Token(account_id.clone()), Some(held + amount));
                }
                Decree::SetTokens { account_id, amount } => {
                    self.set_tokens(Slot::Token(account_id.clone()), Some(*amount));
                }
                Decree::Unregister { account_id } => {
                    self.set_tokens(Slot::Token(account_id.clone()), None);
                }
                Decree::Register { account_ids } => {
                    for account_id in account_ids {
                        let slot = Slot::Token(account_id.clone());
                        if self.state.amount(&slot).is_none() {
                            self.state.set_amount(slot, 0);
                        }
                    }
                }
                Decree::Fund { account_id, amount } => {
                    let slot = Slot::Near(account_id.clone());
                    let held = self.state.amount(&slot).unwrap_or(0);
                    self.state.set_amount(slot, held.saturating_add(*amount));
                }
                Decree::SetNear { account_id, amount } => {
                    self.state.set_amount(Slot::Near(account_id.clone()), *amount);
                }
                Decree::Burn { account_id, amount } => {
                    let slot = Slot::Token(account_id.clone());
                    let held = self.state.amount(&slot).unwrap_or(0);
                    self.set_tokens(slot, Some(held.saturating_sub(*amount)));
                }
                Decree::Spurn { account_id, spurned } => {
                    let slot = Slot::Spurned(account_id.clone(), *spurned);
                    self.state.set_amount(slot, 1);
                }
                Decree::AddKey { account_id, public_key } => {
                    let slot = Slot::Key(account_id.clone(), public_key.clone());
                    if self.state.get(&slot).is_none() {
                        self.state.set(slot, Some(Value::Key(AccessKey::full_access())));
                    }
                }
                Decree::Poison { receiver, poison } => {
                    let slot = Slot::Poison(receiver.clone());
                    self.state.set(slot, poison.clone().map(Value::Poison));
                }
            }
        }
        self.state.commit();
    }

    /// Sets a balance, and the supply with it.
    fn set_tokens(&mut self, slot: Slot, amount: Option<u128>) {
        let held = self.state.amount(&slot).unwrap_or(0);
        let supply = self.state.amount(&Slot::Supply).unwrap_or(0);
        let supply = (supply - held).saturating_add(amount.unwrap_or(0));
        self.state.set_amount(Slot::Supply, supply);
        self.state.set(slot, amount.map(Value::Amount));
    }
}

impl Draft {
    /// A transaction in the chunk that is not valid: an outcome, and nothing else happened.
    fn refuse(&mut self, signed: &SignedTransaction, error: InvalidTxError) {
        let status = ExecutionStatusView::Failure(TxExecutionError::InvalidTxError(error));
        self.applied.push((*signed.hash(), transaction_outcome(signed, 0, vec![], status)));
    }
}

fn not_enough(signed: &SignedTransaction, gas: Gas) -> InvalidTxError {
    InvalidTxError::NotEnoughBalance {
        signer_id: signed.transaction.signer_id().clone(),
        balance: Balance::ZERO,
        cost: Balance::from_yoctonear(gas.cost() + fees::deposits(signed).unwrap_or(0)),
    }
}

fn transaction_outcome(
    signed: &SignedTransaction,
    gas: u64,
    receipt_ids: Vec<CryptoHash>,
    status: ExecutionStatusView,
) -> ExecutionOutcomeView {
    ExecutionOutcomeView {
        logs: vec![],
        receipt_ids,
        gas_burnt: NearGas::from_gas(gas),
        tokens_burnt: execute::tokens(gas),
        executor_id: signed.transaction.signer_id().clone(),
        status,
        metadata: ExecutionMetadataView { version: 1, gas_profile: None, contracts: None },
    }
}
