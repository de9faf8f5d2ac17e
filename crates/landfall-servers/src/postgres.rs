//! PostgreSQL.
//!
//! It refuses to run as root: then it runs as the user `postgres`, whom its Debian package makes.

use std::ops::Deref;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::server::{Plan, Result, Server, ServerError, ask, doing};
use crate::templates::{self, run};
use crate::tools::program;

const PACKAGE: &str = "postgresql";
/// Debian keeps the server's programs out of the PATH.
const FOLDERS: [&str; 4] = [
    "/usr/lib/postgresql/15/bin",
    "/usr/lib/postgresql/16/bin",
    "/usr/lib/postgresql/17/bin",
    "/usr/lib/postgresql/14/bin",
];

/// The start of a session of version 3.0 as `postgres`, whom every answer but an error lets in.
const STARTUP: &[u8] =
    b"\x00\x00\x00\x29\x00\x03\x00\x00user\x00postgres\x00database\x00postgres\x00\x00";

/// How PostgreSQL is started.
#[derive(Debug, Clone, Default)]
pub struct PostgresOptions {
    /// Settings, as in postgresql.conf.
    pub settings: Vec<(String, String)>,
    /// Certificate and key as PEM: the server speaks TLS.
    pub tls: Option<(String, String)>,
}

/// A running PostgreSQL; `url()` is `postgres://postgres@127.0.0.1:PORT/postgres`, a superuser's
/// who needs no password.
pub struct Postgres(Server);

/// Whom the server runs as, if not as us.
#[derive(Clone, Copy)]
struct Account {
    uid: u32,
    gid: u32,
}

impl Postgres {
    pub fn start() -> Result<Postgres> {
        Postgres::start_with(PostgresOptions::default())
    }

    pub fn start_with(options: PostgresOptions) -> Result<Postgres> {
        let initdb = program(&["initdb"], &FOLDERS.map(PathBuf::from), PACKAGE)?;
        let account = account()?;
        let tls = options.tls.clone();
        Postgres::on(options, |folder| {
            let data = folder.join("data");
            templates::copy(&initdb, &data, |fresh| make(&initdb, account, fresh))?;
            if let Some((certificate, key)) = &tls {
                doing("write server.crt", std::fs::write(data.join("server.crt"), certificate))?;
                write_private(&data.join("server.key"), key)?;
            }
            give(folder, account)
        })
    }

    /// A replica that follows this one, asynchronously, from a backup taken now.
    pub fn replica(&self) -> Result<Postgres> {
        let backup = program(&["pg_basebackup"], &FOLDERS.map(PathBuf::from), PACKAGE)?;
        let account = account()?;
        Postgres::on(PostgresOptions::default(), |folder| {
            give(folder, account)?;
            let mut command = as_account(&backup, account);
            command.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-D"]);
            command.arg(folder.join("data")).args(["-d", self.url()]).current_dir(folder);
            run("pg_basebackup", &mut command)
        })
    }

    /// Runs on the data that `fill` leaves in the folder.
    fn on(options: PostgresOptions, fill: impl FnOnce(&Path) -> Result<()>) -> Result<Postgres> {
        let server = program(&["postgres"], &FOLDERS.map(PathBuf::from), PACKAGE)?;
        let account = account()?;
        let PostgresOptions { settings, tls } = options;
        let command = move |port: u16, folder: &Path| {
            let mut command = as_account(&server, account);
            command.arg("-D").arg(folder.join("data")).args(["-p", &port.to_string()]);
            command.args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]);
            // In its folder, which is removed, even when it is killed.
            command.args(["-c", "dynamic_shared_memory_type=mmap"]);
            if tls.is_some() {
                command.args(["-c", "ssl=on"]);
            }
            for (name, value) in &settings {
                command.arg("-c").arg(format!("{name}={value}"));
            }
            command
        };
        let plan = Plan {
            name: "postgres",
            command: Box::new(command),
            ready: |port| Ok(ask(port, STARTUP, 1)? == b"R"),
            leave: Signal::QUIT,
            stale: Some("data/postmaster.pid"),
        };
        let url = |port| format!("postgres://postgres@127.0.0.1:{port}/postgres");
        Server::start(plan, url, fill).map(Postgres)
    }
}

impl Deref for Postgres {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

fn as_account(program: &Path, account: Option<Account>) -> Command {
    let mut command = Command::new(program);
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// The one that the Debian package makes, if we are root.
fn account() -> Result<Option<Account>> {
    if !rustix::process::getuid().is_root() {
        return Ok(None);
    }
    let users = doing("read /etc/passwd", std::fs::read_to_string("/etc/passwd"))?;
    let found = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_ours = fields.first() == Some(&"postgres");
        let number = |at: usize| fields.get(at)?.parse().ok();
        is_ours.then(|| Some(Account { uid: number(2)?, gid: number(3)? }))?
    });
    found.map(Some).ok_or_else(|| ServerError::Missing {
        what: "the user postgres (PostgreSQL refuses to run as root)".into(),
        remedy: format!("apt-get install --no-install-recommends {PACKAGE}"),
    })
}

fn make(initdb: &Path, account: Option<Account>, fresh: &Path) -> Result<()> {
    give(fresh, account)?;
    let mut command = as_account(initdb, account);
    command.args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]);
    // The copies are what has to last, and those are synced by the server.
    command.arg("--no-sync").arg("-D").arg(fresh.join("data")).current_dir(fresh);
    run("initdb", &mut command)
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let file = std::fs::File::options().create_new(true).write(true).mode(0o600).open(path);
    doing("write server.key", file.and_then(|mut file| file.write_all(text.as_bytes())))
}

/// Makes a folder and all in it the account's.
fn give(path: &Path, account: Option<Account>) -> Result<()> {
    let Some(Account { uid, gid }) = account else { return Ok(()) };
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        doing("chown", chown(&folder, Some(uid), Some(gid)))?;
        for entry in doing("read a data folder", std::fs::read_dir(&folder))? {
            let entry = doing("read a data folder", entry)?;
            if doing("read a data folder", entry.file_type())?.is_dir() {
                folders.push(entry.path());
            } else {
                doing("chown", chown(entry.path(), Some(uid), Some(gid)))?;
            }
        }
    }
    Ok(())
}
