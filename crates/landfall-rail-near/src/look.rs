//! Looks at an attempt, from the cheap question to the death certificate.
//!
//! ```text
//!  tx on one node ─ final, done ──────────────────────────────▶ Landed
//!        │      └── final, reverted ─ a quorum agrees ─────────▶ Landed, unpaid
//!        │      └── seen, not final ───────────────────────────▶ Adrift, with the sighting
//!     unknown, or included as invalid
//!        │
//!  the key's final nonce ─ below ours, not expired ────────────▶ Adrift
//!        │
//!  testimony of every node ─ judged (`witness`) ─ no veto ─────▶ Sunk
//! ```
//!
//! **Invariant:** a stored sighting vetoes a certificate: for ever if it was final, else until a
//! quorum shows that its block is not on the final chain.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use landfall_core::attempt::{Shortage, Sighting};
use landfall_core::rail::{Later, Look, RailError};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, Certificate, CertificateKind, Landing, Outcome, Purpose};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::answer::{Effect, Failure, Stage, TxView};
use crate::encode::{self, Stored};
use crate::node::{Chained, Nodes, Sight, unavailable};
use crate::outcome::{self, Meaning, Parties};
use crate::settings::NearSettings;
use crate::testimony::{Question, Statement, testify, veto};
use crate::witness::{self, Judgement, Witness};

/// Block heights kept by hash. Attempts of many lanes land in the same few blocks.
const HEIGHTS_MAX: usize = 256;

/// Looks, with what it remembers between them.
pub struct Looker {
    token: String,
    /// How many blocks a transaction lives, if that is configured.
    validity: Option<u64>,
    heights: Mutex<HashMap<String, Arc<OnceCell<u64>>>>,
    /// By hash: a nonce above the attempt's that an earlier look could not explain. Whoever used it
    /// was stored before that look ended, if it was one of ours.
    doubts: Mutex<HashMap<String, u64>>,
}

impl Looker {
    pub fn new(settings: &NearSettings) -> Self {
        Self {
            token: settings.token.clone(),
            validity: settings.validity_blocks,
            heights: Mutex::default(),
            doubts: Mutex::default(),
        }
    }

    pub async fn look(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        later: &[Later],
    ) -> Result<Look, RailError> {
        let stored = stored(attempt)?;
        let (endpoint, sight) = nodes.tx(&attempt.hash, &stored.signer).await?;
        match sight {
            Sight::Known(view) if !is_invalid(&view) && view.stage > Stage::None => {
                self.weigh(nodes, attempt, &stored, endpoint, view).await
            }
            Sight::Known(_) | Sight::Unknown if wound::is(Wound::LookedTooEarly) => {
                Ok(believed_too_early(later))
            }
            Sight::Known(_) | Sight::Unknown => self.unseen(nodes, attempt, &stored, later).await,
        }
    }

    /// What one node's sighting comes to.
    pub async fn weigh(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        endpoint: usize,
        view: TxView,
    ) -> Result<Look, RailError> {
        let names_it = view.hash.as_deref() == Some(&attempt.hash);
        match (view.stage, &view.effect, &view.block_hash) {
            (Stage::Final, Effect::Done, Some(block)) if names_it => {
                let outcomes = vec![Outcome::Done; attempt.members.len()];
                self.landing(nodes, endpoint, block, outcomes).await
            }
            (Stage::Final, Effect::Reverted(failure), Some(block)) if names_it => {
                if !self.all_say_reverted(nodes, attempt, stored, endpoint, failure).await? {
                    let why = "final and reverted, but not yet by a quorum of nodes";
                    return Ok(sighted(nodes, endpoint, &view, why));
                }
                let outcomes = self.outcomes(nodes, attempt, stored, failure).await?;
                self.landing(nodes, endpoint, block, outcomes).await
            }
            (Stage::Final, _, _) => Err(unavailable("final, but it does not say what came of it")),
            _ => Ok(sighted(nodes, endpoint, &view, "in a block that is not final yet")),
        }
    }

    async fn landing(
        &self,
        nodes: &Nodes,
        endpoint: usize,
        block_hash: &str,
        outcomes: Vec<Outcome>,
    ) -> Result<Look, RailError> {
        let cell = {
            let mut heights = self.heights.lock();
            if heights.len() >= HEIGHTS_MAX && !heights.contains_key(block_hash) {
                heights.clear();
            }
            heights.entry(block_hash.to_owned()).or_default().clone()
        };
        // Lanes that landed in the same block ask once.
        let asking = cell.get_or_try_init(|| height_of(nodes, endpoint, block_hash));
        let block_height = *asking.await?;
        Ok(Look::Landed(Landing { block_height, block_hash: block_hash.to_owned(), outcomes }))
    }

