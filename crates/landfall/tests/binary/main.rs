//! The binary as people run it: processes, sockets, signals, files.
//!
//! Every test has its own processes on free ports with folders of their own, and they end with it.

mod by_hand;
mod chain;
mod chain_liar;
mod chain_liars;
mod counter;
mod dev;
mod doors;
mod failover;
mod forwarder;
mod lanes;
mod liar;
mod liars;
mod moves;
mod operators;
mod outages;
mod paused;
mod relayed;
mod roles;
mod services;
mod town;
mod went_back;
mod words;
mod world;
