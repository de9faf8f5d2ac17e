//! Dispatch: forms batches, by size or a short linger, and hands them to free lanes.
//!
//! While tokens are short, batches fill only up to the final balance minus what open attempts may
//! still take; a member larger than the balance waits aside with an alert, and if nobody can be
//! paid the rail pauses and says so. Nobody fails for the relay's lack of funds. Who was named by a
//! fault that may be the relay's travels alone (`trouble`); while everybody meets it, one probe at
//! a time does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use landfall_core::attempt::Shortage;
use landfall_core::store::Applied;
use landfall_core::{ClaimEnd, Move, Note, Purpose, Transfer};
use landfall_lanes::Batch;

use crate::beforehand;
use crate::journal;
use crate::pool::{Ripe, Step};
use crate::runner::Runner;
use crate::settle;
use crate::shortfall::{Budget, Sorted};
use crate::trouble::{Gate, Stance};

/// Preparing comes first, since payments wait for it; then they take turns: neither starves.
const PURPOSES: [Purpose; 2] = [Purpose::Prepare, Purpose::Pay];

/// Dispatches batches for ever.
pub(crate) async fn dispatch(runner: Arc<Runner>) {
    while !runner.core.is_stopping() {
        let wait_ms = match turn(&runner).await {
            Turn::Again => continue,
            Turn::Wait(ms) => ms,
            Turn::Sleep => u64::MAX,
        };
        tokio::select! {
            biased;
            _ = runner.core.stopped.notified() => return,
            _ = runner.wake.notified() => {}
            _ = runner.core.nap(wait_ms), if wait_ms < u64::MAX => {}
        }
    }
}

enum Turn {
    Again,
    Wait(u64),
    Sleep,
}

impl Turn {
    fn within(ms: u64) -> Turn {
        match ms {
            u64::MAX => Turn::Sleep,
            ms => Turn::Wait(ms),
        }
    }
}

async fn turn(runner: &Arc<Runner>) -> Turn {
    set_aside_unsignable(runner).await;
    fail_hopeless(runner).await;
    beforehand::store(runner).await;
    let now_ms = runner.mono_ms();
    let rest_ms = runner.rest_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
    if rest_ms > 0 {
        return Turn::Wait(rest_ms);
    }
    let pace = runner.rail.pace();
    let look_ms = look_at_lanes(runner).await;
    let mut soonest = look_ms;
    let mut purposes = PURPOSES;
    if runner.pay_next.load(Ordering::Relaxed) {
        purposes.reverse();
    }
    for purpose in purposes {
        let ripe = {
            let pools = runner.pools.lock();
            pools.ripe(purpose, pace.batch_max, pace.linger_ms, now_ms)
        };
        match ripe {
            Ripe::Empty => continue,
            Ripe::In(ms) => soonest = soonest.min(ms),
            Ripe::Now if !has_free(runner) => return Turn::within(look_ms),
            Ripe::Now => match gate(runner, purpose).await {
                Gate::Open => return send(runner, purpose, false).await,
                Gate::Probe => return send(runner, purpose, true).await,
                Gate::Closed(ms) => soonest = soonest.min(ms),
                Gate::Funds => return Turn::Again,
            },
        }
    }
    Turn::within(soonest)
}

/// Whether a lane can be given something.
fn has_free(runner: &Runner) -> bool {
    let unfunded = runner.unfunded.lock();
    runner.lanes().is_some_and(|lanes| lanes.has_free_unless(|lane| unfunded.contains(lane)))
}

/// Looks at the funds of lanes that may lack them. Returns when to look again.
async fn look_at_lanes(runner: &Runner) -> u64 {
    let due = || runner.unfunded.lock().due(runner.mono_ms());
    while let Some(lane) = due() {
        let funds = runner.rail.funds(Some(&lane)).await;
        let funded = funds.is_ok_and(|funds| funds.native >= funds.native_floor);
        let (now_ms, settings) = (runner.mono_ms(), &runner.core.settings);
        let are_back = runner.unfunded.lock().looked(&lane, funded, now_ms, settings);
        if are_back {
            runner.lanes().inspect(|lanes| lanes.nudge_lane(&lane));
        }
    }
    runner.unfunded.lock().wait_ms(runner.mono_ms())
}

