//! The relay's fee payers. A secret never leaves this module, not even for a log.

use std::fmt;
use std::path::Path;

use landfall_core::LaneId;
use solana_address::Address;
use solana_keypair::Keypair;
use solana_signature::Signature;
use solana_signer::Signer;

/// Bytes of a keypair: secret, then public.
const KEYPAIR_BYTES: usize = 64;

/// A key that cannot be used. Never repeats the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    #[error(
        "not a keypair: give 64 bytes as a JSON list of numbers, as solana-keygen writes it, or in \
         base58"
    )]
    Malformed,
    #[error("holds a public half that does not belong to its secret half")]
    Halves,
    #[error("cannot read it: {0}")]
    Unread(String),
}

/// One fee payer.
pub struct Key {
    secret: Keypair,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.address())
    }
}

impl Key {
    /// From the text of a keypair file, or base58 as wallets show it.
    pub fn parse(text: &str) -> Result<Key, BadKey> {
        let text = text.trim();
        let secret = match text.starts_with('[') {
            true => {
                let bytes: Vec<u8> = serde_json::from_str(text).map_err(|_| BadKey::Malformed)?;
                if bytes.len() != KEYPAIR_BYTES {
                    return Err(BadKey::Malformed);
                }
                Keypair::try_from(&bytes[..]).map_err(|_| BadKey::Halves)?
            }
            false => Keypair::try_from_base58_string(text).map_err(|_| BadKey::Malformed)?,
        };
        Ok(Key { secret })
    }

    pub fn from_file(file: &Path) -> Result<Key, BadKey> {
        let text = std::fs::read_to_string(file);
        Key::parse(&text.map_err(|error| BadKey::Unread(error.to_string()))?)
    }

    pub fn address(&self) -> Address {
        self.secret.pubkey()
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Signature {
        self.secret.sign_message(message)
    }
}

/// The lane of a fee payer: `solana:{network}:{address}`.
pub fn lane_id(network: &str, payer: &Address) -> LaneId {
    LaneId::new(format!("solana:{network}:{payer}"))
}

/// The fee payer of a lane of this network, configured or not.
pub fn parse_lane_id(lane: &LaneId, network: &str) -> Option<Address> {
    let rest = lane.as_str().strip_prefix("solana:")?.strip_prefix(network)?.strip_prefix(':')?;
    rest.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Keypair {
        Keypair::new_from_array([7; 32])
    }

    #[test]
    fn a_key_is_read_as_solana_s_own_tools_write_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id.json");
        solana_keypair::write_keypair_file(&pair(), &file).unwrap();
        assert_eq!(Key::from_file(&file).unwrap().address(), pair().pubkey());
        let text = format!(" {}\n", pair().to_base58_string());
        assert_eq!(Key::parse(&text).unwrap().address(), pair().pubkey());
        let missing = Key::from_file(&folder.path().join("no.json")).unwrap_err();
        assert!(matches!(missing, BadKey::Unread(_)));
    }

    #[test]
    fn what_is_no_key_is_refused_without_repeating_it() {
        let mut halves = pair().to_bytes();
        halves[40] ^= 1;
        let short = serde_json::to_string(&pair().to_bytes()[..32]).unwrap();
        for (text, expected) in [
            ("", BadKey::Malformed),
            ("[]", BadKey::Malformed),
            ("[1,2,", BadKey::Malformed),
            ("hello", BadKey::Malformed),
            (short.as_str(), BadKey::Malformed),
            (&serde_json::to_string(&halves[..]).unwrap(), BadKey::Halves),
        ] {
            assert_eq!(Key::parse(text).unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let key = Key::parse(&pair().to_base58_string()).unwrap();
        assert_eq!(format!("{key:?}"), format!("Key({})", pair().pubkey()));
    }

    #[test]
    fn a_lane_names_network_and_payer() {
        let payer = pair().pubkey();
        let lane = lane_id("devnet", &payer);
        assert_eq!(parse_lane_id(&lane, "devnet"), Some(payer));
        assert_eq!(parse_lane_id(&lane, "dev"), None);
        assert_eq!(parse_lane_id(&LaneId::new("solana:devnet:x"), "devnet"), None);
    }
}
