//! The simulated NEAR against the rules of the real one and its captured answers.

mod support;

mod server;
