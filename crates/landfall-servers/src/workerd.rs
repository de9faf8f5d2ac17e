//! Workers on workerd, Cloudflare's own runtime, by miniflare from npm. Objects are kept in a
//! folder, across kills.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Plan, Result, Server, ask, doing};
use crate::typescript::{TypeScript, node, npm_folder, npm_package};

/// A running Worker; `url()` is its origin, `http://127.0.0.1:PORT`.
pub struct Workerd(Server);

impl Workerd {
    /// `workers/tx-lane`, with these variables.
    pub fn tx_lane(variables: &Value) -> Result<Workerd> {
        let built = TypeScript::compiled()?;
        let script = built.root.join("workers/tx-lane/test/serve.mjs");
        Workerd::start(script, vec![npm_folder("miniflare")?, built.worker], variables)
    }

    /// The example that pays out by it, with both in one process.
    pub fn payouts(variables: &Value) -> Result<Workerd> {
        let built = TypeScript::compiled()?;
        let client = built.root.join("clients/typescript");
        let arguments = vec![
            npm_folder("miniflare")?,
            built.worker,
            built.client.join("esm"),
            npm_package("ethers")?.join("dist/ethers.min.js"),
            client.join("examples"),
        ];
        Workerd::start(client.join("test/serve-worker.mjs"), arguments, variables)
    }

    fn start(script: PathBuf, arguments: Vec<PathBuf>, variables: &Value) -> Result<Workerd> {
        let (node, variables) = (node()?, variables.to_string());
        let command = move |port: u16, folder: &Path| {
            let mut command = Command::new(&node);
            command.arg(&script).args(&arguments).arg(folder.join("data")).arg(port.to_string());
            command.env("WORKER_VARIABLES", &variables);
            command
        };
        let plan = Plan {
            name: "workerd",
            command: Box::new(command),
            // Whatever it says to this, it listens.
            ready: |port| Ok(ask(port, b"GET / HTTP/1.0\r\n\r\n", 5)? == b"HTTP/"),
            leave: Signal::KILL,
            stale: None,
        };
        let fill =
            |folder: &Path| doing("a folder for objects", std::fs::create_dir(folder.join("data")));
        Server::start(plan, |port| format!("http://127.0.0.1:{port}"), fill).map(Workerd)
    }
}

impl Deref for Workerd {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
