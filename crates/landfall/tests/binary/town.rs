//! A relay between two account services, funding (freezes) and trading (direct), as processes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::{Value, json};

use crate::world::{Process, free_port, get, landfall, request, wait_for};

pub const USER: u64 = 4001;
/// What the user holds at each service, in smallest units of an asset with 8 decimals.
pub const HELD: u64 = 1_000_000_000;

/// A built-in account service.
pub struct Service {
    pub url: String,
    _process: Process,
}

impl Service {
    fn start(folder: &Path, name: &str, kind: &str) -> Service {
        let mut command = landfall(folder);
        command.args(["ledger", "--name", name, "--kind", kind, "--data", "accounts"]);
        command.args(["--listen", "127.0.0.1:0"]);
        let mut process = Process::start(command.stdout(Stdio::piped()));
        let line = process.lines().next().expect("it announces itself");
        let url = line.rsplit(' ').next().expect("its address").to_owned();
        Service { url, _process: process }
    }

    pub fn post(&self, path: &str, body: Value) {
        let answer = request("POST", &format!("{}{path}", self.url), &[], &body.to_string());
        assert_eq!(answer, Some((200, json!({ "success": true }))), "{path} {body}");
    }

    /// What the user holds: available and frozen.
    pub fn held(&self) -> (u64, u64) {
        let accounts = get(&format!("{}/accounts/{USER}", self.url)).expect("the accounts");
        let of = |name: &str| accounts["accounts"][0][name].as_u64().expect("a number");
        (of("available"), of("frozen"))
    }

    pub fn block(&self, blocked: bool) {
        self.post(&format!("/accounts/{USER}/1/block"), json!({ "blocked": blocked }));
    }
}

pub struct Town {
    pub funding: Service,
    pub trading: Service,
    pub url: String,
    variables: Vec<(&'static str, String)>,
    pub folder: tempfile::TempDir,
}

impl Town {
    /// Services that are asked, and a user with funds at both.
    pub fn new() -> Town {
        let folder = tempfile::tempdir().expect("a folder");
        let funding = Service::start(folder.path(), "funding", "freeze");
        let trading = Service::start(folder.path(), "trading", "direct");
        for service in [&funding, &trading] {
            let body = json!({"ref": "opening", "user_id": USER, "asset_id": 1, "amount": HELD});
            service.post("/fund", body);
        }
        let (first, second) = (funding.url.clone(), trading.url.clone());
        let mut town = Town { funding, trading, url: String::new(), variables: vec![], folder };
        town.configure((&first, json!("forever")), (&second, json!("forever")));
        town
    }

    /// Names the services anew: address and dedupe window of each.
    pub fn configure(&mut self, funding: (&str, Value), trading: (&str, Value)) {
        let services = json!([
            {"name": "funding", "url": funding.0, "freezes": true, "dedupe_window_s": funding.1},
            {"name": "trading", "url": trading.0, "freezes": false, "dedupe_window_s": trading.1},
        ]);
        let assets = json!([{"id": 1, "symbol": "BTC", "decimals": 8}]);
        let port = free_port();
        self.url = format!("http://127.0.0.1:{port}");
        self.variables = vec![
            ("LANDFALL_INTERNAL__SERVICES", services.to_string()),
            ("LANDFALL_INTERNAL__ASSETS", assets.to_string()),
            ("LANDFALL_API__LISTEN", format!("127.0.0.1:{port}")),
            ("LANDFALL_API__AUTH", "off".into()),
            ("LANDFALL_ENGINE__RETRY_MS", "50".into()),
            ("LANDFALL_ENGINE__RETRY_MAX_MS", "500".into()),
            ("LANDFALL_ENGINE__SWEEP_MS", "100".into()),
            ("LANDFALL_LOG__LEVEL", "error".into()),
        ];
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = landfall(self.folder.path());
        command.args(arguments).envs(self.variables.iter().cloned());
        command
    }

    pub fn serve(&self) -> Process {
        let process = Process::start(&mut self.command(&["serve"]));
        wait_for("the relay", || get(&format!("{}/ready", self.url)));
        process
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// Asks for BTC to be moved; the status, the message and the request's id.
    pub fn moves(&self, from: &str, to: &str, amount: &str) -> (String, String, String) {
        let body = json!({"from": from, "to": to, "user_id": USER, "asset": "BTC",
            "amount": amount});
        let url = format!("{}/api/v1/transfer", self.url);
        let answer = request("POST", &url, &[], &body.to_string());
        let Some((200 | 202, answer)) = answer else { panic!("{answer:?}") };
        let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
        (text("status"), text("message"), text("req_id"))
    }

    /// The transfer as the API shows it, once it is in that state.
    pub fn until(&self, req_id: &str, state: &str) -> Value {
        let url = format!("{}/api/v1/transfer/{req_id}?wait=1s", self.url);
        wait_for(state, || get(&url).filter(|transfer| transfer["state"] == state))
    }

    pub fn audit(&self) -> Value {
        let output = self.run(&["audit", "internal", "--json"]);
        assert!(output.status.success(), "{}", crate::world::text(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

/// Something that gives every request the same answer, for as long as the test runs.
pub fn stub(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that went away wants no answer.
            let _ = answer(stream, status, body);
        }
    });
    url
}

fn answer(mut stream: TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let mut asked = [0; 4096];
    // One packet on loopback: requests here are small.
    let _ = stream.read(&mut asked)?;
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}
