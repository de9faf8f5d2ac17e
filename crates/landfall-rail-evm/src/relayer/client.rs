//! One relayer over HTTP.
//!
//! **Invariant:** [`Relayer::submit`] puts at most one request on the wire, and nobody else here
//! makes a POST.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use alloy_primitives::Address;
use bytes::Bytes;
use landfall_core::Clock;
use landfall_core::rail::{EndpointHealth, RailError};
use landfall_rpc::{HttpAnswer, Service, Silence, Transport, Url, silence, unavailable};
use serde::Deserialize;
use serde_json::Value;

use super::adopt::Listing;
use super::handover::Handover;
use super::settings::{BadRelayer, RelayerSettings, Shape};
use super::sort::{self, Taken};
use super::wire::{self, Enveloped, Told};

/// Transactions on a page: the most that a relayer gives.
const PER_PAGE: usize = 100;
/// Pages that are read in one search: four hours of a busy relayer.
const PAGES_MAX: usize = 2_000;
/// Patience for the question whether it is well.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);
/// An answer that says nothing of what was asked, to the breaker.
const STRANGE: &str = "strange_answer";

/// One relayer.
pub struct Relayer {
    settings: RelayerSettings,
    submit: Url,
    service: Service,
    /// As it told it.
    address: OnceLock<Address>,
    /// POSTs without an answer yet.
    load: AtomicUsize,
}

#[derive(Deserialize)]
struct Page {
    success: bool,
    data: Vec<Value>,
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
struct Pagination {
    total_items: usize,
}

impl Relayer {
    pub fn new(
        settings: RelayerSettings,
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
    ) -> Result<Relayer, BadRelayer> {
        let submit = settings.checked()?;
        let RelayerSettings { name, base, auth, timeout, breaker, .. } = settings.clone();
        let service = Service::new((name, base, auth), timeout, breaker, transport, clock);
        let (address, load) = Default::default();
        Ok(Relayer { settings, submit, service, address, load })
    }

    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// How many handovers wait for an answer.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub fn is_up(&self) -> bool {
        self.service.is_up()
    }

    /// As its calls have shown it; makes none.
    pub fn health(&self) -> EndpointHealth {
        self.service.health()
    }

    /// Hands over, by one POST.
    pub async fn submit(&self, handover: &Handover) -> Taken {
        let shape = self.settings.routes.shape;
        let body = Bytes::from(wire::body(handover, shape).to_string());
        let _load = Load::on(&self.load);
        let sort = |answer: HttpAnswer| match sort::submission(shape, answer.status, &answer.body) {
            Taken::Unsure(cause) => Err((STRANGE, cause)),
            sorted => Ok(sorted),
        };
        match self.service.post(self.submit.clone(), body, sort).await {
            Ok(Taken::No { reason, relays_fault }) => {
                Taken::No { reason: self.service.shown(&reason), relays_fault }
            }
            Ok(taken) => taken,
            // Nothing left the process.
            Err((silence::BREAKER_OPEN | silence::UNREACHABLE, why)) => {
                Taken::No { reason: format!("{}: {why}", self.name()), relays_fault: true }
            }
            Err((_, cause)) => Taken::Unsure(format!("{}: {cause}", self.name())),
        }
    }

    /// What it tells of a transaction; none if it does not know it, or not any more.
    pub async fn transaction(&self, id: &str) -> Result<Option<Told>, RailError> {
        let (shape, path) = (self.settings.routes.shape, &self.settings.routes.transaction);
        let read = |answer: HttpAnswer| {
            let data = match (shape, wire::open(&answer.body)) {
                (Shape::Enveloped, Some(Enveloped::Data(data))) => Some(data),
                (Shape::Bare, _) => serde_json::from_slice(&answer.body).ok(),
                (Shape::Enveloped, _) => None,
            };
            let told = data.and_then(|data| wire::told(&data, shape));
            match (answer.status, told) {
                (200, Some(told)) if told.id == id => Ok(Some(told)),
                (404, _) => Ok(None),
                (status, _) => Err((STRANGE, format!("HTTP {status} to a transaction's id"))),
            }
        };
        self.ask(&path.replace("{id}", id), self.settings.timeout, read).await
    }

