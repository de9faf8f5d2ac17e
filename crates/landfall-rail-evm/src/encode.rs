//! Transactions, from what they are to do to the bytes that a node takes, and back.
//!
//! **Rule:** what a transaction does is its signer, its nonce, whom it calls, with what value and
//! input ([`Content`]). Two with the same content are the same payment, whatever they offer.

use alloy_consensus::{SignableTransaction, Transaction, TxEip1559, TxEnvelope, TxLegacy};
use alloy_eips::eip2718::{Decodable2718, Encodable2718};
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};

use crate::fees::Offer;
use crate::keys::Key;

/// A transaction that is about to be signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    pub chain_id: u64,
    pub nonce: u64,
    pub to: Address,
    pub value: U256,
    pub input: Bytes,
    pub gas: u64,
    pub offer: Offer,
}

/// What a transaction does, and by whose signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub from: Address,
    pub nonce: u64,
    /// None where it creates a contract, which we never do.
    pub to: Option<Address>,
    pub value: U256,
    pub input: Bytes,
}

/// Bytes that cannot be read as a transaction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a signed transaction: {0}")]
pub struct Unreadable(String);

/// Signs it: the bytes that a node takes, and their hash.
pub fn sign(draft: &Draft, key: &Key) -> (Vec<u8>, B256) {
    let Draft { chain_id, nonce, to, value, input, gas, offer } = draft.clone();
    let to = TxKind::Call(to);
    let envelope = match offer {
        Offer::Base { fee_max, tip_max } => signed(
            TxEip1559 {
                chain_id,
                nonce,
                gas_limit: gas,
                max_fee_per_gas: fee_max,
                max_priority_fee_per_gas: tip_max,
                to,
                value,
                access_list: Default::default(),
                input,
            },
            key,
        ),
        Offer::Legacy { gas_price } => signed(
            TxLegacy {
                chain_id: Some(chain_id),
                nonce,
                gas_price,
                gas_limit: gas,
                to,
                value,
                input,
            },
            key,
        ),
    };
    (envelope.encoded_2718(), *envelope.tx_hash())
}

fn signed<T>(transaction: T, key: &Key) -> TxEnvelope
where
    T: SignableTransaction<alloy_primitives::Signature>,
    TxEnvelope: From<alloy_consensus::Signed<T>>,
{
    let signature = key.sign(&transaction.signature_hash());
    transaction.into_signed(signature).into()
}

/// What signed bytes do, and who has signed them.
pub fn content(bytes: &[u8]) -> Result<Content, Unreadable> {
    let envelope = read(bytes)?;
    let from = alloy_consensus::transaction::SignerRecoverable::recover_signer(&envelope);
    Ok(of(&envelope, from.map_err(|error| Unreadable(error.to_string()))?))
}

/// What bytes do that `signer` has signed; finding out who has takes longer than all the rest.
pub fn content_by(bytes: &[u8], signer: Address) -> Result<Content, Unreadable> {
    Ok(of(&read(bytes)?, signer))
}

fn of(envelope: &TxEnvelope, from: Address) -> Content {
    Content {
        from,
        nonce: envelope.nonce(),
        to: envelope.to(),
        value: envelope.value(),
        input: envelope.input().clone(),
    }
}

/// What signed bytes offer.
pub fn offer(bytes: &[u8]) -> Result<Offer, Unreadable> {
    let envelope = read(bytes)?;
    Ok(match envelope.gas_price() {
        Some(gas_price) => Offer::Legacy { gas_price },
        None => Offer::Base {
            fee_max: envelope.max_fee_per_gas(),
            tip_max: envelope.max_priority_fee_per_gas().unwrap_or_default(),
        },
    })
}

/// What signed bytes were made of.
pub fn draft(bytes: &[u8]) -> Result<Draft, Unreadable> {
    let envelope = read(bytes)?;
    let unreadable = |what: &str| Unreadable(what.to_owned());
    let draft = Draft {
        chain_id: envelope.chain_id().ok_or_else(|| unreadable("for no chain"))?,
        nonce: envelope.nonce(),
        to: envelope.to().ok_or_else(|| unreadable("it calls nobody"))?,
        value: envelope.value(),
        input: envelope.input().clone(),
        gas: envelope.gas_limit(),
        offer: offer(bytes)?,
    };
    Ok(draft)
}

fn read(bytes: &[u8]) -> Result<TxEnvelope, Unreadable> {
    let mut rest = bytes;
    let read = TxEnvelope::decode_2718(&mut rest);
    match (read, rest) {
        (Ok(envelope), []) => Ok(envelope),
        (Ok(_), rest) => Err(Unreadable(format!("{} bytes too many", rest.len()))),
        (Err(error), _) => Err(Unreadable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GWEI: u128 = 1_000_000_000;

    fn key() -> Key {
        Key::parse("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80").unwrap()
    }

    fn draft(offer: Offer) -> Draft {
        Draft {
            chain_id: 31_337,
            nonce: 7,
            to: Address::repeat_byte(0x11),
            value: U256::from(5),
            input: Bytes::from_static(&[1, 2, 3]),
            gas: 50_000,
            offer,
        }
    }

    #[test]
    fn what_was_signed_is_read_back() {
        for offer in [
            Offer::Base { fee_max: 30 * GWEI, tip_max: GWEI },
            Offer::Legacy { gas_price: 20 * GWEI },
        ] {
            let draft = draft(offer);
            let (bytes, hash) = sign(&draft, &key());
            assert_eq!(super::offer(&bytes), Ok(offer));
            assert_eq!(super::draft(&bytes), Ok(draft.clone()));
            assert_eq!(alloy_primitives::keccak256(&bytes), hash);
            let read = content(&bytes).unwrap();
            assert_eq!(content_by(&bytes, key().address()), Ok(read.clone()));
            assert_eq!(read.from, key().address());
            assert_eq!((read.nonce, read.to), (draft.nonce, Some(draft.to)));
            assert_eq!((read.value, read.input), (draft.value, draft.input));
        }
    }

    #[test]
    fn a_higher_offer_is_other_bytes_and_the_same_content() {
        let (low, low_hash) = sign(&draft(Offer::Base { fee_max: 8, tip_max: 1 }), &key());
        let (high, high_hash) = sign(&draft(Offer::Base { fee_max: 80, tip_max: 10 }), &key());
        assert_ne!((&low, low_hash), (&high, high_hash));
        assert_eq!(content(&low), content(&high));
    }

    #[test]
    fn the_same_draft_is_signed_into_the_same_bytes() {
        let draft = draft(Offer::Legacy { gas_price: 1 });
        assert_eq!(sign(&draft, &key()), sign(&draft, &key()));
    }

    #[test]
    fn damaged_bytes_are_no_transaction() {
        let (bytes, _) = sign(&draft(Offer::Base { fee_max: 8, tip_max: 1 }), &key());
        assert!(content(&[]).is_err());
        assert!(content(&bytes[..bytes.len() - 1]).is_err());
        assert!(content(&[&bytes[..], &[0]].concat()).is_err());
    }
}
