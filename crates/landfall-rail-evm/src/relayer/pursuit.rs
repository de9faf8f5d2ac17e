//! What is known of the handovers on their way: under which id the relayer has each, and every hash
//! it was ever seen with.
//!
//! In memory alone: what is not known any more is searched for among the relayer's transactions.

use std::collections::HashMap;

use alloy_primitives::B256;
use parking_lot::Mutex;

use super::wire::Told;

/// One handover that a relayer has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pursued {
    pub told: Told,
    /// Oldest first. A relayer shows the newest alone, and any of them may land.
    pub hashes: Vec<B256>,
    /// Whether it was seen under two nonces: then neither decides anything by being used otherwise.
    pub renumbered: bool,
}

/// By the names under which attempts are stored.
#[derive(Default)]
pub struct Pursuits(Mutex<HashMap<String, Pursued>>);

impl Pursuits {
    pub fn get(&self, name: &str) -> Option<Pursued> {
        self.0.lock().get(name).cloned()
    }

    /// Learns what the relayer tells of it now.
    pub fn learn(&self, name: &str, told: Told) -> Pursued {
        let mut all = self.0.lock();
        let first = || Pursued { told: told.clone(), hashes: Vec::new(), renumbered: false };
        let one = all.entry(name.to_owned()).or_insert_with(first);
        if let Some(hash) = told.hash.filter(|hash| !one.hashes.contains(hash)) {
            one.hashes.push(hash);
        }
        one.renumbered |= one.told.nonce.is_some() && told.nonce != one.told.nonce;
        one.told = told;
        one.clone()
    }

    /// Its fate is known: nobody asks for it any more.
    pub fn forget(&self, name: &str) {
        self.0.lock().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::settings::Shape;
    use super::super::wire;
    use super::*;

    fn told(hash: u8, nonce: u64) -> Told {
        let value = json!({ "id": "a", "nonce": nonce, "hash": B256::repeat_byte(hash) });
        wire::told(&value, Shape::Enveloped).unwrap()
    }

    #[test]
    fn every_hash_is_kept_and_another_nonce_is_noticed() {
        let pursuits = Pursuits::default();
        pursuits.learn("x", told(1, 7));
        pursuits.learn("x", told(1, 7));
        let one = pursuits.learn("x", told(2, 7));
        assert_eq!(one.hashes, [1, 2].map(B256::repeat_byte));
        assert!(!one.renumbered);
        assert!(pursuits.learn("x", told(3, 8)).renumbered);
        assert!(pursuits.learn("x", told(3, 8)).renumbered, "for ever");
        pursuits.forget("x");
        assert_eq!(pursuits.get("x"), None);
    }
}
