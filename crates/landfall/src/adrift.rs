//! `landfall adrift list|decide`: what nobody knows the fate of, and an operator's word on it.
//!
//! Attempts on a ledger are here, named by their numbers; transfers between services in
//! [`requests`], named by their request ids.
//! **Rule:** a word that the ledger contradicts is refused: what is on it, or may still come to be,
//! is not sunk. A wrong `sunk` pays twice.

mod requests;

use std::sync::Arc;

use landfall_core::ledger::{Ledger as _, RailError};
use landfall_core::store::Store;
use landfall_core::{
    Attempt, AttemptId, Certificate, CertificateKind, Fate, Landing, Outcome, RailName, Sighting,
};
use landfall_engine::operate::{self, OperateError};
use landfall_rail_near::{Auditor, NearRail, Seen, parse_lane_id};
use serde_json::{Value, json};

use crate::cli::{AdriftId, DecideArguments, Decided, ReadArguments};
use crate::config::{self, Config, Need};
use crate::dev::ground::{Ground, ledger_sources};
use crate::failure::{Failure, Result};
use crate::folder::Folder;
use crate::show::{Show, Style, Table, time};
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
        let requests = waiting.iter().map(|transfer| requests::json(transfer, now_ms));
        show.value(&adrift.iter().map(value).chain(requests).collect());
        return Ok(());
    }
    match adrift.is_empty() {
        true => show.line(&show.paint(Style::Good, "no attempt is adrift")),
        false => print(show, &adrift, now_ms),
    }
    if !waiting.is_empty() {
        show.line(&show.paint(Style::Warn, "transfers between services that wait for a decision:"));
        requests::print(show, &waiting, now_ms);
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

fn age(ms: u64) -> String {
    let minutes = ms / 60_000;
    match (minutes / 1_440, minutes / 60) {
        (0, 0) => format!("{minutes} min"),
        (0, hours) => format!("{hours} h {} min", minutes % 60),
        (days, hours) => format!("{days} d {} h", hours % 24),
    }
}

/// A store that is open to be written to, for this process alone.
struct Opened {
    config: Config,
    home: Home,
    store: Arc<dyn Store>,
}

/// The data folder, taken, with the ledger that is kept in it where it is a trial's.
pub enum Home {
    Own(Folder),
    Trial(Ground),
}

impl Home {
    pub fn folder(&self) -> &Folder {
        match self {
            Home::Own(folder) => folder,
            Home::Trial(ground) => &ground.folder,
        }
    }
}

impl Opened {
    /// Refused while a relay runs: two writers would not see each other's work.
    async fn to_write(read: &ReadArguments) -> Result<Opened> {
        let (sources, ground) = ledger_sources(&read.config, &read.data).await?;
        let config = config::load(&sources, Need::Ledger)?;
        // Reading first: a store that is not there must not be made, nor its folder.
        drop(wire::open_existing_store(&config).await?);
        let stopped = |failure: Failure| {
            Failure::Unable(format!(
                "this writes to the store, so the relay must be stopped first: stop it, give this \
                 command again, start it again ({failure})"
            ))
        };
        let home = match ground {
            Some(ground) => Home::Trial(ground),
            None => Home::Own(Folder::take(&config.instance.data).map_err(stopped)?),
        };
        let store = wire::open_existing_store_to_write(&config, wire::clock()).await;
        Ok(Opened { config, home, store: store.map_err(stopped)? })
    }
}

/// What writes about attempts need: the store, and the ledger.
pub struct Desk {
    pub config: Config,
    pub home: Home,
    pub store: Arc<dyn Store>,
    pub rail: NearRail,
    pub network: String,
}

impl Desk {
    pub async fn open(read: &ReadArguments) -> Result<Desk> {
        let Opened { config, home, store } = Opened::to_write(read).await?;
        let clock = wire::clock();
        let network = match config.near.network.clone().or_else(|| home.folder().network()) {
            Some(network) => network,
            None => {
                let endpoints = wire::endpoints(&config, clock.clone())?;
                wire::shown_network(&endpoints).await.map_err(Failure::Unable)?
            }
        };
        let rail = wire::near_rail(&config, &network, clock)?;
        Ok(Desk { config, home, store, rail, network })
    }

    pub fn auditor(&self) -> Result<Auditor> {
        let clock = wire::clock();
        let endpoints = wire::endpoints(&self.config, clock.clone())?;
        Ok(Auditor::new(endpoints, clock, self.network.clone()))
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
    let desk = Desk::open(read).await?;
    let unknown = || Failure::No(format!("there is no attempt {id}; see `landfall adrift list`"));
    let attempt = desk.store.attempt(id).await?.ok_or_else(unknown)?;
    if attempt.fate.is_some() {
        return Err(Failure::No(format!("attempt {id} is decided already")));
    }
    let facts = match asked.unchecked {
        true => None,
        false => Some(Facts::ask(&desk, &attempt).await.map_err(|error| {
            Failure::Unable(format!(
                "{error}; an operator's word is checked against the ledger. If it can never be \
                 asked again, add --unchecked"
            ))
        })?),
    };
    contradiction(asked.fate, &attempt, facts.as_ref()).map_or(Ok(()), |why| {
        Err(Failure::No(format!("attempt {id} cannot be decided so: {why}")))
    })?;
    let word = word(asked, facts.as_ref());
    let fate = match asked.fate {
        Decided::Sunk => Fate::Sunk(word.clone()),
        Decided::Landed => Fate::Landed(landing(&attempt, facts.as_ref())),
    };
    let now_ms = wire::clock().now_ms();
    // The folder is ours, so no relay of this name runs: a lane that it left is taken at once.
    let name = desk.home.folder().instance_name(desk.config.instance.name.as_deref())?;
    let (store, rail) = (desk.store.as_ref(), &desk.rail);
    let decided = operate::decide(store, rail, &name, id, fate, &word, now_ms).await;
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

/// What the ledger says of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facts {
    seen: Seen,
    key_nonce: u64,
    final_height: u64,
    /// The last block in which it can land, by a quorum of nodes; none if there is none.
    expires_height: Option<u64>,
    /// A sighting that a quorum does not refute.
    sighted: Option<String>,
}

impl Facts {
    async fn ask(desk: &Desk, attempt: &Attempt) -> std::result::Result<Facts, String> {
        let said = |error: RailError| error.to_string();
        let auditor = desk.auditor().map_err(|failure| failure.to_string())?;
        // The nonce first: what passed it is then on every node that has that block.
        let nonce = desk.rail.nonce(&attempt.lane).await.map_err(said)?;
        let (account, _) = parse_lane_id(&attempt.lane, &desk.network)
            .ok_or_else(|| format!("{} is no lane of {}", attempt.lane, desk.network))?;
        let token = wire::terms(&desk.config, &desk.network).token;
        let seen = auditor.seen(&attempt.hash, account, &token).await.map_err(said)?;
        // Where the nodes no longer know, what was noted when it was signed must do.
        let expires_height = desk.rail.expiry(attempt).await.ok().or(attempt.expires_height);
        let sighted = desk.rail.standing_sighting(attempt).await.map_err(said)?;
        let nonce = nonce.ok_or("the ledger keeps no nonces")?;
        let (key_nonce, final_height) = (nonce.nonce.0, nonce.final_height);
        Ok(Facts { seen, key_nonce, final_height, expires_height, sighted })
    }

    fn json(&self) -> Value {
        let seen = match &self.seen {
            Seen::Unknown => "unknown",
            Seen::Unsettled => "not final",
            Seen::Done(_) => "done",
            Seen::Reverted => "reverted",
        };
        json!({
            "transaction": seen,
            "key_nonce": self.key_nonce,
            "final_height": self.final_height,
            "expires_height": self.expires_height,
            "sighted": self.sighted,
        })
    }
}

/// Why the operator's word cannot be true, if so.
fn contradiction(decided: Decided, attempt: &Attempt, facts: Option<&Facts>) -> Option<String> {
    let seen_final = attempt.sightings.iter().find(|sighting| sighting.was_final);
    let Some(facts) = facts else {
        let sighting = seen_final.filter(|_| decided == Decided::Sunk)?;
        let (endpoint, block) = (&sighting.endpoint, &sighting.block_hash);
        return Some(format!("{endpoint} has shown it as final in block {block}"));
    };
    if let (Decided::Sunk, Some(why), Some(_)) = (decided, &facts.sighted, seen_final) {
        return Some(format!("it was shown as final: {why}"));
    }
    match (decided, &facts.seen) {
        (_, Seen::Unsettled) => Some("the ledger has it, not yet final; wait for it".into()),
        (Decided::Sunk, Seen::Done(_)) => Some("the ledger has it, and it paid".into()),
        (_, Seen::Reverted) => {
            Some("the ledger has it, reverted; start the relay, which settles it by itself".into())
        }
        (Decided::Sunk, Seen::Unknown) => {
            let passed = facts.key_nonce >= attempt.nonce.0;
            let expired = facts.expires_height.is_some_and(|last| facts.final_height > last);
            let last = facts.expires_height.map_or("none".into(), |last| last.to_string());
            (!passed && !expired).then(|| {
                format!(
                    "it may still land: the key's nonce is {}, below its {}, and it expires only \
                     after block {} (now {}); start the relay, whose fence decides it",
                    facts.key_nonce, attempt.nonce, last, facts.final_height
                )
            })
        }
        (Decided::Landed, Seen::Unknown | Seen::Done(_)) => None,
    }
}

fn word(asked: &DecideArguments, facts: Option<&Facts>) -> Certificate {
    let who = std::env::var("USER").unwrap_or_default();
    Certificate {
        kind: CertificateKind::Operator,
        summary: format!("by an operator's word: {}", asked.evidence),
        evidence: json!({
            "operator": who,
            "evidence": asked.evidence,
            "ledger": facts.map(Facts::json),
        }),
    }
}

/// Where it landed is known only as "not above": everything that relies on the height asks for
/// blocks at or past it.
fn landing(attempt: &Attempt, facts: Option<&Facts>) -> Landing {
    let last = attempt.sightings.last();
    let noted = attempt.expires_height.unwrap_or(u64::MAX);
    Landing {
        hash: None,
        block_height: facts.map_or(noted, |facts| facts.final_height),
        block_hash: last.map(|sighting| sighting.block_hash.clone()).unwrap_or_default(),
        outcomes: vec![Outcome::Done; attempt.members.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use landfall_core::{BaseBlock, Epoch, LaneId, Nonce, Purpose, TransferId};

    fn attempt() -> Attempt {
        Attempt {
            id: AttemptId(1),
            rail: RailName::Near,
            lane: LaneId::new("near:simnet:relay.near:k"),
            epoch: Epoch(1),
            nonce: Nonce(7),
            purpose: Purpose::Pay,
            hash: "H".into(),
            bytes: Vec::new(),
            seq: 1,
            base: Some(BaseBlock { hash: "B".into(), height: 10 }),
            expires_height: Some(100),
            variants: Vec::new(),
            members: vec![TransferId(1)],
            opened_ms: 0,
            sightings: Vec::new(),
            fate: None,
            decided_ms: None,
        }
    }

    fn facts(seen: Seen, key_nonce: u64, final_height: u64) -> Facts {
        let expires_height = attempt().expires_height;
        Facts { seen, key_nonce, final_height, expires_height, sighted: None }
    }

    #[test]
    fn what_is_on_the_ledger_or_may_still_come_is_not_sunk() {
        let sunk = |seen, nonce, height| {
            contradiction(Decided::Sunk, &attempt(), Some(&facts(seen, nonce, height))).is_none()
        };
        assert!(sunk(Seen::Unknown, 7, 50), "its nonce is used");
        assert!(sunk(Seen::Unknown, 6, 101), "it has expired");
        assert!(!sunk(Seen::Unknown, 6, 100), "it may still land");
        assert!(!sunk(Seen::Done(Vec::new()), 7, 101));
        assert!(!sunk(Seen::Reverted, 7, 101));
        assert!(!sunk(Seen::Unsettled, 7, 101));
    }

    #[test]
    fn what_was_seen_final_is_not_sunk_unless_a_quorum_refutes_it() {
        let mut attempt = attempt();
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
        let refuted = facts(Seen::Unknown, 7, 50);
        assert!(contradiction(Decided::Sunk, &attempt, Some(&refuted)).is_none());
        let sighted = Facts { sighted: Some("http://one has seen it".into()), ..refuted };
        assert!(contradiction(Decided::Sunk, &attempt, Some(&sighted)).is_some());
    }

    #[test]
    fn ages_are_readable() {
        assert_eq!(age(65_000), "1 min");
        assert_eq!(age(3_600_000 * 2 + 60_000 * 5), "2 h 5 min");
        assert_eq!(age(86_400_000 * 3 + 3_600_000), "3 d 1 h");
    }
}
