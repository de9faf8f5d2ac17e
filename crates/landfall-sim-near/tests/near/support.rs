//! One small world: a ledger without sockets, a relay with keys, and helpers to pay and to ask.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use landfall_sim_near::keys;
use landfall_sim_near::ledger::{Decree, Genesis, Ledger, Settings};
use landfall_sim_near::rpc::{self, Answer, Node, Reply};
use near_crypto::SecretKey;
use near_primitives::action::{Action, FunctionCallAction, TransferAction};
use near_primitives::borsh;
use near_primitives::gas::Gas;
use near_primitives::hash::CryptoHash;
use near_primitives::transaction::SignedTransaction;
use near_primitives::types::{AccountId, Balance};
use serde_json::{Value, json};

pub const RELAY: &str = "relay.test.near";
pub const TOKEN: &str = "ft.test.near";
pub const TGAS: u64 = 1_000_000_000_000;
pub const NEAR: u128 = 10u128.pow(24);
pub const STORAGE: u128 = 1_250_000_000_000_000_000_000;
const BLOCK_NS: u64 = 600_000_000;

pub struct World {
    pub ledger: Ledger,
    pub lag_blocks: u64,
    pub forgets: bool,
    /// The node keeps what it is given here, where it is not nothing.
    pub held_back: Option<Vec<Arc<SignedTransaction>>>,
    pub history_blocks: Option<u64>,
    next_nonce: u64,
}

impl World {
    pub fn new() -> World {
        World::with(|_| {})
    }

    /// A world with two keys, users 0 to 9 registered, and settings of one's own.
    pub fn with(change: impl FnOnce(&mut Settings)) -> World {
        let mut settings = Settings::default();
        change(&mut settings);
        let ledger = Ledger::new(Genesis {
            chain_id: "localnet".into(),
            timestamp_ns: 1_794_728_660_274_111_308,
            token: id(TOKEN),
            relay: id(RELAY),
            relay_keys: (0..2).map(|index| key(index).public_key()).collect(),
            relay_near: 1_000 * NEAR,
            relay_tokens: 10u128.pow(30),
            settings,
        });
        let mut world = World {
            ledger,
            lag_blocks: 0,
            forgets: false,
            held_back: None,
            history_blocks: None,
            next_nonce: 1,
        };
        let users = (0..10).map(|index| id(&user(index))).collect();
        world.decree(Decree::Register { account_ids: users });
        world
    }

    pub fn decree(&mut self, decree: Decree) {
        self.ledger.decree(decree);
        self.blocks(3);
    }

    pub fn fund(&mut self, account: &str, amount: u128) {
        self.decree(Decree::Fund { account_id: id(account), amount });
    }

    pub fn blocks(&mut self, count: u64) {
        for _ in 0..count {
            let timestamp = self.ledger.chain().head().timestamp_ns + BLOCK_NS;
            self.ledger.produce(timestamp);
        }
    }

    pub fn head_hash(&self) -> CryptoHash {
        self.ledger.chain().head().hash
    }

    pub fn nonce(&mut self) -> u64 {
        self.next_nonce += 1;
        self.next_nonce - 1
    }

    /// Actions for the token, signed by the relay's first key with the next nonce.
    pub fn sign(&mut self, actions: Vec<Action>) -> SignedTransaction {
        let nonce = self.nonce();
        self.sign_with(0, nonce, TOKEN, actions)
    }

    pub fn sign_with(
        &self,
        key_index: usize,
        nonce: u64,
        receiver: &str,
        actions: Vec<Action>,
    ) -> SignedTransaction {
        let base = self.head_hash();
        keys::sign(&id(RELAY), &key(key_index), nonce, &id(receiver), base, actions)
    }

    /// Signs, submits and waits until it is final.
    pub fn land(&mut self, actions: Vec<Action>) -> Value {
        let signed = self.sign(actions);
        self.land_signed(&signed)
    }

    pub fn land_signed(&mut self, signed: &SignedTransaction) -> Value {
        self.submit(signed);
        self.blocks(8);
        self.tx(signed.hash())["result"].clone()
    }

