//! What a quorum of nodes says became of a transaction.
//!
//! A landing completes members or sends them back to be paid again, so it takes a quorum that says
//! the same of the same final block. One answer is there already (of the broadcast, or of a look);
//! others are asked for just as many more as are missing, so that a ledger that is well costs one
//! call for each further member of the quorum.
//!
//! **Rule:** who says another ending at finality than a quorum does is caught. An outcome as
//! invalid is no ending: a node shows one outcome of a hash even where there were several.
//! Not here: what an ending means for the members (`look`), proofs of death (`testimony`).

use futures::future::join_all;
use landfall_core::Attempt;
use landfall_core::wound::{self, Wound};
use landfall_rpc::{Said, shared};

use crate::answer::{Effect, Stage, TxView};
use crate::node::{Nodes, Sight};
use crate::outcome;

/// How a transaction ended, as a node shows it at finality.
#[derive(Clone, Debug)]
pub struct Ending {
    pub block_hash: String,
    /// Done or reverted.
    pub effect: Effect,
}

impl PartialEq for Ending {
    /// In the same block, with the same action to blame, for the same reason. Releases of a node
    /// may write the rest of a failure differently.
    fn eq(&self, other: &Ending) -> bool {
        let same_effect = match (&self.effect, &other.effect) {
            (Effect::Reverted(one), Effect::Reverted(two)) => {
                one.index == two.index && outcome::describe(one) == outcome::describe(two)
            }
            (one, two) => one == two,
        };
        self.block_hash == other.block_hash && same_effect
    }
}

impl Ending {
    fn told(&self) -> String {
        match &self.effect {
            Effect::Reverted(failure) => format!(
                "final in block {}, action {:?} reverted: {}",
                self.block_hash,
                failure.index,
                outcome::describe(failure)
            ),
            _ => format!("final in block {}, done", self.block_hash),
        }
    }
}

/// What the nodes come to.
pub enum Corroborated {
    /// A quorum says the same.
    Ended(Ending),
    /// Fewer than a quorum do; what each says that has it.
    NotYet(Vec<Said<TxView>>),
}

/// The ending that an answer shows, if it shows one of this transaction.
pub fn ending(view: &TxView, hash: &str) -> Option<Ending> {
    let is_final = view.stage == Stage::Final || is_believed_early(view);
    let decided = matches!(view.effect, Effect::Done | Effect::Reverted(_));
    let names_it = view.hash.as_deref() == Some(hash);
    let block_hash = view.block_hash.clone().filter(|_| is_final && decided && names_it)?;
    Some(Ending { block_hash, effect: view.effect.clone() })
}

/// The mistakes of wounded builds.
fn is_believed_early(view: &TxView) -> bool {
    match view.effect {
        Effect::Done => wound::is(Wound::OptimisticSuccess),
        Effect::Reverted(_) => wound::is(Wound::OptimisticRevert),
        _ => false,
    }
}

/// Hears others until a quorum says the same, or nobody is left to ask.
pub async fn corroborate(
    nodes: &Nodes,
    attempt: &Attempt,
    signer: &str,
    mut seen: Vec<Said<TxView>>,
) -> Corroborated {
    let quorum = nodes.endpoints.quorum();
    let mut asked: Vec<usize> = seen.iter().map(|one| one.endpoint).collect();
    let mut introduced_all = false;
    loop {
        let endings: Vec<Said<Ending>> = seen
            .iter()
            .filter_map(|one| {
                let fact = ending(&one.fact, &attempt.hash)?;
                Some(Said { endpoint: one.endpoint, fact })
            })
            .collect();
        if let Some(agreed) = shared(&endings, believed(quorum, &endings)) {
            catch_contradictions(nodes, attempt, &endings, agreed);
            return Corroborated::Ended(agreed.clone());
        }
        let agreeing = |one: &Said<Ending>| endings.iter().filter(|e| e.fact == one.fact).count();
        let missing = quorum - endings.iter().map(agreeing).max().unwrap_or_default();
        let order = nodes.endpoints.order(attempt.nonce.0);
        let next = order.into_iter().filter(|endpoint| !asked.contains(endpoint));
        let next: Vec<usize> = next.take(missing).collect();
        if next.is_empty() {
            if std::mem::replace(&mut introduced_all, true) {
                return Corroborated::NotYet(seen);
            }
            // Whoever may have a word on it must be heard.
            nodes.introduce_all().await;
            continue;
        }
        asked.extend(&next);
        let heard = join_all(next.into_iter().map(|one| hear(nodes, attempt, signer, one))).await;
        seen.extend(heard.into_iter().flatten());
    }
}

/// How many must agree. One, in builds wounded so.
fn believed(quorum: usize, endings: &[Said<Ending>]) -> usize {
    let first = endings.first().map(|one| &one.fact.effect);
    match first {
        Some(Effect::Done) if wound::is(Wound::OneNodesSuccess) => 1,
        Some(Effect::Reverted(_)) if wound::is(Wound::OneNodesRevert) => 1,
        _ => quorum,
    }
}

/// What one more node says. It may be a moment behind the one that has shown the end: where it has
/// the transaction in a block, it is asked for the end.
async fn hear(
    nodes: &Nodes,
    attempt: &Attempt,
    signer: &str,
    endpoint: usize,
) -> Option<Said<TxView>> {
    let Ok(Sight::Known(view)) = nodes.tx_on(endpoint, &attempt.hash, signer).await else {
        return None;
    };
    if !is_sighting(&view) || view.stage == Stage::Final {
        return Some(Said { endpoint, fact: view });
    }
    let fact = match nodes.final_tx_on(endpoint, &attempt.hash, signer).await {
        Ok(Sight::Known(later)) => later,
        _ => view,
    };
    Some(Said { endpoint, fact })
}

/// Whether it says that the transaction is in a block, and was valid there.
pub fn is_sighting(view: &TxView) -> bool {
    view.stage > Stage::None && !matches!(view.effect, Effect::Invalid(_))
}

fn catch_contradictions(
    nodes: &Nodes,
    attempt: &Attempt,
    endings: &[Said<Ending>],
    agreed: &Ending,
) {
    for other in endings.iter().filter(|one| one.fact != *agreed) {
        let hash = &attempt.hash;
        let (said, says) = (other.fact.told(), agreed.told());
        nodes.endpoints.catch(other.endpoint, format!("{hash}: {said}"), format!("{hash}: {says}"));
    }
}
