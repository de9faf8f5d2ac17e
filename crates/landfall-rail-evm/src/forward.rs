//! Requests that a user has signed and somebody else pays for (ERC-2771), as OpenZeppelin's
//! forwarder takes them.
//!
//! The signature is over the request with the user's nonce at the forwarder, which takes each nonce
//! once: who submits it does not matter, and submitting it again does nothing.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{Eip712Domain, SolCall, SolStruct, sol};

sol! {
    /// What the user signs.
    #[derive(Debug, PartialEq, Eq)]
    struct ForwardRequest {
        address from;
        address to;
        uint256 value;
        uint256 gas;
        uint256 nonce;
        uint48 deadline;
        bytes data;
    }

    /// What the forwarder is given: the nonce it knows itself.
    #[derive(Debug, PartialEq, Eq)]
    struct ForwardRequestData {
        address from;
        address to;
        uint256 value;
        uint256 gas;
        uint48 deadline;
        bytes data;
        bytes signature;
    }

    function executeBatch(ForwardRequestData[] requests, address refundReceiver) external payable;
    function execute(ForwardRequestData calldata request) external payable;
    function nonces(address owner) external view returns (uint256);
    function eip712Domain() external view returns (
        bytes1 fields, string name, string version, uint256 chainId, address verifyingContract,
        bytes32 salt, uint256[] extensions
    );

    event ExecutedForwardRequest(address indexed signer, uint256 nonce, bool success);
}

/// The largest deadline that the forwarder knows.
pub const DEADLINE_MAX: u64 = (1 << 48) - 1;

/// A forwarder, as its signatures name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forwarder {
    pub address: Address,
    pub chain_id: u64,
    /// The name it was created with.
    pub name: String,
}

/// Why a request is not its user's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSigned {
    #[error("not a signature: 65 bytes are wanted")]
    Malformed,
    #[error(
        "signed by {signer}, not by {from}; the signature must be over this request, for the \
             forwarder {forwarder} on chain {chain_id}"
    )]
    ByAnother { signer: Address, from: Address, forwarder: Address, chain_id: u64 },
}

impl Forwarder {
    fn domain(&self) -> Eip712Domain {
        Eip712Domain {
            name: Some(self.name.clone().into()),
            version: Some("1".into()),
            chain_id: Some(U256::from(self.chain_id)),
            verifying_contract: Some(self.address),
            salt: None,
        }
    }

    /// What the user signs.
    pub fn digest(&self, request: &ForwardRequest) -> B256 {
        request.eip712_signing_hash(&self.domain())
    }

    /// Whether the user has signed it.
    pub fn verify(&self, request: &ForwardRequest, signature: &[u8]) -> Result<(), NotSigned> {
        let parsed: [u8; 65] = signature.try_into().map_err(|_| NotSigned::Malformed)?;
        let parsed = alloy_primitives::Signature::from_raw_array(&parsed);
        let parsed = parsed.map_err(|_| NotSigned::Malformed)?;
        // As the forwarder has it: of the two forms of a signature only the low one counts.
        if parsed.normalize_s().is_some() {
            return Err(NotSigned::Malformed);
        }
        let signer = parsed.recover_address_from_prehash(&self.digest(request));
        match signer.map_err(|_| NotSigned::Malformed)? {
            signer if signer == request.from => Ok(()),
            signer => Err(NotSigned::ByAnother {
                signer,
                from: request.from,
                forwarder: self.address,
                chain_id: self.chain_id,
            }),
        }
    }

    /// The input of the question for its name.
    pub fn question() -> Bytes {
        eip712DomainCall {}.abi_encode().into()
    }

    /// The name in the answer to it.
    pub fn name_in(answer: &Bytes) -> Option<String> {
        eip712DomainCall::abi_decode_returns(answer).ok().map(|domain| domain.name)
    }
}

/// The input of the question for a user's next nonce.
pub fn nonce_question(user: Address) -> Bytes {
    noncesCall { owner: user }.abi_encode().into()
}

