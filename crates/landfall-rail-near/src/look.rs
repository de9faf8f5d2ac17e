//! Looks at an attempt: the cheap question, and the inquest with its death certificate.
//!
//! ```text
//!  look: tx on one node ─ final ─ a quorum says the same ──────────▶ Landed (`corroborate`)
//!    │            └── seen, not final, or not by a quorum ──────────▶ Adrift, with the sightings
//!    └── unknown, or included as invalid ────────────────────────────▶ Adrift
//!
//!  inquest: testimony of every node ─ judged (`witness`) ─ no veto ─▶ Sunk
//!    │            └── nothing is decided at their final blocks ─────▶ Adrift
//!    └── used by nobody of ours, by a quorum, twice ────────────────▶ Foreign
//! ```
//!
//! **Invariant:** a sighting by any node vetoes a certificate until a quorum shows that its block
//! is not on the final chain, or does not hold the transaction.

use std::collections::HashMap;
use std::sync::Arc;

use futures::future::join_all;
use landfall_core::attempt::{Shortage, Sighting};
use landfall_core::guard::{self, Guard};
use landfall_core::rail::{Foreign, Later, Look, RailError};
use landfall_core::wound::{self, Wound};
use landfall_core::{Attempt, Certificate, CertificateKind, Landing, Outcome, Purpose};
use landfall_rpc::{Said, unavailable};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::answer::{Effect, Failure, Stage, TxView};
use crate::corroborate::{Corroborated, Ending, corroborate, ending, is_sighting};
use crate::encode::{self, Stored};
use crate::node::{Chained, Nodes, Sight};
use crate::outcome::{self, Meaning, Parties};
use crate::settings::NearSettings;
use crate::testimony::{Question, Statement, expiry, testify, veto};
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

    /// The cheap question: does one node have it?
    pub async fn look(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        passed: bool,
    ) -> Result<Look, RailError> {
        let (endpoint, sight) = nodes.tx(&attempt.hash, &stored.signer, passed).await?;
        match sight {
            Sight::Known(view) if is_sighting(&view) => {
                self.weigh(nodes, attempt, stored, vec![Said { endpoint, fact: view }]).await
            }
            Sight::Known(_) => Ok(adrift("one node has it as invalid".to_owned())),
            Sight::Unknown => Ok(adrift("one node does not know it".to_owned())),
        }
    }

    /// What sightings by some nodes come to.
    pub async fn weigh(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        seen: Vec<Said<TxView>>,
    ) -> Result<Look, RailError> {
        note_what_is_not_final(&seen);
        if seen.iter().all(|one| ending(&one.fact, &attempt.hash).is_none()) {
            return sighted(nodes, &seen, "in a block that is not final yet");
        }
        match corroborate(nodes, attempt, &stored.signer, seen).await {
            Corroborated::Ended(ending) => self.landed(nodes, attempt, stored, ending).await,
            Corroborated::NotYet(seen) => {
                note_what_is_not_shared(&seen, attempt);
                sighted(nodes, &seen, "final, but not yet by the word of a quorum of nodes")
            }
        }
    }

    async fn landed(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        ending: Ending,
    ) -> Result<Look, RailError> {
        let outcomes = match &ending.effect {
            Effect::Reverted(failure) => self.outcomes(nodes, attempt, stored, failure).await?,
            _ => vec![Outcome::Done; attempt.members.len()],
        };
        let block_hash = ending.block_hash;
        let cell = {
            let mut heights = self.heights.lock();
            if heights.len() >= HEIGHTS_MAX && !heights.contains_key(&block_hash) {
                heights.clear();
            }
            heights.entry(block_hash.clone()).or_default().clone()
        };
        // Lanes that landed in the same block ask once.
        let asking = cell.get_or_try_init(|| height_of(nodes, &block_hash));
        let block_height = *asking.await?;
        Ok(Look::Landed(Landing { hash: None, block_height, block_hash, outcomes }))
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
        if !surely_registered(nodes, &self.token, &stored.signer).await? {
            return Ok(Meaning::RelayFault(Shortage::Contract));
        }
        if !surely_registered(nodes, &self.token, &stored.payments[offender].0).await? {
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

    /// The node that was asked does not have it, or has it as invalid: what do all say?
    pub async fn inquest(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        stored: &Stored,
        later: &[Later],
    ) -> Result<Look, RailError> {
        if wound::is(Wound::LookedTooEarly) {
            return Ok(believed_too_early(later));
        }
        let passing = witness::passing(later);
        let question = Question { attempt, stored, passing, validity: self.validity };
        nodes.introduce_all().await;
        let asked =
            nodes.introduced().into_iter().map(|endpoint| testify(nodes, question, endpoint));
        let (mut witnesses, mut silent, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        for (endpoint, testimony) in join_all(asked).await {
            match testimony {
                Ok(Statement::Witness(witness)) => witnesses.push(witness),
                Ok(Statement::Seen(fact)) => seen.push(Said { endpoint, fact }),
                Ok(Statement::Early) => {}
                Err(error) => silent.push(error.to_string()),
            }
        }
        let quorum = nodes.endpoints.quorum();
        let sightings = seen.len() + attempt.sightings.len();
        let outvoted = is_outvoted(sightings, witnesses.len(), quorum);
        let seen = match seen.is_empty() || outvoted {
            true => None,
            false => Some(self.weigh(nodes, attempt, stored, seen).await?),
        };
        if let Some(look) = seen.as_ref().filter(|look| !is_old_news(look, attempt)) {
            return Ok(look.clone());
        }
        // Who has it may lie: what is stored of its word is weighed against the witnesses.
        let judged = self.judged(nodes, attempt, later, witnesses, outvoted).await?;
        Ok(match (judged, seen) {
            (decided @ (Look::Sunk(_) | Look::Foreign(_)), _) => decided,
            (_, Some(seen)) => seen,
            (Look::Adrift { why, sightings }, None) if !silent.is_empty() => {
                Look::Adrift { why: format!("{why} ({})", silent.join("; ")), sightings }
            }
            (judged, None) => judged,
        })
    }

    /// What the witnesses prove.
    async fn judged(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
        later: &[Later],
        witnesses: Vec<Witness>,
        outvoted: bool,
    ) -> Result<Look, RailError> {
        let quorum = if wound::is(Wound::QuorumOfOne) { 1 } else { nodes.endpoints.quorum() };
        if !witnesses.is_empty() && witnesses.len() < quorum {
            guard::met(Guard::TooFewWitnesses);
        }
        let judgement = witness::judge(attempt, later, &witnesses, quorum);
        if !matches!(judgement, Judgement::Unexplained(_)) {
            self.doubts.lock().remove(&attempt.hash);
        }
        match judgement {
            Judgement::Adrift(why) => Ok(adrift(why)),
            // Nodes forget: who saw it may be the only one to remember that it was ours.
            Judgement::Unexplained(nonce) => match veto(nodes, attempt, &witnesses).await? {
                Some(why) => Ok(adrift(why)),
                None => Ok(self.doubt(attempt, nonce, later)),
            },
            Judgement::Sunk(kind) => match veto(nodes, attempt, &witnesses).await? {
                Some(why) if !outvoted && !wound::is(Wound::VetoIgnored) => Ok(adrift(why)),
                _ => {
                    guard::met(match kind {
                        CertificateKind::Expired => Guard::Expired,
                        _ => Guard::NoncePassed,
                    });
                    Ok(Look::Sunk(certificate(attempt, later, kind, witnesses, quorum)))
                }
            },
        }
    }

    /// Which stored sighting a quorum does not refute, as an operator should know before a word
    /// against it.
    pub async fn standing_sighting(
        &self,
        nodes: &Nodes,
        attempt: &Attempt,
    ) -> Result<Option<String>, RailError> {
        let stored = stored(attempt)?;
        nodes.introduce_all().await;
        let question =
            Question { attempt, stored: &stored, passing: None, validity: self.validity };
        let asked =
            nodes.introduced().into_iter().map(|endpoint| testify(nodes, question, endpoint));
        let witnesses = join_all(asked).await.into_iter().filter_map(|(_, told)| match told {
            Ok(Statement::Witness(witness)) => Some(witness),
            _ => None,
        });
        veto(nodes, attempt, &witnesses.collect::<Vec<_>>()).await
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
            Some(doubted) if !later.iter().any(|one| one.nonce.0 == doubted) => {
                guard::met(Guard::ForeignNonce);
                Look::Foreign(Foreign { reason: text, certificate: None })
            }
            _ => adrift(text),
        }
    }
}

/// The mistake of a wounded build: so many others do not know it.
fn is_outvoted(sightings: usize, others: usize, quorum: usize) -> bool {
    sightings > 0 && others >= quorum && wound::is(Wound::SightingOutvoted)
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
        false => adrift(summary),
    }
}

