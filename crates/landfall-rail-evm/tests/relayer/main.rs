//! Handing over to simulated relayers in front of a simulated chain, over real sockets.

mod handing_over;
mod relay;
mod relaying;
mod world;
