//! `landfall adrift list|decide`: what nobody knows the fate of, and an operator's word on it.
//!
//! Attempts on a ledger are here, named by their numbers; transfers that no attempt carries in
//! [`requests`], named by their request ids.
//! **Rule:** a word that the ledger contradicts is refused: what is on it, or may still come to be,
//! is not sunk. A wrong `sunk` pays twice.
//! Not here: what a ledger shows of an attempt (`examine`).

mod requests;

use std::sync::Arc;

use landfall_core::store::Store;
use landfall_core::{
    Attempt, AttemptId, Certificate, CertificateKind, Fate, Landing, Outcome, RailName, Sighting,
};
use landfall_engine::operate::{self, OperateError};
use serde_json::json;

use crate::cli::{AdriftId, DecideArguments, Decided, ReadArguments};
use crate::examine::{LedgerExaminer, Ledgers, Seen, Shown};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style, Table, age, time};
use crate::stopped::StoppedRelay;
use crate::wire;

/// Open for longer than this is longer than a payment takes.
const OPEN_LONG_MS: u64 = 60_000;

pub async fn list(store: &Arc<dyn Store>, show: &Show, now_ms: u64, all: bool) -> Result<()> {
    let mut adrift = Vec::new();
    for rail in RailName::ALL {
        let open = store.open_attempts_of(rail).await?.into_iter();
        adrift.extend(open.filter(|attempt| all || attempt.opened_ms + OPEN_LONG_MS <= now_ms));
    }
    let waiting = requests::waiting(store).await?;
    if show.json {
        let value = |attempt: &Attempt| {
            let mut value = serde_json::to_value(attempt).unwrap_or_default();
            value["age_ms"] = now_ms.saturating_sub(attempt.opened_ms).into();
            value
        };
        let requests = waiting.iter().flat_map(|rail| {
            rail.transfers.iter().map(|transfer| rail.examiner.json(transfer, now_ms))
        });
        show.value(&adrift.iter().map(value).chain(requests).collect());
        return Ok(());
    }
    match adrift.is_empty() {
        true => show.line(&show.paint(Style::Good, "no attempt is adrift")),
        false => print(show, &adrift, now_ms),
    }
    for rail in &waiting {
        show.line(&show.paint(Style::Warn, rail.examiner.title()));
        rail.examiner.print(show, &rail.transfers, now_ms);
    }
    if !(adrift.is_empty() && waiting.is_empty()) {
        let hint = "a running relay decides attempts by itself; by hand: see docs/operating.md";
        show.line(&show.paint(Style::Dim, hint));
    }
    Ok(())
}

fn print(show: &Show, adrift: &[Attempt], now_ms: u64) {
    let head = ["ID", "LANE", "NONCE", "FOR", "AGE", "TX", "SEEN"];
    let mut table = Table::new(&head);
    for attempt in adrift {
        let members = match attempt.members.len() {
            1 => format!("{} 1", attempt.purpose.as_str()),
            many => format!("{} {many}", attempt.purpose.as_str()),
        };
        let (style, seen) = sightings(&attempt.sightings);
        table.row(vec![
            (Style::Bold, attempt.id.to_string()),
            (Style::Plain, attempt.lane.to_string()),
            (Style::Plain, attempt.nonce.to_string()),
            (Style::Plain, members),
            (Style::Warn, age(now_ms.saturating_sub(attempt.opened_ms))),
            (Style::Dim, attempt.hash.clone()),
            (style, seen),
        ]);
    }
    show.table(&table);
}

fn sightings(sightings: &[Sighting]) -> (Style, String) {
    let Some(last) = sightings.last() else { return (Style::Dim, "never".into()) };
    let block = last.block_height.map_or(last.block_hash.clone(), |height| height.to_string());
    let text = format!("in block {block} by {} at {}", last.endpoint, time(last.at_ms));
    match sightings.iter().any(|one| one.was_final) {
        true => (Style::Bad, format!("final, {text}")),
        false => (Style::Warn, text),
    }
}