/// What the stored bytes say.
pub fn stored(attempt: &Attempt) -> Result<Stored, RailError> {
    encode::read(&attempt.bytes).ok_or_else(|| {
        RailError::Misconfigured(format!("the stored bytes of {} are no transaction", attempt.hash))
    })
}

fn adrift(why: String) -> Look {
    Look::Adrift { why, sightings: Vec::new() }
}

/// Whether the token knows an account, at a final block of one node.
pub async fn is_registered(nodes: &Nodes, token: &str, account: &str) -> Result<bool, RailError> {
    let args = json!({"account_id": account});
    let balance = nodes.view(token, "storage_balance_of", &args).await?;
    Ok(!balance.is_null())
}

/// The same, by the word of a quorum.
pub async fn surely_registered(
    nodes: &Nodes,
    token: &str,
    account: &str,
) -> Result<bool, RailError> {
    let args = json!({"account_id": account});
    let balance = nodes.agreed_view(token, "storage_balance_of", &args).await?;
    Ok(!balance.is_null())
}

/// The token balance of an account, at a final block.
pub async fn ft_balance(nodes: &Nodes, token: &str, account: &str) -> Result<u128, RailError> {
    let args = json!({"account_id": account});
    let balance = nodes.agreed_view(token, "ft_balance_of", &args).await?;
    let balance = balance.as_str().and_then(|balance| balance.parse().ok());
    balance.ok_or_else(|| unavailable("ft_balance_of did not give an amount"))
}

