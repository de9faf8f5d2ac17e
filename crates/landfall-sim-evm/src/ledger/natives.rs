//! The contracts of this chain, as functions: a forwarder and a counter.
//!
//! The forwarder has the ABI, the EIP-712 domain, the errors and the event of OpenZeppelin's
//! ERC2771Forwarder 5 (`execute`; not `executeBatch`). The counter trusts it.

use alloy_primitives::{Address, Bytes, Log, Signature, U256, address};
use alloy_sol_types::{Eip712Domain, SolCall, SolError, SolEvent, SolStruct, eip712_domain, sol};

use super::slots::{Draft, Slot};

pub const FORWARDER: Address = address!("4c616e6466616c6c466f72776172646572000001");
pub const COUNTER: Address = address!("4c616e6466616c6c436f756e7465720000000001");
/// The name in the forwarder's domain.
pub const FORWARDER_NAME: &str = "LandfallForwarder";
/// What either has for code: no instruction that does anything.
pub const CODE: &[u8] = &[0xfe];

/// Gas that the counter's writes take, and the forwarder's own work: about what they take on a real
/// chain.
const COUNT_GAS: u64 = 30_000;
const FORWARD_GAS: u64 = 45_000;

sol! {
    struct ForwardRequestData {
        address from;
        address to;
        uint256 value;
        uint256 gas;
        uint48 deadline;
        bytes data;
        bytes signature;
    }

    /// What a user signs.
    struct ForwardRequest {
        address from;
        address to;
        uint256 value;
        uint256 gas;
        uint256 nonce;
        uint48 deadline;
        bytes data;
    }

    interface Forwarder {
        event ExecutedForwardRequest(address indexed signer, uint256 nonce, bool success);
        error ERC2771ForwarderInvalidSigner(address signer, address from);
        error ERC2771ForwarderMismatchedValue(uint256 requestedValue, uint256 msgValue);
        error ERC2771ForwarderExpiredRequest(uint48 deadline);
        error ERC2771UntrustfulTarget(address target, address forwarder);
        error FailedCall();
        function execute(ForwardRequestData request) external payable;
        function verify(ForwardRequestData request) external view returns (bool);
        function nonces(address owner) external view returns (uint256);
        function eip712Domain() external view returns (
            bytes1 fields, string name, string version, uint256 chainId,
            address verifyingContract, bytes32 salt, uint256[] extensions
        );
    }

    interface Counter {
        event Counted(address indexed by, uint256 count);
        error NotPayable(uint256 value);
        function increment() external;
        function count() external view returns (uint256);
        function countOf(address by) external view returns (uint256);
        function isTrustedForwarder(address forwarder) external view returns (bool);
        /// Reverts, with that for a reason.
        function refuse(string reason) external;
    }
}

/// A call of a contract.
#[derive(Debug, Clone)]
pub struct Call {
    pub from: Address,
    pub to: Address,
    pub value: U256,
    pub input: Bytes,
    /// What is left for it.
    pub gas: u64,
}

/// What the chain is when the call is made.
#[derive(Debug, Clone, Copy)]
pub struct Around {
    pub chain_id: u64,
    pub timestamp: u64,
}

/// How a call ended.
#[derive(Debug)]
pub enum Ended {
    Returned { output: Bytes, gas: u64, logs: Vec<Log> },
    Reverted { data: Bytes, gas: u64 },
    OutOfGas,
}

fn returned(output: Vec<u8>) -> Ended {
    Ended::Returned { output: output.into(), gas: 0, logs: Vec::new() }
}

fn reverted(error: impl SolError, gas: u64) -> Ended {
    Ended::Reverted { data: error.abi_encode().into(), gas }
}

pub fn domain(chain_id: u64) -> Eip712Domain {
    eip712_domain! {
        name: FORWARDER_NAME,
        version: "1",
        chain_id: chain_id,
        verifying_contract: FORWARDER,
    }
}

/// Calls whatever is at the address. What is changed stays in the draft even where it reverts: the
/// caller drops it.
pub fn call(draft: &mut Draft<'_>, around: Around, call: &Call) -> Ended {
    if !draft.pay(call.from, call.to, call.value) {
        return Ended::Reverted { data: Bytes::new(), gas: 0 };
    }
    match call.to {
        FORWARDER => forwarder(draft, around, call),
        COUNTER => counter(draft, call),
        _ => returned(Vec::new()),
    }
}

fn forwarder(draft: &mut Draft<'_>, around: Around, call: &Call) -> Ended {
    use Forwarder as F;
    if let Ok(asked) = F::executeCall::abi_decode(&call.input) {
        return execute(draft, around, call, &asked.request);
    }
    if let Ok(asked) = F::noncesCall::abi_decode(&call.input) {
        let nonce = draft.get(Slot::ForwarderNonce(asked.owner));
        return returned(F::noncesCall::abi_encode_returns(&nonce));
    }
    if let Ok(asked) = F::verifyCall::abi_decode(&call.input) {
        let request = &asked.request;
        let signed = signer(draft, around, request) == Some(request.from);
        let is_due = request.deadline.to::<u64>() >= around.timestamp;
        let verified = signed && is_due && request.to == COUNTER;
        return returned(F::verifyCall::abi_encode_returns(&verified));
    }
    if F::eip712DomainCall::abi_decode(&call.input).is_ok() {
        return returned(F::eip712DomainCall::abi_encode_returns(&F::eip712DomainReturn {
            fields: [0x0f].into(),
            name: FORWARDER_NAME.to_owned(),
            version: "1".to_owned(),
            chainId: U256::from(around.chain_id),
            verifyingContract: FORWARDER,
            salt: Default::default(),
            extensions: Vec::new(),
        }));
    }
    Ended::Reverted { data: Bytes::new(), gas: 0 }
}