pub async fn decide(asked: &DecideArguments, read: &ReadArguments) -> Result<()> {
    match &asked.id {
        AdriftId::Attempt(id) => decide_attempt(AttemptId(*id), asked, read).await,
        AdriftId::Request(req_id) => requests::decide(req_id, asked, read).await,
    }
}

async fn decide_attempt(
    id: AttemptId,
    asked: &DecideArguments,
    read: &ReadArguments,
) -> Result<()> {
    let relay = StoppedRelay::take(read).await?;
    let unknown = || Failure::No(format!("there is no attempt {id}; see `landfall adrift list`"));
    let attempt = relay.store.attempt(id).await?.ok_or_else(unknown)?;
    if attempt.fate.is_some() {
        return Err(Failure::No(format!("attempt {id} is decided already")));
    }
    let ledgers = Ledgers::of(attempt.rail, &relay.config, relay.folder()).await?;
    let owner = ledgers.owner(&attempt.lane, Some(attempt.rail));
    let shown = match asked.unchecked {
        true => None,
        false => Some(ask(owner, &ledgers, &attempt).await?),
    };
    contradiction(asked.fate, &attempt, shown.as_ref()).map_or(Ok(()), |why| {
        Err(Failure::No(format!("attempt {id} cannot be decided so: {why}")))
    })?;
    let word = word(asked, shown.as_ref());
    let fate = match asked.fate {
        Decided::Sunk => Fate::Sunk(word.clone()),
        Decided::Landed => Fate::Landed(landing(&attempt, shown.as_ref())),
    };
    let now_ms = wire::clock().now_ms();
    // What payments of a rail need is the same on all its ledgers.
    let rail = owner.or(ledgers.first()).map(|ledger| ledger.rail()).ok_or_else(unknown)?;
    // A lane that a relay of this name has left is taken at once.
    let name = relay.instance()?;
    let decided = operate::decide(&*relay.store, &*rail, &name, id, fate, &word, now_ms).await;
    let moved = decided.map_err(|error| match error {
        OperateError::Store(error) => error.into(),
        held @ (OperateError::LaneHeld { .. } | OperateError::LaneChanged) => {
            Failure::Unable(held.to_string())
        }
        other => Failure::No(other.to_string()),
    })?;
    let show = Show::on_stdout(read.json);
    let (name, then) = match asked.fate {
        Decided::Landed => ("landed", "completed"),
        Decided::Sunk => ("sunk", "to be tried anew"),
    };
    match show.json {
        true => show.value(&json!({"attempt": id.0, "decided": name, "moved": moved})),
        false => show.line(&format!("attempt {id} is {name}; {} members {then}", moved.len())),
    }
    Ok(())
}

/// What the attempt's own ledger shows of it.
async fn ask(
    owner: Option<&Arc<dyn LedgerExaminer>>,
    ledgers: &Ledgers,
    attempt: &Attempt,
) -> Result<Shown> {
    let asked = match owner {
        Some(ledger) => ledger.shown(attempt).await.map_err(|error| error.to_string()),
        None => Err(format!("{} is no lane of {}", attempt.lane, ledgers.names())),
    };
    asked.map_err(|error| {
        Failure::Unable(format!(
            "{error}; an operator's word is checked against the ledger. If it can never be asked \
             again, add --unchecked"
        ))
    })
}

