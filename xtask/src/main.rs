//! Landfall's chores: `cargo xtask test | install | tidy | deploy | schema | budget | release |
//! docs | bench near|internal|evm|lanes | soak near|internal|backends|torture|mutants`.
//!
//! Every chore says what it runs, so that anybody can run it by hand. Not here: anything a user of
//! Landfall needs (that is the binary's job). Time is read freely here: chores measure real time.

mod bench;
mod budget;
mod deploy;
mod http;
mod install;
mod load;
mod moves;
mod payouts;
mod process;
mod release;
mod report;
mod schema;
mod soak;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Landfall's chores")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Formats, lints, tidies and tests; ends with `N passed, N failed`.
    Test,
    /// Installs the servers that tests start, as `test` does first.
    Install,
    /// Checks the rooms' dependencies, file headers, function lengths, columns and clocks.
    Tidy,
    /// Checks deploy/ by schemas, linters and the binary that the tests were built with.
    Deploy,
    /// Holds /openapi.json against the server that gives it, with and without API keys.
    Schema,
    /// Counts the crates of the default binary, and fails if there are more than may be.
    Budget,
    /// Builds the binary as it is shipped: stripped, with its symbols beside it.
    Release(release::Options),
    /// Writes docs/configuration.md anew from the code.
    Docs,
    /// Measures the relay against a simulated ledger, between two account services, or on anvil.
    Bench {
        #[command(subcommand)]
        ledger: BenchLedger,
    },
    /// Long runs: payouts on a real network, or worlds in which everything goes wrong.
    Soak {
        #[command(subcommand)]
        ledger: SoakLedger,
    },
    /// The load generator of `bench` and `soak`: a process of its own.
    #[command(hide = true)]
    Load(load::Options),
}

#[derive(Subcommand)]
enum BenchLedger {
    /// Payouts on a simulated NEAR.
    Near(bench::Options),
    /// Transfers between two account services.
    Internal(bench::internal::Options),
    /// Calls to a contract on anvil, beside what anvil takes by itself.
    Evm(bench::evm::Options),
    /// Executions of the transaction manager on everything that can keep its lanes.
    Lanes(bench::lanes::Options),
}

#[derive(Subcommand)]
enum SoakLedger {
    /// Sends payouts on a real network and reports.
    Near(soak::Options),
    /// Kills relay and services every second, with the audit looking on, optimised.
    Internal(soak::InternalOptions),
    /// Kills one of three relays every second, and their store, on each store and queue, optimised.
    Backends(soak::BackendsOptions),
    /// Tortures the relay with new seeds, optimised.
    Torture(soak::TortureOptions),
    /// Changes the code on which a payment's safety rests, bit by bit, and sees who notices.
    Mutants(soak::mutants::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().chore {
        Chore::Test => test::run(&root()),
        Chore::Install => install::servers(&root()).map(|()| true),
        Chore::Tidy => tidy::run(&root()),
        Chore::Deploy => Ok(deploy::run(&root(), &test::landfall(&root()))),
        Chore::Schema => Ok(schema::run(&root(), &test::landfall(&root()))),
        Chore::Budget => budget::run(&root()),
        Chore::Release(options) => release::run(&root(), &options),
        Chore::Docs => docs(),
        Chore::Bench { ledger: BenchLedger::Near(options) } => bench::run(&root(), &options),
        Chore::Bench { ledger: BenchLedger::Internal(options) } => {
            bench::internal::run(&root(), &options)
        }
        Chore::Bench { ledger: BenchLedger::Evm(options) } => bench::evm::run(&root(), &options),
        Chore::Bench { ledger: BenchLedger::Lanes(options) } => {
            bench::lanes::run(&root(), &options)
        }
        Chore::Soak { ledger: SoakLedger::Internal(options) } => soak::internal(&root(), &options),
        Chore::Soak { ledger: SoakLedger::Backends(options) } => soak::backends(&root(), &options),
        Chore::Soak { ledger: SoakLedger::Near(options) } => soak::run(&root(), &options),
        Chore::Soak { ledger: SoakLedger::Torture(options) } => soak::torture(&root(), &options),
        Chore::Soak { ledger: SoakLedger::Mutants(options) } => {
            soak::mutants::run(&root(), &options)
        }
        Chore::Load(options) => load::run(&options),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace, wherever the command was given.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}

fn docs() -> anyhow::Result<bool> {
    let page = process::output(process::cargo(&root()).args([
        "run",
        "-q",
        "-p",
        "landfall",
        "--",
        "settings",
        "--markdown",
    ]))?;
    std::fs::write(root().join("docs/configuration.md"), page)?;
    Ok(true)
}
