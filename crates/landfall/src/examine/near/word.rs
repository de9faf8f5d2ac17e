//! What NEAR shows of an attempt, for an operator's word to be held against.

use landfall_core::Attempt;
use landfall_core::ledger::{Ledger as _, LedgerNonce, RailError};
use landfall_rail_near::{Seen as Found, parse_lane_id};
use serde_json::json;

use super::Network;
use crate::examine::{Seen, Shown};

pub async fn shown(network: &Network, attempt: &Attempt) -> Result<Shown, RailError> {
    let Network { name, token, rail, auditor } = network;
    let wrong = |why: String| RailError::Misconfigured(why);
    // The nonce first: what passed it is then on every node that has that block.
    let key = rail.nonce(&attempt.lane).await?;
    let (account, _) = parse_lane_id(&attempt.lane, name)
        .ok_or_else(|| wrong(format!("{} is no lane of {name}", attempt.lane)))?;
    let found = auditor.seen(&attempt.hash, account, token).await?;
    // Where the nodes no longer know, what was noted when it was signed must do.
    let expires_height = rail.expiry(attempt).await.ok().or(attempt.expires_height);
    let sighted = rail.standing_sighting(attempt).await?;
    let key = key.ok_or_else(|| wrong("the ledger keeps no nonces".into()))?;
    let (seen, told) = match found {
        Found::Unknown => (Seen::Unknown, "unknown"),
        Found::Unsettled => (Seen::Unsettled, "not final"),
        Found::Done(_) => (Seen::Paid, "done"),
        Found::Reverted => (Seen::Reverted, "reverted"),
    };
    let facts = json!({
        "transaction": told,
        "key_nonce": key.nonce,
        "final_height": key.final_height,
        "expires_height": expires_height,
        "sighted": sighted,
    });
    Ok(Shown {
        seen,
        may_land: may_land(attempt, key, expires_height),
        sighted,
        hash: None,
        final_height: key.final_height,
        facts,
    })
}

/// Why it may still land; none once its nonce is used, or the block that it was signed on is too
/// old.
fn may_land(attempt: &Attempt, key: LedgerNonce, expires_height: Option<u64>) -> Option<String> {
    let LedgerNonce { nonce, final_height } = key;
    let passed = nonce >= attempt.nonce;
    let expired = expires_height.is_some_and(|last| final_height > last);
    let last = expires_height.map_or("none".into(), |last| last.to_string());
    (!passed && !expired).then(|| {
        format!(
            "the key's nonce is {nonce}, below its {}, and it expires only after block {last} (now \
             {final_height}); start the relay, whose fence decides it",
            attempt.nonce
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::sample_attempt;
    use landfall_core::Nonce;

    #[test]
    fn it_may_land_until_its_nonce_is_used_or_its_block_is_too_old() {
        let attempt = sample_attempt();
        let may_land = |nonce, final_height| {
            let key = LedgerNonce { nonce: Nonce(nonce), final_height };
            may_land(&attempt, key, Some(100)).is_some()
        };
        assert!(!may_land(7, 50), "its nonce is used");
        assert!(!may_land(6, 101), "it has expired");
        assert!(may_land(6, 100));
    }

    #[test]
    fn what_never_expires_may_land_until_its_nonce_is_used() {
        let key = |nonce| LedgerNonce { nonce: Nonce(nonce), final_height: u64::MAX };
        assert!(may_land(&sample_attempt(), key(6), None).is_some());
        assert_eq!(may_land(&sample_attempt(), key(7), None), None);
    }
}
