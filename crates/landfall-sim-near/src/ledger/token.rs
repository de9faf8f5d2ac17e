//! The token contract: NEP-141 and NEP-145 as near-contract-standards 4.1 speaks them.
//!
//! Messages are those of the captured answers, letter by letter. A method either changes the
//! state and returns, or panics; whoever calls it takes the changes of a panic back.
//! Not here: gas and deposits on their way to the contract (`execute`).

use near_primitives::types::AccountId;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::fees;
use super::state::{Slot, State};

/// Deposit for one registration: NEP-145 `storage_balance_bounds`, min = max = 0.00125 NEAR.
pub const STORAGE_DEPOSIT: u128 = 1_250_000_000_000_000_000_000;

/// What a contract with rules of its own refuses an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spurned {
    /// To be registered.
    Registration,
    /// To be paid: no amount is enough for it.
    Payment,
}

/// A call of a change method.
pub struct Call<'a> {
    pub predecessor: &'a AccountId,
    pub method: &'a str,
    pub args: &'a [u8],
    pub deposit: u128,
}

/// What a call left behind.
#[derive(Debug, Default)]
pub struct Done {
    pub value: Vec<u8>,
    pub log: Option<String>,
    /// yoctoNEAR the contract sends back to the caller.
    pub refund: u128,
    /// yoctoNEAR the contract keeps.
    pub kept: u128,
    pub gas: u64,
    pub transfer: Option<Moved>,
}

/// An `ft_transfer` that took effect.
#[derive(Clone, Debug)]
pub struct Moved {
    pub receiver_id: AccountId,
    pub amount: u128,
    pub memo: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    Panic(String),
    /// Whatever was attached is used up.
    OutOfGas,
    NoSuchMethod,
}

/// How a transfer fails by decree: contracts that call out, list accounts or can be paused do so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Poison {
    EatsGas,
    Panics(String),
}

#[derive(Deserialize)]
struct TransferArgs {
    receiver_id: String,
    amount: String,
    #[serde(default)]
    memo: Option<String>,
}

#[derive(Default, Deserialize)]
struct DepositArgs {
    #[serde(default)]
    account_id: Option<String>,
    /// With min = max the standard contract never keeps more, asked or not.
    #[serde(default, rename = "registration_only")]
    _registration_only: Option<bool>,
}

#[derive(Default, Deserialize)]
struct UnregisterArgs {
    #[serde(default)]
    force: Option<bool>,
}

#[derive(Deserialize)]
struct AccountArgs {
    account_id: String,
}

pub fn call(state: &mut State, call: &Call) -> Result<Done, Failure> {
    match call.method {
        "ft_transfer" => ft_transfer(state, call),
        "storage_deposit" => storage_deposit(state, call),
        "storage_unregister" => storage_unregister(state, call),
        _ => Err(Failure::NoSuchMethod),
    }
}

fn ft_transfer(state: &mut State, call: &Call) -> Result<Done, Failure> {
    let args: TransferArgs = parse(call.args)?;
    let receiver = account(&args.receiver_id, call.args)?;
    let amount = args.amount.parse::<u128>().map_err(|error| bad_input(call.args, &error))?;
    one_yocto(call)?;
    match state.poison(&receiver) {
        None => {}
        Some(Poison::EatsGas) => return Err(Failure::OutOfGas),
        Some(Poison::Panics(words)) => return Err(panic(words)),
    }
    require(call.predecessor != &receiver, "Sender and receiver should be different")?;
    let enough = amount > 0 && !is_spurned(state, &receiver, Spurned::Payment);
    require(enough, "The amount should be a positive number")?;
    let sender = Slot::Token(call.predecessor.clone());
    let held = state.amount(&sender).ok_or_else(|| not_registered(call.predecessor))?;
    let left = held.checked_sub(amount);
    let left = left.ok_or_else(|| panic("The account doesn't have enough balance"))?;
    let target = Slot::Token(receiver.clone());
    let had = state.amount(&target).ok_or_else(|| not_registered(&receiver))?;
    let has = had.checked_add(amount).ok_or_else(|| panic("Balance overflow"))?;
    state.set_amount(sender, left);
    state.set_amount(target, has);
    Ok(Done {
        log: Some(transfer_event(call.predecessor, &receiver, amount, args.memo.as_deref())),
        gas: fees::FT_TRANSFER,
        kept: call.deposit,
        transfer: Some(Moved { receiver_id: receiver, amount, memo: args.memo }),
        ..Done::default()
    })
}

fn transfer_event(from: &AccountId, to: &AccountId, amount: u128, memo: Option<&str>) -> String {
    let memo = memo.map(|memo| format!(",\"memo\":{}", json!(memo))).unwrap_or_default();
    format!(
        "EVENT_JSON:{{\"standard\":\"nep141\",\"version\":\"1.0.0\",\"event\":\"ft_transfer\",\
         \"data\":[{{\"old_owner_id\":\"{from}\",\"new_owner_id\":\"{to}\",\
         \"amount\":\"{amount}\"{memo}}}]}}"
    )
}