/// Why the operator's word cannot be true, if so.
fn contradiction(decided: Decided, attempt: &Attempt, shown: Option<&Shown>) -> Option<String> {
    let seen_final = attempt.sightings.iter().find(|sighting| sighting.was_final);
    let Some(shown) = shown else {
        let sighting = seen_final.filter(|_| decided == Decided::Sunk)?;
        let (endpoint, block) = (&sighting.endpoint, &sighting.block_hash);
        return Some(format!("{endpoint} has shown it as final in block {block}"));
    };
    if let (Decided::Sunk, Some(why), Some(_)) = (decided, &shown.sighted, seen_final) {
        return Some(format!("it was shown as final: {why}"));
    }
    match (decided, shown.seen) {
        (_, Seen::Unsettled) => Some("the ledger has it, not yet final; wait for it".into()),
        (Decided::Sunk, Seen::Paid) => Some("the ledger has it, and it paid".into()),
        (_, Seen::Reverted) => {
            Some("the ledger has it, reverted; start the relay, which settles it by itself".into())
        }
        (Decided::Sunk, Seen::Unknown) => {
            shown.may_land.as_ref().map(|why| format!("it may still land: {why}"))
        }
        (Decided::Landed, Seen::Unknown | Seen::Paid) => None,
    }
}

fn word(asked: &DecideArguments, shown: Option<&Shown>) -> Certificate {
    let who = std::env::var("USER").unwrap_or_default();
    Certificate {
        kind: CertificateKind::Operator,
        summary: format!("by an operator's word: {}", asked.evidence),
        evidence: json!({
            "operator": who,
            "evidence": asked.evidence,
            "ledger": shown.map(|shown| &shown.facts),
        }),
    }
}

/// Where it landed is known only as "not above": everything that relies on the height asks for
/// blocks at or past it.
fn landing(attempt: &Attempt, shown: Option<&Shown>) -> Landing {
    let last = attempt.sightings.last();
    let noted = attempt.expires_height.unwrap_or(u64::MAX);
    Landing {
        hash: shown.and_then(|shown| shown.hash.clone()),
        block_height: shown.map_or(noted, |shown| shown.final_height),
        block_hash: last.map(|sighting| sighting.block_hash.clone()).unwrap_or_default(),
        outcomes: vec![Outcome::Done; attempt.members.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examine::sample_attempt;
    use serde_json::Value;

    fn shown(seen: Seen, may_land: Option<&str>) -> Shown {
        let may_land = may_land.map(str::to_owned);
        let facts = Value::Null;
        Shown { seen, may_land, sighted: None, hash: None, final_height: 50, facts }
    }

    #[test]
    fn what_is_on_the_ledger_or_may_still_come_is_not_sunk() {
        let sunk = |seen, may_land| {
            let shown = shown(seen, may_land);
            contradiction(Decided::Sunk, &sample_attempt(), Some(&shown)).is_none()
        };
        assert!(sunk(Seen::Unknown, None));
        assert!(!sunk(Seen::Unknown, Some("its nonce is not used")));
        assert!(!sunk(Seen::Paid, None));
        assert!(!sunk(Seen::Reverted, None));
        assert!(!sunk(Seen::Unsettled, None));
    }

    #[test]
    fn what_was_seen_final_is_not_sunk_unless_a_quorum_refutes_it() {
        let mut attempt = sample_attempt();
        assert!(contradiction(Decided::Sunk, &attempt, None).is_none());
        attempt.sightings.push(Sighting {
            endpoint: "http://one".into(),
            block_hash: "B".into(),
            block_height: Some(20),
            was_final: true,
            at_ms: 0,
        });
        assert!(contradiction(Decided::Sunk, &attempt, None).is_some());
        assert!(contradiction(Decided::Landed, &attempt, None).is_none());
        let refuted = shown(Seen::Unknown, None);
        assert!(contradiction(Decided::Sunk, &attempt, Some(&refuted)).is_none());
        let sighted = Shown { sighted: Some("http://one has seen it".into()), ..refuted };
        assert!(contradiction(Decided::Sunk, &attempt, Some(&sighted)).is_some());
    }

    #[test]
    fn a_landing_names_the_variant_that_the_ledger_shows() {
        let bumped = Shown { hash: Some("H2".into()), ..shown(Seen::Paid, None) };
        let landing = landing(&sample_attempt(), Some(&bumped));
        assert_eq!((landing.hash.as_deref(), landing.block_height), (Some("H2"), 50));
    }
}
