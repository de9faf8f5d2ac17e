//! The command line. A bare `landfall` is `landfall dev`.
//!
//! Not here: what the commands do (each has a file or folder of its own name).

mod dead;
mod lanes;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use landfall_core::RailName;

pub use dead::{Dead, DeadListArguments, ReplayArguments};
pub use lanes::{AdoptArguments, Lanes, LanesServeArguments};

use crate::config::Secret;
use crate::failure::{EXIT_CODES, TORTURE_EXIT_CODES};

/// Where `landfall dev` keeps everything unless told otherwise. Beside production's default, not
/// in it.
pub const DEV_DATA: &str = "landfall-data/dev";

#[derive(Debug, Parser)]
#[command(
    name = "landfall",
    version,
    about = "Relays payouts and transfers, and lands each exactly once",
    after_help = EXIT_CODES
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Everything embedded: store, queue, a simulated NEAR, the API. What a bare `landfall` does.
    Dev(DevArguments),
    /// Production, as configured.
    Serve(ConfigArguments),
    /// A simulated ledger on its own.
    Sim {
        #[command(subcommand)]
        ledger: Ledger,
    },
    /// The built-in account service, one side of internal transfers, for people who have none.
    Ledger(LedgerArguments),
    /// Reads the configuration and tries the store, the ledger and the keys.
    Check(CheckArguments),
    /// Brings the schema of the store up to date and makes the queues that are missing.
    Migrate(CheckArguments),
    /// What became of transfers, read from the store; works while the relay is down.
    Transfers {
        #[command(subcommand)]
        ask: Transfers,
    },
    /// Signing keys: who holds them, what is in flight; and making halted ones work again.
    Lanes {
        #[command(subcommand)]
        act: Option<Lanes>,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// Attempts and requests of unknown fate, and an operator's word on them.
    Adrift {
        #[command(subcommand)]
        act: Adrift,
    },
    /// Transfers that failed, each proven not to have moved, and reopening them.
    Dead {
        #[command(subcommand)]
        act: Dead,
    },
    /// Compares the store with the ledgers; exits with 1 on any difference.
    Audit(AuditArguments),
    /// Tries to make this relay pay twice, in simulated worlds with everything going wrong.
    #[command(after_help = TORTURE_EXIT_CODES)]
    Torture(TortureArguments),
    /// All settings with their defaults and reasons.
    Settings {
        /// As docs/configuration.md.
        #[arg(long, conflicts_with = "json")]
        markdown: bool,
        #[arg(long)]
        json: bool,
    },
    /// A script that teaches a shell these commands.
    #[command(after_help = COMPLETIONS)]
    Completions {
        #[arg(value_enum)]
        shell: ShellName,
    },
}

/// For `landfall completions --help`: where each shell looks for it.
const COMPLETIONS: &str = "\
bash  landfall completions bash > ~/.local/share/bash-completion/completions/landfall
zsh   landfall completions zsh > \"${fpath[1]}/_landfall\"
fish  landfall completions fish > ~/.config/fish/completions/landfall.fish";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Clone, Args)]
pub struct DevArguments {
    /// Where the API listens; loopback only.
    #[arg(long, default_value = "127.0.0.1:3000")]
    pub listen: SocketAddr,
    /// Where everything is kept. A second start goes on where the first ended.
    #[arg(long, default_value = DEV_DATA)]
    pub data: PathBuf,
    /// A node of a chain of yours (anvil, hardhat, geth --dev) instead of the simulated one.
    #[arg(long, value_name = "URL")]
    pub evm: Option<String>,
}

impl Default for DevArguments {
    fn default() -> DevArguments {
        DevArguments {
            listen: SocketAddr::from(([127, 0, 0, 1], 3000)),
            data: PathBuf::from(DEV_DATA),
            evm: None,
        }
    }
}