fn storage_deposit(state: &mut State, call: &Call) -> Result<Done, Failure> {
    let args: DepositArgs = parse(call.args)?;
    let account = match &args.account_id {
        Some(id) => account(id, call.args)?,
        None => call.predecessor.clone(),
    };
    let spurned = is_spurned(state, &account, Spurned::Registration);
    let slot = Slot::Token(account);
    let mut done =
        Done { value: storage_balance().into_bytes(), gas: fees::STORAGE_CALL, ..Done::default() };
    if state.amount(&slot).is_some() {
        done.log = Some("The account is already registered, refunding the deposit".to_string());
        done.refund = call.deposit;
        return Ok(done);
    }
    require(!spurned, "This account may not be registered")?;
    require(
        call.deposit >= STORAGE_DEPOSIT,
        "The attached deposit is less than the minimum storage balance",
    )?;
    state.set_amount(slot, 0);
    done.kept = STORAGE_DEPOSIT;
    done.refund = call.deposit - STORAGE_DEPOSIT;
    Ok(done)
}

fn is_spurned(state: &State, account: &AccountId, what: Spurned) -> bool {
    state.get(&Slot::Spurned(account.clone(), what)).is_some()
}

fn storage_unregister(state: &mut State, call: &Call) -> Result<Done, Failure> {
    let args: UnregisterArgs = parse(call.args)?;
    one_yocto(call)?;
    let slot = Slot::Token(call.predecessor.clone());
    let mut done = Done { gas: fees::STORAGE_CALL, ..Done::default() };
    let Some(held) = state.amount(&slot) else {
        done.value = b"false".to_vec();
        done.log = Some(format!("The account {} is not registered", call.predecessor));
        done.kept = call.deposit;
        return Ok(done);
    };
    require(
        held == 0 || args.force == Some(true),
        "Can't unregister the account with the positive balance without force",
    )?;
    let supply = state.amount(&Slot::Supply).unwrap_or(0);
    state.set(slot, None);
    state.set_amount(Slot::Supply, supply - held);
    done.value = b"true".to_vec();
    done.log = (held > 0).then(|| format!("Closed @{} with {held}", call.predecessor));
    done.refund = STORAGE_DEPOSIT + call.deposit;
    Ok(done)
}

/// Answers a view method from whatever `read` says a cell holds.
pub fn view(
    read: impl Fn(&Slot) -> Option<u128>,
    method: &str,
    args: &[u8],
) -> Result<Vec<u8>, Failure> {
    let answer = match method {
        "ft_balance_of" => {
            let AccountArgs { account_id } = parse(args)?;
            let held = read(&Slot::Token(account(&account_id, args)?)).unwrap_or(0);
            format!("\"{held}\"")
        }
        "storage_balance_of" => {
            let AccountArgs { account_id } = parse(args)?;
            match read(&Slot::Token(account(&account_id, args)?)) {
                Some(_) => storage_balance(),
                None => "null".to_string(),
            }
        }
        "storage_balance_bounds" => {
            format!("{{\"min\":\"{STORAGE_DEPOSIT}\",\"max\":\"{STORAGE_DEPOSIT}\"}}")
        }
        "ft_total_supply" => format!("\"{}\"", read(&Slot::Supply).unwrap_or(0)),
        "ft_metadata" => metadata(),
        "ft_transfer" | "storage_unregister" => {
            return Err(panic("Requires attached deposit of exactly 1 yoctoNEAR"));
        }
        _ => return Err(Failure::NoSuchMethod),
    };
    Ok(answer.into_bytes())
}

fn metadata() -> String {
    "{\"spec\":\"ft-1.0.0\",\"name\":\"Simulated Token\",\"symbol\":\"SIM\",\"icon\":null,\
     \"reference\":null,\"reference_hash\":null,\"decimals\":18}"
        .to_string()
}

fn storage_balance() -> String {
    format!("{{\"total\":\"{STORAGE_DEPOSIT}\",\"available\":\"0\"}}")
}

fn parse<'a, T: Deserialize<'a>>(args: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(args).map_err(|error| {
        // serde's own words carry the position the contract's panic shows in a field of its own.
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or_default().to_string();
        input_panic(&what, error.line(), error.column())
    })
}

fn account(id: &str, args: &[u8]) -> Result<AccountId, Failure> {
    id.parse().map_err(|_| input_panic("the account ID is invalid", 1, args.len()))
}

fn bad_input(args: &[u8], error: &dyn std::fmt::Display) -> Failure {
    input_panic(&error.to_string(), 1, args.len())
}

fn input_panic(what: &str, line: usize, column: usize) -> Failure {
    panic(&format!(
        "panicked at test-token/src/lib.rs:42:1:\nFailed to deserialize input from JSON.: \
         Error({what:?}, line: {line}, column: {column})"
    ))
}

fn one_yocto(call: &Call) -> Result<(), Failure> {
    require(call.deposit == 1, "Requires attached deposit of exactly 1 yoctoNEAR")
}

fn not_registered(account: &AccountId) -> Failure {
    panic(&format!("The account {account} is not registered"))
}

fn require(holds: bool, message: &str) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(panic(message)) }
}

fn panic(message: &str) -> Failure {
    Failure::Panic(message.to_string())
}
