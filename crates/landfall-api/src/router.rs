//! The routes, and what every handler shares.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use landfall_core::near::Terms;
use landfall_core::solana::Door;
use landfall_core::{Payload, RailName};
use landfall_engine::SubmitError;
use tower_http::catch_panic::CatchPanicLayer;

use crate::auth::{self, Caller};
use crate::config::{ApiConfig, Auth, EvmTerms, Gateway, Scope};
use crate::error::ApiError;
use crate::limit::RateLimit;
use crate::pulse::Pulse;
use crate::relay::Relay;
use crate::watch::{self, Counters};
use crate::{dead, describe, evm, health, internal, near, pages, solana};

/// What every handler shares.
pub struct App {
    pub config: ApiConfig,
    pub relay: Arc<dyn Relay>,
    pub counters: Counters,
    pub pulse: Arc<Pulse>,
    pub openapi: Bytes,
    rate: Option<RateLimit>,
}

impl App {
    /// Lets the sender in, if it may do `scope` and has not called too often.
    pub fn admit(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller<'_>, ApiError> {
        let caller = auth::admit(&self.config.auth, headers, scope)?;
        if let Some(rate) = &self.rate {
            rate.take(caller.key_index, self.config.clock.now_ms())?;
        }
        Ok(caller)
    }

    /// Charges a caller for `count` transfers beyond the first.
    pub fn charge(&self, caller: Caller<'_>, count: usize) {
        if let Some(rate) = &self.rate {
            rate.charge(caller.key_index, count);
        }
    }

    /// What every NEAR payout has in common, where that rail is on.
    pub fn near(&self) -> Result<&Terms, ApiError> {
        self.config.near.as_ref().ok_or_else(|| self.off(RailName::Near))
    }

    /// The gateway between services, where that rail is on.
    pub fn internal(&self) -> Result<&Gateway, ApiError> {
        self.config.internal.as_ref().ok_or_else(|| self.off(RailName::Internal))
    }

    /// The chains on which calls are relayed, where that rail is on.
    pub fn evm(&self) -> Result<&EvmTerms, ApiError> {
        self.config.evm.as_ref().ok_or_else(|| self.off(RailName::Evm))
    }

    /// Where withdraws come in, where that rail is on.
    pub fn solana(&self) -> Result<&dyn Door, ApiError> {
        self.config.solana.as_deref().ok_or_else(|| self.off(RailName::Solana))
    }

    /// Asks the rail whether it can take a transfer, which does not undo what was taken before: the
    /// same key gives the same transfer, whatever the rail knows by now.
    pub async fn screen(
        &self,
        payload: &Payload,
        (tenant, key): (&str, &str),
    ) -> Result<(), ApiError> {
        let Err(bad) = self.relay.screen(payload).await else { return Ok(()) };
        match self.relay.find(payload.rail(), tenant, key).await? {
            Some(_) => Ok(()),
            None => Err(bad.into()),
        }
    }

    fn off(&self, rail: RailName) -> ApiError {
        match self.config.takes {
            true => ApiError::from(SubmitError::NoSuchRail(rail)),
            false => ApiError::NotFound(
                "this process only works on transfers; send them to one that takes them \
                 (--role api or both)"
                    .into(),
            ),
        }
    }
}

/// The API, ready to be served.
pub struct Api {
    /// The whole of it.
    pub router: Router,
    /// `/metrics` alone, for a listener of its own: whoever reaches it needs no key.
    pub metrics: Router,
    /// To be kept beating while the API is served, or nobody knows how the relay is.
    pub pulse: Arc<Pulse>,
}

/// Lays the routes. An `Arc<Engine>` is a relay.
pub fn api(config: ApiConfig, relay: Arc<dyn Relay>) -> Api {
    let pulse = Arc::new(Pulse::new(relay.clone(), config.clock.clone()));
    let now_ms = config.clock.now_ms();
    let keys = match &config.auth {
        Auth::Off => 1,
        Auth::Keys(keys) => keys.len(),
    };
    let app = Arc::new(App {
        openapi: describe::openapi(&config),
        rate: config.rate_limit_per_s.map(|per_s| RateLimit::new(per_s, keys, now_ms)),
        counters: Counters::new(now_ms),
        pulse: pulse.clone(),
        config,
        relay,
    });
    let shared = app.clone();
    let panicked = move |panic: Box<dyn Any + Send>| answer_panic(&shared, &*panic);
    let metrics =
        Router::new().route("/metrics", get(health::open_metrics)).with_state(app.clone());
    let router = Router::new()
        .route("/", get(pages::landing))
        .route("/docs", get(pages::docs))
        .route("/openapi.json", get(pages::openapi_json))
        .route("/live", get(health::live))
        .route("/health", get(health::health))
        .route("/ready", get(health::ready))
        .route("/metrics", get(health::metrics))
        .merge(near::routes())
        .merge(internal::routes())
        .merge(evm::routes())
        .merge(solana::routes())
        .merge(dead::routes())
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(app.clone(), watch::watch))
        .with_state(app);
    Api { router, metrics, pulse }
}

async fn no_route(State(_): State<Arc<App>>, request: Request) -> ApiError {
    ApiError::NotFound(format!("no route {}; the routes are at /docs", short_path(&request)))
}

async fn wrong_method(State(_): State<Arc<App>>, request: Request) -> ApiError {
    let method = request.method();
    ApiError::MethodNotAllowed(format!("{method} is not allowed on {}", short_path(&request)))
}

/// The path, cut to what is worth repeating.
fn short_path(request: &Request) -> String {
    /// Enough to recognise a route by.
    const MAX_CHARS: usize = 60;
    request.uri().path().chars().take(MAX_CHARS).collect()
}

fn answer_panic(app: &App, panic: &(dyn Any + Send)) -> Response {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    app.counters.count_panic();
    tracing::error!(panic = said, "a handler panicked");
    ApiError::Internal.into_response()
}
