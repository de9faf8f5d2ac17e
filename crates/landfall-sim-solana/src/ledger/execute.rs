//! Transactions executed in a block, or tried on top of one.

use solana_address::Address;
use solana_compute_budget_interface as compute_budget;
use solana_instruction_error::InstructionError;
use solana_message::compiled_instruction::CompiledInstruction;
use solana_system_interface::instruction::SystemInstruction;
use solana_system_interface::program as system;
use solana_transaction_error::TransactionError;

use super::balances::Draft;
use super::shield::{self, Given, PROGRAM, Refused, Spent};
use super::transaction::Transaction;
use super::{Ledger, rent_minimum};

/// Blocks for which a block's hash may be signed on.
pub const HASH_AGE_MAX: u64 = 150;
/// Units that a native program takes.
const NATIVE_UNITS: u64 = 150;
/// What the system program says where there is too little to transfer.
const NO_LAMPORTS: u32 = 1;

/// What came of a transaction.
#[derive(Debug, Clone)]
pub struct Meta {
    pub error: Option<TransactionError>,
    pub fee: u64,
    pub units: u64,
    pub logs: Vec<String>,
    /// Lamports of each of its accounts, before and after.
    pub before: Vec<u64>,
    pub after: Vec<u64>,
}

/// An execution whose effects may yet be dropped.
pub struct Executed {
    pub meta: Meta,
    pub changes: Vec<(Address, u64)>,
    pub spent: Vec<Spent>,
}

/// Where a transaction is executed.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// It sees what this block has left, as far as it is made.
    pub height: u64,
    /// The newest block whose hash may be signed on.
    pub newest_hash: u64,
}

impl Place {
    /// In the block of this height, which is being made.
    pub fn within(height: u64) -> Place {
        Place { height, newest_hash: height.saturating_sub(1) }
    }

    /// On top of a block, to try it.
    pub fn upon(height: u64) -> Place {
        Place { height, newest_hash: height }
    }
}

/// The course of one execution.
struct Course<'a> {
    ledger: &'a Ledger,
    transaction: &'a Transaction,
    height: u64,
    draft: Draft<'a>,
    logs: Vec<String>,
    units: u64,
    spent: Vec<Spent>,
}

impl Ledger {
    /// Why it cannot be in the block at all; then it pays nothing either.
    pub fn check(&self, transaction: &Transaction, place: Place) -> Result<(), TransactionError> {
        let signed_on = self.height_of(&transaction.blockhash());
        let signed_on = signed_on.filter(|height| *height <= place.newest_hash);
        if signed_on.is_none_or(|height| place.newest_hash - height > HASH_AGE_MAX) {
            return Err(TransactionError::BlockhashNotFound);
        }
        let landed = self.landed(&transaction.signature);
        if landed.is_some_and(|(height, _)| height <= place.height) {
            return Err(TransactionError::AlreadyProcessed);
        }
        self.check_programs(transaction)?;
        match self.balances().at(place.height, &transaction.payer()) {
            0 => Err(TransactionError::AccountNotFound),
            lamports => match lamports.checked_sub(transaction.fee()) {
                None => Err(TransactionError::InsufficientFundsForFee),
                Some(left) if left > 0 && left < rent_minimum(0) => {
                    Err(TransactionError::InsufficientFundsForRent { account_index: 0 })
                }
                Some(_) => Ok(()),
            },
        }
    }

    fn check_programs(&self, transaction: &Transaction) -> Result<(), TransactionError> {
        let known = [system::ID, compute_budget::ID, PROGRAM];
        let program = |one: &CompiledInstruction| {
            transaction.keys().get(usize::from(one.program_id_index)).copied()
        };
        let mut named = transaction.instructions().iter().map(program);
        match named.all(|program| program.is_some_and(|program| known.contains(&program))) {
            true => Ok(()),
            false => Err(TransactionError::ProgramAccountNotFound),
        }
    }

    /// Executes what passes [`Ledger::check`]. A failure is an outcome, and pays its fee.
    pub fn run(&self, transaction: &Transaction, place: Place) -> Executed {
        let mut draft = Draft::on(self.balances(), place.height);
        let lamports = |draft: &Draft<'_>| -> Vec<u64> {
            transaction.keys().iter().map(|key| draft.get(key)).collect()
        };
        let before = lamports(&draft);
        let (payer, fee) = (transaction.payer(), transaction.fee());
        draft.take(payer, fee);
        let paid = draft.changes.clone();
        let (ledger, height) = (self, place.height);
        let (logs, units, spent) = (Vec::new(), 0, Vec::new());
        let mut course = Course { ledger, transaction, height, draft, logs, units, spent };
        let error = course.all().err();
        let Course { mut draft, logs, units, mut spent, .. } = course;
        if error.is_some() {
            (draft.changes, spent) = (paid, Vec::new());
        }
        let after = lamports(&draft);
        let meta = Meta { error, fee, units, logs, before, after };
        Executed { meta, changes: draft.changes.into_iter().collect(), spent }
    }
}

