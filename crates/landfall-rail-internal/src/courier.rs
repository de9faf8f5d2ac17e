//! The seam, over all of it: asks the service that a transfer's state names, and says what to
//! store.
//!
//! **Rule:** one turn makes at most one call that has an effect; whatever it comes to is decided by
//! `verdict`.
//! Not here: the contract (`adapter`), how a service is reached (`http`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use landfall_core::courier::{Courier, Known, Step, Turn};
use landfall_core::guard::{self, Guard};
use landfall_core::internal::{self, Order, State};
use landfall_core::rail::{Backoff, EndpointHealth, RailError};
use landfall_core::{BadField, Clock, Event, Payload, RailName, Stage, Transfer, machine};
use parking_lot::Mutex;

use crate::adapter::{Answer, Leg, Operation, ServiceAdapter};
use crate::verdict::{self, Due, Finding, Found, kind};

/// Users that are remembered as known. Beyond it the memory starts anew: it saves a question, no
/// more.
const KNOWN_USERS_MAX: usize = 100_000;

/// How long a call to a service that remembers for ever, or is not configured any more, can be
/// late: far longer than connections and their retransmissions live.
const LATE_CALL_MS: u64 = 3_600_000;

/// Moves funds between the configured services.
pub struct InternalRail {
    services: BTreeMap<String, Arc<dyn ServiceAdapter>>,
    clock: Arc<dyn Clock>,
    backoff: Option<Backoff>,
    /// Whom a service has called known: users do not go away.
    known_users: Mutex<HashSet<(String, u64)>>,
}

/// Services that cannot be told apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the service {0:?} is given twice")]
pub struct BadServices(pub String);

/// A turn that waits for somebody to mend the configuration.
struct Misconfigured(String);

impl From<Misconfigured> for Step {
    fn from(Misconfigured(why): Misconfigured) -> Step {
        verdict::wait(None, kind::MISCONFIGURED, why)
    }
}

/// A transfer as this rail sees it.
struct Errand<'a> {
    order: &'a Order,
    state: State,
    leg: Leg<'a>,
}

impl InternalRail {
    pub fn new(
        services: Vec<Arc<dyn ServiceAdapter>>,
        clock: Arc<dyn Clock>,
    ) -> Result<InternalRail, BadServices> {
        let mut by_name = BTreeMap::new();
        for service in services {
            let name = service.name().to_owned();
            if by_name.insert(name.clone(), service).is_some() {
                return Err(BadServices(name));
            }
        }
        let known_users = Mutex::default();
        Ok(InternalRail { services: by_name, clock, backoff: None, known_users })
    }

    /// The same, with a backoff of its own.
    pub fn with_backoff(self, backoff: Backoff) -> InternalRail {
        InternalRail { backoff: Some(backoff), ..self }
    }

    /// Names of the services, sorted.
    pub fn services(&self) -> Vec<String> {
        self.services.keys().cloned().collect()
    }

    /// Whether a service has such a user; none if it cannot tell.
    async fn knows_user(&self, service: &dyn ServiceAdapter, user_id: u64) -> Option<bool> {
        let who = (service.name().to_owned(), user_id);
        if self.known_users.lock().contains(&who) {
            return Some(true);
        }
        let known = service.knows_user(user_id).await;
        if known == Some(true) {
            let mut users = self.known_users.lock();
            if users.len() >= KNOWN_USERS_MAX {
                users.clear();
            }
            users.insert(who);
        }
        known
    }

    fn service(&self, name: &str) -> Result<&Arc<dyn ServiceAdapter>, Misconfigured> {
        self.services.get(name).ok_or_else(|| {
            Misconfigured(format!("the service {name:?} is not configured any more; add it again"))
        })
    }

