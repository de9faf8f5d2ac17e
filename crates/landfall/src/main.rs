//! Landfall, the binary: reads the command line and the configuration, and puts the rooms together.
//!
//! Everything that decides anything is in the other crates. Here: [`config`], the command line
//! ([`cli`]), the wiring ([`wire`]), and commands for operators, which read the store themselves so
//! that they work while the relay does not.

mod adopt;
mod adrift;
mod audit;
mod check;
mod cli;
mod config;
mod dead;
mod dev;
mod doors;
mod examine;
mod failure;
mod folder;
mod lanes;
mod ledger;
mod migrate;
mod serve;
mod show;
mod sim;
mod stopped;
mod torture;
mod transfers;
mod wire;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::Shell;
use landfall_core::store::Store;
use rustix::fs::Mode;

use cli::{Adrift, Arguments, Command, Dead, Lanes, Ledger, ReadArguments, ShellName, Transfers};
use config::Need;
use failure::Result;
use show::Show;

fn main() -> ExitCode {
    // Keys, books and payouts are nobody else's to read: folders are 0700, files 0600.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let command = Arguments::parse().command.unwrap_or(Command::Dev(Default::default()));
    if let Command::Torture(arguments) = &command {
        // Its worlds have runtimes of their own, on paused time.
        return torture::run(arguments);
    }
    // Clients that leave the choice to the process get ring; fails only if one was chosen before.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            return ExitCode::from(3);
        }
    };
    let ended = runtime.block_on(run(command));
    // Whatever still runs (a long poll, a slow node) must not hold the process up.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let text = failure.to_string();
            if !text.is_empty() {
                show::complain(&format!("error: {text}"));
            }
            failure.exit_code()
        }
    }
}

async fn run(command: Command) -> Result<()> {
    match command {
        Command::Dev(arguments) => dev::run(&arguments).await,
        Command::Serve(arguments) => serve::run(&arguments).await,
        Command::Sim { ledger: Ledger::Near(arguments) } => sim::run(&arguments).await,
        Command::Sim { ledger: Ledger::Evm(arguments) } => sim::run_evm(&arguments).await,
        Command::Sim { ledger: Ledger::Solana(arguments) } => sim::run_solana(&arguments).await,
        Command::Sim { ledger: Ledger::EvmRelayer(arguments) } => {
            sim::run_relayer(&arguments).await
        }
        Command::Sim { ledger: Ledger::Services(arguments) } => ledger::simulate(&arguments).await,
        Command::Ledger(arguments) => ledger::run(&arguments).await,
        Command::Check(arguments) => check::run(&arguments).await,
        Command::Migrate(arguments) => migrate::run(&arguments).await,
        Command::Audit(arguments) => audit::run(&arguments).await,
        Command::Transfers { ask } => transfers(ask).await,
        Command::Lanes { act: None, read } => {
            let (store, show) = reading(&read).await?;
            transfers::lanes(&store, &show, wire::clock().now_ms()).await
        }
        Command::Lanes { act: Some(Lanes::Adopt { adopt, read }), .. } => {
            adopt::run(&adopt, &read).await
        }
        Command::Lanes { act: Some(Lanes::Serve { serve, read }), .. } => {
            lanes::serve(&serve, &read).await
        }
        Command::Adrift { act: Adrift::List { all, read } } => {
            let (store, show) = reading(&read).await?;
            adrift::list(&store, &show, wire::clock().now_ms(), all).await
        }
        Command::Adrift { act: Adrift::Decide { decide, read } } => {
            adrift::decide(&decide, &read).await
        }
        Command::Dead { act } => dead_letters(act).await,
        // Answered before there was a runtime.
        Command::Torture(_) => Ok(()),
        Command::Settings { markdown, json } => settings(markdown, json),
        Command::Completions { shell } => completions(shell),
    }
}

async fn dead_letters(act: Dead) -> Result<()> {
    match act {
        Dead::List { list, read } => {
            let (store, show) = reading(&read).await?;
            dead::list(&store, &show, &list).await
        }
        Dead::Show { id, read } => {
            let (store, show) = reading(&read).await?;
            dead::show(&store, &show, id).await
        }
        Dead::Replay { replay, read } => dead::replay(&replay, &read).await,
    }
}

async fn transfers(ask: Transfers) -> Result<()> {
    match ask {
        Transfers::Get { named, read } => {
            let (store, show) = reading(&read).await?;
            transfers::get(&store, &show, &named).await
        }
        Transfers::List { list, read } => {
            let (store, show) = reading(&read).await?;
            transfers::list(&store, &show, &list).await
        }
        Transfers::Watch { watch, read } => {
            let (store, show) = reading(&read).await?;
            transfers::watch(&store, wire::clock().as_ref(), &show, &watch).await
        }
    }
}

/// The store to read, and how to show it.
async fn reading(read: &ReadArguments) -> Result<(Arc<dyn Store>, Show)> {
    let sources = dev::ground::store_sources(&read.config, &read.data)?;
    let config = config::load(&sources, Need::Store)?;
    let store = wire::open_existing_store(&config).await?;
    Ok((store, Show::on_stdout(read.json)))
}

fn completions(shell: ShellName) -> Result<()> {
    let shell = match shell {
        ShellName::Bash => Shell::Bash,
        ShellName::Zsh => Shell::Zsh,
        ShellName::Fish => Shell::Fish,
    };
    // Into memory first: a pipe that closes early is no failure of ours.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "landfall", &mut script);
    show::say(String::from_utf8_lossy(&script).trim_end());
    Ok(())
}

fn settings(markdown: bool, json: bool) -> Result<()> {
    let show = Show::on_stdout(json);
    if json {
        show.value(&config::reference_json());
    } else if markdown {
        show.line(config::reference_markdown().trim_end());
    } else {
        let mut table = show::Table::new(&["SETTING", "DEFAULT", "VARIABLE"]);
        for setting in config::SETTINGS.iter() {
            table.row(vec![
                (show::Style::Bold, setting.name()),
                (show::Style::Plain, setting.default.to_owned()),
                (show::Style::Dim, setting.variable()),
            ]);
        }
        show.table(&table);
    }
    Ok(())
}