#[derive(Debug, Clone, Args)]
pub struct ConfigArguments {
    /// The configuration; `landfall.toml` if there is one.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Where the API listens, whatever the configuration says.
    #[arg(long)]
    pub listen: Option<String>,
    /// The data folder, whatever the configuration says.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// What this process does: take transfers, work on them, or both. Any number of each can share
    /// a store.
    #[arg(long, value_enum, default_value = "both")]
    pub role: RoleArgument,
}

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RoleArgument {
    Both,
    Api,
    Worker,
}

#[derive(Debug, Clone, Args)]
pub struct CheckArguments {
    /// The configuration; `landfall.toml` if there is one.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// The data folder, whatever the configuration says.
    #[arg(long)]
    pub data: Option<PathBuf>,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Args)]
pub struct AuditArguments {
    /// One rail; without it, all that are configured.
    #[arg(value_parser = rail())]
    pub rail: Option<RailName>,
    #[command(flatten)]
    pub read: CheckArguments,
}

/// A rail, by its name.
fn rail() -> impl TypedValueParser<Value = RailName> {
    let unknown = |name: String| format!("{name} is no rail");
    PossibleValuesParser::new(RailName::ALL.map(RailName::as_str))
        .try_map(move |name| RailName::parse(&name).ok_or_else(|| unknown(name)))
}