    async fn turn(&self, transfer: &Transfer, turn: Turn) -> Result<Step, Misconfigured> {
        let errand = Errand::of(transfer)?;
        let order = errand.order;
        match verdict::due(errand.state, transfer.confirmed) {
            Due::Announce(event) => {
                // Nothing is taken from the source that could not be brought to the target.
                self.service(&order.source)?;
                self.service(&order.target)?;
                Ok(Step::Go(Known::events(&[event])))
            }
            Due::Call(operation) => {
                let source = self.service(&order.source)?;
                let service = match operation {
                    Operation::Deposit => self.service(&order.target)?,
                    Operation::Withdraw | Operation::Commit | Operation::Rollback => source,
                };
                let is_remembered = || {
                    let window_ms = service.dedupe_window_ms();
                    verdict::remembered(window_ms, turn.since_ms, self.clock.now_ms())
                };
                let finding = match turn.first {
                    true => ask(&**service, operation, errand.leg, is_remembered).await,
                    false => look(&**service, operation, errand.leg, is_remembered).await,
                };
                let who = format!("{operation} at {}", service.name());
                Ok(verdict::step(operation, finding, source.commits(), &who))
            }
            Due::Nothing => Err(Misconfigured(format!("{} is final", transfer.state))),
        }
    }
}

const NEVER_WITHDRAWN: &str = "an operator decided that the withdrawal never took effect";
const NEVER_DEPOSITED: &str = "an operator decided that the deposit never took effect";

impl<'a> Errand<'a> {
    fn of(transfer: &'a Transfer) -> Result<Errand<'a>, Misconfigured> {
        let (machine::State::Internal(state), Some(order)) =
            (transfer.state, transfer.payload.internal())
        else {
            return Err(Misconfigured(format!("{} is no order between services", transfer.key)));
        };
        if !is_uuid(&transfer.key) {
            return Err(Misconfigured("the request's id is no UUID".to_owned()));
        }
        let leg = Leg {
            req_id: &transfer.key,
            user_id: order.user_id,
            asset_id: order.asset_id,
            amount: order.amount,
        };
        Ok(Errand { order, state, leg })
    }
}

/// The id goes into paths: nothing but a UUID may.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    let digits = |group: &&str| group.bytes().all(|byte| byte.is_ascii_hexdigit());
    lengths == [8, 4, 4, 4, 12] && groups.iter().all(digits)
}

async fn call(service: &dyn ServiceAdapter, operation: Operation, leg: Leg<'_>) -> Answer {
    match operation {
        Operation::Withdraw => service.withdraw(leg).await,
        Operation::Deposit => service.deposit(leg).await,
        Operation::Commit => service.commit(leg.req_id).await,
        Operation::Rollback => service.rollback(leg.req_id).await,
    }
}

/// Makes a call. A refusal is what the query then says it is: another worker's call, or an earlier
/// one of ours, may have come first, and be what the service refuses to do twice. `is_certain`:
/// whether it counts also where the service has no record.
async fn ask(
    service: &dyn ServiceAdapter,
    operation: Operation,
    leg: Leg<'_>,
    is_certain: impl Fn() -> bool,
) -> Finding {
    match call(service, operation, leg).await {
        Answer::Done => Finding::Done,
        Answer::Pending { kind, message } => Finding::Open { kind, message },
        Answer::Refused(why) => {
            let standing = service.query(leg.req_id, operation).await;
            verdict::confirmed(standing, why, is_certain())
        }
    }
}

/// Finds out what became of a call that may have been made, and makes it again where that is safe.
async fn look(
    service: &dyn ServiceAdapter,
    operation: Operation,
    leg: Leg<'_>,
    is_remembered: impl Fn() -> bool,
) -> Finding {
    guard::met(Guard::LookedFirst);
    let standing = service.query(leg.req_id, operation).await;
    // Asked after the query, whose answer may have taken its time, and right before the call.
    match verdict::found(operation, standing, is_remembered()) {
        Found::Known(finding) => finding,
        Found::Done => verdict::same(call(service, operation, leg).await),
        // An earlier call may be on its way still: off the record it could be done yet.
        Found::CallAgain => ask(service, operation, leg, || false).await,
    }
}