async fn send(runner: &Arc<Runner>, purpose: Purpose, probe: bool) -> Turn {
    let candidates = match purpose {
        Purpose::Pay => affordable(runner).await,
        Purpose::Prepare | Purpose::Fence => {
            let max = runner.rail.pace().batch_max;
            let now_ms = runner.mono_ms();
            runner.pools.lock().take(purpose, max, now_ms)
        }
    };
    if candidates.is_empty() {
        return Turn::Wait(runner.core.settings.pause_ms.min(200));
    }
    let (members, alone) = choose(runner, purpose, candidates, probe).await;
    if members.is_empty() {
        return Turn::Again;
    }
    let (now_ms, settings) = (runner.mono_ms(), &runner.core.settings);
    if alone {
        runner.troubles.lock().of(purpose).sent_alone(&members[0], now_ms, settings);
    }
    if purpose == Purpose::Pay {
        runner.shortfall.lock().hand(&members, now_ms);
    }
    members.iter().for_each(journal::processing);
    let batch = Batch { purpose, members };
    let given = match runner.lanes() {
        Some(lanes) => {
            let unfunded = runner.unfunded.lock();
            lanes.give_unless(batch, |lane| unfunded.contains(lane))
        }
        None => Err(batch),
    };
    if let Err(batch) = given {
        runner.take_back(&batch);
        put_back(runner, purpose, batch.members);
        return Turn::Sleep;
    }
    runner.pay_next.store(purpose == Purpose::Prepare, Ordering::Relaxed);
    runner.sweep_if_roomy();
    Turn::Again
}

/// Who goes now, and whether alone for a reason. The rest goes back, or waits for its receiver's
/// turn. Those who go alone take turns with batches: neither starves.
async fn choose(
    runner: &Arc<Runner>,
    purpose: Purpose,
    candidates: Vec<Transfer>,
    probe: bool,
) -> (Vec<Transfer>, bool) {
    let (together, alone) = part(runner, purpose, candidates).await;
    let lone = match together.is_empty() {
        true => true,
        // As a probe, one that was never named tells more.
        false => {
            !probe && !alone.is_empty() && runner.alone_next.fetch_xor(true, Ordering::Relaxed)
        }
    };
    let (mut chosen, mut rest) = match lone {
        true => (alone, together),
        false => (together, alone),
    };
    let payloads: Vec<_> = chosen.iter().map(|member| &member.payload).collect();
    let fit = match probe || lone {
        true => 1,
        false => runner.rail.fit(purpose, &payloads).max(1),
    };
    rest.extend(chosen.split_off(fit.min(chosen.len())));
    put_back(runner, purpose, rest);
    chosen.iter().for_each(|member| _ = runner.solo.lock().remove(&member.id));
    (chosen, probe || lone)
}

/// Those who may travel together, and those who may not.
async fn part(
    runner: &Arc<Runner>,
    purpose: Purpose,
    candidates: Vec<Transfer>,
) -> (Vec<Transfer>, Vec<Transfer>) {
    let now_ms = runner.mono_ms();
    let (mut together, mut alone, mut later) = (Vec::new(), Vec::new(), BTreeMap::new());
    {
        let mut troubles = runner.troubles.lock();
        let (trouble, solo) = (troubles.of(purpose), runner.solo.lock());
        for candidate in candidates {
            match trouble.stance(&candidate, now_ms) {
                Stance::Later(wait_ms) => {
                    trouble.waits(&candidate, now_ms);
                    let receiver = candidate.payload.receiver().into_owned();
                    let late: &mut (u64, Vec<_>) = later.entry(receiver).or_default();
                    late.0 = wait_ms;
                    late.1.push(candidate);
                }
                Stance::Together if !solo.contains(&candidate.id) => together.push(candidate),
                Stance::Together | Stance::Alone => alone.push(candidate),
            }
        }
    }
    for (receiver, (wait_ms, members)) in later {
        let why = format!("waits for another payout to {receiver}, which fails also alone");
        set_aside(runner, members, &why, wait_ms).await;
    }
    (together, alone)
}

