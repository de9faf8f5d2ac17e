//! The whole relay against a simulated NEAR, on paused time: every way it could be fooled.

mod fooled;
mod funds;
mod poison;
