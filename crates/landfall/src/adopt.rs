//! `landfall lanes adopt`: an operator's word that what made lanes halt was looked into.
//!
//! Shows what nobody can explain, asks, and lets the lanes go on above it. **Rule:** whatever the
//! store has forgotten and may still land is fenced off first, whether this instance knows of it or
//! another one alone: nothing is signed before the ledger has used a nonce far above.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::time::Duration;

use landfall_core::attempt::{Fate, Landing, Shortage};
use landfall_core::ledger::{Broadcast, Ledger as _, LedgerNonce, Look, RailError};
use landfall_core::rail::Rail as _;
use landfall_core::store::{Leased, OpenAttempt, Opened, Settlement};
use landfall_core::{Attempt, Clock as _, Lane, LaneId, Nonce, Purpose, RailName};
use landfall_lanes::{HighWater, SystemClock};
use serde_json::{Value, json};

use crate::adrift::Desk;
use crate::cli::{AdoptArguments, ReadArguments};
use crate::failure::{Failure, Result};
use crate::show::{Show, Style};

/// How long a fence may take to become final before somebody has to look.
const FENCE_PATIENCE: Duration = Duration::from_secs(120);
/// Longer than that, and short enough for others to take over if this command ends in between.
const FENCE_LEASE_MS: u64 = 150_000;
/// Between two looks at it.
const FENCE_POLL: Duration = Duration::from_millis(500);
/// Looks between two broadcasts of the same fence.
const FENCE_LOOKS: u32 = 10;

/// How far a fence goes: over all that any instance can have in flight on a lane. The ledger takes
/// nonces with holes.
const FENCE_JUMP: u64 = 1_000;

/// A lane that stands still, and what is known of it.
#[derive(Debug)]
struct Case {
    lane: LaneId,
    /// None if the store has forgotten the lane itself.
    stored: Option<Lane>,
    why: String,
    /// None if the key is no longer on the account: nothing can land with it.
    ledger: Option<LedgerNonce>,
    /// The newest nonce that this instance saw stored.
    mark: Option<Nonce>,
    /// Whether the key is configured here.
    signing: bool,
    /// Open attempts whose nonce the ledger has used.
    passed: Vec<Attempt>,
}

impl Case {
    fn newest_stored(&self) -> u64 {
        let next = self.stored.as_ref().and_then(|lane| lane.next_nonce).unwrap_or_default();
        next.0.saturating_sub(1)
    }

    fn used(&self) -> u64 {
        self.ledger.map_or(0, |ledger| ledger.nonce.0)
    }

    /// Nonces on the ledger above the newest stored attempt.
    fn unexplained(&self) -> Option<(u64, u64)> {
        (self.used() > self.newest_stored()).then(|| (self.newest_stored() + 1, self.used()))
    }

    /// Nonces that this instance saw stored, are forgotten, and may still land.
    fn forgotten(&self) -> Option<(u64, u64)> {
        let mark = self.mark?.0;
        let first = self.newest_stored().max(self.used()) + 1;
        (self.ledger.is_some() && mark >= first).then_some((first, mark))
    }

    /// None if nothing can land any more, or if nothing is known that might and nobody can sign.
    fn fence(&self) -> Option<Nonce> {
        let newest = self.newest_stored().max(self.used()).max(self.mark.unwrap_or_default().0);
        let needed = self.ledger.is_some() && (self.signing || self.forgotten().is_some());
        needed.then_some(Nonce(newest + FENCE_JUMP))
    }

    /// Where the lane goes on if there is no fence.
    fn adopted(&self) -> Nonce {
        match self.ledger {
            Some(ledger) => ledger.nonce,
            None => Nonce(self.mark.unwrap_or_default().0.max(self.newest_stored())),
        }
    }
}

pub async fn run(asked: &AdoptArguments, read: &ReadArguments) -> Result<()> {
    let show = Show::on_stdout(read.json);
    let desk = Desk::open(read).await?;
    let marks = HighWater::open(&desk.home.folder().high_water())?;
    let cases = gather(&desk, &marks, asked).await?;
    if cases.is_empty() {
        match show.json {
            true => show.value(&json!([])),
            false => show.line(&show.paint(Style::Good, "no lane is halted; nothing to adopt")),
        }
        return Ok(());
    }
    if !show.json {
        cases.iter().for_each(|case| tell(&show, case));
    }
    confirm(asked.yes)?;
    // All of them before any lane may sign: what one has forgotten another would pay again.
    for case in &cases {
        if let Some(nonce) = case.fence() {
            fence(&desk, case, nonce).await?;
        }
    }
    let mut adopted = Vec::new();
    for case in &cases {
        let nonce = adopt(&desk, case).await?;
        adopted.push(json!({"lane": case.lane, "ledger_nonce": nonce, "facts": facts(case)}));
        if !show.json {
            let done = show.paint(Style::Good, "adopted");
            show.line(&format!("{done} {}: goes on above nonce {nonce}", case.lane));
        }
    }
    let identity = desk.store.identity().await?;
    marks.accept(&identity.id, &desk.store.lanes().await?)?;
    match show.json {
        true => show.value(&Value::Array(adopted)),
        false => show.line("start the relay again; `landfall audit` compares store and ledger"),
    }
    Ok(())
}

