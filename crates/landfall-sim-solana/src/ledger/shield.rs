//! The shield pool, as a native: a ring of roots, the nullifiers that are spent, what was paid for
//! them.
//!
//! **Invariant:** a nullifier is spent once; a withdraw takes from the pool exactly what its
//! outputs and the treasury get.
//! The layout of data and accounts is that of Cloak's program, and so are the error codes. Not so:
//! of the proof only the length is checked, and the shard of nullifiers grows without end (the real
//! one is full at 319).

use std::collections::HashMap;

use solana_address::Address;
use solana_signature::Signature;

use super::balances::Draft;

/// The program that Cloak has deployed.
pub const PROGRAM: Address = Address::from_str_const("c1oak6tetxYnNfvXKFkpn1d98FxtK7B68vBQLYQpWKp");
pub const PROOF_BYTES: usize = 260;
pub const ROOTS: usize = 64;
/// Outputs that one withdraw may have.
pub const OUTPUTS_MAX: usize = 5;
const WITHDRAW_TAG: u8 = 2;
const OUTPUT_BYTES: usize = 40;
/// Tag, proof, root, nullifier, hash of the outputs, amount, nullifier again, number of outputs.
const HEAD_BYTES: usize = 1 + PROOF_BYTES + 104 + 32 + 1;
/// Accounts before the recipients; the system program comes after them.
const ACCOUNTS_BEFORE: usize = 4;
/// Units that a withdraw takes: mostly the proof's, on the real chain.
pub const WITHDRAW_UNITS: u64 = 300_000;

/// Why a withdraw is refused, by the program's own codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Refused {
    RootNotFound = 0x1001,
    DoubleSpend = 0x1020,
    InvalidNullifier = 0x1022,
    Conservation = 0x1031,
    InvalidOutputsHash = 0x1032,
    InvalidRecipient = 0x1034,
    MathOverflow = 0x1040,
    BadAccounts = 0x1050,
    PoolNotWritable = 0x1052,
    TreasuryNotWritable = 0x1053,
    RecipientNotWritable = 0x1054,
    InsufficientLamports = 0x1055,
    BadLength = 0x1060,
    MissingAccounts = 0x1062,
    InvalidTag = 0x1063,
}

/// Where a pool of SOL keeps what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub pool: Address,
    pub treasury: Address,
    pub roots_ring: Address,
    pub nullifier_shard: Address,
}

impl Addresses {
    pub fn of(program: &Address) -> Addresses {
        let mint = Address::default();
        let derived =
            |name: &[u8]| Address::find_program_address(&[name, mint.as_ref()], program).0;
        Addresses {
            pool: derived(b"pool"),
            treasury: derived(b"treasury"),
            roots_ring: derived(b"roots_ring"),
            nullifier_shard: derived(b"nullifier_shard"),
        }
    }

