//! Who has spent a nullifier, and for whom.
//!
//! One node finds the transaction among those that wrote to the shard of nullifiers; what it did is
//! a quorum's word, at finality.
//! Not here: what follows from it (`preflight`).

use landfall_core::rail::RailError;
use landfall_rpc::{shared, unavailable};
use solana_address::Address;

use crate::encode;
use crate::node::{Final, Nodes, SIGNATURES_MAX};
use crate::shield::{self, Accounts, Output, Word};

/// Pages of transactions through which a spender is sought; further back it is an operator's to
/// find.
const PAGES: usize = 20;

/// The transaction that spent a nullifier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spender {
    pub signature: String,
    pub slot: u64,
    pub outputs: Vec<Output>,
}

/// Whether a quorum shows the nullifier spent, or unspent, at finality.
pub async fn is_spent(
    nodes: &Nodes,
    program: &Address,
    nullifier: &Word,
) -> Result<bool, RailError> {
    let shard = Accounts::of(program).nullifier_shard;
    let ask = async |endpoint| {
        let (_, data) = nodes.account_on(endpoint, &shard, "finalized").await?;
        shield::is_spent(&data, nullifier).ok_or_else(|| unavailable("no shard of nullifiers"))
    };
    let said = nodes.ask_quorum(ask).await;
    let fact = shared(&said, nodes.endpoints.quorum()).copied();
    fact.ok_or_else(|| unavailable("no quorum says whether the nullifier is spent"))
}

/// Who has spent it, if a quorum shows that somebody has.
pub async fn find(
    nodes: &Nodes,
    program: &Address,
    nullifier: &Word,
) -> Result<Option<Spender>, RailError> {
    for endpoint in nodes.endpoints.order(0) {
        let Ok(Some(signature)) = sought_on(nodes, endpoint, program, nullifier).await else {
            continue;
        };
        let ask = async |endpoint| {
            let found = nodes.transaction_on(endpoint, &signature).await?;
            Ok(found.and_then(|found| spent_in(&found, &signature, program, nullifier)))
        };
        let said = nodes.ask_quorum(ask).await;
        if let Some(Some(spender)) = shared(&said, nodes.endpoints.quorum()) {
            return Ok(Some(spender.clone()));
        }
    }
    Ok(None)
}

/// The signature of what spent it, as one node has it.
async fn sought_on(
    nodes: &Nodes,
    endpoint: usize,
    program: &Address,
    nullifier: &Word,
) -> Result<Option<String>, RailError> {
    let shard = Accounts::of(program).nullifier_shard;
    let mut before: Option<String> = None;
    for _ in 0..PAGES {
        let page = nodes.listed_on(endpoint, &shard, before.as_deref()).await?;
        for listed in page.iter().filter(|listed| !listed.failed) {
            let found = nodes.transaction_on(endpoint, &listed.signature).await?;
            let spent =
                found.and_then(|found| spent_in(&found, &listed.signature, program, nullifier));
            if spent.is_some() {
                return Ok(Some(listed.signature.clone()));
            }
        }
        match page.last() {
            Some(last) if page.len() == SIGNATURES_MAX => before = Some(last.signature.clone()),
            _ => return Ok(None),
        }
    }
    Ok(None)
}

/// What a final transaction spent of this nullifier, if it did.
pub fn spent_in(
    found: &Final,
    signature: &str,
    program: &Address,
    nullifier: &Word,
) -> Option<Spender> {
    // Another's bytes, under this signature, are nobody's.
    let own = encode::signature(&found.bytes).ok()?.to_string() == signature;
    if found.failed || !own {
        return None;
    }
    let spends = encode::spends(&found.bytes, program).ok()?;
    let spend = spends.into_iter().find(|spend| spend.nullifier == *nullifier)?;
    Some(Spender { signature: signature.to_owned(), slot: found.slot, outputs: spend.outputs })
}
