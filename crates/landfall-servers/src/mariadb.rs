//! MariaDB.

use std::ops::Deref;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::server::{Plan, Result, Server, ask, doing};
use crate::templates::{self, run};
use crate::tools::program;

const PACKAGE: &str = "mariadb-server";

/// Run by the server before it lets anybody in, at every start.
const INIT: &str = "\
CREATE DATABASE IF NOT EXISTS landfall;
CREATE USER IF NOT EXISTS 'landfall'@'127.0.0.1' IDENTIFIED BY 'landfall';
GRANT ALL PRIVILEGES ON *.* TO 'landfall'@'127.0.0.1' WITH GRANT OPTION;
";

/// A running MariaDB; `url()` is `mysql://landfall:landfall@127.0.0.1:PORT/landfall`, an
/// administrator's.
pub struct MariaDb(Server);

impl MariaDb {
    pub fn start() -> Result<MariaDb> {
        MariaDb::start_with(&[])
    }

    /// With settings, as in my.cnf.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<MariaDb> {
        let server = program(&["mariadbd", "mysqld"], &[], PACKAGE)?;
        let install = program(&["mariadb-install-db", "mysql_install_db"], &[], PACKAGE)?;
        let more: Vec<String> =
            settings.iter().map(|(name, value)| format!("--{name}={value}")).collect();
        let version_of = server.clone();
        let command = move |port: u16, folder: &Path| {
            let mut command = Command::new(&server);
            command.arg("--no-defaults").arg(at("--datadir", &folder.join("data")));
            command.arg(format!("--port={port}")).arg("--bind-address=127.0.0.1");
            command.arg(at("--socket", &folder.join("socket")));
            command.arg(at("--pid-file", &folder.join("pid")));
            command.arg(at("--init-file", &folder.join("init.sql")));
            // Of its own: a server that starts deletes what it takes for leftovers of another.
            command.arg(at("--tmpdir", folder));
            command.arg("--skip-name-resolve").args(user()).args(&more);
            command
        };
        let plan = Plan {
            name: "mariadbd",
            command: Box::new(command),
            // The greeting of version 10 of the protocol, after four bytes of header.
            ready: |port| Ok(ask(port, b"", 5)?.get(4) == Some(&10)),
            leave: Signal::KILL,
            stale: None,
        };
        let url = |port| format!("mysql://landfall:landfall@127.0.0.1:{port}/landfall");
        let fill = |folder: &Path| {
            doing("write init.sql", std::fs::write(folder.join("init.sql"), INIT))?;
            let data = folder.join("data");
            templates::copy(&version_of, &data, |fresh| make(&install, fresh))
        };
        Server::start(plan, url, fill).map(MariaDb)
    }
}

impl Deref for MariaDb {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

fn at(option: &str, path: &Path) -> String {
    format!("{option}={}", path.display())
}

/// It runs as root only if it is told to.
fn user() -> Option<&'static str> {
    rustix::process::getuid().is_root().then_some("--user=root")
}

fn make(install: &Path, fresh: &Path) -> Result<()> {
    let mut command = Command::new(install);
    command.arg("--no-defaults").arg(at("--datadir", &fresh.join("data"))).args(user());
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    run("mariadb-install-db", &mut command)
}
