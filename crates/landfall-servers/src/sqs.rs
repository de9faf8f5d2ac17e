//! An SQS server: fauxqs, from npm.
//!
//! It keeps its queues in memory: after a kill they are gone, like hints that were lost.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::server::{Plan, Result, Server, ServerError, ask, doing};
use crate::tools::{kept, program};

/// The version that the tests were written against.
const PACKAGE: &str = "fauxqs@1.9.2";

/// A running SQS server; `url()` is its endpoint, `http://127.0.0.1:PORT`.
pub struct Sqs(Server);

impl Sqs {
    pub fn start() -> Result<Sqs> {
        let node = program(&["node", "nodejs"], &[], "nodejs npm")?;
        let folder = kept().join("fauxqs");
        let script = folder.join("node_modules/fauxqs/dist/server.js");
        if !script.is_file() {
            return Err(ServerError::Missing {
                what: script.display().to_string(),
                remedy: format!("npm install --prefix {} {PACKAGE}", folder.display()),
            });
        }
        let command = move |port: u16, _: &Path| {
            let mut command = Command::new(&node);
            command.arg(&script).env("FAUXQS_PORT", port.to_string());
            command.env("FAUXQS_HOST", "127.0.0.1").env("FAUXQS_LOGGER", "false");
            command
        };
        let plan = Plan {
            name: "fauxqs",
            command: Box::new(command),
            ready: |port| {
                let question = b"GET /health HTTP/1.0\r\n\r\n";
                Ok(ask(port, question, 12)?.ends_with(b" 200"))
            },
            leave: Signal::KILL,
            stale: None,
        };
        let fill =
            |folder: &Path| doing("a folder for fauxqs", std::fs::create_dir(folder.join("data")));
        Server::start(plan, |port| format!("http://127.0.0.1:{port}"), fill).map(Sqs)
    }
}

impl Deref for Sqs {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