    /// Its transactions back to this time. Not whole where it lists none, or too many.
    pub async fn list(&self, since_ms: u64) -> Result<Listing, RailError> {
        let Some(path) = &self.settings.routes.list else { return Ok(Listing::default()) };
        let (mut listing, mut known, mut least) = (Listing::default(), HashSet::new(), 0);
        let mark = if path.contains('?') { '&' } else { '?' };
        for number in 1..=PAGES_MAX {
            let path = format!("{path}{mark}page={number}&per_page={PER_PAGE}");
            let page = self.ask(&path, self.settings.timeout, page).await?;
            let total = page.pagination.map_or(0, |pagination| pagination.total_items);
            // What was deleted while we read moved others to pages that we have read.
            if total < least {
                return Ok(listing);
            }
            least = total;
            let count = page.data.len();
            for one in &page.data {
                match wire::told(one, self.settings.routes.shape) {
                    Some(told) if known.insert(told.id.clone()) => listing.told.push(told),
                    Some(_) => {}
                    None => return Ok(listing),
                }
            }
            if count == 0 || known.len() >= total && total > 0 || ends(&listing.told, since_ms) {
                listing.whole = true;
                return Ok(listing);
            }
        }
        Ok(listing)
    }

    /// From which address it signs; none if it does not tell.
    pub async fn address(&self) -> Result<Option<Address>, RailError> {
        let known = self.settings.address.or_else(|| self.address.get().copied());
        let (None, Some(path)) = (known, &self.settings.routes.about) else { return Ok(known) };
        let read = |answer: HttpAnswer| match (answer.status, wire::open(&answer.body)) {
            (200, Some(Enveloped::Data(about))) => {
                Ok(about["address"].as_str().and_then(|text| text.parse().ok()))
            }
            (status, _) => Err((STRANGE, format!("HTTP {status} to what it is"))),
        };
        let told: Option<Address> = self.ask(path, self.settings.timeout, read).await?;
        Ok(told.map(|told| *self.address.get_or_init(|| told)))
    }

    /// Asks whether it is well; what it says is in [`Relayer::health`].
    pub async fn check(&self) -> Result<(), RailError> {
        let read = |answer: HttpAnswer| match answer.status {
            200..300 => Ok(()),
            status => Err((STRANGE, format!("HTTP {status} to its health"))),
        };
        let timeout = HEALTH_TIMEOUT.min(self.settings.timeout);
        self.ask(&self.settings.routes.health, timeout, read).await
    }

    async fn ask<T>(
        &self,
        path: &str,
        timeout: Duration,
        read: impl FnOnce(HttpAnswer) -> Result<T, Silence>,
    ) -> Result<T, RailError> {
        let asked = self.service.ask(path, timeout, read).await;
        asked.map_err(|(_, why)| unavailable(format!("{}: {why}", self.name())))
    }
}

fn page(answer: HttpAnswer) -> Result<Page, Silence> {
    let status = answer.status;
    match serde_json::from_slice::<Page>(&answer.body) {
        Ok(page) if status == 200 && page.success => Ok(page),
        _ => Err((STRANGE, format!("HTTP {status} and no list"))),
    }
}

/// Whether nothing after these can be as young: they come newest first, and the last is older.
fn ends(told: &[Told], since_ms: u64) -> bool {
    let is_falling = told.is_sorted_by(|one, next| match (one.created_ms, next.created_ms) {
        (Some(one), Some(next)) => one >= next,
        _ => false,
    });
    let is_older = |told: &Told| told.created_ms.is_some_and(|created_ms| created_ms < since_ms);
    told.len() > 1 && is_falling && told.last().is_some_and(is_older)
}

/// One more handover in flight, as long as it lives.
struct Load<'a>(&'a AtomicUsize);

impl Load<'_> {
    fn on(load: &AtomicUsize) -> Load<'_> {
        load.fetch_add(1, Ordering::Relaxed);
        Load(load)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
