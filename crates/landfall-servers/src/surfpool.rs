//! Solana's own virtual machine behind JSON-RPC: Surfpool, from npm, without a network behind it.
//!
//! It keeps its chain in memory: after a kill it is a new one. What it begins with is told when it
//! is started; [`shield_pool`] is a program for it.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use sbpf_assembler::{Assembler, AssemblerOption, SbpfArch};
use serde_json::{Value, json};

use crate::server::{Plan, Result, Server, ServerError, ask, doing};
use crate::tools::{kept, program};

/// The version that the tests were written against.
const PACKAGE: &str = "@solana/surfpool-linux-x64-gnu@1.5.0";
const SCRIPT: &str = include_str!("surfpool/start.js");
const SHIELD_POOL: &str = include_str!("surfpool/shield_pool.s");

/// What a chain begins with.
#[derive(Debug, Clone, Default)]
pub struct SurfpoolOptions {
    pub slot_ms: u64,
    /// Addresses and what is executed there.
    pub programs: Vec<(String, Vec<u8>)>,
    pub accounts: Vec<SurfpoolAccount>,
}

#[derive(Debug, Clone)]
pub struct SurfpoolAccount {
    pub address: String,
    pub lamports: u64,
    pub owner: String,
    pub data: Vec<u8>,
}

/// A running Surfpool; `url()` is that of its JSON-RPC.
pub struct Surfpool(Server);

impl Surfpool {
    pub fn start(options: &SurfpoolOptions) -> Result<Surfpool> {
        let node = program(&["node", "nodejs"], &[], "nodejs npm")?;
        let folder = kept().join("surfpool");
        let addon = folder.join("node_modules/@solana/surfpool-linux-x64-gnu");
        if !addon.is_dir() {
            return Err(ServerError::Missing {
                what: addon.display().to_string(),
                remedy: format!("npm install --prefix {} {PACKAGE}", folder.display()),
            });
        }
        let command = move |port: u16, folder: &Path| {
            let mut command = Command::new(&node);
            command.arg(folder.join("start.js")).arg(&addon).arg(port.to_string());
            command.arg(folder.join("setup.json"));
            command
        };
        let plan = Plan {
            name: "surfpool",
            command: Box::new(command),
            // Whatever it says to this, it listens, and that it does last.
            ready: |port| Ok(ask(port, b"GET / HTTP/1.0\r\n\r\n", 5)? == b"HTTP/"),
            leave: Signal::KILL,
            stale: None,
        };
        let setup = setup(options).to_string();
        let fill = |folder: &Path| {
            doing("a folder for surfpool", std::fs::create_dir(folder.join("data")))?;
            doing("a setup for surfpool", std::fs::write(folder.join("setup.json"), &setup))?;
            doing("a script for surfpool", std::fs::write(folder.join("start.js"), SCRIPT))
        };
        Server::start(plan, |port| format!("http://127.0.0.1:{port}"), fill).map(Surfpool)
    }
}

fn setup(options: &SurfpoolOptions) -> Value {
    let programs = options
        .programs
        .iter()
        .map(|(address, bytes)| json!({ "address": address, "bytes": hex::encode(bytes) }));
    let accounts = options.accounts.iter().map(|account| {
        let SurfpoolAccount { address, lamports, owner, data } = account;
        let data = hex::encode(data);
        json!({ "address": address, "lamports": lamports, "owner": owner, "data": data })
    });
    json!({
        "slotMs": options.slot_ms,
        "programs": programs.collect::<Vec<Value>>(),
        "accounts": accounts.collect::<Vec<Value>>(),
    })
}

/// A stand-in for the shield pool, assembled: of a withdraw it checks the layout, the root, the
/// nullifier and the amounts, and pays it. It checks no proof.
///
/// # Panics
/// If its source has a mistake.
pub fn shield_pool() -> Vec<u8> {
    let assembler = Assembler::new(AssemblerOption::default().with_arch(SbpfArch::V0));
    let assembled = assembler.assemble(SHIELD_POOL);
    assembled.unwrap_or_else(|errors| panic!("the stand-in has mistakes: {errors:?}"))
}

impl Deref for Surfpool {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