#[async_trait]
impl Courier for InternalRail {
    fn name(&self) -> RailName {
        RailName::Internal
    }

    fn stage(&self) -> Stage {
        internal::STAGE
    }

    fn backoff(&self) -> Option<Backoff> {
        self.backoff
    }

    async fn screen(&self, payload: &Payload) -> Result<(), BadField> {
        let Some(order) = payload.internal() else { return Ok(()) };
        let gone = |name: &str| format!("the service {name:?} is not configured");
        let Some(source) = self.services.get(&order.source) else {
            return Err(BadField::new("from", gone(&order.source)));
        };
        if !self.services.contains_key(&order.target) {
            return Err(BadField::new("to", gone(&order.target)));
        }
        // The target may open an account for whoever is new to it; the source has nothing to take.
        match self.knows_user(&**source, order.user_id).await {
            Some(false) => {
                let message = format!("{} has no user {}", order.source, order.user_id);
                Err(BadField::new("user_id", message))
            }
            Some(true) | None => Ok(()),
        }
    }

    async fn act(&self, transfer: &Transfer, turn: Turn) -> Step {
        self.turn(transfer, turn).await.unwrap_or_else(Step::from)
    }

    fn ruled(&self, transfer: &Transfer, took_effect: bool) -> Result<Known, String> {
        let Errand { order, state, .. } = Errand::of(transfer).map_err(|wrong| wrong.0)?;
        let Due::Call(operation) = verdict::due(state, transfer.confirmed) else {
            return Err(format!("in {} no call is in question", state.name()));
        };
        // A source that is gone may have frozen the funds: then its commit must still be made.
        let commits = self.services.get(&order.source).is_none_or(|source| source.commits());
        match (took_effect, operation) {
            (true, operation) => Ok(verdict::done(operation, commits)),
            (false, Operation::Withdraw) => Ok(Known::refused(Event::SourceFail, NEVER_WITHDRAWN)),
            (false, Operation::Deposit) => Ok(Known::refused(Event::TargetFail, NEVER_DEPOSITED)),
            (false, Operation::Commit) => Err(format!(
                "the target has the funds, so {source} must commit: mend it there, then decide \
                 that it took effect",
                source = order.source
            )),
            (false, Operation::Rollback) => Err(format!(
                "the funds must return to {source}: mend it there, then decide that the rollback \
                 took effect",
                source = order.source
            )),
        }
    }

    fn would_hold(&self, transfer: &Transfer, since_ms: u64) -> bool {
        let Ok(Errand { order, state, .. }) = Errand::of(transfer) else { return false };
        let name = match verdict::due(state, transfer.confirmed) {
            Due::Call(Operation::Withdraw) => &order.source,
            Due::Call(Operation::Deposit) => &order.target,
            // They must be done in the end: one that arrives late makes the word true.
            Due::Call(Operation::Commit | Operation::Rollback) => return true,
            // No word is taken of these; `ruled` says why.
            Due::Announce(_) | Due::Nothing => return true,
        };
        // A service that is not configured here may be elsewhere, and be called there.
        let service = self.services.get(name);
        let window_ms = service.and_then(|service| service.dedupe_window_ms());
        verdict::is_over(window_ms.unwrap_or(LATE_CALL_MS), since_ms, self.clock.now_ms())
    }

    fn endpoints(&self) -> Vec<EndpointHealth> {
        self.services.values().map(|service| service.health()).collect()
    }

    async fn check(&self) -> Result<String, RailError> {
        if self.services.len() < 2 {
            return Err(RailError::Misconfigured("give at least two services".to_owned()));
        }
        let checks = self.services.values().map(|service| service.check());
        let told: Result<Vec<String>, RailError> = join_all(checks).await.into_iter().collect();
        told.map(|told| told.join("; "))
    }
}

#[cfg(test)]
mod tests;
