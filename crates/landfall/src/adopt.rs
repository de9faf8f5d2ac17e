//! `landfall lanes adopt`: an operator's word that what made lanes halt was looked into.
//!
//! Shows what nobody can explain, asks, and lets the lanes go on above it. **Rule:** whatever the
//! store has forgotten and may still land is fenced off first, whether this instance knows of it or
//! another one alone: nothing is signed before the ledger has used a nonce far above.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use landfall_core::attempt::{Signed, VariantKind};
use landfall_core::ledger::{Manner, RailError};
use landfall_core::rail::Rail;
use landfall_core::store::Leased;
use landfall_core::{Attempt, Lane, LaneId, Nonce, Purpose, RailName};
use landfall_lanes::{FenceSigner, Fencing, HighWater, Known, Unfenced, fences};
use serde_json::{Value, json};

use crate::cli::{AdoptArguments, ReadArguments};
use crate::examine::{Key, LedgerExaminer, Ledgers, Words};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style};
use crate::stopped::StoppedRelay;
use crate::wire;

/// How long fences may take to become final before somebody has to look; longer where the ledger's
/// own finality takes half of that.
const FENCE_PATIENCE: Duration = Duration::from_secs(120);
/// For a lane that has to be made: it is nobody's again at once.
const LEASE_MS: u64 = 10_000;

/// A lane that stands still.
struct Troubled {
    lane: LaneId,
    /// None if the store has forgotten the lane itself.
    stored: Option<Lane>,
    why: String,
}

/// A lane that stands still, and what is known of it.
#[derive(Debug)]
struct Case {
    lane: LaneId,
    rail: RailName,
    /// None if the store has forgotten the lane itself.
    stored: Option<Lane>,
    why: String,
    key: Key,
    /// The newest nonce that this instance saw stored.
    mark: Option<Nonce>,
    /// Whether the key is configured here.
    signing: bool,
    /// Open attempts whose nonce the ledger has used.
    passed: Vec<Attempt>,
    manner: Manner,
    words: Words,
}

impl Case {
    fn newest_stored(&self) -> u64 {
        let next = self.stored.as_ref().and_then(|lane| lane.next_nonce).unwrap_or_default();
        next.0.saturating_sub(1)
    }

    fn used(&self) -> u64 {
        match self.key {
            Key::At(ledger) => ledger.nonce.0,
            Key::Uncounted | Key::Gone => 0,
        }
    }

    /// Nonces on the ledger above the newest stored attempt.
    fn unexplained(&self) -> Option<(u64, u64)> {
        (self.used() > self.newest_stored()).then(|| (self.newest_stored() + 1, self.used()))
    }

    /// Nonces that this instance saw stored, are forgotten, and may still land.
    fn forgotten(&self) -> Option<(u64, u64)> {
        let mark = self.mark?.0;
        let first = self.newest_stored().max(self.used()) + 1;
        (self.key != Key::Gone && mark >= first).then_some((first, mark))
    }

    /// None if nothing can land any more, if nothing can be put in its way, or if nothing is known
    /// that might and nobody can sign.
    fn fences(&self) -> Vec<Nonce> {
        let counted = matches!(self.key, Key::At(_));
        if !counted || !(self.signing || self.forgotten().is_some()) {
            return Vec::new();
        }
        let known = Known {
            used: Nonce(self.used()),
            stored: Nonce(self.newest_stored()),
            remembered: self.mark.unwrap_or_default(),
        };
        fences(&self.manner, known)
    }

    /// Where the lane goes on.
    fn adopted(&self) -> Nonce {
        match (self.fences().last(), self.key) {
            (Some(fence), _) => *fence,
            (None, Key::At(ledger)) => ledger.nonce,
            (None, Key::Uncounted | Key::Gone) => {
                Nonce(self.mark.unwrap_or_default().0.max(self.newest_stored()))
            }
        }
    }
}

