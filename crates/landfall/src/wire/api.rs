//! The HTTP API, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use landfall_api::ApiConfig;
use landfall_core::Clock;
use landfall_engine::Role;

use super::number;
use crate::config::{ApiKey, Auth, Config, DIGEST_PREFIX, Metrics, Scope};
use crate::failure::{Failure, Result};

/// What the API is told, but for the rails.
pub fn api_config(config: &Config, role: Role, clock: Arc<dyn Clock>) -> Result<ApiConfig> {
    let api = &config.api;
    let auth = match api.auth {
        Auth::Off => landfall_api::Auth::Off,
        Auth::Keys => {
            let keys: Result<Vec<_>> = api.keys.iter().map(api_key).collect();
            landfall_api::Auth::Keys(keys?)
        }
    };
    Ok(ApiConfig {
        takes: role != Role::Worker,
        auth,
        body_limit_bytes: api.body_limit_bytes as usize,
        many_limit_bytes: api.many_limit_bytes as usize,
        many_max: api.many_max as usize,
        body_timeout: Duration::from_millis(api.body_timeout_ms),
        rate_limit_per_s: Some(number(api.rate_limit_per_s)).filter(|rate| *rate > 0),
        metrics_open: api.metrics == Metrics::Open,
        adrift_after_ms: config.engine.fence_after_ms,
        ..ApiConfig::new(env!("CARGO_PKG_VERSION"), clock)
    })
}

fn api_key(key: &ApiKey) -> Result<landfall_api::ApiKey> {
    let scope = |scope: &Scope| match scope {
        Scope::Submit => landfall_api::Scope::Submit,
        Scope::Read => landfall_api::Scope::Read,
        Scope::Operate => landfall_api::Scope::Operate,
    };
    let scopes: Vec<landfall_api::Scope> = key.scopes.iter().map(scope).collect();
    match key.key.expose().strip_prefix(DIGEST_PREFIX) {
        Some(digest) => landfall_api::ApiKey::from_sha256_hex(digest, &key.tenant, &scopes)
            .map_err(|error| Failure::Mistaken(format!("api.keys: {error}"))),
        None => Ok(landfall_api::ApiKey::from_secret(key.key.expose(), &key.tenant, &scopes)),
    }
}
