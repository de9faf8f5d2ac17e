//! A NEAR ledger as a pure state machine: accounts, keys, one token, blocks, a pool.
//!
//! Time is whatever `produce` is told; there is no clock, no I/O and no randomness. The life of a
//! transaction follows the captured one: chosen for the next block's chunk (seen as INCLUDED),
//! applied in that block, its receipt one block later, refunds after that; final two blocks later.
//!
//! | file | holds |
//! |---|---|
//! | `state` | cells and their undo log |
//! | `block` | blocks, the canonical chain, orphans |
//! | `pool` | what waits for a block |
//! | `verify` | rules for a transaction |
//! | `execute`, `token`, `fees` | what actions do and cost |
//! | `record` | what became of each transaction |
//! | `produce` | the next block, reorganisations, collected history |
//! | `view` | all of it as a node at some height sees it |
//!
//! Not here: JSON (`near::rpc`), sockets (`near::server`), the state file (`near::journal`).

pub mod block;
mod execute;
pub mod fees;
mod pool;
mod produce;
pub mod record;
mod relay;
pub mod state;
pub mod token;
pub mod verify;
mod view;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use near_crypto::PublicKey;
use near_primitives::account::AccessKey;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::AccountId;
use serde::{Deserialize, Serialize};

pub use produce::{BlockInput, Produced};
pub use token::Poison;
pub use view::View;

use block::{Block, Chain};
use pool::Pool;
use record::{Receipt, Record, Run};
use state::{Slot, State, Value};

/// Everything about a chain that does not change while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Genesis {
    pub chain_id: String,
    pub timestamp_ns: u64,
    pub token: AccountId,
    pub relay: AccountId,
    /// Full-access keys of the relay, nonce 0.
    pub relay_keys: Vec<PublicKey>,
    #[serde(with = "decimal")]
    pub relay_near: u128,
    #[serde(with = "decimal")]
    pub relay_tokens: u128,
    pub settings: Settings,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Blocks after which a transaction's block hash is too old.
    pub validity_blocks: u64,
    /// Blocks of history kept; older ones are collected.
    pub history_blocks: u64,
    pub epoch_blocks: u64,
    /// Gas one transaction may attach: 1 PGas since protocol 83, 300 TGas before.
    pub max_transaction_gas: u64,
    /// Gas a chunk takes; `None` for no limit.
    pub chunk_gas: Option<u64>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            validity_blocks: 86_400,
            history_blocks: 5 * 43_200,
            epoch_blocks: 43_200,
            max_transaction_gas: 1_000 * fees::TGAS,
            chunk_gas: Some(1_000 * fees::TGAS),
        }
    }
}

/// A change that no transaction made; takes effect in the next block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decree {
    /// Tokens out of nothing; registers the account.
    Mint {
        account_id: AccountId,
        #[serde(with = "decimal")]
        amount: u128,
    },
    /// NEAR out of nothing; creates the account.
    Fund {
        account_id: AccountId,
        #[serde(with = "decimal")]
        amount: u128,
    },
    SetTokens {
        account_id: AccountId,
        #[serde(with = "decimal")]
        amount: u128,
    },
    SetNear {
        account_id: AccountId,
        #[serde(with = "decimal")]
        amount: u128,
    },
    Register {
        account_ids: Vec<AccountId>,
    },
    Unregister {
        account_id: AccountId,
    },
    /// Tokens into nothing.
    Burn {
        account_id: AccountId,
        #[serde(with = "decimal")]
        amount: u128,
    },
    /// The contract refuses whatever concerns this account, from then on.
    Spurn {
        account_id: AccountId,
        spurned: token::Spurned,
    },
    AddKey {
        account_id: AccountId,
        public_key: PublicKey,
    },
    /// Has transfers to a receiver fail, or to everybody if none; without poison no more.
    Poison {
        receiver: Option<AccountId>,
        poison: Option<Poison>,
    },
}

/// Transactions that will be included and fail as transactions (protocol 83).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    pub count: u64,
    /// Put them back into the pool, so that they land later.
    pub again: bool,
}

/// An `ft_transfer` that took effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    pub receiver_id: AccountId,
    #[serde(with = "decimal")]
    pub amount: u128,
    pub memo: Option<String>,
    pub tx_hash: CryptoHash,
    pub nonce: u64,
    /// Height of the block in which it took effect.
    pub block: u64,
}

pub struct Ledger {
    genesis: Genesis,
    system: AccountId,
    code_hash: CryptoHash,
    state: State,
    chain: Chain,
    pool: Pool,
    records: HashMap<CryptoHash, Record>,
    transfers: Vec<Transfer>,
    queues: Queues,
    /// How to go back before each block that is not final yet, newest last.
    rewinds: VecDeque<Rewind>,
    decrees: Vec<Decree>,
    refusals: Refusals,
    /// How many transactions that landed are to be included once more.
    inclusions: u64,
    forks: u64,
    /// The highest block that was ever final: what is taken back was above it.
    final_height: u64,
}

/// What the next block will work on.
#[derive(Clone, Default)]
struct Queues {
    chunk: Vec<Arc<SignedTransaction>>,
    incoming: Vec<Arc<Receipt>>,
    delayed: VecDeque<Arc<Receipt>>,
}

struct Rewind {
    queues: Queues,
    /// Decrees the block obeyed: they are still to be obeyed when it is dropped.
    decrees: Vec<Decree>,
}

