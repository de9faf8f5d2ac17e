//! The relay's own keys. A secret never leaves this module, not even for a log.

use std::fmt;
use std::path::Path;

use alloy_primitives::{Address, B256, Signature, hex};
use k256::ecdsa::SigningKey;

/// A key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("not a key: give 32 bytes as 64 hexadecimal digits, with or without 0x")]
    NotHex,
    #[error("not a key of this curve: it is zero, or too large")]
    OutOfRange,
    #[error("the keystore cannot be opened: {0}")]
    Keystore(String),
}

/// One signer.
#[derive(Clone)]
pub struct Key {
    secret: SigningKey,
    address: Address,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.address)
    }
}

impl Key {
    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Key, BadKey> {
        let digits = text.trim().trim_start_matches("0x");
        let bytes = hex::decode_to_array::<_, 32>(digits).map_err(|_| BadKey::NotHex)?;
        Key::of(&bytes)
    }

    /// From an encrypted file as geth and cast write it.
    pub fn from_keystore(file: &Path, password: &str) -> Result<Key, BadKey> {
        let opened = eth_keystore::decrypt_key(file, password);
        Key::of(&opened.map_err(|error| BadKey::Keystore(error.to_string()))?)
    }

    fn of(bytes: &[u8]) -> Result<Key, BadKey> {
        let secret = SigningKey::from_slice(bytes).map_err(|_| BadKey::OutOfRange)?;
        let address = Address::from_private_key(&secret);
        Ok(Key { secret, address })
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Signs a hash.
    ///
    /// # Panics
    /// Never: a key of this curve signs every hash.
    pub fn sign(&self, hash: &B256) -> Signature {
        let signed = self.secret.sign_prehash_recoverable(hash.as_slice());
        Signature::from(signed.expect("a key of this curve signs every hash"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first account of anvil and hardhat.
    const SECRET: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";
    const ADDRESS: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";

    #[test]
    fn a_key_is_read_with_and_without_its_prefix() {
        for text in [SECRET, &SECRET[2..], &format!(" {SECRET}\n")] {
            assert_eq!(Key::parse(text).unwrap().address().to_string(), ADDRESS);
        }
        for (bad, expected) in [
            ("", BadKey::NotHex),
            ("0x12", BadKey::NotHex),
            (&SECRET.replace('a', "g"), BadKey::NotHex),
            (&"0".repeat(64), BadKey::OutOfRange),
            (&"f".repeat(64), BadKey::OutOfRange),
        ] {
            assert_eq!(Key::parse(bad).unwrap_err(), expected, "{bad:?}");
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let key = Key::parse(SECRET).unwrap();
        assert_eq!(format!("{key:?}"), format!("Key({ADDRESS})"));
        assert!(!Key::parse(&format!("{SECRET}00")).unwrap_err().to_string().contains("ac09"));
    }

    #[test]
    fn what_it_signs_is_recovered_as_its_address() {
        let key = Key::parse(SECRET).unwrap();
        let hash = B256::repeat_byte(7);
        assert_eq!(key.sign(&hash).recover_address_from_prehash(&hash).unwrap(), key.address());
    }

    #[test]
    fn a_keystore_opens_with_its_password_alone() {
        let folder = tempfile::tempdir().unwrap();
        // As geth's light keystore has it: the strong one takes a second to open in a test build.
        let file = folder.path().join("key.json");
        std::fs::write(&file, KEYSTORE).unwrap();
        assert_eq!(Key::from_keystore(&file, "testpassword").unwrap().address(), STORED);
        let wrong = Key::from_keystore(&file, "wrong").unwrap_err();
        assert!(matches!(&wrong, BadKey::Keystore(why) if !why.is_empty()), "{wrong:?}");
        let missing = Key::from_keystore(&folder.path().join("no.json"), "").unwrap_err();
        assert!(matches!(missing, BadKey::Keystore(_)));
    }

    /// The test vector of the format's own definition, with PBKDF2.
    const KEYSTORE: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":
        {"iv":"6087dab2f9fdbbfaddc31a909735c1e6"},
        "ciphertext":"5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46",
        "kdf":"pbkdf2","kdfparams":{"c":262144,"dklen":32,"prf":"hmac-sha256",
        "salt":"ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
        "mac":"517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"},
        "id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;
    /// Of the key 7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d.
    const STORED: Address = alloy_primitives::address!("008aeeda4d805471df9b2a5b0f38a0c3bcba786b");
}