/// The lanes that stand still, of those that were asked for.
async fn gather(desk: &Desk, marks: &HighWater, asked: &AdoptArguments) -> Result<Vec<Case>> {
    let before = marks.remembered();
    let stored = desk.store.lanes().await?;
    let identity = desk.store.identity().await?;
    let replaced = marks.check_store(&identity.id).err();
    let mut troubled: Vec<(LaneId, String)> = Vec::new();
    let mut behind = Vec::new();
    for id in before.lanes() {
        let lane = stored.iter().find(|lane| lane.id == *id);
        let why = marks.check_lane(&before, id, lane).err().or_else(|| replaced.clone());
        if let Some(why) = why {
            behind.push(id.clone());
            troubled.push((id.clone(), why));
        }
    }
    for lane in &stored {
        let known = troubled.iter().any(|(id, _)| *id == lane.id);
        if let (Some(halt), false) = (&lane.halted, known) {
            troubled.push((lane.id.clone(), halt.reason.clone()));
        }
    }
    let named = |id: &LaneId| asked.all || asked.lanes.iter().any(|name| name == id.as_str());
    let is_troubled = |name: &&String| troubled.iter().any(|(id, _)| id.as_str() == *name);
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
    let nonces = desk.rail.nonces().await.map_err(unreachable_ledger)?;
    let mut cases = Vec::new();
    for (lane, why) in troubled.into_iter().filter(|(id, _)| named(id)) {
        if !desk.rail.owns(&lane) {
            return Err(Failure::Unable(format!(
                "{lane} is not on the ledger that is configured here ({}), and no other can tell \
                 what its key has done; nothing was changed",
                desk.network
            )));
        }
        let ledger = match nonces.iter().find(|(id, _)| *id == lane) {
            Some((_, ledger)) => Some(*ledger),
            None => match desk.rail.nonce(&lane).await {
                Ok(ledger) => ledger,
                Err(RailError::Misconfigured(_)) => None,
                Err(error) => return Err(unreachable_ledger(error)),
            },
        };
        let used = ledger.map_or(Nonce(0), |ledger| ledger.nonce);
        let open = desk.store.open_attempts(&lane).await?;
        cases.push(Case {
            signing: desk.rail.lanes().contains(&lane),
            stored: stored.iter().find(|stored| stored.id == lane).cloned(),
            mark: marks.marks().into_iter().find(|(id, _)| *id == lane).map(|(_, mark)| mark.nonce),
            passed: open.into_iter().filter(|attempt| attempt.nonce <= used).collect(),
            lane,
            why,
            ledger,
        });
    }
    Ok(cases)
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
        match case.ledger {
            Some(at) => format!("nonce {} at final block {}", at.nonce, at.final_height),
            None => "the key is no longer on the account".into(),
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
    match (case.fence(), case.ledger) {
        (Some(fence), _) => {
            line("fence", format!("nonce {fence} is landed first: nothing signed before it lands"));
        }
        (None, Some(_)) => {
            let text = "none, as the key is not in near.access_keys; is nobody else using it?";
            line("fence", show.paint(Style::Warn, text));
        }
        (None, None) => {}
    }
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

fn facts(case: &Case) -> Value {
    json!({
        "halted": case.why,
        "key_nonce": case.ledger.map(|ledger| ledger.nonce),
        "final_height": case.ledger.map(|ledger| ledger.final_height),
        "newest_stored": case.newest_stored(),
        "unexplained": case.unexplained(),
        "forgotten": case.forgotten(),
        "fence": case.fence(),
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

/// Lands a transaction that carries nobody, far above all that may have been forgotten. Stored like
/// any attempt: what it passes is then proven dead, and an audit knows it. The lane stays halted.
async fn fence(desk: &Desk, case: &Case, nonce: Nonce) -> Result<()> {
    let lane = &case.lane;
    let held = lease(desk, lane).await?;
    if held.next_nonce.is_none() {
        desk.store.start_lane(lane, held.epoch, Nonce(nonce.0 - 1)).await?;
    }
    let signed = desk.rail.sign(Purpose::Fence, &[], lane, nonce).await.map_err(|error| {
        Failure::Unable(format!(
            "a fence cannot be signed on {lane} ({error}); is its key in near.access_keys?"
        ))
    })?;
    let now_ms = SystemClock::default().now_ms();
    let open = OpenAttempt {
        rail: RailName::Near,
        lane: lane.clone(),
        epoch: held.epoch,
        nonce,
        purpose: Purpose::Fence,
        signed,
        moves: Vec::new(),
        // The store is known to be behind them, perhaps.
        marks: Vec::new(),
        incarnation: desk.store.identity().await?.incarnation,
        now_ms,
    };
    let opened = desk.store.open_attempt(open).await?;
    let Opened::Stored(attempt) = opened else {
        return Err(Failure::Unable(format!("the fence on {lane} was not stored: {opened:?}")));
    };
    let landing = land(desk, &attempt).await?;
    let settlement = Settlement {
        attempt: attempt.id,
        lane: lane.clone(),
        epoch: held.epoch,
        fate: Fate::Landed(landing),
        moves: Vec::new(),
        now_ms: SystemClock::default().now_ms(),
    };
    // If the lease has run out meanwhile, the relay settles it.
    desk.store.settle(settlement).await?;
    Ok(())
}

/// Under the name of the instance whose folder this is: no relay of that name runs.
async fn lease(desk: &Desk, lane: &LaneId) -> Result<Lane> {
    let name = desk.home.folder().instance_name(desk.config.instance.name.as_deref())?;
    match desk.store.lease(lane, RailName::Near, &name, FENCE_LEASE_MS).await? {
        Leased::Yours(held) => Ok(held),
        Leased::Busy { holder, until_ms } => {
            let left_ms = until_ms.saturating_sub(SystemClock::default().now_ms());
            Err(Failure::Unable(format!(
                "{lane} is held by {holder:?}: stop that relay, or, if it is gone, wait until its \
                 lease has ended ({} s), then try again; nothing was adopted",
                left_ms.div_ceil(1_000)
            )))
        }
    }
}

/// Sends the fence until it is final.
async fn land(desk: &Desk, fence: &Attempt) -> Result<Landing> {
    let clock = SystemClock::default();
    let lane = &fence.lane;
    let mut last = "no node has shown it".to_owned();
    let rounds = FENCE_PATIENCE.as_millis() / FENCE_POLL.as_millis() / u128::from(FENCE_LOOKS);
    for round in 0..rounds as u32 {
        match desk.rail.broadcast(fence, round).await {
            Broadcast::Sent(Some(Look::Landed(landing))) => return Ok(landing),
            Broadcast::Sent(_) => {}
            Broadcast::Refused(refusal) => last = refusal.reason,
            Broadcast::Unsure { cause, shortage: Some(Shortage::Native) } => {
                return Err(Failure::Unable(format!(
                    "a fence on {lane} cannot be paid for ({cause}): give the account some NEAR, \
                     then this command again; nothing was adopted"
                )));
            }
            Broadcast::Unsure { cause, .. } => last = cause,
        }
        for _ in 0..FENCE_LOOKS {
            match desk.rail.look(fence, false).await {
                Ok(Look::Landed(landing)) => return Ok(landing),
                Ok(Look::Adrift { why, .. }) => last = why,
                Ok(Look::Foreign(foreign)) => last = foreign.reason,
                Ok(Look::Sunk(certificate)) => last = certificate.summary,
                Err(error) => last = error.to_string(),
            }
            clock.sleep(FENCE_POLL).await;
        }
    }
    Err(Failure::Unable(format!(
        "the fence on {lane} has not landed within {} s ({last}); nothing was adopted, try again",
        FENCE_PATIENCE.as_secs()
    )))
}

async fn adopt(desk: &Desk, case: &Case) -> Result<Nonce> {
    let nonce = case.fence().unwrap_or_else(|| case.adopted());
    if case.stored.is_none() && case.fence().is_none() {
        // Leasing makes it.
        lease(desk, &case.lane).await?;
    }
    desk.store.adopt(&case.lane, nonce).await?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use landfall_core::Epoch;

    use super::*;

    fn case(next: u64, used: Option<u64>, mark: Option<u64>) -> Case {
        let lane = LaneId::new("near:simnet:relay.near:k");
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
            why: String::new(),
            ledger: used.map(|used| LedgerNonce { nonce: Nonce(used), final_height: 9 }),
            mark: mark.map(Nonce),
            signing: true,
            passed: Vec::new(),
        }
    }

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
            assert_eq!(known.fence(), Some(Nonce(7 + FENCE_JUMP)), "{known:?}");
        }
    }

    #[test]
    fn a_key_that_is_gone_needs_no_fence_and_goes_on_above_everything() {
        let case = case(5, None, Some(9));
        assert_eq!((case.fence(), case.adopted()), (None, Nonce(9)));
    }

    #[test]
    fn a_lane_whose_key_is_not_here_is_adopted_unfenced_unless_something_may_still_land() {
        let nothing = Case { signing: false, ..case(5, Some(7), Some(7)) };
        assert_eq!((nothing.fence(), nothing.adopted()), (None, Nonce(7)));
        let forgotten = Case { signing: false, ..case(5, Some(7), Some(9)) };
        assert_eq!(forgotten.fence(), Some(Nonce(9 + FENCE_JUMP)));
    }
}