pub async fn run(asked: &AdoptArguments, read: &ReadArguments) -> Result<()> {
    let show = Show::on_stdout(read.json);
    let relay = StoppedRelay::take(read).await?;
    let marks = HighWater::open(&relay.folder().high_water())?;
    let troubled = troubled(&relay, &marks, asked).await?;
    let cases = examine(&relay, &marks, troubled).await?;
    if cases.is_empty() {
        match show.json {
            true => show.value(&json!([])),
            false => show.line(&show.paint(Style::Good, "no lane is halted; nothing to adopt")),
        }
        return Ok(());
    }
    if !show.json {
        cases.iter().for_each(|(case, _)| tell(&show, case));
    }
    confirm(asked.yes)?;
    // All of them before any lane may sign: what one has forgotten another would pay again.
    for (case, ledger) in &cases {
        fence(&relay, case, ledger.rail()).await?;
    }
    let mut adopted = Vec::new();
    for (case, _) in &cases {
        let nonce = adopt(&relay, case).await?;
        adopted.push(json!({"lane": case.lane, "ledger_nonce": nonce, "facts": facts(case)}));
        if !show.json {
            let done = show.paint(Style::Good, "adopted");
            show.line(&format!("{done} {}: goes on above nonce {nonce}", case.lane));
        }
    }
    let identity = relay.store.identity().await?;
    marks.accept(&identity.id, &relay.store.lanes().await?)?;
    match show.json {
        true => show.value(&Value::Array(adopted)),
        false => show.line("start the relay again; `landfall audit` compares store and ledger"),
    }
    Ok(())
}

/// The lanes that stand still, of those that were asked for.
async fn troubled(
    relay: &StoppedRelay,
    marks: &HighWater,
    asked: &AdoptArguments,
) -> Result<Vec<Troubled>> {
    let before = marks.remembered();
    let stored = relay.store.lanes().await?;
    let identity = relay.store.identity().await?;
    let replaced = marks.check_store(&identity.id).err();
    let mut troubled: Vec<Troubled> = Vec::new();
    let mut behind = Vec::new();
    for id in before.lanes() {
        let lane = stored.iter().find(|lane| lane.id == *id);
        let why = marks.check_lane(&before, id, lane).err().or_else(|| replaced.clone());
        if let Some(why) = why {
            behind.push(id.clone());
            troubled.push(Troubled { lane: id.clone(), stored: lane.cloned(), why });
        }
    }
    for lane in stored {
        let known = troubled.iter().any(|one| one.lane == lane.id);
        if let (Some(halt), false) = (&lane.halted, known) {
            let (id, why) = (lane.id.clone(), halt.reason.clone());
            troubled.push(Troubled { lane: id, stored: Some(lane), why });
        }
    }
    let named = |id: &LaneId| asked.all || asked.lanes.iter().any(|name| name == id.as_str());
    let is_troubled = |name: &&String| troubled.iter().any(|one| one.lane.as_str() == *name);
    if let Some(name) = asked.lanes.iter().find(|name| !is_troubled(name)) {
        return Err(Failure::No(format!("{name} is no halted lane; see `landfall lanes`")));
    }
    if !behind.iter().all(named) {
        return Err(Failure::No(
            "the store is behind what this instance has seen of it, on several lanes: they are \
             adopted together, by --all, or not at all"
                .into(),
        ));
    }
    troubled.retain(|one| named(&one.lane));
    Ok(troubled)
}

/// What the ledger of each lane says of it. No other is asked: it could not tell what is gone from
/// what it never had.
async fn examine(
    relay: &StoppedRelay,
    marks: &HighWater,
    troubled: Vec<Troubled>,
) -> Result<Vec<(Case, Arc<dyn LedgerExaminer>)>> {
    let rail_of = |one: &Troubled| one.stored.as_ref().map(|lane| lane.rail);
    // A lane that the store has forgotten may be any rail's.
    let is_wanted = |rail| troubled.iter().any(|one| rail_of(one).is_none_or(|of| of == rail));
    let ledgers = Ledgers::open(&relay.config, relay.folder(), is_wanted).await?;
    let mut by_ledger: Vec<(Arc<dyn LedgerExaminer>, Vec<Troubled>)> = Vec::new();
    for one in troubled {
        let Some(owner) = ledgers.owner(&one.lane, rail_of(&one)) else {
            return Err(Failure::Unable(format!(
                "{} is not on the ledger that is configured here ({}), and no other can tell what \
                 its key has done; nothing was changed",
                one.lane,
                ledgers.names()
            )));
        };
        match by_ledger.iter_mut().find(|(known, _)| Arc::ptr_eq(known, owner)) {
            Some((_, lanes)) => lanes.push(one),
            None => by_ledger.push((owner.clone(), vec![one])),
        }
    }
    let mut cases = Vec::new();
    for (ledger, lanes) in by_ledger {
        let ids: Vec<LaneId> = lanes.iter().map(|one| one.lane.clone()).collect();
        let keys = ledger.keys(&ids).await.map_err(unreachable_ledger)?;
        for (troubled, key) in lanes.into_iter().zip(keys) {
            let case = case(relay, marks, troubled, key, &ledger).await?;
            cases.push((case, ledger.clone()));
        }
    }
    Ok(cases)
}

