//! Dispatch: forms batches, by size or a short linger, and hands them to free lanes.
//!
//! While tokens are short, batches fill only up to the final balance minus what open attempts may
//! still take; a member larger than the balance waits aside with an alert, and if nobody can be
//! paid the rail pauses and says so. Nobody fails for the relay's lack of funds.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use landfall_core::attempt::Shortage;
use landfall_core::{ClaimEnd, Move, Note, Purpose, Transfer};
use landfall_lanes::Batch;

use crate::pool::{Ripe, Step};
use crate::runner::{Pause, Runner};

/// Preparing comes first, since payments wait for it; then they take turns: neither starves.
const PURPOSES: [Purpose; 2] = [Purpose::Prepare, Purpose::Pay];

/// What an operator reads when a rail stands still.
pub(crate) fn describe(shortage: Shortage, message: &str) -> String {
    let what = match shortage {
        Shortage::Tokens => "the relay account is out of tokens: top it up",
        Shortage::Native => "the relay account is out of the ledger's own coin: fund it",
        Shortage::Gas => "the gas attached per transfer is too little: raise gas_per_transfer_tgas",
        Shortage::Refused => "the ledger refuses what the relay signs: check its keys and limits",
        Shortage::Contract => {
            "the token contract refuses the relay: is it paused or missing, the relay unregistered?"
        }
    };
    format!("{what} ({message})")
}

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

async fn turn(runner: &Arc<Runner>) -> Turn {
    set_aside_unsignable(runner).await;
    let now_ms = runner.mono_ms();
    let rest_ms = runner.rest_until_ms.load(Ordering::Relaxed).saturating_sub(now_ms);
    if rest_ms > 0 {
        return Turn::Wait(rest_ms);
    }
    let settings = &runner.core.settings;
    let mut soonest = u64::MAX;
    let mut purposes = PURPOSES;
    if runner.pay_next.load(Ordering::Relaxed) {
        purposes.reverse();
    }
    for purpose in purposes {
        let ripe = {
            let pools = runner.pools.lock();
            pools.ripe(purpose, settings.batch_max, settings.linger_ms, now_ms)
        };
        match ripe {
            Ripe::Empty => continue,
            Ripe::In(ms) => soonest = soonest.min(ms),
            Ripe::Now if !runner.fleet().is_some_and(|fleet| fleet.has_free()) => {
                return Turn::Sleep;
            }
            Ripe::Now => {
                if let Some(wait_ms) = paused(runner).await {
                    return Turn::Wait(wait_ms);
                }
                return send(runner, purpose).await;
            }
        }
    }
    match soonest {
        u64::MAX => Turn::Sleep,
        ms => Turn::Wait(ms),
    }
}

async fn send(runner: &Arc<Runner>, purpose: Purpose) -> Turn {
    let members = match purpose {
        Purpose::Pay => affordable(runner).await,
        Purpose::Prepare | Purpose::Fence => {
            let max = runner.core.settings.batch_max;
            let now_ms = runner.mono_ms();
            runner.pools.lock().take(purpose, max, now_ms)
        }
    };
    if members.is_empty() {
        return Turn::Wait(runner.core.settings.pause_ms.min(200));
    }
    let batch = Batch { purpose, members: fitting(runner, purpose, members) };
    let given = match runner.fleet() {
        Some(fleet) => fleet.give(batch),
        None => Err(batch),
    };
    if let Err(batch) = given {
        put_back(runner, purpose, batch.members);
        return Turn::Sleep;
    }
    runner.pay_next.store(purpose == Purpose::Prepare, Ordering::Relaxed);
    runner.sweep_if_roomy();
    Turn::Again
}

/// As many as one attempt carries; the rest goes back.
fn fitting(runner: &Runner, purpose: Purpose, mut members: Vec<Transfer>) -> Vec<Transfer> {
    let payloads: Vec<_> = members.iter().map(|member| &member.payload).collect();
    let mut fit = runner.rail.fit(purpose, &payloads).max(1);
    let mut solo = runner.solo.lock();
    if !solo.is_empty() {
        let together = members.iter().take_while(|member| !solo.contains(&member.id)).count();
        fit = fit.min(together.max(1));
        members[..fit].iter().for_each(|member| _ = solo.remove(&member.id));
    }
    drop(solo);
    if fit < members.len() {
        let rest = members.split_off(fit);
        put_back(runner, purpose, rest);
    }
    members
}

fn put_back(runner: &Runner, purpose: Purpose, members: Vec<Transfer>) {
    let now_ms = runner.mono_ms();
    let mut pools = runner.pools.lock();
    for member in members.into_iter().rev() {
        pools.put(Step::Carry(purpose), member, now_ms, true);
    }
}

