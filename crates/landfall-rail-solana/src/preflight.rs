//! A withdraw is tried before it is signed, without a signature: what comes of it is advice, and
//! never a fate.
//!
//! One node that has nothing against it is enough to sign. Where it has, a quorum is asked; and
//! before a withdraw is called settled, failed or too early, its nullifier is looked at, at
//! finality: a spent one may hide behind another error, and who spent it decides.
//! **Invariant:** nothing signed leaves the process here.

use landfall_core::attempt::Shortage;
use landfall_core::ledger::Beforehand;
use landfall_core::rail::RailError;

use crate::encode::{self, Draft};
use crate::node::Nodes;
use crate::shield::Withdraw;
use crate::spender;
use crate::trouble::{self, Trouble};

/// Whether the draft may be signed for this payer; else why not, and what that means.
pub async fn preflight(
    nodes: &Nodes,
    draft: &Draft,
    payer: &solana_address::Address,
) -> Result<(), RailError> {
    let bytes = encode::unsigned(draft, payer);
    nodes.introduce().await?;
    if let Some(endpoint) = nodes.endpoints.order(u64::from(draft.withdraw.nullifier[0])).first()
        && let Ok(error) = nodes.try_on(*endpoint, &bytes).await
        && error.is_null()
    {
        return Ok(());
    }
    let said = nodes.ask_quorum(|endpoint| nodes.try_on(endpoint, &bytes)).await;
    let quorum = nodes.endpoints.quorum();
    if said.len() < quorum {
        let message = format!("{} of {quorum} nodes tried it", said.len());
        return Err(RailError::Unavailable(message));
    }
    let troubles: Vec<Trouble> = said.iter().filter_map(|one| trouble::read(&one.fact)).collect();
    let is_shared =
        |like: fn(&Trouble) -> bool| troubles.iter().filter(|one| like(one)).count() >= quorum;
    if troubles.contains(&Trouble::Spent) {
        return spent(nodes, draft, "somebody has spent its nullifier, not finally yet").await;
    }
    if is_shared(|one| matches!(one, Trouble::Own(_))) {
        let why = words(&troubles);
        unspent(nodes, draft).await?;
        return Err(RailError::Hopeless(format!("the pool would refuse it: {why}")));
    }
    if is_shared(|one| matches!(one, Trouble::Root)) {
        unspent(nodes, draft).await?;
        let why = "the pool does not know its root, yet or any more".to_owned();
        return Err(RailError::Beforehand(Beforehand::NotNow { why, charged: true }));
    }
    let why = words(&troubles);
    if is_shared(|one| matches!(one, Trouble::Short)) {
        return Err(RailError::Lacking { shortage: Shortage::Native, why });
    }
    if is_shared(|one| matches!(one, Trouble::Relays(_))) {
        return Err(RailError::Lacking { shortage: Shortage::Contract, why });
    }
    // Fewer than a quorum have something against it, or nothing that lasts.
    Ok(())
}

/// In the nodes' own words.
fn words(troubles: &[Trouble]) -> String {
    let said = troubles.iter().find_map(|trouble| match trouble {
        Trouble::Own(said) | Trouble::Relays(said) | Trouble::Passing(said) => Some(said.clone()),
        Trouble::Short => Some("the fee payer cannot pay for it".to_owned()),
        _ => None,
    });
    said.unwrap_or_default()
}

/// Goes on only if a quorum shows the nullifier unspent.
async fn unspent(nodes: &Nodes, draft: &Draft) -> Result<(), RailError> {
    match spender::is_spent(nodes, &draft.program, &draft.withdraw.nullifier).await? {
        false => Ok(()),
        true => spent(nodes, draft, "").await,
    }
}

/// What the transaction that spent the nullifier means for the withdraw; `early` where that is not
/// final yet.
async fn spent(nodes: &Nodes, draft: &Draft, early: &str) -> Result<(), RailError> {
    let Draft { program, withdraw, .. } = draft;
    let Withdraw { nullifier, .. } = withdraw;
    if !spender::is_spent(nodes, program, nullifier).await? {
        let why = early.to_owned();
        return Err(RailError::Beforehand(Beforehand::NotNow { why, charged: false }));
    }
    let Some(found) = spender::find(nodes, program, nullifier).await? else {
        return Err(RailError::Misconfigured(
            "its nullifier is spent, and no quorum shows by which transaction: look for it among \
             those of the pool's shard of nullifiers"
                .to_owned(),
        ));
    };
    let hash = found.signature;
    Err(RailError::Beforehand(match withdraw.pays_as(&found.outputs) {
        true => Beforehand::Done { hash },
        false => {
            let why = format!("{hash} has spent its nullifier for other outputs");
            Beforehand::Forestalled { hash, why }
        }
    }))
}