async fn case(
    relay: &StoppedRelay,
    marks: &HighWater,
    troubled: Troubled,
    key: Key,
    ledger: &Arc<dyn LedgerExaminer>,
) -> Result<Case> {
    let Troubled { lane, stored, why } = troubled;
    let rail = ledger.rail();
    let used = match key {
        Key::At(ledger) => ledger.nonce,
        Key::Uncounted | Key::Gone => Nonce(0),
    };
    let open = relay.store.open_attempts(&lane).await?;
    Ok(Case {
        rail: rail.name(),
        signing: rail.lanes().contains(&lane),
        manner: rail.manner(),
        words: ledger.words(),
        mark: marks.marks().into_iter().find(|(id, _)| *id == lane).map(|(_, mark)| mark.nonce),
        passed: open.into_iter().filter(|attempt| attempt.nonce <= used).collect(),
        lane,
        stored,
        why,
        key,
    })
}

fn unreachable_ledger(error: RailError) -> Failure {
    Failure::Unable(format!("{error}; nothing was changed; see `landfall check`"))
}

fn tell(show: &Show, case: &Case) {
    show.line(&show.paint(Style::Bold, case.lane.as_str()));
    let line = |name: &str, text: String| {
        show.line(&format!("  {}  {text}", show.paint(Style::Dim, &format!("{name:<11}"))));
    };
    line("halted", case.why.clone());
    line(
        "ledger",
        match case.key {
            Key::At(at) => format!("nonce {} at final block {}", at.nonce, at.final_height),
            Key::Uncounted => "keeps no nonces".into(),
            Key::Gone => "the key is no longer on the account".into(),
        },
    );
    line("store", format!("newest attempt has nonce {}", case.newest_stored()));
    if let Some((first, last)) = case.unexplained() {
        let text = format!("nonces {first} to {last} are used on the ledger by no stored attempt");
        line("unexplained", show.paint(Style::Warn, &text));
        line("", "`landfall audit` names the transactions; whom did they pay?".into());
    }
    if let Some((first, last)) = case.forgotten() {
        let text = format!("attempts with nonces {first} to {last} were stored and may still land");
        line("forgotten", show.paint(Style::Bad, &text));
    }
    tell_fences(case, |text, style| line("fence", show.paint(style, &text)));
    for attempt in &case.passed {
        let (id, nonce, members) = (attempt.id, attempt.nonce, attempt.members.len());
        line("open", format!("attempt {id}, nonce {nonce}, {members} members, {}", attempt.hash));
        line(
            "",
            "if the ledger has it the relay settles it; else decide it: `landfall adrift decide`"
                .into(),
        );
    }
}

fn tell_fences(case: &Case, line: impl Fn(String, Style)) {
    match (&case.fences()[..], case.key) {
        ([], Key::Gone) => {}
        ([], Key::At(_)) => {
            let keys = case.words.keys;
            let text = format!("none, as the key is not in {keys}; is nobody else using it?");
            line(text, Style::Warn);
        }
        ([], Key::Uncounted) => {
            let text = "none is possible: what was forgotten may land for as long as it is valid";
            line(text.into(), Style::Warn);
        }
        ([fence], _) => {
            let text = format!("nonce {fence} is landed first: nothing signed before it lands");
            line(text, Style::Plain);
        }
        ([first, .., last], _) => {
            let text = format!(
                "nonces {first} to {last} are landed first: nothing signed before them lands"
            );
            line(text, Style::Plain);
        }
    }
}

