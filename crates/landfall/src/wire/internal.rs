//! The rail between services, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use landfall_api::Gateway;
use landfall_core::Clock;
use landfall_core::internal::Terms;
use landfall_rail_internal::{HttpService, HttpSettings, InternalRail, ServiceAdapter};
use landfall_rpc::{Header, HttpTransport};

use super::{Fitted, Ground, backoff};
use crate::config::{Config, ServiceSpec};
use crate::failure::{Failure, Result};

/// Adds the rail to a relay, if it is on.
pub fn fit(ground: &Ground<'_>, fitted: &mut Fitted) -> Result<()> {
    let Ground { config, clock, .. } = ground;
    if config.has_internal() {
        fitted.couriers.push(Arc::new(internal_rail(config, clock.clone())?));
        fitted.api.internal = fitted.api.takes.then(|| gateway(config));
    }
    Ok(())
}

/// What the gateway is told.
fn gateway(config: &Config) -> Gateway {
    let internal = &config.internal;
    Gateway {
        terms: Terms {
            services: internal.services.iter().map(|service| service.name.clone()).collect(),
            assets: internal.assets.clone(),
        },
        key_required: internal.key_required,
        patience: Duration::from_millis(internal.process_now_ms),
    }
}

/// The rail, with a way to every service.
pub fn internal_rail(config: &Config, clock: Arc<dyn Clock>) -> Result<InternalRail> {
    let services = services(config, clock.clone())?;
    let services = services.into_iter().map(|service| service as Arc<dyn ServiceAdapter>).collect();
    let rail = InternalRail::new(services, clock).map_err(|error| wrong(&error.to_string()))?;
    Ok(rail.with_backoff(backoff(config, &config.internal.retries)))
}

/// A way to every service.
fn services(config: &Config, clock: Arc<dyn Clock>) -> Result<Vec<Arc<HttpService>>> {
    let transport = Arc::new(HttpTransport::new());
    let make = |spec: &ServiceSpec| {
        let settings = settings(spec)?;
        let service = HttpService::new(settings, transport.clone(), clock.clone());
        service.map(Arc::new).map_err(|error| wrong(&format!("{}: {error}", spec.name)))
    };
    config.internal.services.iter().map(make).collect()
}

fn settings(spec: &ServiceSpec) -> Result<HttpSettings> {
    let window_ms = spec.dedupe_window_s.map(|seconds| seconds.saturating_mul(1_000));
    let mut settings = HttpSettings::new(&spec.name, spec.url.clone(), spec.freezes, window_ms);
    settings.commits = spec.commits;
    settings.timeout = Duration::from_millis(spec.timeout_ms);
    if let Some(secret) = &spec.auth {
        let header = Header::new(&spec.auth_header, secret.expose());
        settings.auth = Some(header.map_err(|error| wrong(&format!("{}: {error}", spec.name)))?);
    }
    for (operation, path) in &spec.paths {
        let slot = match *operation {
            "withdraw" => &mut settings.paths.withdraw,
            "deposit" => &mut settings.paths.deposit,
            "commit" => &mut settings.paths.commit,
            "rollback" => &mut settings.paths.rollback,
            _ => &mut settings.paths.query,
        };
        *slot = path.clone();
    }
    Ok(settings)
}

fn wrong(why: &str) -> Failure {
    Failure::Mistaken(format!("internal.services: {why}"))
}
