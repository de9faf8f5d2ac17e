//! What a node means when it does not simply take a transaction.
//!
//! Each client has words of its own, and none of them is a standard. A phrase is known by how it
//! begins: what follows may be numbers, or a text that a contract's author has chosen.
//! **Rule:** the table is closed. What is not in it is *unsure*: it proves nothing, and the
//! transaction is looked for.
//! **Rule:** `nonce too low` is no refusal: nodes say it of transactions that landed.

/// What an answer to `eth_sendRawTransaction` means, cut by what the sender does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The node has it already.
    Known,
    /// The nonce is used, by this one or by another: look.
    Used,
    /// Not with these fees, at least not now: better terms may help.
    Underpriced,
    /// The signer cannot pay for it now.
    Short,
    /// These bytes can never enter the ledger.
    Refused {
        /// By the relay's own doing: a wrong chain, a key that cannot sign.
        relays_fault: bool,
    },
    Unsure,
}

use Meaning::{Known, Refused, Short, Underpriced, Used};

const OWN: Meaning = Refused { relays_fault: false };
const RELAYS: Meaning = Refused { relays_fault: true };

/// How phrases begin, in small letters, with the clients that use them.
const PHRASES: &[(&str, Meaning)] = &[
    // geth, reth, erigon
    ("already known", Known),
    // anvil
    ("transaction already imported", Known),
    // besu, hardhat
    ("known transaction", Known),
    // erigon
    ("already_exists", Known),
    ("existing tx with same hash", Known),
    // nethermind
    ("alreadyknown", Known),
    // geth, reth, erigon, anvil, besu, hardhat
    ("nonce too low", Used),
    // nethermind
    ("oldnonce", Used),
    // geth, reth, anvil, besu, hardhat
    ("replacement transaction underpriced", Underpriced),
    ("transaction underpriced", Underpriced),
    ("max fee per gas less than block base fee", Underpriced),
    // erigon
    ("underpriced", Underpriced),
    ("fee too low", Underpriced),
    // nethermind
    ("feetoolow", Underpriced),
    ("replacementnotallowed", Underpriced),
    // besu
    ("gas price too low", Underpriced),
    ("gas price below", Underpriced),
    // hardhat
    ("transaction maxfeepergas", Underpriced),
    ("transaction gas price", Underpriced),
    // geth, reth, erigon, anvil
    ("insufficient funds", Short),
    // nethermind
    ("insufficientfunds", Short),
    // besu
    ("upfront cost exceeds account balance", Short),
    // hardhat
    ("sender doesn't have enough funds", Short),
    // geth, reth, erigon, anvil
    ("invalid sender", RELAYS),
    ("invalid chain id", RELAYS),
    ("intrinsic gas too low", OWN),
    ("insufficient gas for floor data gas cost", OWN),
    ("exceeds block gas limit", OWN),
    ("gas uint64 overflow", OWN),
    ("max initcode size exceeded", OWN),
    ("oversized data", OWN),
    ("max priority fee per gas higher than max fee per gas", RELAYS),
    ("transaction type not supported", RELAYS),
    // erigon
    ("intrinsicgas", OWN),
    ("initcode too large", OWN),
    ("rlptoolong", OWN),
    // nethermind
    ("failedtoresolvesender", RELAYS),
    ("gaslimitexceeded", OWN),
    ("maxtxsizeexceeded", OWN),
    ("notsupportedtxtype", RELAYS),
    // besu
    ("invalid signature", RELAYS),
    ("intrinsic gas exceeds gas limit", OWN),
    ("transaction gas limit exceeds block gas limit", OWN),
    ("max priority fee per gas cannot be greater than max fee per gas", RELAYS),
    // hardhat
    ("trying to send a raw transaction with an invalid chainid", RELAYS),
    ("transaction requires at least", OWN),
];

/// What servers put before a client's own words.
const WRAPPINGS: &[&str] =
    &["err: ", "error: ", "internal_error: ", "rpc error: code = unknown desc = "];