fn facts(case: &Case) -> Value {
    let at = match case.key {
        Key::At(ledger) => Some(ledger),
        Key::Uncounted | Key::Gone => None,
    };
    json!({
        "halted": case.why,
        "key_nonce": at.map(|ledger| ledger.nonce),
        "final_height": at.map(|ledger| ledger.final_height),
        "newest_stored": case.newest_stored(),
        "unexplained": case.unexplained(),
        "forgotten": case.forgotten(),
        "fence": case.fences().last(),
        "open_passed": case.passed.iter().map(|attempt| attempt.id).collect::<Vec<_>>(),
    })
}

fn confirm(yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Mistaken(
            "nothing was changed; add --yes once what is unexplained was looked into".into(),
        ));
    }
    eprint!("Whatever of this was paid by somebody else may be paid again. Adopt? (yes/no) ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::No("nothing was changed".into())),
    }
}

/// The rail as the fences' signer.
struct Signer(Arc<dyn Rail>);

#[async_trait]
impl FenceSigner for Signer {
    async fn sign_fence(
        &self,
        lane: &LaneId,
        nonce: Nonce,
    ) -> std::result::Result<Signed, RailError> {
        self.0.sign(Purpose::Fence, &[], lane, nonce).await
    }

    async fn sign_anew(
        &self,
        fence: &Attempt,
        kind: VariantKind,
    ) -> std::result::Result<Option<Signed>, RailError> {
        self.0.sign_variant(fence, &[], kind).await
    }
}

/// Lands what stands in the way of all that may have been forgotten. Stored like any attempt: what
/// it passes is then proven dead, and an audit knows it. The lane stays halted.
async fn fence(relay: &StoppedRelay, case: &Case, rail: Arc<dyn Rail>) -> Result<()> {
    let fencing = Fencing {
        store: relay.store.clone(),
        ledger: rail.clone(),
        signer: Arc::new(Signer(rail)),
        clock: wire::clock(),
        instance: relay.instance()?,
    };
    let patience = FENCE_PATIENCE.max(Duration::from_millis(2 * case.manner.finality_ms));
    let landed = fencing.land(&case.lane, &case.fences(), patience).await;
    landed.map_err(|unfenced| unlanded(case, patience, unfenced))
}

fn unlanded(case: &Case, patience: Duration, unfenced: Unfenced) -> Failure {
    let (lane, Words { keys, coin, .. }) = (&case.lane, &case.words);
    Failure::Unable(match unfenced {
        Unfenced::Held { holder, until_ms } => return held(lane, &holder, until_ms),
        Unfenced::Unsignable(why) => {
            format!("a fence cannot be signed on {lane} ({why}); is its key in {keys}?")
        }
        Unfenced::Unpaid(cause) => format!(
            "a fence on {lane} cannot be paid for ({cause}): give the account some {coin}, then \
             this command again; nothing was adopted"
        ),
        Unfenced::NotStored(why) => {
            format!("the fence on {lane} was not stored: {why}; nothing was adopted, try again")
        }
        Unfenced::Adrift(why) => format!(
            "the fence on {lane} has not landed within {} s ({why}); nothing was adopted, try \
             again",
            patience.as_secs()
        ),
        Unfenced::Sunk(why) => {
            format!("the fence on {lane} can never land ({why}); nothing was adopted, try again")
        }
        Unfenced::Displaced(why) => format!(
            "something else has used the nonce of the fence on {lane} ({why}): look into it, then \
             this command again; nothing was adopted"
        ),
        Unfenced::Store(error) => return error.into(),
    })
}

fn held(lane: &LaneId, holder: &str, until_ms: u64) -> Failure {
    let left_ms = until_ms.saturating_sub(wire::clock().now_ms());
    Failure::Unable(format!(
        "{lane} is held by {holder:?}: stop that relay, or, if it is gone, wait until its lease \
         has ended ({} s), then try again; nothing was adopted",
        left_ms.div_ceil(1_000)
    ))
}