/// Who signed the request, by the forwarder's next nonce of whom it names.
fn signer(draft: &Draft<'_>, around: Around, request: &ForwardRequestData) -> Option<Address> {
    let signed = ForwardRequest {
        from: request.from,
        to: request.to,
        value: request.value,
        gas: request.gas,
        nonce: draft.get(Slot::ForwarderNonce(request.from)),
        deadline: request.deadline,
        data: request.data.clone(),
    };
    let hash = signed.eip712_signing_hash(&domain(around.chain_id));
    let signature = Signature::from_raw(&request.signature).ok()?;
    // A second form of the same signature is none.
    if signature.normalize_s().is_some() {
        return None;
    }
    signature.recover_address_from_prehash(&hash).ok()
}

/// In the order in which the contract checks.
fn execute(
    draft: &mut Draft<'_>,
    around: Around,
    call: &Call,
    request: &ForwardRequestData,
) -> Ended {
    use Forwarder as F;
    if call.value != request.value {
        let (requested, sent) = (request.value, call.value);
        let error =
            F::ERC2771ForwarderMismatchedValue { requestedValue: requested, msgValue: sent };
        return reverted(error, 0);
    }
    if request.to != COUNTER {
        let (target, forwarder) = (request.to, FORWARDER);
        return reverted(F::ERC2771UntrustfulTarget { target, forwarder }, FORWARD_GAS);
    }
    if request.deadline.to::<u64>() < around.timestamp {
        let deadline = request.deadline;
        return reverted(F::ERC2771ForwarderExpiredRequest { deadline }, FORWARD_GAS);
    }
    let signer = signer(draft, around, request).unwrap_or_default();
    if signer != request.from {
        let from = request.from;
        return reverted(F::ERC2771ForwarderInvalidSigner { signer, from }, FORWARD_GAS);
    }
    let gas = request.gas.try_into().unwrap_or(u64::MAX);
    if call.gas < FORWARD_GAS.saturating_add(gas) {
        return Ended::OutOfGas;
    }
    let nonce = draft.count(Slot::ForwarderNonce(signer));
    let mut input = request.data.to_vec();
    input.extend_from_slice(request.from.as_slice());
    let inner =
        Call { from: FORWARDER, to: request.to, value: request.value, input: input.into(), gas };
    match self::call(draft, around, &inner) {
        Ended::Returned { gas, mut logs, .. } => {
            logs.push(logged(
                FORWARDER,
                &F::ExecutedForwardRequest { signer, nonce, success: true },
            ));
            Ended::Returned { output: Bytes::new(), gas: FORWARD_GAS + gas, logs }
        }
        Ended::Reverted { gas, .. } => reverted(F::FailedCall {}, FORWARD_GAS + gas),
        Ended::OutOfGas => reverted(F::FailedCall {}, FORWARD_GAS + gas),
    }
}

fn counter(draft: &mut Draft<'_>, call: &Call) -> Ended {
    use Counter as C;
    if !call.value.is_zero() {
        return reverted(C::NotPayable { value: call.value }, 0);
    }
    // Whoever the forwarder speaks for stands at the end of what it passes on.
    let speaks_for = call.input.len().checked_sub(20).filter(|_| call.from == FORWARDER);
    let (input, by) = match speaks_for {
        Some(at) => (&call.input[..at], Address::from_slice(&call.input[at..])),
        None => (&call.input[..], call.from),
    };
    if C::incrementCall::abi_decode(input).is_ok() {
        if call.gas < COUNT_GAS {
            return Ended::OutOfGas;
        }
        let count = draft.count(Slot::Count) + U256::from(1);
        draft.count(Slot::CountOf(by));
        let logs = vec![logged(COUNTER, &C::Counted { by, count })];
        return Ended::Returned { output: Bytes::new(), gas: COUNT_GAS, logs };
    }
    if C::countCall::abi_decode(input).is_ok() {
        return returned(C::countCall::abi_encode_returns(&draft.get(Slot::Count)));
    }
    if let Ok(asked) = C::countOfCall::abi_decode(input) {
        let count = draft.get(Slot::CountOf(asked.by));
        return returned(C::countOfCall::abi_encode_returns(&count));
    }
    if let Ok(asked) = C::isTrustedForwarderCall::abi_decode(input) {
        let trusted = asked.forwarder == FORWARDER;
        return returned(C::isTrustedForwarderCall::abi_encode_returns(&trusted));
    }
    if let Ok(asked) = C::refuseCall::abi_decode(input) {
        return reverted(alloy_sol_types::Revert::from(asked.reason), 0);
    }
    Ended::Reverted { data: Bytes::new(), gas: 0 }
}

fn logged(address: Address, event: &impl SolEvent) -> Log {
    Log { address, data: event.encode_log_data() }
}
