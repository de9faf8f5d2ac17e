//! Withdraws as clients ask for them, checked by the pool's own rules before anything is stored.
//!
//! Two shapes are taken, told apart by what they name: Cloak's own (`proof_bytes`, `policy`,
//! `public_inputs` as fields in hexadecimal) and the older one (`proof`, `fee_bps`, `public_inputs`
//! as 104 bytes in base64).
//! **Rule:** what both say is compared, never chosen from: a request that contradicts itself is
//! refused.
//! **Rule:** a withdraw that passes fits a transaction, and the pool has nothing against its
//! numbers.
//! Not here: whether the proof is right, the root known, the nullifier unspent; the chain knows.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use landfall_core::BadField;
use landfall_core::solana::{self, Door};
use serde::{Deserialize, Serialize};
use solana_address::Address;
use solana_system_interface::program as system;

use crate::encode;
use crate::shield::{self, Accounts, OUTPUTS_MAX, Output, PROOF_BYTES, Withdraw, Word};

/// Bytes of the public inputs: root, nullifier, hash of the outputs, amount.
const INPUTS_BYTES: usize = 104;

/// The body of a request, in either shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// In base64, as the older shape names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
    /// In base64, as Cloak names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_bytes: Option<String>,
    pub public_inputs: Inputs,
    pub outputs: Outputs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fee_bps: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    /// Higher is more urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub fee_bps: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Inputs {
    /// All of them in base64.
    Bytes(String),
    /// Each in hexadecimal.
    Fields {
        root: String,
        nf: String,
        amount: Lamports,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fee_bps: Option<u64>,
        outputs_hash: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outputs {
    Many(Vec<AskedOutput>),
    One(AskedOutput),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedOutput {
    /// In base58.
    pub recipient: String,
    pub amount: Lamports,
}

/// As a number, or in decimal digits where a client's numbers are too short for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Lamports {
    Number(u64),
    Digits(String),
}

impl Lamports {
    fn read(&self) -> Result<u64, String> {
        match self {
            Lamports::Number(number) => Ok(*number),
            Lamports::Digits(digits) => match digits.bytes().all(|byte| byte.is_ascii_digit()) {
                true => digits.parse().map_err(|_| "not a number of lamports".to_owned()),
                false => Err("only digits: lamports have no fractions".to_owned()),
            },
        }
    }
}

/// What the public inputs say.
struct Public {
    root: Word,
    nullifier: Word,
    outputs_hash: Word,
    amount: u64,
    fee_bps: Option<u64>,
}

fn bad(field: &'static str, message: impl Into<String>) -> BadField {
    BadField::new(field, message)
}

/// The withdraw that a body asks for, or all that is wrong with it.
pub fn withdraw(body: &Body, program: &Address) -> Result<Withdraw, Vec<BadField>> {
    let (proof, public, outputs) =
        (proof(body), public(&body.public_inputs), outputs(body, program));
    let (proof, public, outputs) = match (proof, public, outputs) {
        (Ok(proof), Ok(public), Ok(outputs)) => (proof, public, outputs),
        (proof, public, outputs) => {
            let first = [proof.err(), public.err()].into_iter().flatten();
            return Err(first.chain(outputs.err().into_iter().flatten()).collect());
        }
    };
    let faults = contradictions(body, &public, &outputs);
    if !faults.is_empty() {
        return Err(faults);
    }
    let Public { root, nullifier, amount, .. } = public;
    let withdraw = Withdraw { proof, root, nullifier, amount, outputs };
    match encode::size(*program, &withdraw) {
        fits if fits <= encode::SIZE_MAX => Ok(withdraw),
        size => Err(vec![bad("outputs", encode::TooLarge(size).to_string())]),
    }
}

/// Where clients' requests come in, for one pool.
#[derive(Debug, Clone)]
pub struct PoolDoor {
    pub network: String,
    pub program: Address,
}

impl Door for PoolDoor {
    fn read(&self, body: &str) -> Result<solana::Withdraw, Vec<BadField>> {
        let body: Body = serde_json::from_str(body).map_err(|error| vec![unread(&error)])?;
        let priority = body.priority.unwrap_or(solana::PRIORITY);
        if priority > solana::PRIORITY_MAX {
            let message = format!("{priority}, and the most urgent is {}", solana::PRIORITY_MAX);
            return Err(vec![bad("priority", message)]);
        }
        let asked = withdraw(&body, &self.program)?;
        Ok(frozen(&asked, (&self.network, &self.program), priority))
    }
}

/// What serde says of a field that can have two shapes is of no use to anybody.
fn unread(error: &serde_json::Error) -> BadField {
    let said = error.to_string();
    match said.contains("untagged enum Inputs") {
        true => bad("public_inputs", "104 bytes in base64, or root, nf, amount, outputs_hash"),
        false if said.contains("untagged enum Outputs") => {
            bad("outputs", "a list of {\"recipient\", \"amount\"}")
        }
        false => bad("body", said),
    }
}

/// A withdraw as it is stored.
pub fn frozen(
    asked: &Withdraw,
    (network, program): (&str, &Address),
    priority: u32,
) -> solana::Withdraw {
    let output = |output: &Output| solana::Output {
        recipient: output.recipient.to_string(),
        amount: output.amount,
    };
    solana::Withdraw {
        network: network.to_owned(),
        program: program.to_string(),
        proof: STANDARD.encode(asked.proof),
        root: hex::encode(asked.root),
        nullifier: hex::encode(asked.nullifier),
        amount: asked.amount,
        outputs: asked.outputs.iter().map(output).collect(),
        priority,
    }
}

/// The reverse of [`frozen`]; says what is wrong with one that is not ours.
pub fn thawed(stored: &solana::Withdraw) -> Result<Withdraw, String> {
    let wrong = |what: &str| format!("a stored withdraw whose {what} cannot be read");
    let word = |what: &'static str, text: &str| {
        let mut word: Word = [0; 32];
        hex::decode_to_slice(text, &mut word).map_err(|_| wrong(what))?;
        Ok::<Word, String>(word)
    };
    let output = |output: &solana::Output| {
        let recipient = output.recipient.parse().map_err(|_| wrong("recipient"))?;
        Ok::<Output, String>(Output { recipient, amount: output.amount })
    };
    let proof = STANDARD.decode(&stored.proof).ok().and_then(|proof| proof.try_into().ok());
    Ok(Withdraw {
        proof: proof.ok_or_else(|| wrong("proof"))?,
        root: word("root", &stored.root)?,
        nullifier: word("nullifier", &stored.nullifier)?,
        amount: stored.amount,
        outputs: stored.outputs.iter().map(output).collect::<Result<_, String>>()?,
    })
}

