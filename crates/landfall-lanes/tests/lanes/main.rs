//! The lanes alone: no engine, no server, and a ledger of each order in a few lines.

mod chain;
mod crashes;
mod fences;
mod free;
mod overtakes;
mod pace;
mod perils;
mod queues;
mod till;
mod windows;
mod world;
mod wounds;
