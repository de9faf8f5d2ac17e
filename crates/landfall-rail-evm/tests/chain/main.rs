//! The rail in an engine, over a simulated chain on sockets.

mod calls;
mod relay;
mod world;
