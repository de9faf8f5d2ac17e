//! The relay's signing keys. The only place that holds a secret.
//!
//! **Invariant:** a secret is never shown: `Debug` and every error show the public key or nothing.

use std::fmt;

use landfall_core::LaneId;
use near_crypto::{KeyType, PublicKey, SecretKey, Signature};

/// One access key of the relay's account.
#[derive(Clone)]
pub struct Key {
    secret: SecretKey,
    public: PublicKey,
}

/// Why a text is no key. Never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error("is not a secret key of the form ed25519:<base58>")]
    Malformed,
    #[error("is not an ed25519 key")]
    Curve,
    #[error("holds a public half that does not belong to its secret half")]
    Halves,
}

impl Key {
    /// Takes `ed25519:<base58 of 64 bytes>`, as NEAR's own tools write it.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        let secret: SecretKey = text.trim().parse().map_err(|_| BadKey::Malformed)?;
        if !matches!(secret.key_type(), KeyType::ED25519) {
            return Err(BadKey::Curve);
        }
        let public = secret.public_key();
        // The public half is stored beside the secret one: with a mistyped one every signature
        // would be invalid.
        if !secret.sign(b"landfall").verify(b"landfall", &public) {
            return Err(BadKey::Halves);
        }
        Ok(Self { secret, public })
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub(crate) fn sign(&self, hash: &[u8]) -> Signature {
        self.secret.sign(hash)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.public)
    }
}

/// The lane of a key: `near:{network}:{account}:{public key}`.
pub fn lane_id(network: &str, account: &str, public: &PublicKey) -> LaneId {
    LaneId::new(format!("near:{network}:{account}:{public}"))
}

/// The account and public key of a lane of this network, configured or not.
pub fn parse_lane_id<'a>(lane: &'a LaneId, network: &str) -> Option<(&'a str, &'a str)> {
    let rest = lane.as_str().strip_prefix("near:")?.strip_prefix(network)?.strip_prefix(':')?;
    rest.split_once(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "ed25519:3HexfCJQ3TJZSpFytEshrWEoRySFfvfhZvUmTUqxPuG5V3UP8xTWwU4uSh85iAffr\
                          takKvSN5s5ytQ5xJ93eJyKu";
    const PUBLIC: &str = "ed25519:Am52y2FQPUREJwP5Ko5Pid937s8ULMGGcppBrYQtW4PZ";

    #[test]
    fn a_key_shows_only_its_public_half() {
        let key = Key::parse(SECRET).unwrap();
        assert_eq!(format!("{key:?}"), format!("Key({PUBLIC})"));
    }

    #[test]
    fn a_bad_key_is_refused_without_repeating_it() {
        for text in ["", "ed25519:", "hello", PUBLIC, "ed25519:3HexfCJQ3T"] {
            let error = Key::parse(text).unwrap_err();
            assert_eq!(error, BadKey::Malformed, "{text}");
        }
    }

    #[test]
    fn a_lane_names_network_account_and_key() {
        let key = Key::parse(SECRET).unwrap();
        let lane = lane_id("localnet", "relay.test.near", key.public());
        assert_eq!(lane.as_str(), format!("near:localnet:relay.test.near:{PUBLIC}"));
        assert_eq!(parse_lane_id(&lane, "localnet"), Some(("relay.test.near", PUBLIC)));
        assert_eq!(parse_lane_id(&lane, "mainnet"), None);
    }
}
