//! The simulated NEAR against the rules of the real one and its captured answers.

mod captures;
mod support;

mod chain;
mod requests;
mod rules;
mod server;
mod shapes;