fn proof(body: &Body) -> Result<[u8; PROOF_BYTES], BadField> {
    let (field, text) = match (&body.proof, &body.proof_bytes) {
        (Some(text), None) => ("proof", text),
        (None, Some(text)) => ("proof_bytes", text),
        (None, None) => return Err(bad("proof", "is missing: give it in base64")),
        (Some(_), Some(_)) => return Err(bad("proof", "give it, or proof_bytes, not both")),
    };
    let bytes = STANDARD.decode(text).map_err(|_| bad(field, "not base64"))?;
    let length = bytes.len();
    let wrong = |_| bad(field, format!("{length} bytes, and a proof has {PROOF_BYTES}"));
    bytes.try_into().map_err(wrong)
}

fn public(inputs: &Inputs) -> Result<Public, BadField> {
    match inputs {
        Inputs::Bytes(text) => {
            let bytes = STANDARD.decode(text).map_err(|_| bad("public_inputs", "not base64"))?;
            if bytes.len() != INPUTS_BYTES {
                let message = format!("{} bytes, and there are {INPUTS_BYTES}", bytes.len());
                return Err(bad("public_inputs", message));
            }
            let word = |at: usize| bytes[at..at + 32].try_into().unwrap_or_default();
            let amount = bytes[96..].try_into().map_or(0, u64::from_le_bytes);
            let (root, nullifier, outputs_hash) = (word(0), word(32), word(64));
            Ok(Public { root, nullifier, outputs_hash, amount, fee_bps: None })
        }
        Inputs::Fields { root, nf, amount, fee_bps, outputs_hash } => Ok(Public {
            root: word("public_inputs.root", root)?,
            nullifier: word("public_inputs.nf", nf)?,
            outputs_hash: word("public_inputs.outputs_hash", outputs_hash)?,
            amount: amount.read().map_err(|why| bad("public_inputs.amount", why))?,
            fee_bps: *fee_bps,
        }),
    }
}

