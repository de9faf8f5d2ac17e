//! A chain without sockets or time, payers, and questions to its nodes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use landfall_sim_solana::keys;
use landfall_sim_solana::ledger::shield::{self, Addresses, Output};
use landfall_sim_solana::ledger::{Genesis, Ledger, PROGRAM};
use landfall_sim_solana::rpc::{Node, handle};
use serde_json::{Value, json};
use solana_address::Address;
use solana_compute_budget_interface::ComputeBudgetInstruction;
use solana_hash::Hash;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_system_interface::{instruction, program as system};
use solana_transaction::Transaction;

pub const SOL: u64 = 1_000_000_000;
const BEGIN_S: u64 = 1_700_000_000;

pub struct World {
    pub ledger: Ledger,
    pub clock_s: u64,
    pub lag_blocks: u64,
    pub history_blocks: u64,
    pub lies: bool,
}

/// A signed transaction, as it is sent.
pub struct Signed {
    pub text: String,
    pub signature: String,
}

pub fn sign(payer: &Keypair, instructions: &[Instruction], blockhash: Hash) -> Signed {
    let payer_key = payer.pubkey();
    let signed =
        Transaction::new_signed_with_payer(instructions, Some(&payer_key), &[payer], blockhash);
    let text = STANDARD.encode(bincode::serialize(&signed).unwrap());
    Signed { text, signature: signed.signatures[0].to_string() }
}

/// A transfer with a budget, as the captures have it.
pub fn transfer(payer: &Keypair, to: &Address, lamports: u64, blockhash: Hash) -> Signed {
    let instructions = [
        ComputeBudgetInstruction::set_compute_unit_limit(1_000),
        ComputeBudgetInstruction::set_compute_unit_price(1_000),
        instruction::transfer(&payer.pubkey(), to, lamports),
    ];
    sign(payer, &instructions, blockhash)
}

/// What a withdraw says, to be spoilt by tests.
#[derive(Clone)]
pub struct Asked {
    pub root: [u8; 32],
    pub nullifier: [u8; 32],
    pub amount: u64,
    pub outputs: Vec<Output>,
}

impl Asked {
    pub fn instruction(&self) -> Instruction {
        let own = Addresses::of(&PROGRAM);
        let mut data = vec![2];
        data.extend([7; shield::PROOF_BYTES]);
        data.extend(self.root.iter().chain(&self.nullifier));
        data.extend(shield::outputs_hash(&self.outputs));
        data.extend(self.amount.to_le_bytes());
        data.extend(self.nullifier);
        data.push(self.outputs.len() as u8);
        let mut accounts = vec![
            AccountMeta::new(own.pool, false),
            AccountMeta::new(own.treasury, false),
            AccountMeta::new_readonly(own.roots_ring, false),
            AccountMeta::new(own.nullifier_shard, false),
        ];
        for output in &self.outputs {
            data.extend(output.recipient.as_ref());
            data.extend(output.amount.to_le_bytes());
            accounts.push(AccountMeta::new(output.recipient, false));
        }
        accounts.push(AccountMeta::new_readonly(system::ID, false));
        Instruction { program_id: PROGRAM, accounts, data }
    }

    pub fn signed(&self, payer: &Keypair, blockhash: Hash) -> Signed {
        let limit = ComputeBudgetInstruction::set_compute_unit_limit(400_000);
        sign(payer, &[limit, self.instruction()], blockhash)
    }
}

impl World {
    pub fn new(nodes: usize) -> World {
        let genesis = Genesis {
            time_s: BEGIN_S,
            payers: (0..2).map(|index| payer(index).pubkey()).collect(),
            payer_lamports: 10 * SOL,
            pool_lamports: 1_000 * SOL,
            limits: true,
        };
        let ledger = Ledger::new(genesis, nodes);
        World { ledger, clock_s: BEGIN_S, lag_blocks: 0, history_blocks: 0, lies: false }
    }

    pub fn answer(&mut self, index: usize, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let mut node = Node {
            ledger: &mut self.ledger,
            index,
            lag_blocks: self.lag_blocks,
            history_blocks: self.history_blocks,
            forgets: false,
            lies: self.lies,
        };
        handle(&mut node, &body)
    }

    /// The first node's result.
    pub fn get(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(0, method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// The first node's error.
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        self.answer(0, method, params)["error"].clone()
    }

    /// Sends without a preflight, as a relay does.
    pub fn send(&mut self, signed: &Signed) {
        let options = json!({ "encoding": "base64", "skipPreflight": true });
        let sent = self.get("sendTransaction", json!([signed.text, options]));
        assert_eq!(sent, json!(signed.signature));
    }

    /// The err of a preflight at `processed`; nothing if it would be taken.
    pub fn preflight(&mut self, signed: &Signed) -> Value {
        let options = json!({ "encoding": "base64", "commitment": "processed" });
        self.get("simulateTransaction", json!([signed.text, options]))["value"]["err"].clone()
    }

    pub fn slot(&mut self) {
        self.clock_s += 1;
        let best = self.ledger.best();
        self.ledger.append(self.clock_s, best);
    }

    pub fn slots(&mut self, count: u64) {
        (0..count).for_each(|_| self.slot());
    }

    pub fn blockhash(&self) -> Hash {
        self.ledger.head().hash
    }

    /// Its status with history searched.
    pub fn status(&mut self, signed: &Signed) -> Value {
        let options = json!({ "searchTransactionHistory": true });
        let answer = self.get("getSignatureStatuses", json!([[signed.signature], options]));
        answer["value"][0].clone()
    }

    pub fn asked(&self, number: u8, amounts: &[u64]) -> Asked {
        let output = |(index, amount): (usize, &u64)| Output {
            recipient: recipient(number, index as u8),
            amount: *amount,
        };
        let outputs: Vec<Output> = amounts.iter().enumerate().map(output).collect();
        let root = self.ledger.shield().roots(self.ledger.height()).last().unwrap().1;
        let amount = shield::amount_for(amounts.iter().sum()).unwrap();
        Asked { root, nullifier: [number; 32], amount, outputs }
    }
}

pub fn payer(index: usize) -> Keypair {
    keys::keypair(0, index)
}

pub fn recipient(number: u8, index: u8) -> Address {
    let mut bytes = [number; 32];
    bytes[0] = index;
    Address::new_from_array(bytes)
}
