//! The rail over real sockets, against the built-in account service; and recovery on paused time,
//! with the engine that drives it.

mod branch;
mod built_in;
mod ground;
mod recovery;
