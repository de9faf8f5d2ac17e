//! NEAR as a part of a world: the simulated ledger behind a wire, its weather, nodes that lie.

pub mod network;
pub mod world;

pub(crate) mod liars;
pub(crate) mod weather;

pub use network::{Honest, Liar, Lie, Network, Switch};
pub use world::{World, WorldConfig};
