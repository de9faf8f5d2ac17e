//! Withdraws that the pool takes: the body for a relay, and the transaction of somebody who needs
//! none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use solana_address::Address;
use solana_compute_budget_interface::ComputeBudgetInstruction;
use solana_hash::Hash;
use solana_instruction::{AccountMeta, Instruction};
use solana_keypair::Keypair;
use solana_signer::Signer;
use solana_system_interface::program as system;

use super::ledger::shield::{self, Addresses, Output, PROOF_BYTES};
use super::ledger::{PROGRAM, Transaction};

/// Units that a withdraw asks for.
const UNITS: u32 = 400_000;

/// As Cloak's own API takes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub outputs: Vec<RequestOutput>,
    pub policy: Policy,
    pub public_inputs: PublicInputs,
    pub proof_bytes: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestOutput {
    pub recipient: String,
    pub amount: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub fee_bps: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicInputs {
    pub root: String,
    pub nf: String,
    pub amount: u64,
    pub fee_bps: u64,
    pub outputs_hash: String,
}

/// Recipients and amounts, or what is wrong with them.
pub fn outputs(asked: &[RequestOutput]) -> Result<Vec<Output>, String> {
    if !(1..=shield::OUTPUTS_MAX).contains(&asked.len()) {
        return Err(format!("outputs must be 1 to {}", shield::OUTPUTS_MAX));
    }
    let read = |one: &RequestOutput| {
        let recipient = one.recipient.parse::<Address>();
        let recipient = recipient.map_err(|_| format!("{} is no address", one.recipient))?;
        Ok(Output { recipient, amount: one.amount })
    };
    asked.iter().map(read).collect()
}

impl Request {
    /// A request that spends this nullifier, of a deposit that lies under this root.
    pub fn new(root: [u8; 32], nullifier: [u8; 32], outputs: &[Output]) -> Result<Request, String> {
        let sum = outputs.iter().try_fold(0, |sum: u64, one| sum.checked_add(one.amount));
        let amount = sum.and_then(shield::amount_for).ok_or("outputs are too large")?;
        let bps = (u128::from(shield::fee(amount)) * 10_000).div_ceil(u128::from(amount));
        let fee_bps = u64::try_from(bps).unwrap_or(u64::MAX);
        let shown = |one: &Output| RequestOutput {
            recipient: one.recipient.to_string(),
            amount: one.amount,
        };
        let public_inputs = PublicInputs {
            root: hex::encode(root),
            nf: hex::encode(nullifier),
            amount,
            fee_bps,
            outputs_hash: hex::encode(shield::outputs_hash(outputs)),
        };
        // Nobody reads the proof here, but no two should be alike.
        let mut proof = [0; PROOF_BYTES];
        blake3::Hasher::new().update(&nullifier).finalize_xof().fill(&mut proof);
        Ok(Request {
            outputs: outputs.iter().map(shown).collect(),
            policy: Policy { fee_bps },
            public_inputs,
            proof_bytes: STANDARD.encode(proof),
        })
    }

    /// A transaction of the payer's that does what is asked for.
    pub fn transaction(&self, payer: &Keypair, blockhash: Hash) -> Result<Transaction, String> {
        let limit = ComputeBudgetInstruction::set_compute_unit_limit(UNITS);
        let (instructions, own) = ([limit, self.instruction()?], payer.pubkey());
        let signed = solana_transaction::Transaction::new_signed_with_payer(
            &instructions,
            Some(&own),
            &[payer],
            blockhash,
        );
        Transaction::read(bincode::serialize(&signed).map_err(|error| error.to_string())?)
    }

    fn instruction(&self) -> Result<Instruction, String> {
        let outputs = outputs(&self.outputs)?;
        let inputs = &self.public_inputs;
        let word = |text: &str| hex::decode(text).map_err(|_| format!("{text} is not hexadecimal"));
        let proof = STANDARD.decode(&self.proof_bytes).map_err(|_| "proof_bytes is not base64")?;
        let nullifier = word(&inputs.nf)?;
        let mut data = vec![2];
        data.extend(proof);
        data.extend([word(&inputs.root)?, nullifier.clone(), word(&inputs.outputs_hash)?].concat());
        data.extend(inputs.amount.to_le_bytes());
        data.extend(nullifier);
        data.push(outputs.len() as u8);
        let own = Addresses::of(&PROGRAM);
        let mut accounts = vec![
            AccountMeta::new(own.pool, false),
            AccountMeta::new(own.treasury, false),
            AccountMeta::new_readonly(own.roots_ring, false),
            AccountMeta::new(own.nullifier_shard, false),
        ];
        for output in outputs {
            data.extend(output.recipient.as_ref());
            data.extend(output.amount.to_le_bytes());
            accounts.push(AccountMeta::new(output.recipient, false));
        }
        accounts.push(AccountMeta::new_readonly(system::ID, false));
        Ok(Instruction { program_id: PROGRAM, accounts, data })
    }
}
