//! Names of things, each a type of its own so that none is taken for another.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize,
            Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// A transfer's own number, given by the store when it is accepted.
    TransferId
);
number!(
    /// An attempt's own number, given by the store when it is opened.
    AttemptId
);
number!(
    /// Grows at every change of a lane's holder. Whoever writes with an old one is refused.
    Epoch
);
number!(
    /// A position in a lane's total order. Never given back.
    Nonce
);

impl Nonce {
    pub fn next(self) -> Nonce {
        Nonce(self.0 + 1)
    }
}

/// One signing key of one account on one network, as `near:{network}:{account}:{public key}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaneId(Arc<str>);

impl LaneId {
    pub fn new(name: impl AsRef<str>) -> LaneId {
        LaneId(Arc::from(name.as_ref()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A digest of every parameter that changes what is paid, in canonical form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Digests the parts with their lengths, so that no two lists of parts collide.
    pub fn of(parts: &[&str]) -> Fingerprint {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Fingerprint(hasher.finalize().into())
    }
}

/// The id that a client's own key names among `things`: always the same for the same key of the
/// same tenant.
pub(crate) fn named(things: &str, tenant: &str, client_key: &str) -> Uuid {
    let Fingerprint(digest) = Fingerprint::of(&[things, tenant, client_key]);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0[..8] {
            write!(f, "{byte:02x}")?;
        }
        f.write_str("…")
    }
}