impl Course<'_> {
    fn all(&mut self) -> Result<(), TransactionError> {
        for (number, instruction) in self.transaction.instructions().iter().enumerate() {
            let failed = |error| TransactionError::InstructionError(number as u8, error);
            self.one(instruction).map_err(failed)?;
        }
        self.check_rent()
    }

    fn one(&mut self, instruction: &CompiledInstruction) -> Result<(), InstructionError> {
        let keys = self.transaction.keys();
        let program = keys[usize::from(instruction.program_id_index)];
        self.logs.push(format!("Program {program} invoke [1]"));
        let needed = if program == PROGRAM { shield::WITHDRAW_UNITS } else { NATIVE_UNITS };
        let left = self.transaction.units.saturating_sub(self.units);
        self.units += needed.min(left);
        let ended = match program {
            _ if needed > left => Err(InstructionError::ComputationalBudgetExceeded),
            PROGRAM => self.withdraw(instruction),
            system::ID => self.transfer(instruction),
            _ => Ok(()),
        };
        if program == PROGRAM {
            let used = needed.min(left);
            let line = format!("Program {program} consumed {used} of {left} compute units");
            self.logs.push(line);
        }
        self.logs.push(match &ended {
            Ok(()) => format!("Program {program} success"),
            Err(error) => format!("Program {program} failed: {error}"),
        });
        ended
    }

    fn given(&self, instruction: &CompiledInstruction) -> Vec<Given> {
        let given = |index: &u8| {
            let index = usize::from(*index);
            let is_writable = self.transaction.is_writable(index);
            Given { address: self.transaction.keys()[index], is_writable }
        };
        instruction.accounts.iter().map(given).collect()
    }

    fn withdraw(&mut self, instruction: &CompiledInstruction) -> Result<(), InstructionError> {
        let accounts = self.given(instruction);
        let shield = self.ledger.shield();
        let asked = shield.withdraw(self.height, &mut self.draft, &accounts, &instruction.data);
        let refused = |refused: Refused| InstructionError::Custom(refused as u32);
        let asked = asked.map_err(refused)?;
        // The block does not know yet what came before in this very transaction.
        if self.spent.iter().any(|spent| spent.nullifier == asked.nullifier) {
            return Err(refused(Refused::DoubleSpend));
        }
        self.spent.push(Spent {
            height: self.height,
            signature: self.transaction.signature,
            nullifier: asked.nullifier,
            amount: asked.amount,
            outputs: asked.outputs,
        });
        Ok(())
    }

    fn transfer(&mut self, instruction: &CompiledInstruction) -> Result<(), InstructionError> {
        let asked = bincode::deserialize::<SystemInstruction>(&instruction.data);
        let Ok(SystemInstruction::Transfer { lamports }) = asked else {
            return Err(InstructionError::InvalidInstructionData);
        };
        let accounts = self.given(instruction);
        let [from, to, ..] = accounts[..] else {
            return Err(InstructionError::MissingAccount);
        };
        if !self.transaction.message().is_signer(usize::from(instruction.accounts[0])) {
            return Err(InstructionError::MissingRequiredSignature);
        }
        if !from.is_writable || !to.is_writable {
            return Err(InstructionError::ReadonlyLamportChange);
        }
        let has = self.draft.get(&from.address);
        if !self.draft.take(from.address, lamports) {
            let line = format!("Transfer: insufficient lamports {has}, need {lamports}");
            self.logs.push(line);
            return Err(InstructionError::Custom(NO_LAMPORTS));
        }
        self.draft.give(to.address, lamports);
        Ok(())
    }

    /// No account may be left with less than what exempts it from rent, unless it had less before
    /// and got nothing. The pool's own are not looked at: their sizes are not kept.
    fn check_rent(&self) -> Result<(), TransactionError> {
        let own = self.ledger.shield().addresses.all();
        for (index, key) in self.transaction.keys().iter().enumerate() {
            let before = self.ledger.balances().at(self.height, key);
            let after = self.draft.get(key);
            let was_short = before > 0 && before < rent_minimum(0);
            let is_short = after > 0 && after < rent_minimum(0);
            if own.contains(key) || !is_short || was_short && after <= before {
                continue;
            }
            if self.transaction.is_writable(index) {
                let account_index = index as u8;
                return Err(TransactionError::InsufficientFundsForRent { account_index });
            }
        }
        Ok(())
    }
}