fn put_back(runner: &Runner, purpose: Purpose, members: Vec<Transfer>) {
    let now_ms = runner.mono_ms();
    let mut pools = runner.pools.lock();
    for member in members.into_iter().rev() {
        pools.put(Step::Carry(purpose), member, now_ms, true);
    }
}

/// What the stage may send now; while the relay's funds are in doubt, asks for them.
async fn gate(runner: &Arc<Runner>, purpose: Purpose) -> Gate {
    let gate = runner.troubles.lock().gate(purpose, runner.mono_ms());
    if gate != Gate::Funds {
        return gate;
    }
    let funds = runner.rail.funds(None).await;
    let funded = funds.is_ok_and(|funds| funds.native >= funds.native_floor);
    let (are_back, gate) = {
        let (now_ms, settings) = (runner.mono_ms(), &runner.core.settings);
        let mut troubles = runner.troubles.lock();
        (troubles.funded(funded, now_ms, settings), troubles.gate(purpose, now_ms))
    };
    runner.report();
    if are_back {
        runner.lanes().inspect(|lanes| lanes.nudge());
    }
    gate
}

/// Candidates for payment that the balance allows. While nothing is short that is all of them.
async fn affordable(runner: &Arc<Runner>) -> Vec<Transfer> {
    let now_ms = runner.mono_ms();
    let settings = &runner.core.settings;
    let candidates = runner.pools.lock().take(Purpose::Pay, runner.rail.pace().batch_max, now_ms);
    let known = {
        let mut shortfall = runner.shortfall.lock();
        if shortfall.covers(&candidates) {
            return candidates;
        }
        shortfall.known(&candidates, now_ms)
    };
    let seen = match known {
        Some(seen) => Some(seen),
        None => budget(runner).await,
    };
    let Some(seen) = seen else {
        put_back(runner, Purpose::Pay, candidates);
        return Vec::new();
    };
    let sorted = seen.sort(candidates);
    let (back, wait_ms) = {
        let mut shortfall = runner.shortfall.lock();
        let back = match known {
            Some(_) => Vec::new(),
            None => shortfall.look(seen, &sorted, now_ms, settings),
        };
        (back, shortfall.wait_ms(now_ms))
    };
    report_shortage(runner, seen, &sorted);
    let Sorted { taken, waiting, too_large } = sorted;
    put_back(runner, Purpose::Pay, waiting);
    let why = format!("the relay holds {} of the token, which is too little", seen.balance);
    set_aside(runner, too_large, &why, wait_ms).await;
    runner.fetch(&back).await;
    taken
}

/// What can be paid out. What moves while it is asked for is counted twice rather than not at all.
async fn budget(runner: &Runner) -> Option<Budget> {
    let in_hand = runner.shortfall.lock().in_hand(runner.mono_ms());
    let open = runner.core.store.open_attempts_of(runner.rail.name()).await.ok()?;
    let paying = open.iter().filter(|attempt| attempt.purpose == Purpose::Pay);
    let members: Vec<_> = paying.flat_map(|attempt| attempt.members.iter().copied()).collect();
    let members = runner.core.store.transfers(&members).await.ok()?;
    let amounts = members.iter().map(|member| member.payload.amount());
    let taken = amounts.fold(in_hand, u128::saturating_add);
    let balance = runner.rail.funds(None).await.ok()?.tokens;
    Some(Budget { balance, available: balance.saturating_sub(taken) })
}

