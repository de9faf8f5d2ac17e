//! `landfall dead`, as it is typed.

use clap::{Args, Subcommand};
use landfall_core::RailName;

use super::{ReadArguments, rail};

#[derive(Debug, Subcommand)]
pub enum Dead {
    /// Dead letters, newest first.
    List {
        #[command(flatten)]
        list: DeadListArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// One with its audit trail, what its client was told, and what was asked for again since.
    Show {
        /// The transfer's number, as `landfall dead list` shows it.
        id: u64,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// Reopens one: it is tried anew, under the same key. On SQLite the relay must be stopped.
    Replay {
        #[command(flatten)]
        replay: ReplayArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
}

#[derive(Debug, Clone, Args)]
pub struct DeadListArguments {
    /// One rail; without it, all.
    #[arg(long, value_parser = rail())]
    pub rail: Option<RailName>,
    /// Only ids below this one: the next page.
    #[arg(long)]
    pub before: Option<u64>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
pub struct ReplayArguments {
    /// The transfer's number, as `landfall dead list` shows it.
    pub id: u64,
    /// Why. Kept for ever in its trail.
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub reason: String,
    /// Although its client asked for the same again since, under another key.
    #[arg(long)]
    pub anyway: bool,
}
