//! Redis.

use std::ops::Deref;
use std::process::Command;

use rustix::process::Signal;

use crate::server::{Plan, Result, Server, ask, doing};
use crate::tools::program;

/// When the append-only file is synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFsync {
    Always,
    EverySec,
    No,
}

impl AppendFsync {
    fn as_str(self) -> &'static str {
        match self {
            AppendFsync::Always => "always",
            AppendFsync::EverySec => "everysec",
            AppendFsync::No => "no",
        }
    }
}

/// How Redis keeps what it is told.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    pub appendonly: bool,
    pub appendfsync: AppendFsync,
    /// Further settings, as in redis.conf.
    pub settings: Vec<(String, String)>,
}

impl Default for RedisOptions {
    /// The safe ones; Redis' own default keeps no log at all.
    fn default() -> Self {
        RedisOptions { appendonly: true, appendfsync: AppendFsync::Always, settings: Vec::new() }
    }
}

/// A running Redis; `url()` is `redis://127.0.0.1:PORT`.
pub struct Redis(Server);

impl Redis {
    pub fn start(options: RedisOptions) -> Result<Redis> {
        let server = program(&["redis-server"], &[], "redis-server")?;
        let command = move |port: u16, folder: &std::path::Path| {
            let mut command = Command::new(&server);
            command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
            command.arg("--dir").arg(folder.join("data"));
            command.args(["--appendonly", if options.appendonly { "yes" } else { "no" }]);
            command.args(["--appendfsync", options.appendfsync.as_str()]);
            for (name, value) in &options.settings {
                command.arg(format!("--{name}")).arg(value);
            }
            command
        };
        let plan = Plan {
            name: "redis-server",
            command: Box::new(command),
            ready: |port| Ok(ask(port, b"PING\r\n", 5)? == b"+PONG"),
            leave: Signal::KILL,
            stale: None,
        };
        let fill = |folder: &std::path::Path| {
            doing("a folder for Redis", std::fs::create_dir(folder.join("data")))
        };
        Server::start(plan, |port| format!("redis://127.0.0.1:{port}"), fill).map(Redis)
    }
}

impl Deref for Redis {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}
