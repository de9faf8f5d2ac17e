//! The API as its clients see it: requests in, answers out, over a relay that keeps its transfers
//! in memory (`world`), and a few over the real engine (`engine`).

mod access;
mod calls;
mod damaged;
mod dead;
mod engine;
mod health;
mod lists;
mod malformed;
mod many;
mod orders;
mod pages;
mod reads;
mod sockets;
mod submits;
mod withdraws;
mod world;