    pub fn all(&self) -> [Address; 4] {
        [self.pool, self.treasury, self.roots_ring, self.nullifier_shard]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    pub recipient: Address,
    pub amount: u64,
}

/// What the pool asks of a withdraw, in lamports.
pub fn fee(amount: u64) -> u64 {
    2_500_000 + (u128::from(amount) * 5 / 1_000) as u64
}

/// The least amount of which outputs of this sum are left after the fee; none beyond all lamports.
pub fn amount_for(sum: u64) -> Option<u64> {
    let about = (u128::from(sum) + 2_500_000) * 1_000 / 995;
    let first = u64::try_from(about).ok()?.saturating_sub(2);
    (first..first.checked_add(5)?).find(|amount| amount.checked_sub(fee(*amount)) == Some(sum))
}

pub fn outputs_hash(outputs: &[Output]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for output in outputs {
        hasher.update(output.recipient.as_ref());
        hasher.update(&output.amount.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

/// A withdraw as its instruction has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdraw {
    pub root: [u8; 32],
    pub nullifier: [u8; 32],
    pub outputs_hash: [u8; 32],
    pub amount: u64,
    pub outputs: Vec<Output>,
}

impl Withdraw {
    fn read(data: &[u8]) -> Result<Withdraw, Refused> {
        if data.first() != Some(&WITHDRAW_TAG) {
            return Err(Refused::InvalidTag);
        }
        let count = usize::from(*data.get(HEAD_BYTES - 1).ok_or(Refused::BadLength)?);
        if !(1..=OUTPUTS_MAX).contains(&count) || data.len() != HEAD_BYTES + count * OUTPUT_BYTES {
            return Err(Refused::BadLength);
        }
        let word = |at: usize| -> [u8; 32] { data[at..at + 32].try_into().unwrap_or_default() };
        let number = |at: usize| data[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let public = 1 + PROOF_BYTES;
        let nullifier = word(public + 32);
        if word(public + 104) != nullifier {
            return Err(Refused::InvalidNullifier);
        }
        let output = |index: usize| {
            let at = HEAD_BYTES + index * OUTPUT_BYTES;
            Output { recipient: Address::new_from_array(word(at)), amount: number(at + 32) }
        };
        Ok(Withdraw {
            root: word(public),
            nullifier,
            outputs_hash: word(public + 64),
            amount: number(public + 96),
            outputs: (0..count).map(output).collect(),
        })
    }
}

/// A nullifier that was used, and what was paid for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spent {
    pub height: u64,
    pub signature: Signature,
    pub nullifier: [u8; 32],
    pub amount: u64,
    pub outputs: Vec<Output>,
}

/// An account of an instruction.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    pub address: Address,
    pub is_writable: bool,
}

#[derive(Debug)]
pub struct ShieldPool {
    pub addresses: Addresses,
    /// Every root ever pushed, with the height at which it was.
    roots: Vec<(u64, [u8; 32])>,
    spent: Vec<Spent>,
    /// By nullifier: its place among the spent.
    places: HashMap<[u8; 32], usize>,
}

impl ShieldPool {
    pub fn new(program: &Address, root: [u8; 32]) -> ShieldPool {
        let addresses = Addresses::of(program);
        ShieldPool { addresses, roots: vec![(0, root)], spent: Vec::new(), places: HashMap::new() }
    }

    /// The newest roots at that height, newest last, as many as the ring has.
    pub fn roots(&self, height: u64) -> &[(u64, [u8; 32])] {
        let end = self.roots.partition_point(|(pushed, _)| *pushed <= height);
        &self.roots[end.saturating_sub(ROOTS)..end]
    }

    pub fn push_root(&mut self, height: u64, root: [u8; 32]) {
        self.roots.push((height, root));
    }

    pub fn spent(&self, height: u64) -> &[Spent] {
        &self.spent[..self.spent.partition_point(|spent| spent.height <= height)]
    }

    pub fn is_spent(&self, height: u64, nullifier: &[u8; 32]) -> bool {
        self.places.get(nullifier).is_some_and(|at| self.spent[*at].height <= height)
    }

    pub fn spend(&mut self, spent: Spent) {
        self.places.insert(spent.nullifier, self.spent.len());
        self.spent.push(spent);
    }

    /// Takes back whatever came after the block.
    pub fn cut(&mut self, height: u64) {
        self.roots.truncate(self.roots.partition_point(|(pushed, _)| *pushed <= height));
        let kept = self.spent(height).len();
        for undone in self.spent.drain(kept..) {
            self.places.remove(&undone.nullifier);
        }
    }

    /// The ring as its account has it: the newest one's place, then 64 roots.
    pub fn ring_data(&self, height: u64) -> Vec<u8> {
        let end = self.roots.partition_point(|(pushed, _)| *pushed <= height);
        let mut data = vec![0; 8 + ROOTS * 32];
        data[0] = (end.saturating_sub(1) % ROOTS) as u8;
        for (number, (_, root)) in self.roots[..end].iter().enumerate().rev().take(ROOTS) {
            let at = 8 + number % ROOTS * 32;
            data[at..at + 32].copy_from_slice(root);
        }
        data
    }

    /// The shard as its account has it: how many, then the nullifiers.
    pub fn shard_data(&self, height: u64) -> Vec<u8> {
        let spent = self.spent(height);
        let count = u32::try_from(spent.len()).unwrap_or(u32::MAX);
        let words = spent.iter().flat_map(|spent| spent.nullifier);
        count.to_le_bytes().into_iter().chain(words).collect()
    }

    /// What the program does with an instruction, on top of the block of that height.
    pub fn withdraw(
        &self,
        height: u64,
        draft: &mut Draft<'_>,
        accounts: &[Given],
        data: &[u8],
    ) -> Result<Withdraw, Refused> {
        let asked = Withdraw::read(data)?;
        self.check_accounts(accounts, &asked)?;
        if !self.roots(height).iter().any(|(_, root)| *root == asked.root) {
            return Err(Refused::RootNotFound);
        }
        if self.is_spent(height, &asked.nullifier) {
            return Err(Refused::DoubleSpend);
        }
        if outputs_hash(&asked.outputs) != asked.outputs_hash {
            return Err(Refused::InvalidOutputsHash);
        }
        let sum = asked.outputs.iter().try_fold(0, |sum: u64, one| sum.checked_add(one.amount));
        let sum = sum.ok_or(Refused::MathOverflow)?;
        let fee = fee(asked.amount);
        if sum.checked_add(fee) != Some(asked.amount) {
            return Err(Refused::Conservation);
        }
        if !draft.take(self.addresses.pool, asked.amount) {
            return Err(Refused::InsufficientLamports);
        }
        draft.give(self.addresses.treasury, fee);
        for output in &asked.outputs {
            draft.give(output.recipient, output.amount);
        }
        Ok(asked)
    }

    fn check_accounts(&self, accounts: &[Given], asked: &Withdraw) -> Result<(), Refused> {
        let recipients = accounts.get(ACCOUNTS_BEFORE..ACCOUNTS_BEFORE + asked.outputs.len());
        let recipients = recipients.ok_or(Refused::MissingAccounts)?;
        let system = accounts.get(ACCOUNTS_BEFORE + asked.outputs.len());
        let system = system.ok_or(Refused::MissingAccounts)?;
        let named = accounts.iter().zip(self.addresses.all());
        let is_ours = named.clone().all(|(given, own)| given.address == own);
        if !is_ours || system.address != solana_system_interface::program::ID {
            return Err(Refused::BadAccounts);
        }
        if !accounts[0].is_writable {
            return Err(Refused::PoolNotWritable);
        }
        if !accounts[1].is_writable {
            return Err(Refused::TreasuryNotWritable);
        }
        if !accounts[3].is_writable {
            return Err(Refused::BadAccounts);
        }
        for (given, output) in recipients.iter().zip(&asked.outputs) {
            if given.address != output.recipient {
                return Err(Refused::InvalidRecipient);
            }
            if !given.is_writable {
                return Err(Refused::RecipientNotWritable);
            }
        }
        Ok(())
    }
}