/// What the message of an error means.
pub fn meaning(message: &str) -> Meaning {
    let lower = message.trim().to_ascii_lowercase();
    let mut said = lower.as_str();
    while let Some(rest) = WRAPPINGS.iter().find_map(|wrapping| said.strip_prefix(wrapping)) {
        said = rest;
    }
    let found = PHRASES.iter().find(|(phrase, _)| said.starts_with(phrase));
    found.map_or(Meaning::Unsure, |(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the clients say them, with all that follows.
    const SAID: &[(&str, &str, Meaning)] = &[
        ("geth", "already known", Known),
        ("geth", "nonce too low: next nonce 7, tx nonce 6", Used),
        ("geth", "replacement transaction underpriced", Underpriced),
        ("geth", "transaction underpriced: gas tip cap 1, minimum needed 1000000000", Underpriced),
        (
            "geth",
            "max fee per gas less than block base fee: address 0xab, maxFeePerGas: 1",
            Underpriced,
        ),
        ("geth", "insufficient funds for gas * price + value: balance 0, tx cost 21000", Short),
        ("geth", "intrinsic gas too low: gas 20000, minimum needed 21000", OWN),
        ("geth", "exceeds block gas limit", OWN),
        ("geth", "invalid sender", RELAYS),
        ("geth", "invalid chain id for signer: have 1 want 5", RELAYS),
        ("geth", "oversized data: transaction size 200000, limit 131072", OWN),
        ("geth", "max initcode size exceeded: code size 50000 limit 49152", OWN),
        ("geth", "transaction type not supported", RELAYS),
        ("geth", "txpool is full", Meaning::Unsure),
        ("geth", "nonce too high", Meaning::Unsure),
        ("geth", "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)", Meaning::Unsure),
        ("erigon", "ALREADY_EXISTS: already known", Known),
        ("erigon", "INTERNAL_ERROR: nonce too low", Used),
        ("erigon", "INTERNAL_ERROR: IntrinsicGas", OWN),
        ("erigon", "INTERNAL_ERROR: underpriced", Underpriced),
        ("erigon", "INTERNAL_ERROR: insufficient funds", Short),
        ("erigon", "pending sub-pool is full", Meaning::Unsure),
        ("nethermind", "AlreadyKnown", Known),
        ("nethermind", "OldNonce, Current nonce: 5, nonce of rejected tx: 4.", Used),
        ("nethermind", "FeeTooLow, EffectivePriorityFeePerGas too low 1 < 2", Underpriced),
        ("nethermind", "ReplacementNotAllowed", Underpriced),
        ("nethermind", "InsufficientFunds, Balance is zero, cannot pay gas", Short),
        ("nethermind", "GasLimitExceeded", OWN),
        ("nethermind", "FailedToResolveSender", RELAYS),
        ("nethermind", "NonceGap, Future nonce. Expected nonce: 3", Meaning::Unsure),
        ("nethermind", "Syncing", Meaning::Unsure),
        ("besu", "Known transaction", Known),
        ("besu", "Nonce too low", Used),
        ("besu", "Gas price below configured minimum gas price", Underpriced),
        ("besu", "Upfront cost exceeds account balance", Short),
        ("besu", "Intrinsic gas exceeds gas limit", OWN),
        ("besu", "Invalid signature", RELAYS),
        ("besu", "An invalid transaction with a lower nonce exists", Meaning::Unsure),
        ("reth", "nonce too low: next nonce 5, tx nonce 4", Used),
        ("reth", "insufficient funds for gas * price + value: have 1 want 2", Short),
        ("reth", "txpool is full", Meaning::Unsure),
        ("anvil", "transaction already imported", Known),
        ("anvil", "nonce too low", Used),
        ("anvil", "replacement transaction underpriced", Underpriced),
        ("anvil", "Insufficient funds for gas * price + value", Short),
        ("anvil", "max priority fee per gas higher than max fee per gas", RELAYS),
        ("hardhat", "Known transaction: 0xabcd", Known),
        ("hardhat", "Nonce too low. Expected nonce to be 5 but got 4.", Used),
        ("hardhat", "Nonce too high. Expected nonce to be 5 but got 9.", Meaning::Unsure),
        ("hardhat", "Sender doesn't have enough funds to send tx. The max upfront cost is", Short),
        ("hardhat", "Transaction maxFeePerGas (1) is too low for the next block", Underpriced),
        ("hardhat", "Transaction requires at least 21000 gas but got 100", OWN),
        (
            "hardhat",
            "Trying to send a raw transaction with an invalid chainId. The expected one is 31337",
            RELAYS,
        ),
    ];

    #[test]
    fn every_client_is_understood_in_its_own_words() {
        for (client, said, expected) in SAID {
            assert_eq!(meaning(said), *expected, "{client}: {said}");
            assert_eq!(meaning(&format!("err: {said}")), *expected, "{client}: {said}");
        }
    }

    #[test]
    fn every_phrase_of_the_table_is_said_by_somebody_here_or_is_small_letters() {
        for (phrase, meaning) in PHRASES {
            assert_eq!(super::meaning(phrase), *meaning, "{phrase} is hidden by one before it");
            assert_eq!(phrase.to_ascii_lowercase(), **phrase);
        }
    }

    /// A node that mines at once answers a broadcast with the contract's own words.
    #[test]
    fn a_text_that_a_contract_has_chosen_refuses_nothing() {
        for chosen in ["invalid sender", "already known", "intrinsic gas too low"] {
            let said =
                format!("VM Exception while processing transaction: reverted with '{chosen}'");
            assert_eq!(meaning(&said), Meaning::Unsure);
            assert_eq!(meaning(&format!("execution reverted: {chosen}")), Meaning::Unsure);
        }
    }

    #[test]
    fn what_nobody_knows_proves_nothing() {
        for said in ["", "internal error", "request timed out", "the method is not available", "ok"]
        {
            assert_eq!(meaning(said), Meaning::Unsure, "{said:?}");
        }
    }
}