async fn adopt(relay: &StoppedRelay, case: &Case) -> Result<Nonce> {
    let (lane, nonce) = (&case.lane, case.adopted());
    if case.stored.is_none() && case.fences().is_empty() {
        // Leasing makes it.
        let leased = relay.store.lease(lane, case.rail, &relay.instance()?, LEASE_MS).await?;
        if let Leased::Busy { holder, until_ms } = leased {
            return Err(held(lane, &holder, until_ms));
        }
    }
    relay.store.adopt(lane, nonce).await?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use landfall_core::Epoch;
    use landfall_core::ledger::{LedgerNonce, Order};

    use super::*;

    fn case(next: u64, used: Option<u64>, mark: Option<u64>) -> Case {
        let lane = LaneId::new("near:simnet:relay.near:k");
        let at = |used| Key::At(LedgerNonce { nonce: Nonce(used), final_height: 9 });
        Case {
            stored: Some(Lane {
                id: lane.clone(),
                rail: RailName::Near,
                epoch: Epoch(1),
                holder: None,
                lease_until_ms: 0,
                base_nonce: Some(Nonce(0)),
                next_nonce: Some(Nonce(next)),
                seq: 0,
                halted: None,
            }),
            lane,
            rail: RailName::Near,
            why: String::new(),
            key: used.map_or(Key::Gone, at),
            mark: mark.map(Nonce),
            signing: true,
            passed: Vec::new(),
            manner: Manner::OVERTAKES,
            words: Words { name: "simnet".into(), keys: "near.access_keys", coin: "NEAR" },
        }
    }

    /// How far one fence goes above what is known.
    const JUMP: u64 = 1_000;

    #[test]
    fn somebody_elses_nonces_are_shown() {
        let case = case(5, Some(7), Some(4));
        assert_eq!((case.unexplained(), case.forgotten()), (Some((5, 7)), None));
    }

    #[test]
    fn forgotten_attempts_that_may_still_land_are_shown() {
        let case = case(5, Some(6), Some(9));
        assert_eq!((case.unexplained(), case.forgotten()), (Some((5, 6)), Some((7, 9))));
    }

    /// Another instance may have stored what the store has forgotten.
    #[test]
    fn a_fence_goes_far_above_all_that_is_known() {
        for known in [case(8, Some(3), None), case(5, Some(7), Some(4)), case(5, Some(6), Some(7))]
        {
            assert_eq!(known.fences(), [Nonce(7 + JUMP)], "{known:?}");
            assert_eq!(known.adopted(), Nonce(7 + JUMP));
        }
    }

    #[test]
    fn a_lane_whose_attempts_queue_goes_on_above_all_that_was_filled() {
        let manner = Manner { order: Order::Queues, window: 2, ..Manner::OVERTAKES };
        let case = Case { manner, ..case(5, Some(3), Some(6)) };
        assert_eq!(case.fences(), [5, 6, 7, 8].map(Nonce));
        assert_eq!(case.adopted(), Nonce(8));
    }

    #[test]
    fn a_key_that_is_gone_needs_no_fence_and_goes_on_above_everything() {
        let case = case(5, None, Some(9));
        assert_eq!((case.fences(), case.adopted()), (Vec::new(), Nonce(9)));
        assert_eq!(case.forgotten(), None, "nothing can land");
    }

    /// It is not taken for one whose key is gone: what was forgotten may land, and is shown.
    #[test]
    fn where_no_nonces_are_kept_nothing_is_fenced_and_what_may_land_is_shown() {
        let manner = Manner { order: Order::Free, ..Manner::OVERTAKES };
        let case = Case { manner, key: Key::Uncounted, ..case(5, None, Some(9)) };
        assert_eq!((case.fences(), case.adopted()), (Vec::new(), Nonce(9)));
        assert_eq!((case.forgotten(), case.unexplained()), (Some((5, 9)), None));
    }

    #[test]
    fn a_lane_whose_key_is_not_here_is_adopted_unfenced_unless_something_may_still_land() {
        let nothing = Case { signing: false, ..case(5, Some(7), Some(7)) };
        assert_eq!((nothing.fences(), nothing.adopted()), (Vec::new(), Nonce(7)));
        let forgotten = Case { signing: false, ..case(5, Some(7), Some(9)) };
        assert_eq!(forgotten.fences(), [Nonce(9 + JUMP)]);
    }
}
