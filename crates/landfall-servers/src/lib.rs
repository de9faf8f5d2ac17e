//! Real servers for tests and benchmarks: each on a port of its own, in a folder of its own, gone
//! with its value.
//!
//! ```no_run
//! let postgres = landfall_servers::Postgres::start()?;
//! println!("{}", postgres.url());
//! postgres.kill()?; // as a power cut would, except that the disk keeps what it was given
//! postgres.restart()?; // the same port, the same data
//! # Ok::<(), landfall_servers::ServerError>(())
//! ```
//!
//! Rules:
//! - calls block: they wait for other processes, in real time. Inside a runtime, give them a thread
//!   of their own (`spawn_blocking`) where anything else must go on meanwhile;
//! - a server keeps the durability settings it is shipped with, except where an option says
//!   otherwise;
//! - a server ends with its value, and also when the process that started it dies of anything.
//!
//! [`witness`] is a process that a test kills while it works on one of them.
//!
//! Not here: clients, and installing (`cargo xtask test` does that; what is missing is named in the
//! error).

mod anvil;
mod mariadb;
mod port;
mod postgres;
mod process;
mod redis;
mod server;
mod sqs;
#[cfg(feature = "surfpool")]
mod surfpool;
mod templates;
mod tools;
mod typescript;
pub mod witness;
mod workerd;

pub use anvil::{Anvil, AnvilAccount, AnvilOptions, contracts};
pub use mariadb::MariaDb;
pub use postgres::{Postgres, PostgresOptions};
pub use redis::{AppendFsync, Redis, RedisOptions};
pub use server::{Server, ServerError};
pub use sqs::Sqs;
#[cfg(feature = "surfpool")]
pub use surfpool::{Surfpool, SurfpoolAccount, SurfpoolOptions, shield_pool};
pub use typescript::{TypeScript, node, npm_package};
pub use workerd::Workerd;
