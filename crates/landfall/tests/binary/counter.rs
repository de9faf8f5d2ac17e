//! A simulated EVM chain with a counter, and how often it was called, past every node and relay.
//!
//! **Rule:** a call carries its number behind what it calls, where the contract does not look: so
//! the chain's own books tell how often each was made.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{Process, Relay, free_port, get, landfall, request, wait_for};

/// `increment()` and `count()`.
const INCREMENT: &str = "0xd09de08a";
const COUNT: &str = "0x06661abd";

/// A simulator in a process of its own, and what it announces.
pub fn simulator(folder: &Path, arguments: &[&str]) -> (Process, Value) {
    let mut command = landfall(folder);
    command.arg("sim").args(arguments).args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
    let mut process = Process::start(&mut command);
    let line = process.lines().next().expect("it announces itself");
    (process, serde_json::from_str(&line).expect("one line of JSON"))
}

pub struct Counter {
    pub said: Value,
    _process: Process,
}

impl Counter {
    pub fn start(folder: &Path, arguments: &[&str]) -> Counter {
        let (_process, said) = simulator(folder, &[&["evm"], arguments].concat());
        Counter { said, _process }
    }

    /// An honest node.
    pub fn url(&self) -> &str {
        self.said["rpc_url"].as_str().expect("a URL")
    }

    /// Everything that took effect.
    pub fn transactions(&self) -> Vec<Value> {
        let all = get(&format!("{}/sim/transactions", self.url())).expect("the chain");
        all.as_array().expect("a list").clone()
    }

    /// How often each call took effect.
    pub fn times(&self) -> BTreeMap<usize, usize> {
        numbered(&self.transactions())
    }

    /// What the contract has counted.
    pub fn count(&self) -> usize {
        let asked = json!([{"to": self.said["counter"], "data": COUNT}, "latest"]);
        let count = self.ask("eth_call", asked);
        let digits = count.as_str().expect("a number").trim_start_matches("0x");
        usize::from_str_radix(digits, 16).expect("a number")
    }

    pub fn ask(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = request("POST", self.url(), &[], &body.to_string());
        answer.expect("an answer").1["result"].clone()
    }

    /// A relay on the nodes of these URLs, with its store in a file.
    pub fn relay(&self, urls: &[&str], folder: &Path) -> Relay {
        let port = free_port();
        let variables = [
            ("LANDFALL_EVM__RPC_URLS", urls.join(",")),
            ("LANDFALL_EVM__PULSE_MS", "100".into()),
            ("LANDFALL_API__LISTEN", format!("127.0.0.1:{port}")),
            ("LANDFALL_API__AUTH", "off".into()),
            ("LANDFALL_ENGINE__SWEEP_MS", "200".into()),
            ("LANDFALL_STORE__URL", "sqlite:store.db".into()),
            ("LANDFALL_LOG__LEVEL", "warn".into()),
        ];
        Relay {
            folder: folder.to_owned(),
            url: format!("http://127.0.0.1:{port}"),
            variables: variables.map(|(name, text)| (name.to_owned(), text)).to_vec(),
        }
    }

    /// Hands in the call of this number until it is taken; gives its id.
    pub fn hand_in(&self, relay: &Relay, number: usize) -> String {
        let data = format!("{INCREMENT}{number:064x}");
        let body = json!({"to": self.said["counter"], "data": data}).to_string();
        let (url, key) = (format!("{}/api/v1/relay/direct", relay.url), number.to_string());
        let taken = wait_for("a call to be taken", || {
            match request("POST", &url, &[("Idempotency-Key", &key)], &body) {
                Some((200 | 202, answer)) => Some(answer),
                Some((503, _)) | None => None,
                Some(other) => panic!("{key}: {other:?}"),
            }
        });
        taken["transactionId"].as_str().expect("an id").to_owned()
    }
}

/// How often each call is among these.
pub fn numbered(transactions: &[Value]) -> BTreeMap<usize, usize> {
    let mut times = BTreeMap::new();
    let inputs = transactions.iter().filter_map(|one| one["input"].as_str());
    for digits in inputs.filter_map(|input| input.strip_prefix(INCREMENT)) {
        *times.entry(usize::from_str_radix(digits, 16).expect("a number")).or_default() += 1;
    }
    times
}

/// Each of these once.
pub fn once(numbers: impl Iterator<Item = usize>) -> BTreeMap<usize, usize> {
    numbers.map(|number| (number, 1)).collect()
}