    pub fn submit(&mut self, signed: &SignedTransaction) {
        self.ledger.submit(Arc::new(signed.clone()));
    }

    /// `tx` with wait_until NONE.
    pub fn tx(&mut self, hash: &CryptoHash) -> Value {
        let params = json!({ "tx_hash": hash, "sender_account_id": RELAY, "wait_until": "NONE" });
        self.ask("tx", params).json().clone()
    }

    pub fn send(&mut self, signed: &SignedTransaction, wait_until: &str) -> Reply {
        let params = json!({ "signed_tx_base64": encode(signed), "wait_until": wait_until });
        self.request("send_tx", params)
    }

    /// The answer to a send that must have one at once.
    pub fn send_now(&mut self, signed: &SignedTransaction, wait_until: &str) -> Answer {
        at_once(self.send(signed, wait_until))
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Answer {
        at_once(self.request(method, params))
    }

    pub fn request(&mut self, method: &str, params: Value) -> Reply {
        self.raw(&json!({ "jsonrpc": "2.0", "id": "cap", "method": method, "params": params }))
    }

    pub fn raw(&mut self, body: &Value) -> Reply {
        let mut node = Node {
            ledger: &mut self.ledger,
            lag_blocks: self.lag_blocks,
            forgets: self.forgets,
            held_back: self.held_back.as_mut(),
            amnesic: false,
            without_outcomes: false,
            history_blocks: self.history_blocks,
            rpc_addr: "127.0.0.1:3030",
        };
        rpc::handle(&mut node, body)
    }

    /// Makes blocks until a waiting request has its answer.
    pub fn wait(&mut self, reply: Reply) -> Answer {
        let waiting = match reply {
            Reply::Answer(answer) => return answer,
            Reply::Wait(waiting) => waiting,
        };
        for _ in 0..20 {
            self.blocks(1);
            if let Some(answer) = waiting.poll(self.ledger.view(self.lag_blocks)) {
                return answer;
            }
        }
        waiting.timeout()
    }

    pub fn tokens(&self, account: &str) -> Option<u128> {
        use landfall_sim_near::ledger::state::Slot;
        self.ledger.view(0).amount(self.ledger.height(), &Slot::Token(id(account)))
    }

    pub fn near(&self, account: &str) -> Option<u128> {
        use landfall_sim_near::ledger::state::Slot;
        self.ledger.view(0).amount(self.ledger.height(), &Slot::Near(id(account)))
    }

    pub fn key_nonce(&self, height: u64) -> u64 {
        self.ledger.view(0).key(height, &id(RELAY), &key(0).public_key()).expect("the key").nonce
    }
}

pub fn at_once(reply: Reply) -> Answer {
    match reply {
        Reply::Answer(answer) => answer,
        Reply::Wait(_) => panic!("no answer at once"),
    }
}

pub fn id(name: &str) -> AccountId {
    name.parse().expect("a well-formed account id")
}

pub fn key(index: usize) -> SecretKey {
    keys::secret_key(7, index)
}

pub fn user(index: usize) -> String {
    format!("user-{index:03}.test.near")
}

pub fn encode(signed: &SignedTransaction) -> String {
    BASE64.encode(borsh::to_vec(signed).expect("a transaction can be encoded"))
}

pub fn call(method: &str, args: Value, deposit: u128, gas: u64) -> Action {
    Action::FunctionCall(Box::new(FunctionCallAction {
        method_name: method.into(),
        args: args.to_string().into_bytes(),
        gas: Gas::from_gas(gas),
        deposit: Balance::from_yoctonear(deposit),
    }))
}

pub fn pay(receiver: &str, amount: u128) -> Action {
    let args = json!({ "receiver_id": receiver, "amount": amount.to_string() });
    call("ft_transfer", args, 1, 3 * TGAS)
}

pub fn register(account: &str) -> Action {
    let args = json!({ "account_id": account, "registration_only": true });
    call("storage_deposit", args, STORAGE, 5 * TGAS)
}

pub fn transfer(amount: u128) -> Action {
    Action::Transfer(TransferAction { deposit: Balance::from_yoctonear(amount) })
}
