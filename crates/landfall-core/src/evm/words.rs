//! Addresses and bytes, as chains write them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use sha3::{Digest, Keccak256};

/// An account of a chain. Written with its checksum (EIP-55), kept in small letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub [u8; 20]);

impl Address {
    /// Reads one: `0x` and 40 hex digits. Letters of both cases must be its checksum.
    pub fn parse(text: &str) -> Result<Address, String> {
        let wanted = "must be an address: 0x and 40 hex digits";
        let digits = text.strip_prefix("0x").ok_or(wanted)?;
        let bytes: [u8; 20] =
            unhex(digits).and_then(|bytes| bytes.try_into().ok()).ok_or(wanted)?;
        let address = Address(bytes);
        let mixed = digits.bytes().any(|byte| byte.is_ascii_lowercase())
            && digits.bytes().any(|byte| byte.is_ascii_uppercase());
        match mixed && address.to_string() != text {
            true => Err("is mistyped: its checksum does not fit; copy it anew".to_owned()),
            false => Ok(address),
        }
    }
}

impl fmt::LowerHex for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = hex(&self.0);
        let checksum = hex(&Keccak256::digest(&plain[2..]));
        let cased = plain.chars().zip(checksum.chars()).map(|(digit, check)| match check {
            '8'..='9' | 'a'..='f' => digit.to_ascii_uppercase(),
            _ => digit,
        });
        f.write_str("0x")?;
        cased.skip(2).try_for_each(|digit| write!(f, "{digit}"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:x}"))
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        Address::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Bytes that a call carries.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Data(pub Vec<u8>);

impl Data {
    /// Reads them: `0x` and an even number of hex digits.
    pub fn parse(text: &str) -> Result<Data, String> {
        let bytes = text.strip_prefix("0x").and_then(unhex);
        bytes.map(Data).ok_or_else(|| "must be 0x and an even number of hex digits".to_owned())
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Data, D::Error> {
        Data::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 + 2 * bytes.len());
    text.push_str("0x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 0xf] {
            text.push(char::from_digit(u32::from(digit), 16).expect("a hex digit"));
        }
    }
    text
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}
