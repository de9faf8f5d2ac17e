//! Who may ask: HMAC-SHA256 over method, path, time, an id drawn for the request, and the body.
//!
//! **Invariant:** signatures are compared in constant time, and only what is signed well is
//! remembered: strangers cannot fill the memory.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

pub const TIME_HEADER: &str = "landfall-time";
pub const ID_HEADER: &str = "landfall-id";
pub const SIGNATURE_HEADER: &str = "landfall-signature";
/// How far a sender's clock may be off, either way.
pub const WINDOW_MS: u64 = 30_000;
/// A digest has no more to give.
pub const SECRET_MIN_BYTES: usize = 32;

/// What every signed text begins with.
const SCHEME: &str = "landfall-lanes-v1";
const PREFIX: &str = "v1=";

/// A secret that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a secret has at least {SECRET_MIN_BYTES} bytes")]
pub struct BadSecret;

/// What servers of one contract and their clients share. Never shown.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    pub fn new(text: &str) -> Result<Secret, BadSecret> {
        match text.len() >= SECRET_MIN_BYTES {
            true => Ok(Secret(text.as_bytes().to_vec())),
            false => Err(BadSecret),
        }
    }

    /// Several, separated by commas: any of them is taken while one is changed for another.
    pub fn several(text: &str) -> Result<Vec<Secret>, BadSecret> {
        text.split(',').map(|one| Secret::new(one.trim())).collect()
    }

    /// Signs a request.
    pub fn sign(&self, asked: &Asked<'_>) -> Proof {
        let signature = self.mac(asked).finalize().into_bytes();
        Proof {
            time_ms: asked.time_ms,
            id: asked.id.to_owned(),
            signature: format!("{PREFIX}{}", hex::encode(signature)),
        }
    }

    fn mac(&self, asked: &Asked<'_>) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("a key of any length will do");
        let body = hex::encode(Sha256::digest(asked.body));
        let time = asked.time_ms.to_string();
        let lines = [SCHEME, asked.method, asked.path, &time, asked.id, &body];
        mac.update(lines.join("\n").as_bytes());
        mac
    }

    #[cfg(feature = "server")]
    fn has_signed(&self, asked: &Asked<'_>, signature: &str) -> bool {
        let bytes = signature.strip_prefix(PREFIX).and_then(|text| hex::decode(text).ok());
        bytes.is_some_and(|bytes| self.mac(asked).verify_slice(&bytes).is_ok())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A request, as far as it is signed.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    pub method: &'a str,
    /// As it is sent, with the query if there is one.
    pub path: &'a str,
    pub time_ms: u64,
    pub id: &'a str,
    pub body: &'a [u8],
}

/// What a request is sent with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    pub time_ms: u64,
    pub id: String,
    pub signature: String,
}

#[cfg(feature = "server")]
pub(crate) use gatekeeper::Gatekeeper;

#[cfg(feature = "server")]
mod gatekeeper {
    //! Whom a server lets in.

    use std::collections::{HashSet, VecDeque};

    use super::{Asked, Proof, Secret, WINDOW_MS};

    /// Characters of a request's id.
    const ID_CHARACTERS: std::ops::RangeInclusive<usize> = 16..=64;

    /// Knows the secrets, and every request that it let in for as long as it could come again.
    pub(crate) struct Gatekeeper {
        secrets: Vec<Secret>,
        /// What was sent earlier may have been taken by an earlier life.
        started_ms: u64,
        /// By when they were sent; forgotten when nothing so old is let in.
        taken: VecDeque<(u64, String)>,
        ids: HashSet<String>,
    }

    impl Gatekeeper {
        pub(crate) fn new(secrets: Vec<Secret>, started_ms: u64) -> Gatekeeper {
            Gatekeeper { secrets, started_ms, taken: VecDeque::new(), ids: HashSet::new() }
        }

        /// Lets a request in, once; or says why not.
        pub(crate) fn admit(
            &mut self,
            (method, path, body): (&str, &str, &[u8]),
            proof: &Proof,
            now_ms: u64,
        ) -> Result<(), &'static str> {
            let Proof { time_ms, id, signature } = proof;
            let asked = Asked { method, path, time_ms: *time_ms, id, body };
            let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if !ID_CHARACTERS.contains(&id.len()) || !id.bytes().all(is_id) {
                return Err("the id of a request has 16 to 64 characters of 0-9a-zA-Z-");
            }
            if !self.secrets.iter().any(|secret| secret.has_signed(&asked, signature)) {
                return Err("another signature");
            }
            if time_ms.abs_diff(now_ms) > WINDOW_MS {
                return Err("its time is too far away");
            }
            if *time_ms < self.started_ms {
                return Err("it was sent before this server was started");
            }
            self.forget(now_ms);
            if !self.ids.insert(id.clone()) {
                return Err("it was taken before");
            }
            // What was sent ahead of this clock is remembered for longer than it must be.
            self.taken.push_back(((*time_ms).max(now_ms), id.clone()));
            Ok(())
        }

