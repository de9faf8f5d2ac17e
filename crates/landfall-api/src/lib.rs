//! Landfall over HTTP: routes, wire types, API keys, errors, OpenAPI.
//!
//! [`api()`] is the whole of it: give it an [`ApiConfig`] and the engine, serve what it returns.
//!
//! **Rule:** every error body is `{"error": "…"}`, and `error` alone chooses status codes.
//! **Rule:** a handler checks, asks the [`Relay`] and answers; it decides nothing about transfers.
//! **Rule:** a 2xx answer to a submission is given after the engine has committed it.
//!
//! Map: `router` lays the routes; `near` takes and shows payouts, `internal` is the gateway between
//! services, `evm` relays calls, `solana` takes withdraws: each rail has its routes, what comes in
//! and what goes out in a
//! module of its own. Under all, `headers`, `body` and `query` read requests, `list` is their
//! lists, `taken` what is said of keys that others have, `wire` what looks the same everywhere.
//! `health` tells how the relay is as `pulse` last saw it, `pages` holds what a browser sees;
//! `describe` is the API's description and `decimal` a pattern in it; `dead` is for operators;
//! `auth` and `limit` let people in; `watch` counts and logs.
//!
//! Not here: sockets and TLS (the binary), rules of a ledger's fields (`landfall_core`),
//! rails, stores, queues.

mod auth;
mod body;
mod config;
mod dead;
mod decimal;
mod describe;
mod error;
mod evm;
mod headers;
mod health;
mod internal;
mod limit;
mod list;
mod near;
mod pages;
mod pulse;
mod query;
mod relay;
mod router;
mod solana;
mod taken;
mod watch;
mod wire;

pub use config::{ApiConfig, ApiKey, Auth, BadApiKey, EvmTerms, Gateway, Scope};
pub use pulse::Pulse;
pub use relay::Relay;
pub use router::{Api, api};
