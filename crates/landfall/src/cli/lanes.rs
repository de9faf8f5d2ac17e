//! `landfall lanes serve|adopt`, as they are typed.

use std::net::SocketAddr;

use clap::{Args, Subcommand};

use super::{ReadArguments, secret};
use crate::config::Secret;

#[derive(Debug, Subcommand)]
pub enum Lanes {
    /// The lane contract over HTTP (docs/lanes.md), for servers that build and send transactions of
    /// their own: leases, nonces, records. Signs nothing.
    Serve {
        #[command(flatten)]
        serve: LanesServeArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// Lets halted lanes sign again, above the ledger's nonce. The relay must be stopped.
    Adopt {
        #[command(flatten)]
        adopt: AdoptArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
}

#[derive(Debug, Clone, Args)]
pub struct LanesServeArguments {
    #[arg(long, default_value = "127.0.0.1:3050")]
    pub listen: SocketAddr,
    /// What whoever asks must sign with: at least 32 bytes; two, separated by a comma, while one is
    /// changed for another. Give it by the variable: others can read a command line.
    #[arg(long, value_name = "TEXT", value_parser = secret)]
    #[arg(env = "LANDFALL_LANES_SECRET", hide_env_values = true)]
    pub secret: Secret,
}

#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["lanes", "all"]))]
pub struct AdoptArguments {
    /// The lanes, as `landfall lanes` names them.
    pub lanes: Vec<String>,
    /// Every lane that is halted or behind.
    #[arg(long)]
    pub all: bool,
    /// Does not ask: what is unexplained was looked into.
    #[arg(long)]
    pub yes: bool,
}
