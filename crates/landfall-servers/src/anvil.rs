//! An Ethereum node that mines by itself: anvil, from npm; and contracts for it, compiled here.
//!
//! It keeps its chain in memory: after a kill it is a new one.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Plan, Result, Server, ServerError, ask, doing, pause};
use crate::tools::{kept, program};

/// The versions that the tests were written against.
const PACKAGES: [(&str, &str, &str); 3] = [
    ("anvil", "@foundry-rs/anvil@1.7.1", "@foundry-rs/anvil-linux-amd64/bin/anvil"),
    ("solc", "solc@0.8.37", "solc/package.json"),
    ("openzeppelin", "@openzeppelin/contracts@5.7.0", "@openzeppelin/contracts/package.json"),
];
const COMPILE: &str = include_str!("anvil/compile.js");
const COUNTER: &str = include_str!("anvil/Counter.sol");

/// A running anvil; `url()` is that of its JSON-RPC.
pub struct Anvil(Server);

/// What is asked of a node of one's own.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnvilOptions {
    /// Between blocks; none: only when it is told to.
    pub block_ms: Option<u64>,
    /// What a block holds; none for its default.
    pub gas_limit: Option<u64>,
    /// Accounts that it gives funds to; none for its default.
    pub accounts: Option<u64>,
}

/// Where it writes its accounts and their keys, and how long that may take.
const ACCOUNTS: &str = "accounts.json";
const TRIES: usize = 500;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// An account that has funds.
#[derive(Debug, Clone)]
pub struct AnvilAccount {
    pub address: String,
    /// In hexadecimal.
    pub key: String,
}

/// A file of a package, or how to get it.
fn installed(name: &str) -> Result<std::path::PathBuf> {
    let (folder, package, file) =
        PACKAGES.iter().find(|(folder, ..)| *folder == name).expect("one of these");
    let folder = kept().join(folder);
    let path = folder.join("node_modules").join(file);
    match path.is_file() {
        true => Ok(path),
        false => Err(ServerError::Missing {
            what: path.display().to_string(),
            remedy: format!("npm install --prefix {} {package}", folder.display()),
        }),
    }
}

impl Anvil {
    pub fn start(options: AnvilOptions) -> Result<Anvil> {
        let anvil = installed("anvil")?;
        let command = move |port: u16, folder: &Path| {
            let mut command = Command::new(&anvil);
            command.args(["--port", &port.to_string(), "--silent"]);
            command.arg("--cache-path").arg(folder.join("data"));
            // Final after two blocks.
            command.args(["--slots-in-an-epoch", "1"]);
            match options.block_ms {
                Some(ms) => command.args(["--block-time", &(ms as f64 / 1_000.0).to_string()]),
                None => command.arg("--no-mining"),
            };
            if let Some(gas) = options.gas_limit {
                command.args(["--gas-limit", &gas.to_string()]);
            }
            if let Some(accounts) = options.accounts {
                command.args(["--accounts", &accounts.to_string()]);
            }
            command.arg("--config-out").arg(folder.join("data").join(ACCOUNTS));
            command
        };
        let plan = Plan {
            name: "anvil",
            command: Box::new(command),
            // Whatever it says to this, it listens.
            ready: |port| Ok(ask(port, b"GET / HTTP/1.0\r\n\r\n", 5)? == b"HTTP/"),
            leave: Signal::KILL,
            stale: None,
        };
        let fill =
            |folder: &Path| doing("a folder for anvil", std::fs::create_dir(folder.join("data")));
        Server::start(plan, |port| format!("http://127.0.0.1:{port}"), fill).map(Anvil)
    }

    /// The accounts that it has given funds to. It may listen before it has written them all.
    pub fn accounts(&self) -> Result<Vec<AnvilAccount>> {
        let file = self.folder().join(ACCOUNTS);
        let read =
            || -> std::io::Result<Value> { Ok(serde_json::from_slice(&std::fs::read(&file)?)?) };
        let mut told = read();
        for _ in 0..TRIES {
            if told.is_ok() {
                break;
            }
            pause(BETWEEN_TRIES);
            told = read();
        }
        let told = doing("anvil's accounts", told)?;
        let list = |name: &str| told[name].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let both = list("available_accounts").into_iter().zip(list("private_keys"));
        let account =
            |(one, key): (Value, Value)| AnvilAccount { address: text(&one), key: text(&key) };
        Ok(both.map(account).collect())
    }
}

/// The code that creates a forwarder of OpenZeppelin's and a counter that trusts it, by name.
pub fn contracts() -> Result<Value> {
    let node = program(&["node", "nodejs"], &[], "nodejs npm")?;
    let (solc, zeppelin) = (installed("solc")?, installed("openzeppelin")?);
    let mut command = Command::new(node);
    command.arg("-e").arg(COMPILE).arg("--");
    command.arg(solc.with_file_name("")).arg(zeppelin.with_file_name("")).arg(COUNTER);
    let output = doing("compiling contracts", command.output())?;
    let failed = || {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        doing("compiling contracts", Err(std::io::Error::other(said)))
    };
    match serde_json::from_slice(&output.stdout) {
        Ok(compiled) if output.status.success() => Ok(compiled),
        _ => failed(),
    }
}

impl Deref for Anvil {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
