//! Amounts are strings on every wire and in the store: a JSON number would lose digits.

use serde::{Deserialize, Deserializer, Serializer, de::Error};

pub fn serialize<S: Serializer>(amount: &u128, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(amount)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u128, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
