//! Which transfers of a batch are new, for stores that look everything up before they write.
//!
//! Pure, and in order: each is judged as those before it leave the store. Its key is looked at
//! before its claims.
//! Not here: looking up and writing (the stores). A store that decides one after the other where it
//! writes needs none of this.

use std::collections::HashMap;

use crate::claim::ClaimKey;
use crate::ids::TransferId;

/// What stands for an idempotency key in its scope.
pub type KeyDigest = [u8; 32];

/// What becomes of one transfer of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is stored, with all that it claims.
    New,
    /// Its key was stored before the batch.
    Known,
    /// Its key is that of the new transfer at this place of the batch.
    Repeats(usize),
    /// Its key is free, but this claim of its own, by place, is taken.
    Claimed { claim: usize, by: Owner },
}

/// Who has a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// As it was stored before the batch; none if it is kept and nobody's.
    Stored(Option<TransferId>),
    /// The new transfer at this place of the batch.
    InBatch(usize),
}

/// Judges a batch of keys with their claims. `is_known` tells keys that are stored, `taken` the
/// claims that are, with their owners.
pub fn verdicts<'a>(
    batch: impl IntoIterator<Item = (KeyDigest, &'a [ClaimKey])>,
    is_known: impl Fn(&KeyDigest) -> bool,
    taken: &HashMap<ClaimKey, Option<TransferId>>,
) -> Vec<Verdict> {
    let mut keys: HashMap<KeyDigest, usize> = HashMap::new();
    let mut owners: HashMap<&ClaimKey, usize> = HashMap::new();
    let mut verdicts = Vec::new();
    for (place, (key, claims)) in batch.into_iter().enumerate() {
        let owner = |claim: &'a ClaimKey| {
            let stored = taken.get(claim).map(|owner| Owner::Stored(*owner));
            stored.or_else(|| owners.get(claim).map(|place| Owner::InBatch(*place)))
        };
        let first = claims.iter().enumerate().find_map(|(claim, key)| {
            let by = owner(key)?;
            Some(Verdict::Claimed { claim, by })
        });
        verdicts.push(match (keys.get(&key), first) {
            _ if is_known(&key) => Verdict::Known,
            (Some(first), _) => Verdict::Repeats(*first),
            (None, Some(claimed)) => claimed,
            (None, None) => {
                keys.insert(key, place);
                owners.extend(claims.iter().map(|claim| (claim, place)));
                Verdict::New
            }
        });
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(key: &str) -> ClaimKey {
        ClaimKey { space: "nullifier".into(), key: key.into() }
    }

    #[test]
    fn keys_come_before_claims_and_each_sees_those_before_it() {
        let (a, b) = ([claim("a")], [claim("b"), claim("c")]);
        let both = [claim("free"), claim("c"), claim("a")];
        let spent = [claim("spent")];
        let batch: [(KeyDigest, &[ClaimKey]); 8] = [
            ([1; 32], &a),
            ([1; 32], &spent),
            ([2; 32], &a),
            ([2; 32], &b),
            ([3; 32], &both),
            ([4; 32], &spent),
            ([9; 32], &spent),
            ([4; 32], &[]),
        ];
        let taken = HashMap::from([(claim("spent"), Some(TransferId(7)))]);
        let expected = [
            Verdict::New,
            Verdict::Repeats(0),
            Verdict::Claimed { claim: 0, by: Owner::InBatch(0) },
            Verdict::New,
            Verdict::Claimed { claim: 1, by: Owner::InBatch(3) },
            Verdict::Claimed { claim: 0, by: Owner::Stored(Some(TransferId(7))) },
            Verdict::Known,
            Verdict::New,
        ];
        assert_eq!(verdicts(batch, |key| *key == [9; 32], &taken), expected);
    }
}
