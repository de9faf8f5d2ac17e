//! The lane contract over HTTP (docs/lanes.md): who may sign with a key now, under which nonce,
//! what was signed, and what became of it.
//!
//! [`LanesClient`] is a store for `TxManager` in a process that has none of its own;
//! [`router`] serves any store that keeps records. Every request is signed under a shared secret.
//! **Invariant:** nothing here has a signing key, or asks one to sign.
//! Not here: building, sending and looking (`landfall_lanes::TxManager`), sockets and signals
//! (`landfall lanes serve`).

mod auth;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "server")]
mod server;
mod translate;
pub mod wire;

pub use auth::{
    Asked, BadSecret, ID_HEADER, Proof, SECRET_MIN_BYTES, SIGNATURE_HEADER, Secret, TIME_HEADER,
    WINDOW_MS,
};
#[cfg(feature = "client")]
pub use client::{BadAddress, LanesClient};
#[cfg(feature = "server")]
pub use server::{BODY_MAX_BYTES, Lanes, router};
pub use translate::{marks_of_wire, marks_to_wire, record_of, transfer_of};
