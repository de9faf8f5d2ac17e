//! Text that must never be shown.
//!
//! **Invariant:** neither `Debug` nor `Display` of a [`Secret`] says anything of it, not even its
//! length; only [`Secret::expose`] does, and its callers are the ones who sign and compare.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;

/// A key, a password, a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// What is shown instead.
const SHOWN: &str = "(secret)";

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// Keys that sign. Known by this type, whichever rail they are for: a process that only takes
/// transfers does not read them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SigningKeys(pub Vec<Secret>);

impl Deref for SigningKeys {
    type Target = [Secret];

    fn deref(&self) -> &[Secret] {
        &self.0
    }
}

/// Where such keys are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningKeysFile(pub PathBuf);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SHOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let secret = Secret::new("ed25519:hush");
        assert_eq!(format!("{secret} {secret:?} {:#?}", vec![&secret]).matches("hush").count(), 0);
        assert_eq!(secret.expose(), "ed25519:hush");
    }
}