/// How long to wait, if the rail is paused; looks whether it still must be.
async fn paused(runner: &Arc<Runner>) -> Option<u64> {
    let pause = runner.pause.lock().clone()?;
    let now_ms = runner.mono_ms();
    if now_ms < pause.until_ms {
        return Some(pause.until_ms - now_ms);
    }
    if pause.shortage == Shortage::Native {
        let funded = runner.rail.funds().await.map(|funds| funds.native >= funds.native_floor);
        if !funded.unwrap_or(false) {
            let until_ms = runner.mono_ms() + runner.core.settings.pause_ms;
            *runner.pause.lock() = Some(Pause { until_ms, ..pause });
            return Some(runner.core.settings.pause_ms);
        }
    }
    // Gas and contract troubles are tried again with the next batch; it tells.
    *runner.pause.lock() = None;
    runner.calm("rail_paused");
    if pause.shortage == Shortage::Native {
        runner.fleet().inspect(|fleet| fleet.nudge());
    }
    None
}

/// Candidates for payment that the balance allows. While nothing is short that is all of them.
async fn affordable(runner: &Arc<Runner>) -> Vec<Transfer> {
    let now_ms = runner.mono_ms();
    let settings = &runner.core.settings;
    let candidates = runner.pools.lock().take(Purpose::Pay, settings.batch_max, now_ms);
    let short = *runner.short.lock();
    if !short && candidates.iter().all(|candidate| candidate.aside.is_none()) {
        return candidates;
    }
    let Some((balance, available)) = budget(runner).await else {
        put_back(runner, Purpose::Pay, candidates);
        return Vec::new();
    };
    let (mut taken, mut waiting, mut too_large) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = available;
    for candidate in candidates {
        let amount = candidate.payload.amount();
        if amount > balance {
            too_large.push(candidate);
        } else if amount <= left {
            left -= amount;
            taken.push(candidate);
        } else {
            waiting.push(candidate);
        }
    }
    *runner.short.lock() = !waiting.is_empty();
    put_back(runner, Purpose::Pay, waiting);
    report_shortage(runner, &taken, &too_large, balance);
    let why = format!("the relay holds {balance} of the token, which is too little");
    set_aside(runner, too_large, &why).await;
    taken
}

/// The final balance, and what of it no open attempt may still take.
async fn budget(runner: &Runner) -> Option<(u128, u128)> {
    let funds = runner.rail.funds().await.ok()?;
    let open = runner.core.store.open_attempts_of(runner.rail.name()).await.ok()?;
    let paying = open.iter().filter(|attempt| attempt.purpose == Purpose::Pay);
    let members: Vec<_> = paying.flat_map(|attempt| attempt.members.iter().copied()).collect();
    let members = runner.core.store.transfers(&members).await.ok()?;
    let taken =
        members.iter().fold(0u128, |sum, member| sum.saturating_add(member.payload.amount()));
    Some((funds.tokens, funds.tokens.saturating_sub(taken)))
}

fn report_shortage(runner: &Runner, taken: &[Transfer], too_large: &[Transfer], balance: u128) {
    let smallest = too_large.iter().map(|transfer| transfer.payload.amount()).min();
    match smallest {
        Some(smallest) => {
            let message = format!("it holds {balance}, the smallest set aside wants {smallest}");
            let reason = describe(Shortage::Tokens, &message);
            runner.alert("tokens_short", reason.clone());
            if taken.is_empty() {
                let until_ms = runner.mono_ms();
                let pause = Pause { shortage: Shortage::Tokens, reason, until_ms };
                *runner.pause.lock() = Some(pause);
            }
        }
        None if runner.aside.lock().len() <= taken.len() => runner.calm("tokens_short"),
        None => {}
    }
}

/// What the rail will not sign waits aside: the configuration may have changed since it was taken.
async fn set_aside_unsignable(runner: &Runner) {
    let culprits = std::mem::take(&mut *runner.unsignable.lock());
    for (transfer, why) in culprits {
        runner.alert("unsignable", format!("{} is set aside: {why}", transfer.key));
        set_aside(runner, vec![transfer], &why).await;
    }
}

/// Waits for the relay, not for itself: uncharged, shown to operators, looked at again soon.
async fn set_aside(runner: &Runner, too_large: Vec<Transfer>, why: &str) {
    if too_large.is_empty() {
        return;
    }
    let now_ms = runner.now_ms();
    let later = Some(now_ms + runner.core.settings.aside_ms);
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
    let applied = runner.core.store.apply(too_large.iter().map(aside).collect()).await;
    let ids: Vec<_> = too_large.iter().map(|transfer| transfer.id).collect();
    runner.pools.lock().release(ids.iter().copied());
    runner.aside.lock().extend(ids);
    match applied {
        Ok(applied) => runner.fetch(&applied.released).await,
        Err(error) => tracing::warn!(%error, "not set aside; the sweeper brings them back"),
    }
}