/// Whether this is the input of a call that executes a request.
pub fn is_execution(input: &Bytes) -> bool {
    executeCall::abi_decode(input).is_ok()
}

/// The input of the call that executes a request.
pub fn execution(request: &ForwardRequest, signature: &Bytes) -> Bytes {
    let ForwardRequest { from, to, value, gas, deadline, data, .. } = request.clone();
    let signature = signature.clone();
    let request = ForwardRequestData { from, to, value, gas, deadline, data, signature };
    executeCall { request }.abi_encode().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Key;

    fn user() -> Key {
        Key::parse("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d").unwrap()
    }

    fn forwarder() -> Forwarder {
        let address = Address::repeat_byte(0x22);
        Forwarder { address, chain_id: 31_337, name: "ERC2771Forwarder".to_owned() }
    }

    fn request() -> ForwardRequest {
        ForwardRequest {
            from: user().address(),
            to: Address::repeat_byte(0x33),
            value: U256::ZERO,
            gas: U256::from(100_000),
            nonce: U256::from(4),
            deadline: alloy_primitives::aliases::U48::from(2_000_000_000u64),
            data: Bytes::from_static(&[0xd0, 0x9d, 0xe0, 0x8a]),
        }
    }

    fn signed(request: &ForwardRequest) -> Vec<u8> {
        user().sign(&forwarder().digest(request)).as_bytes().to_vec()
    }

    #[test]
    fn what_the_user_has_signed_is_verified() {
        assert_eq!(forwarder().verify(&request(), &signed(&request())), Ok(()));
    }

    #[test]
    fn a_signature_is_for_this_request_this_forwarder_and_this_chain_alone() {
        let signature = signed(&request());
        let others = [
            ForwardRequest { to: Address::ZERO, ..request() },
            ForwardRequest { value: U256::from(1), ..request() },
            ForwardRequest { gas: U256::from(1), ..request() },
            ForwardRequest { nonce: U256::from(5), ..request() },
            ForwardRequest { deadline: Default::default(), ..request() },
            ForwardRequest { data: Bytes::new(), ..request() },
            ForwardRequest { from: Address::ZERO, ..request() },
        ];
        for other in others {
            let told = forwarder().verify(&other, &signature).unwrap_err();
            assert!(matches!(told, NotSigned::ByAnother { .. }), "{other:?}");
        }
        let elsewhere = [
            Forwarder { chain_id: 1, ..forwarder() },
            Forwarder { address: Address::ZERO, ..forwarder() },
            Forwarder { name: "Forwarder".to_owned(), ..forwarder() },
        ];
        for other in elsewhere {
            assert!(other.verify(&request(), &signature).is_err(), "{other:?}");
        }
    }

    #[test]
    fn what_is_no_signature_is_told_so() {
        let signature = signed(&request());
        for bad in [&[][..], &signature[..64], &[0; 65], &[255; 65]] {
            assert_eq!(forwarder().verify(&request(), bad), Err(NotSigned::Malformed), "{bad:?}");
        }
        // The other form of the same signature, which the forwarder would not take.
        let mut high = signature.clone();
        let s = U256::from_be_slice(&signature[32..64]);
        let order = alloy_primitives::uint!(
            0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141_U256
        );
        high[32..64].copy_from_slice(&(order - s).to_be_bytes::<32>());
        high[64] ^= 27 ^ 28;
        assert_eq!(forwarder().verify(&request(), &high), Err(NotSigned::Malformed));
    }

    #[test]
    fn the_type_is_named_as_the_contract_names_it() {
        assert_eq!(
            ForwardRequest::eip712_encode_type(),
            "ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,\
             uint48 deadline,bytes data)"
        );
    }

    #[test]
    fn the_execution_carries_all_but_the_nonce() {
        let signature = Bytes::from(signed(&request()));
        let input = execution(&request(), &signature);
        let decoded = executeCall::abi_decode(&input).unwrap().request;
        assert_eq!((decoded.from, decoded.to), (request().from, request().to));
        assert_eq!((decoded.data, decoded.signature), (request().data, signature));
    }
}