        fn forget(&mut self, now_ms: u64) {
            let is_over = |sent_ms: u64| sent_ms.saturating_add(2 * WINDOW_MS) < now_ms;
            while let Some((_, id)) = self.taken.pop_front_if(|(sent_ms, _)| is_over(*sent_ms)) {
                self.ids.remove(&id);
            }
        }
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"key":"create:alice.near"}"#;
    const ID: &str = "00000000-0000-4000-8000-000000000000";
    const NOW_MS: u64 = 1_700_000_000_000;

    fn secret() -> Secret {
        Secret::new("0123456789abcdef0123456789abcdef").unwrap()
    }

    fn asked(time_ms: u64, id: &str) -> Asked<'_> {
        Asked { method: "POST", path: "/v1/record", time_ms, id, body: BODY }
    }

    fn gate() -> Gatekeeper {
        Gatekeeper::new(vec![secret()], NOW_MS)
    }

    fn admit(gate: &mut Gatekeeper, proof: &Proof, now_ms: u64) -> Result<(), &'static str> {
        gate.admit(("POST", "/v1/record", BODY), proof, now_ms)
    }

    #[test]
    fn a_signature_is_as_the_contract_has_it() {
        let contract = include_str!("../../../docs/lanes.md");
        let signature = secret().sign(&asked(NOW_MS, ID)).signature;
        assert!(contract.contains(&format!("`{signature}`")), "{signature}");
        assert_eq!(Secret::new("short").map(|_| ()), Err(BadSecret));
    }

    #[test]
    fn what_is_signed_well_is_let_in_once() {
        let (mut gate, proof) = (gate(), secret().sign(&asked(NOW_MS, ID)));
        assert_eq!(admit(&mut gate, &proof, NOW_MS), Ok(()));
        assert_eq!(admit(&mut gate, &proof, NOW_MS), Err("it was taken before"));
        let last_ms = NOW_MS + WINDOW_MS;
        assert_eq!(admit(&mut gate, &proof, last_ms), Err("it was taken before"));
        assert_eq!(admit(&mut gate, &proof, last_ms + 1), Err("its time is too far away"));
    }

    #[test]
    fn what_was_sent_ahead_of_the_clock_is_remembered_until_its_time_is_over() {
        let early = secret().sign(&asked(NOW_MS + WINDOW_MS, ID));
        let mut gate = gate();
        assert_eq!(admit(&mut gate, &early, NOW_MS), Ok(()));
        let last_ms = NOW_MS + 2 * WINDOW_MS;
        assert_eq!(admit(&mut gate, &early, last_ms), Err("it was taken before"));
    }

    #[test]
    fn whatever_is_changed_is_refused() {
        let good = secret().sign(&asked(NOW_MS, ID));
        let refused = |method: &str, path: &str, body: &[u8], proof: &Proof| {
            gate().admit((method, path, body), proof, NOW_MS)
        };
        let forged = Err("another signature");
        assert_eq!(refused("PUT", "/v1/record", BODY, &good), forged);
        assert_eq!(refused("POST", "/v1/adopt", BODY, &good), forged);
        assert_eq!(refused("POST", "/v1/record", b"{}", &good), forged);
        let later = Proof { time_ms: NOW_MS + 1, ..good.clone() };
        assert_eq!(refused("POST", "/v1/record", BODY, &later), forged);
        let other = Proof { id: ID.replace('4', "5"), ..good.clone() };
        assert_eq!(refused("POST", "/v1/record", BODY, &other), forged);
        let theirs = Secret::new("fedcba9876543210fedcba9876543210").unwrap();
        let theirs = theirs.sign(&asked(NOW_MS, ID));
        assert_eq!(refused("POST", "/v1/record", BODY, &theirs), forged);
        assert_eq!(refused("POST", "/v1/record", BODY, &good), Ok(()));
    }

    #[test]
    fn what_an_earlier_life_may_have_taken_is_refused() {
        let proof = secret().sign(&asked(NOW_MS - 1, ID));
        let refused = admit(&mut gate(), &proof, NOW_MS);
        assert_eq!(refused, Err("it was sent before this server was started"));
    }

    #[test]
    fn two_secrets_are_both_taken() {
        let text = "0123456789abcdef0123456789abcdef, fedcba9876543210fedcba9876543210";
        let mut gate = Gatekeeper::new(Secret::several(text).unwrap(), NOW_MS);
        let other = Secret::new("fedcba9876543210fedcba9876543210").unwrap();
        for (secret, id) in [(secret(), ID), (other, "another-request-of-theirs")] {
            assert_eq!(admit(&mut gate, &secret.sign(&asked(NOW_MS, id)), NOW_MS), Ok(()));
        }
    }
}