    /// A revert sends members back to be paid again, so it is believed only of a quorum.
    async fn all_say_reverted(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        first: usize,
        failure: &Failure,
    ) -> Result<bool, RailError> {
        nodes.introduce_all().await;
        let others = nodes.introduced().into_iter().filter(|endpoint| *endpoint != first);
        let asked = others.map(|endpoint| nodes.tx_on(endpoint, &attempt.hash, &stored.signer));
        let mut agreeing = 1;
        for sight in join_all(asked).await {
            let Ok(Sight::Known(view)) = sight else { continue };
            match view.effect {
                Effect::Reverted(other) if view.stage == Stage::Final => {
                    if other.index != failure.index {
                        return Err(unavailable("the nodes name different actions as the failed"));
                    }
                    agreeing += 1;
                }
                Effect::Done => return Err(unavailable("one node says reverted, another done")),
                _ => {}
            }
        }
        Ok(agreeing >= nodes.endpoints.quorum())
    }

    /// One outcome per member of a reverted batch.
    async fn outcomes(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        failure: &Failure,
    ) -> Result<Vec<Outcome>, RailError> {
        let message = outcome::describe(failure);
        let members = attempt.members.len();
        let Some(index) = failure.index else {
            let shortage = Shortage::Contract;
            return Ok(vec![Outcome::RelayFault { shortage, message }; members]);
        };
        let mut outcomes = vec![Outcome::Sibling; members];
        if attempt.purpose == Purpose::Fence {
            return Ok(outcomes);
        }
        let Some(offender) = usize::try_from(index).ok().filter(|index| *index < members) else {
            return Err(unavailable(format!("a failed action {index}, which is not there")));
        };
        outcomes[offender] = self.explain(nodes, attempt, stored, failure, offender).await?;
        Ok(outcomes)
    }

    async fn explain(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        failure: &Failure,
        offender: usize,
    ) -> Result<Outcome, RailError> {
        let message = outcome::describe(failure);
        let receiver = match attempt.purpose {
            Purpose::Pay => stored.payments.get(offender).map(|(receiver, _)| receiver),
            Purpose::Prepare => stored.registered.get(offender),
            Purpose::Fence => None,
        };
        let Some(receiver) = receiver else {
            return Err(unavailable("the stored bytes hold no such action"));
        };
        let mut meaning = outcome::explain(failure, Parties { sender: &stored.signer, receiver });
        if meaning == Meaning::Unexplained && attempt.purpose == Purpose::Pay {
            meaning = self.diagnose(nodes, stored, offender).await?;
        }
        Ok(match meaning {
            Meaning::NotRegistered if attempt.purpose == Purpose::Pay => {
                Outcome::Unprepared { message }
            }
            Meaning::OwnFault => Outcome::OwnFault { message },
            Meaning::RelayFault(shortage) => Outcome::RelayFault { shortage, message },
            Meaning::NotRegistered | Meaning::Unexplained => Outcome::Unexplained { message },
        })
    }

    /// The contract did not say why: ask the ledger what is missing now.
    async fn diagnose(
        &self,
        nodes: &Nodes,
        stored: &Stored,
        offender: usize,
    ) -> Result<Meaning, RailError> {
        if !is_registered(nodes, &self.token, &stored.signer).await? {
            return Ok(Meaning::RelayFault(Shortage::Contract));
        }
        if !is_registered(nodes, &self.token, &stored.payments[offender].0).await? {
            return Ok(Meaning::NotRegistered);
        }
        let balance = ft_balance(nodes, &self.token, &stored.signer).await?;
        let asked = stored.payments[..=offender]
            .iter()
            .fold(0u128, |sum, (_, amount)| sum.saturating_add(*amount));
        if balance < asked {
            return Ok(Meaning::RelayFault(Shortage::Tokens));
        }
        Ok(Meaning::Unexplained)
    }

    /// The node that was asked does not have it, or has it as invalid.
    async fn unseen(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        later: &[Later],
    ) -> Result<Look, RailError> {
        let adrift = |why: String| Ok(Look::Adrift { why, sighting: None });
        let passing = witness::passing(later);
        let question = Question { attempt, stored, passing, validity: self.validity };
        nodes.introduce_all().await;
        let asked =
            nodes.introduced().into_iter().map(|endpoint| testify(nodes, question, endpoint));
        let (mut witnesses, mut silent, mut seen) = (Vec::new(), Vec::new(), None);
        for (endpoint, testimony) in join_all(asked).await {
            match testimony {
                Ok(Statement::Witness(witness)) => witnesses.push(witness),
                Ok(Statement::Seen(view)) => seen = seen.or(Some((endpoint, view))),
                Ok(Statement::Early) => {}
                Err(error) => silent.push(error.to_string()),
            }
        }
        let quorum = nodes.endpoints.quorum();
        let outvoted = wound::is(Wound::SightingOutvoted) && witnesses.len() >= quorum;
        if let Some((endpoint, view)) = seen.filter(|_| !outvoted) {
            return self.weigh(nodes, attempt, stored, endpoint, view).await;
        }
        let judgement = witness::judge(attempt, later, &witnesses, quorum);
        if !matches!(judgement, Judgement::Unexplained(_)) {
            self.doubts.lock().remove(&attempt.hash);
        }
        match judgement {
            Judgement::Adrift(why) if silent.is_empty() => adrift(why),
            Judgement::Adrift(why) => adrift(format!("{why} ({})", silent.join("; "))),
            Judgement::Unexplained(nonce) => Ok(self.doubt(attempt, nonce, later)),
            Judgement::Sunk(kind) => match veto(nodes, attempt, &witnesses).await? {
                Some(why) if !outvoted => adrift(why),
                _ => Ok(Look::Sunk(certificate(attempt, later, kind, witnesses, quorum))),
            },
        }
    }