/// The height of a block, as a quorum has it.
async fn height_of(nodes: &Nodes, hash: &str) -> Result<u64, RailError> {
    let ask = async |endpoint| match nodes.block_on(endpoint, json!(hash)).await? {
        Chained::Block(block) if block.hash == hash => Ok(block.height),
        Chained::Block(_) => Err(unavailable("another block than the one that was asked for")),
        Chained::Unknown => Err(unavailable("the node does not know the block")),
    };
    nodes.constant(&format!("the height of block {hash}"), ask).await
}

/// Where nodes say they have it.
fn sighted(nodes: &Nodes, seen: &[Said<TxView>], why: &str) -> Result<Look, RailError> {
    let sighting = |one: &Said<TxView>| {
        let (was_final, block) = (one.fact.stage == Stage::Final, one.fact.block_hash.clone());
        // Final, and does not say in which block: nothing that a node of the ledger says.
        let told = is_sighting(&one.fact) && (block.is_some() || !was_final);
        told.then(|| Sighting {
            endpoint: nodes.endpoints.origin(one.endpoint).to_owned(),
            block_hash: block.unwrap_or_default(),
            block_height: None,
            was_final,
            at_ms: nodes.clock.now_ms(),
        })
    };
    let sightings: Vec<Sighting> = seen.iter().filter_map(sighting).collect();
    match sightings.is_empty() {
        true => Err(unavailable("final, but it does not say what came of it")),
        false => Ok(Look::Adrift { why: why.to_owned(), sightings }),
    }
}

/// Whether a look shows only what is stored with the attempt.
fn is_old_news(look: &Look, attempt: &Attempt) -> bool {
    match look {
        Look::Adrift { sightings, .. } => sightings.iter().all(|one| attempt.has_heard(one)),
        _ => false,
    }
}

fn note_what_is_not_final(seen: &[Said<TxView>]) {
    for view in seen.iter().map(|one| &one.fact).filter(|view| view.stage < Stage::Final) {
        match view.effect {
            Effect::Done => guard::met(Guard::NotFinalYet),
            Effect::Reverted(_) => guard::met(Guard::RevertNotFinalYet),
            _ => {}
        }
    }
}

fn note_what_is_not_shared(seen: &[Said<TxView>], attempt: &Attempt) {
    for ending in seen.iter().filter_map(|one| ending(&one.fact, &attempt.hash)) {
        guard::met(match ending.effect {
            Effect::Reverted(_) => Guard::RevertNotShared,
            _ => Guard::SuccessNotShared,
        });
    }
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
            format!("its block hash expired at {}", last.unwrap_or(expiry(attempt)))
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
        "base_height": attempt.base.as_ref().map(|base| base.height),
        "expires_height": attempt.expires_height,
        "passed_by": passed_by.filter(|one| one.landed_height.is_some()).map(|one| json!({
            "tx_hash": one.hash, "nonce": one.nonce, "landed_height": one.landed_height,
        })),
        "quorum": quorum,
        "witnesses": witnesses,
    });
    Certificate { kind, summary, evidence }
}