fn report_shortage(runner: &Runner, seen: Budget, sorted: &Sorted) {
    let mut shortfall = runner.shortfall.lock();
    shortfall.dry = None;
    let short = match shortfall.is_lasting() {
        true => sorted.too_large.iter().chain(&sorted.waiting),
        // Who waits for open attempts usually does not wait for long.
        false => sorted.too_large.iter().chain(&[]),
    };
    let Some(smallest) = short.map(|transfer| transfer.payload.amount()).min() else {
        if shortfall.is_over() {
            runner.calm("tokens_short");
        }
        return;
    };
    let Budget { balance, available } = seen;
    let message = format!(
        "it holds {balance}, of which {available} is free; the smallest that waits wants {smallest}"
    );
    let reason = runner.rail.remedies().describe(Shortage::Tokens, &message);
    if sorted.taken.is_empty() {
        shortfall.dry = Some(reason.clone());
    }
    runner.alert("tokens_short", reason);
}

/// What the rail will not sign waits aside: the configuration may have changed since it was taken.
async fn set_aside_unsignable(runner: &Runner) {
    let culprits = std::mem::take(&mut *runner.unsignable.lock());
    for (transfer, why) in culprits {
        let (id, story) = (transfer.id, format!("{} is set aside: {why}", transfer.key));
        set_aside(runner, vec![transfer], &why, runner.core.settings.aside_ms).await;
        runner.aside.lock().insert(id, Some(story));
        runner.report_unsignable();
    }
}

/// What can never be done ends here: nothing was signed for it, so that nothing can have moved.
async fn fail_hopeless(runner: &Runner) {
    let lost = std::mem::take(&mut *runner.hopeless.lock());
    if lost.is_empty() {
        return;
    }
    let now_ms = runner.now_ms();
    let failed = |(member, why): &(Transfer, String)| settle::hopeless(member, why, now_ms);
    let moves: Vec<Move> = lost.iter().filter_map(failed).collect();
    let applied = runner.core.store.apply(moves.clone()).await;
    runner.pools.lock().release(lost.iter().map(|(member, _)| member.id));
    match applied {
        Ok(applied) => {
            let each =
                moves.iter().zip(&applied.moves).filter(|(_, now)| **now == Applied::Applied);
            for (step, _) in each {
                let (member, why) = lost.iter().find(|(one, _)| one.id == step.id).expect("ours");
                tracing::info!(transfer = %member.id, key = %member.key, why, "refused");
                runner.core.finished(&step.applied_to(member));
            }
            runner.fetch(&applied.released).await;
        }
        Err(error) => tracing::warn!(%error, "not failed; the sweeper brings them back"),
    }
}

/// Waits for the relay, not for itself: uncharged, shown to operators, looked at again soon.
async fn set_aside(runner: &Runner, members: Vec<Transfer>, why: &str, wait_ms: u64) {
    if members.is_empty() {
        return;
    }
    let now_ms = runner.now_ms();
    let later = Some(now_ms + wait_ms);
    let aside = |transfer: &Transfer| {
        let mut step = Move::of(transfer, now_ms).due(later);
        if step.aside.is_none() {
            step = step.note(Note::SetAside);
        }
        step.aside = Some(why.to_owned());
        // Others may wait for what it has claimed, and it cannot go on with it.
        match runner.rail.preparation(&transfer.payload) {
            Some(claim) => step.ending(ClaimEnd::Release(claim)),
            None => step,
        }
    };
    let applied = runner.core.store.apply(members.iter().map(aside).collect()).await;
    let ids: Vec<_> = members.iter().map(|transfer| transfer.id).collect();
    runner.pools.lock().release(ids.iter().copied());
    runner.aside.lock().extend(ids.into_iter().map(|id| (id, None)));
    match applied {
        Ok(applied) => runner.fetch(&applied.released).await,
        Err(error) => tracing::warn!(%error, "not set aside; the sweeper brings them back"),
    }
}
