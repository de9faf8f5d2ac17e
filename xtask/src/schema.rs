//! Whether /openapi.json is true: schemathesis makes requests from it, good ones and bad ones, and
//! looks at the answers.
//!
//! No 5xx but the documented 503, no status, header or body that is not described, what the
//! description allows is accepted, what it does not is refused. Once with API keys and once
//! without, on the binary that the tests were built with, both rails on. And whether the page that
//! draws it, /docs, can be used: jsdom runs its script. What is asked is in
//! crates/landfall-api/check.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use hyper::Method;
use serde_json::{Value, json};

use crate::http::Connection;
use crate::install;
use crate::process::Running;

/// Where its configuration, hooks and requirements are.
const FOLDER: &str = "crates/landfall-api/check";
/// The last that runs on Debian 12's Node.
const JSDOM: &str = "jsdom@26.1.0";
/// The key of the server that wants one; it guards nothing but a trial.
const KEY: &str = "schemathesis-is-let-in";
/// Whose funds are moved; the hooks name the same.
const USER: u64 = 4001;
/// What the user holds at each service, in smallest units.
const HELD: u64 = 1_000_000_000_000_000_000;
/// How long a server may take to be ready.
const READY: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(50);

/// What cannot be checked is as bad as what is wrong.
pub fn run(root: &Path, landfall: &Path) -> bool {
    checked(root, landfall).unwrap_or_else(|error| {
        println!("{error:#}");
        false
    })
}

fn checked(root: &Path, landfall: &Path) -> Result<bool> {
    let tools = install::python(root, "schema", &root.join(FOLDER).join("requirements.txt"))?;
    let jsdom = install::npm(root, "jsdom", JSDOM)?;
    let mut good = true;
    for key in [None, Some(KEY)] {
        let world = World::start(landfall, key)?;
        if let Some(key) = key {
            let mut page = Command::new("node");
            page.arg(root.join(FOLDER).join("docs.mjs")).arg(&jsdom).args([&world.url, key]);
            good &= install::run(&mut page)?;
        }
        good &= world.check(root, &tools, key)?;
        good &= world.leave()?;
    }
    Ok(good)
}

/// A relay with both rails on, and what it talks to.
struct World {
    url: String,
    relay: Running,
    _others: Vec<Running>,
    folder: tempfile::TempDir,
}

impl World {
    fn start(landfall: &Path, key: Option<&str>) -> Result<World> {
        let folder = tempfile::tempdir()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut near = Command::new(landfall);
        near.args(["sim", "near", "--listen", "127.0.0.1:0", "--block-ms", "50"]);
        let mut near = Running::start("simulator", &mut near)?;
        let ledger: Value = serde_json::from_str(&near.line()?).context("its announcement")?;
        let mut others = vec![near];
        let mut services = Vec::new();
        for (name, kind) in [("funding", "freeze"), ("trading", "direct")] {
            let mut command = Command::new(landfall);
            command.args(["ledger", "--name", name, "--kind", kind, "--listen", "127.0.0.1:0"]);
            command.arg("--data").arg(folder.path().join("accounts"));
            let mut service = Running::start(name, &mut command)?;
            let line = service.line()?;
            let url = line.split_whitespace().last().context("its address")?.to_owned();
            runtime.block_on(fund(&url))?;
            services.push(json!({"name": name, "url": url, "freezes": kind == "freeze",
                "dedupe_window_s": "forever"}));
            others.push(service);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut serve = Command::new(landfall);
        serve.arg("serve").current_dir(folder.path());
        serve.envs(settings(&ledger, &services, port, key));
        let relay = Running::start("relay", &mut serve)?;
        let url = format!("http://127.0.0.1:{port}");
        let mut world = World { url, relay, _others: others, folder };
        runtime.block_on(world.until_ready())?;
        Ok(world)
    }

    async fn until_ready(&mut self) -> Result<()> {
        let mut connection = Connection::new(&self.url, None)?;
        let begun = Instant::now();
        while begun.elapsed() < READY {
            if self.relay.has_ended() {
                bail!("the relay did not start");
            }
            let ready = connection.send(Method::GET, "/ready", &[], Vec::new()).await;
            if matches!(ready, Ok((200, _))) {
                return Ok(());
            }
            tokio::time::sleep(ASK).await;
        }
        bail!("the relay was not ready within {READY:?}")
    }

    fn check(&self, root: &Path, tools: &Path, key: Option<&str>) -> Result<bool> {
        let settings = root.join(FOLDER);
        let mut command = Command::new(tools.join("bin/schemathesis"));
        command.arg("--config-file").arg(settings.join("schemathesis.toml"));
        command.arg("run").arg(format!("{}/openapi.json", self.url));
        if let Some(key) = key {
            command.args(["--header", &format!("X-API-Key: {key}")]);
        }
        command.env("PYTHONPATH", &settings).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("SCHEMATHESIS_HOOKS", "hooks").stdin(Stdio::null());
        // It leaves what it found in the folder that it is run in.
        install::run(command.current_dir(self.folder.path()))
    }

    fn leave(self) -> Result<bool> {
        self.relay.leave()
    }
}

fn settings(
    ledger: &Value,
    services: &[Value],
    port: u16,
    key: Option<&str>,
) -> Vec<(&'static str, String)> {
    let text = |name: &str| ledger[name].as_str().unwrap_or_default().to_owned();
    let assets = json!([{"id": 1, "symbol": "BTC", "decimals": 8}, {"id": 2, "symbol": "JPY",
        "decimals": 0}]);
    let scopes = ["submit", "read", "operate"];
    let keys = key.map(|key| json!([{"key": key, "tenant": "acme", "scopes": scopes}]).to_string());
    vec![
        ("LANDFALL_API__LISTEN", format!("127.0.0.1:{port}")),
        ("LANDFALL_API__AUTH", if key.is_some() { "keys" } else { "off" }.to_owned()),
        ("LANDFALL_API__KEYS", keys.unwrap_or_default()),
        ("LANDFALL_LOG__LEVEL", "error".to_owned()),
        ("LANDFALL_INTERNAL__SERVICES", json!(services).to_string()),
        ("LANDFALL_INTERNAL__ASSETS", assets.to_string()),
        ("NEAR_RPC_URL", text("rpc_url")),
        ("FT_TOKEN_ADDRESS", text("token")),
        ("RELAY_ACCOUNT_ID", text("relay_account")),
        ("RELAY_ACCESS_KEYS", ledger["access_keys"].to_string()),
    ]
}

async fn fund(url: &str) -> Result<()> {
    let mut service = Connection::new(url, None)?;
    for asset in [1, 2] {
        let body = json!({"ref": format!("opening {asset}"), "user_id": USER, "asset_id": asset,
            "amount": HELD});
        let body = body.to_string().into_bytes();
        let (status, answer) = service.send(Method::POST, "/fund", &[], body).await?;
        if status != 200 {
            bail!("{url} was not funded ({status}): {}", String::from_utf8_lossy(&answer));
        }
    }
    Ok(())
}
