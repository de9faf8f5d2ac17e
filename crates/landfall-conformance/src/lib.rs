//! What every backend of a seam must do, as checks that each of them runs.
//!
//! [`exercise_store`], [`exercise_queue`] and [`exercise_executions`] run one named check after
//! another, each against a fresh backend, and name all that failed. [`crash`] is the work a store
//! does while it is killed, and the look at what is left; [`earlier`] is what a release leaves to
//! those after it; [`lifecycles`] tells how fast it is; [`views`] has rows that are known.
//! **Rule:** no backend's words here; a check that only one backend can pass is that backend's own.
//! Not here: how a backend is started (each one's `tests/`).

mod check;
mod clock;
pub mod crash;
pub mod earlier;
mod executions;
pub mod lifecycles;
mod queue;
mod store;
pub mod views;
mod world;

pub use check::{Check, run_checks};
pub use clock::{ManualClock, Time};
pub use executions::{ExecutionWorld, exercise_executions, exercise_executions_on_one_lane};
pub use queue::{Abilities, QueueWorld, ROOM_MIN, exercise_queue, pass_hints};
pub use store::exercise_store;
pub use world::World;