impl Ledger {
    pub fn new(genesis: Genesis) -> Ledger {
        let code_hash = CryptoHash::hash_bytes(b"landfall simulated token");
        let mut state = State::default();
        state.begin();
        state.set_amount(Slot::Near(genesis.relay.clone()), genesis.relay_near);
        state.set_amount(Slot::Near(genesis.token.clone()), 100 * 10u128.pow(24));
        state.set_amount(Slot::Token(genesis.relay.clone()), genesis.relay_tokens);
        state.set_amount(Slot::Supply, genesis.relay_tokens);
        for key in &genesis.relay_keys {
            let slot = Slot::Key(genesis.relay.clone(), key.clone());
            state.set(slot, Some(Value::Key(AccessKey::full_access())));
        }
        state.commit();
        state.seal();
        let first = CryptoHash::hash_bytes(genesis.chain_id.as_bytes());
        let block = Block::seal(0, first, 0, genesis.timestamp_ns, vec![], 0);
        Ledger {
            genesis,
            system: "system".parse().expect("a well-formed account id"),
            code_hash,
            state,
            chain: Chain::new(block),
            pool: Pool::default(),
            records: HashMap::new(),
            transfers: Vec::new(),
            queues: Queues::default(),
            rewinds: VecDeque::new(),
            decrees: Vec::new(),
            refusals: Refusals::default(),
            inclusions: 0,
            forks: 0,
            final_height: 0,
        }
    }

    pub fn genesis(&self) -> &Genesis {
        &self.genesis
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn height(&self) -> u64 {
        self.chain.head().height
    }

    /// The highest block that was ever final. It outlives the blocks above it.
    pub fn final_height(&self) -> u64 {
        self.final_height
    }

    pub fn code_hash(&self) -> CryptoHash {
        self.code_hash
    }

    pub fn pool_len(&self) -> usize {
        self.pool.len()
    }

    pub fn is_pooled(&self, hash: &CryptoHash) -> bool {
        self.pool.contains(hash)
    }

    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The chain as a node sees it that is `lag_blocks` behind.
    pub fn view(&self, lag_blocks: u64) -> View<'_> {
        View::new(self, self.height().saturating_sub(lag_blocks))
    }

    /// Puts a transaction into the pool. Whether it is valid is decided when a chunk is made, and
    /// what is not valid then is dropped in silence; only a bad signature is dropped here.
    pub fn submit(&mut self, signed: Arc<SignedTransaction>) {
        let max_gas = self.genesis.settings.max_transaction_gas;
        let waits = self.queues.chunk.iter().any(|other| other.hash() == signed.hash());
        if !waits && verify::statically(&signed, max_gas).is_ok() {
            self.pool.insert(signed);
        }
    }

    /// As [`Ledger::submit`], and pushes out whatever waits with the same key and nonce.
    pub fn submit_first(&mut self, signed: Arc<SignedTransaction>) {
        self.pool.evict_rivals(&signed);
        self.submit(signed);
    }

    /// Queues a change for the next block.
    pub fn decree(&mut self, decree: Decree) {
        self.decrees.push(decree);
    }

    /// The next transactions to be applied fail as transactions, with an outcome.
    pub fn refuse_included(&mut self, refusals: Refusals) {
        self.refusals = refusals;
    }

    /// The latest transactions that landed are put into the next chunk once more. They fail there
    /// as transactions, with an outcome, as their nonces are used (protocol 83).
    pub fn include_again(&mut self, count: u64) {
        self.inclusions = count;
    }

    /// The run of a transaction that took effect, whatever nodes show of it.
    pub fn landed(&self, hash: &CryptoHash) -> Option<&Run> {
        self.records.get(hash)?.landed()
    }

    /// The settings from the next block on.
    pub fn set_settings(&mut self, settings: Settings) {
        self.genesis.settings = settings;
    }

    /// The nonce after those used, and those of the chunk about to be.
    pub fn next_nonce(&self, account: &AccountId, key: &PublicKey) -> Option<u64> {
        let used = self.state.key(account, key)?.nonce;
        let mine = |signed: &&Arc<SignedTransaction>| {
            signed.transaction.signer_id() == account && signed.transaction.public_key() == key
        };
        let soon = self.queues.chunk.iter().filter(mine);
        let soon = soon.map(|signed| signed.transaction.nonce().nonce()).max().unwrap_or(0);
        Some(used.max(soon) + 1)
    }

    /// An account's tokens, once the decrees that wait for the next block are obeyed.
    pub fn tokens_decreed(&self, account: &AccountId) -> u128 {
        let held = self.state.amount(&Slot::Token(account.clone())).unwrap_or(0);
        self.decrees.iter().fold(held, |held, decree| match decree {
            Decree::Mint { account_id, amount } if account_id == account => held + amount,
            Decree::Burn { account_id, amount } if account_id == account => {
                held.saturating_sub(*amount)
            }
            Decree::SetTokens { account_id, amount } if account_id == account => *amount,
            Decree::Unregister { account_id } if account_id == account => 0,
            _ => held,
        })
    }

    /// Tokens, NEAR per account, by name.
    pub fn balances(&self) -> impl Iterator<Item = (&Slot, u128)> {
        self.state.slots().filter_map(|(slot, value)| match value {
            Value::Amount(amount) => Some((slot, *amount)),
            Value::Key(_) | Value::Poison(_) => None,
        })
    }
}

/// Amounts as decimal strings: JSON numbers end at 2^53.
pub mod decimal {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(amount: &u128, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(amount)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