    /// A nonce that nobody of ours used halts the lane, so it takes two looks: what was stored
    /// while the first one looked is among `later` in the second.
    fn doubt(&self, attempt: &Attempt, nonce: u64, later: &[Later]) -> Look {
        let before = self.doubts.lock().insert(attempt.hash.clone(), nonce);
        let text = format!(
            "nonce {nonce} of {} is used on the ledger, at or past {} of {}, and no stored attempt \
             explains it",
            attempt.lane, attempt.nonce, attempt.hash
        );
        match before {
            Some(doubted) if !later.iter().any(|one| one.nonce.0 == doubted) => Look::Foreign(text),
            _ => Look::Adrift { why: text, sighting: None },
        }
    }
}

/// The mistake of a wounded build: one node does not know it and a later one landed, so it is
/// dead, however far behind that node may be.
fn believed_too_early(later: &[Later]) -> Look {
    let summary = "one node does not know it".to_owned();
    match later.iter().any(|one| one.landed_height.is_some()) {
        true => Look::Sunk(Certificate {
            kind: CertificateKind::NoncePassed,
            summary,
            evidence: json!(null),
        }),
        false => Look::Adrift { why: summary, sighting: None },
    }
}

/// What the stored bytes say.
pub fn stored(attempt: &Attempt) -> Result<Stored, RailError> {
    encode::read(&attempt.bytes).ok_or_else(|| {
        RailError::Misconfigured(format!("the stored bytes of {} are no transaction", attempt.hash))
    })
}

/// Whether the token knows an account, at a final block.
pub async fn is_registered(nodes: &Nodes, token: &str, account: &str) -> Result<bool, RailError> {
    let args = json!({"account_id": account});
    let balance = nodes.view(token, "storage_balance_of", &args).await?;
    Ok(!balance.is_null())
}

/// The token balance of an account, at a final block.
pub async fn ft_balance(nodes: &Nodes, token: &str, account: &str) -> Result<u128, RailError> {
    let balance = nodes.view(token, "ft_balance_of", &json!({"account_id": account})).await?;
    let balance = balance.as_str().and_then(|balance| balance.parse().ok());
    balance.ok_or_else(|| unavailable("ft_balance_of did not give an amount"))
}

/// The height of a block, asked first of the node that named it.
async fn height_of(nodes: &Nodes, endpoint: usize, hash: &str) -> Result<u64, RailError> {
    match nodes.block_on(endpoint, json!(hash)).await {
        Ok(Chained::Block(block)) if block.hash == hash => Ok(block.height),
        _ => Ok(nodes.block_by_hash(hash).await?.height),
    }
}

fn is_invalid(view: &TxView) -> bool {
    matches!(view.effect, Effect::Invalid(_))
}

fn sighted(nodes: &Nodes, endpoint: usize, view: &TxView, why: &str) -> Look {
    let sighting = Sighting {
        endpoint: nodes.endpoints.origin(endpoint).to_owned(),
        block_hash: view.block_hash.clone().unwrap_or_default(),
        block_height: None,
        was_final: view.stage == Stage::Final,
        at_ms: nodes.clock.now_ms(),
    };
    Look::Adrift { why: why.to_owned(), sighting: Some(sighting) }
}

fn certificate(
    attempt: &Attempt,
    later: &[Later],
    kind: CertificateKind,
    witnesses: Vec<Witness>,
    quorum: usize,
) -> Certificate {
    let why = match kind {
        CertificateKind::Expired => {
            let last = witnesses.iter().map(|one| one.expires_height).max();
            format!("its block hash expired at {}", last.unwrap_or(attempt.expires_height))
        }
        _ => format!("its nonce {} was passed by a later attempt of ours", attempt.nonce),
    };
    let summary = format!(
        "{why}, and {} nodes at or past that final block, which keep the history, do not have it",
        witnesses.len()
    );
    let passed_by = later.iter().find(|one| one.landed_height == witness::passing(later));
    let evidence = json!({
        "tx_hash": attempt.hash,
        "nonce": attempt.nonce,
        "base_height": attempt.base_height,
        "expires_height": attempt.expires_height,
        "passed_by": passed_by.filter(|one| one.landed_height.is_some()).map(|one| json!({
            "tx_hash": one.hash, "nonce": one.nonce, "landed_height": one.landed_height,
        })),
        "quorum": quorum,
        "witnesses": witnesses,
    });
    Certificate { kind, summary, evidence }
}