#[derive(Debug, Clone, Args)]
pub struct ReadArguments {
    /// The configuration that names the store; `landfall.toml` if there is one.
    #[arg(long, global = true)]
    pub config: Option<PathBuf>,
    /// The data folder whose store to read, such as that of `landfall dev`.
    #[arg(long, global = true)]
    pub data: Option<PathBuf>,
    /// For programs.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Transfers {
    /// One transfer with its audit trail.
    Get {
        #[command(flatten)]
        named: KeyArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// Transfers, newest first.
    List {
        #[command(flatten)]
        list: ListArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// Follows one transfer until it is final; without a key, counts per state.
    Watch {
        #[command(flatten)]
        watch: WatchArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
}

#[derive(Debug, Clone, Args)]
pub struct KeyArguments {
    /// Its idempotency key, as the client sent it, or its req_id.
    pub key: String,
    /// Whose key it is, where API keys are in use.
    #[arg(long, default_value = "")]
    pub tenant: String,
    /// One rail; without it, whatever has the key on any.
    #[arg(long, value_parser = rail())]
    pub rail: Option<RailName>,
}

#[derive(Debug, Clone, Args)]
pub struct ListArguments {
    /// One rail; without it, all.
    #[arg(long, value_parser = rail())]
    pub rail: Option<RailName>,
    /// Such as COMPLETED or queued-transfer.
    #[arg(long)]
    pub state: Option<String>,
    #[arg(long)]
    pub receiver: Option<String>,
    #[arg(long)]
    pub tenant: Option<String>,
    /// Only ids below this one: the next page.
    #[arg(long)]
    pub before: Option<u64>,
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: u32,
}

#[derive(Debug, Clone, Args)]
pub struct WatchArguments {
    /// Its idempotency key, as the client sent it, or its req_id.
    pub key: Option<String>,
    #[arg(long, default_value = "")]
    pub tenant: String,
    /// One rail; without it, whichever has the key.
    #[arg(long, value_parser = rail())]
    pub rail: Option<RailName>,
}

#[derive(Debug, Subcommand)]
pub enum Adrift {
    /// Attempts that are open for longer than a minute, and transfers between services of which a
    /// service has forgotten whether it acted.
    List {
        /// Also those that are younger.
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        read: ReadArguments,
    },
    /// Decides what no evidence of a ledger or service can decide. The relay must be stopped.
    Decide {
        #[command(flatten)]
        decide: DecideArguments,
        #[command(flatten)]
        read: ReadArguments,
    },
}

#[derive(Debug, Clone, Args)]
pub struct DecideArguments {
    /// The attempt's number or the transfer's request id, as `landfall adrift list` shows it.
    #[arg(value_parser = adrift_id)]
    pub id: AdriftId,
    /// landed: all its members were paid, the service did act. sunk: it can never land, its members
    /// are paid anew; the service never acted.
    #[arg(value_enum)]
    pub fate: Decided,
    /// How you know. Kept for ever in the trail of every member.
    #[arg(long, value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub evidence: String,
    /// Decides without asking the ledger, where it cannot be asked any more.
    #[arg(long)]
    pub unchecked: bool,
    /// Whose request it is, where API keys are in use.
    #[arg(long, default_value = "")]
    pub tenant: String,
}

/// What can be adrift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdriftId {
    /// An attempt on a ledger, by its number.
    Attempt(u64),
    /// A transfer between services, by its request id in canonical form.
    Request(String),
}

fn adrift_id(text: &str) -> Result<AdriftId, String> {
    if let Ok(number) = text.parse() {
        return Ok(AdriftId::Attempt(number));
    }
    let req_id = text.parse::<landfall_ledger::ReqId>();
    let known = req_id.map(|req_id| AdriftId::Request(req_id.to_string()));
    known.map_err(|_| "give an attempt's number, or a request id (a UUID)".to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Decided {
    Landed,
    Sunk,
}

#[derive(Debug, Clone, Args)]
pub struct TortureArguments {
    /// How many seeds; 1000, or just one if --seed is given, or as many as fit if --minutes is.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// The first seed.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Begins no new seed after so many minutes.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub minutes: Option<u64>,
    /// Writes the whole history of every seed to torture-SEED.trace.
    #[arg(long)]
    pub trace: bool,
    /// Exits with 4 if the seeds together never met one of the guards on the way to a payment.
    #[arg(long)]
    pub all_guards: bool,
    /// Switches faults off, by name: crash,freeze,…
    #[arg(long, value_delimiter = ',')]
    pub without: Vec<String>,
    /// What happens by chance, apart from what a seed plans; the seed itself unless given.
    #[arg(long)]
    pub dice: Option<u64>,
    /// Payouts of each world, whatever its seed says.
    #[arg(long)]
    pub transfers: Option<usize>,
    /// Orders between services of each world, whatever its seed says.
    #[arg(long)]
    pub moves: Option<usize>,
    /// Relays that share each world's store, whatever its seed says.
    #[arg(long)]
    pub instances: Option<usize>,
    /// Signing keys of each world, whatever its seed says.
    #[arg(long)]
    pub keys: Option<usize>,
    /// Seconds of faults in each world, whatever its seed says.
    #[arg(long)]
    pub storm_s: Option<u64>,
    /// For programs.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Ledger {
    /// A simulated NEAR with a token, a relay account and its keys, announced in one JSON line.
    Near(SimArguments),
    /// A simulated EVM chain with a forwarder, a counter and signers, announced in one JSON line.
    Evm(crate::sim::EvmArguments),
    /// A simulated Solana with a shield pool and fee payers, announced in one JSON line.
    Solana(crate::sim::SolanaArguments),
    /// A simulated OpenZeppelin Relayer in front of a chain, announced in one JSON line.
    EvmRelayer(crate::sim::RelayerArguments),
    /// Two account services, funding and trading, with faults, announced in one JSON line.
    Services(ServicesArguments),
}

#[derive(Debug, Clone, Args)]
pub struct LedgerArguments {
    /// What the service is called; its file in the data folder, or its book on the server, has that
    /// name.
    #[arg(long, default_value = "funding", value_parser = service_name)]
    pub name: String,
    /// freeze: a withdrawal sets aside, its commit takes away. direct: it takes away at once.
    #[arg(long, value_enum, default_value = "freeze")]
    pub kind: AccountKind,
    #[arg(long, default_value = "127.0.0.1:3041")]
    pub listen: SocketAddr,
    /// The folder in which the accounts are kept: a file, and one process.
    #[arg(long, required_unless_present = "store")]
    pub data: Option<PathBuf>,
    /// A database server that keeps them instead, postgres://… or mysql://…: any number of
    /// processes may serve one book. With a password in it, give it by the variable: others can
    /// read a command line.
    #[arg(long, value_name = "URL", conflicts_with = "data", value_parser = secret)]
    #[arg(env = "LANDFALL_LEDGER_STORE", hide_env_values = true)]
    pub store: Option<Secret>,
    /// Encrypts, and checks a MySQL or MariaDB server against the authorities in this file (PEM).
    #[arg(long, value_name = "FILE", requires = "store")]
    pub store_ca: Option<PathBuf>,
}

/// Anything, never shown.
fn secret(text: &str) -> Result<Secret, std::convert::Infallible> {
    Ok(Secret::new(text))
}

/// A name that is safe in a path and in a URL.
fn service_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match (1..=64).contains(&text.len()) && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("must be 1 to 64 of a-z, 0-9 and -".into()),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AccountKind {
    Freeze,
    Direct,
}

#[derive(Debug, Clone, Args)]
pub struct ServicesArguments {
    #[arg(long, default_value = "127.0.0.1:3040")]
    pub listen: SocketAddr,
    /// Where both keep their accounts, across restarts.
    #[arg(long)]
    pub data: PathBuf,
    /// What the dice begin with.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub faults: FaultArguments,
}

/// How often things go wrong with each service, from 0 to 1. POST /sim/faults changes it.
#[derive(Debug, Clone, Args)]
pub struct FaultArguments {
    /// The connection closes before the request took effect.
    #[arg(long, default_value_t = 0.0)]
    pub lose_request: f64,
    /// The request takes effect, then the connection closes.
    #[arg(long, default_value_t = 0.0)]
    pub lose_answer: f64,
    /// The request or its answer is --slow-ms late.
    #[arg(long, default_value_t = 0.0)]
    pub slow: f64,
    #[arg(long, default_value_t = 1_000)]
    pub slow_ms: u64,
    /// HTTP 500, half of them after the request took effect.
    #[arg(long, default_value_t = 0.0)]
    pub server_error: f64,
    /// HTTP 429, nothing happened.
    #[arg(long, default_value_t = 0.0)]
    pub rate_limited: f64,
    /// The request takes effect, the answer is no JSON.
    #[arg(long, default_value_t = 0.0)]
    pub garbage: f64,
    /// The operation takes effect --late-ms from now; its caller is told 202 or nothing.
    #[arg(long, default_value_t = 0.0)]
    pub late: f64,
    #[arg(long, default_value_t = 60_000)]
    pub late_ms: u64,
    /// A deposit is refused for ever.
    #[arg(long, default_value_t = 0.0)]
    pub refuse_deposit: f64,
    /// A rollback is refused this once.
    #[arg(long, default_value_t = 0.0)]
    pub refuse_rollback: f64,
    /// Both services begin unreachable.
    #[arg(long)]
    pub down: bool,
}

#[derive(Debug, Clone, Args)]
pub struct SimArguments {
    /// Where the first node listens; further nodes take free ports beside it.
    #[arg(long, default_value = "127.0.0.1:3030")]
    pub listen: SocketAddr,
    /// How many nodes serve the same ledger.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub nodes: u64,
    /// Access keys of the relay's account.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub keys: u64,
    /// Milliseconds between blocks.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub block_ms: u64,
    /// Whether a block takes only as much gas as a real shard's chunk.
    #[arg(long, value_enum, default_value = "on")]
    pub chunk_gas: Switch,
    /// Keeps the ledger across restarts.
    #[arg(long)]
    pub state: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_attempt_is_a_number_and_a_request_a_uuid() {
        let req_id = "6f1c3f0e-8a51-4d0b-9d8e-0f6a1c2b3d4e";
        assert_eq!(adrift_id("17"), Ok(AdriftId::Attempt(17)));
        let request = Ok(AdriftId::Request(req_id.to_owned()));
        assert_eq!(adrift_id(&req_id.to_uppercase()), request);
        assert!(adrift_id("payroll-1").is_err());
    }

    #[test]
    fn a_bare_call_is_dev_with_its_defaults() {
        let bare = Arguments::parse_from(["landfall"]);
        assert!(bare.command.is_none());
        let Some(Command::Dev(dev)) = Arguments::parse_from(["landfall", "dev"]).command else {
            panic!("dev is a command");
        };
        let default = DevArguments::default();
        assert_eq!((dev.listen, dev.data), (default.listen, default.data));
    }
}