fn word(field: &'static str, text: &str) -> Result<Word, BadField> {
    let mut word = [0; 32];
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match hex::decode_to_slice(digits, &mut word) {
        Ok(()) => Ok(word),
        Err(_) => Err(bad(field, "not 32 bytes as 64 hexadecimal digits")),
    }
}

fn outputs(body: &Body, program: &Address) -> Result<Vec<Output>, Vec<BadField>> {
    let asked = match &body.outputs {
        Outputs::Many(many) => &many[..],
        Outputs::One(one) => std::slice::from_ref(one),
    };
    if !(1..=OUTPUTS_MAX).contains(&asked.len()) {
        let message = format!("{} of them, and there may be 1 to {OUTPUTS_MAX}", asked.len());
        return Err(vec![bad("outputs", message)]);
    }
    let mut faults = Vec::new();
    let mut outputs = Vec::with_capacity(asked.len());
    for (number, one) in asked.iter().enumerate() {
        let at = |message: String| bad("outputs", format!("number {}: {message}", number + 1));
        match (recipient(&one.recipient, program), paid(&one.amount)) {
            (Ok(recipient), Ok(amount)) => outputs.push(Output { recipient, amount }),
            (recipient, amount) => {
                let wrong = [recipient.err(), amount.err()].into_iter().flatten();
                faults.extend(wrong.map(at));
            }
        }
    }
    if faults.is_empty() { Ok(outputs) } else { Err(faults) }
}

fn recipient(text: &str, program: &Address) -> Result<Address, String> {
    let recipient: Address = text.parse().map_err(|_| "recipient is no Solana address")?;
    // Nobody could ever use what is paid to these, and to the pool's own it would look like a
    // deposit of nobody's.
    let own = Accounts::of(program).all();
    match own.contains(&recipient) || [*program, system::ID].contains(&recipient) {
        true => Err("recipient is an account of the pool's or a program".to_owned()),
        false => Ok(recipient),
    }
}

fn paid(amount: &Lamports) -> Result<u64, String> {
    match amount.read() {
        Ok(0) => Err("amount must be more than 0".to_owned()),
        Ok(amount) => Ok(amount),
        Err(why) => Err(format!("amount: {why}")),
    }
}

/// Where what is said in one place does not follow from what is said in another.
fn contradictions(body: &Body, public: &Public, outputs: &[Output]) -> Vec<BadField> {
    let mut faults = Vec::new();
    if shield::outputs_hash(outputs) != public.outputs_hash {
        let message = "outputs_hash is not the BLAKE3 of these outputs in this order";
        faults.push(bad("public_inputs", message));
    }
    let sum = outputs.iter().try_fold(0, |sum: u64, output| sum.checked_add(output.amount));
    let fee = shield::fee(public.amount);
    if sum.and_then(|sum| sum.checked_add(fee)) != Some(public.amount) {
        let sum = sum.map_or("too much".to_owned(), |sum| sum.to_string());
        let message = format!(
            "outputs ({sum}) and the pool's fee ({fee}) are not the amount ({})",
            public.amount
        );
        faults.push(bad("outputs", message));
        // Without that no fee is right.
        return faults;
    }
    let policy = body.policy.as_ref().map(|policy| policy.fee_bps);
    let given: Vec<u64> = [body.fee_bps, policy, public.fee_bps].into_iter().flatten().collect();
    let demanded = shield::fee_bps(public.amount);
    if given.is_empty() {
        faults.push(bad("fee_bps", "is missing"));
    } else if let Some(wrong) = given.into_iter().find(|given| Some(*given) != demanded) {
        let demanded = demanded.unwrap_or_default();
        let message = format!("{wrong}, and a fee of {fee} of {} is {demanded}", public.amount);
        faults.push(bad("fee_bps", message));
    }
    faults
}

#[cfg(test)]
mod tests;
