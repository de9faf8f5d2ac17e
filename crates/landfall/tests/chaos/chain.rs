//! A real chain with a counter on it: anvil, which the tests ask past every relay.
//!
//! **Rule:** a call carries its number behind what it calls, where the contract does not look: so
//! the blocks tell how often each was made, and the counter how often it counted.

use std::collections::BTreeMap;

use landfall_servers::{Anvil, AnvilOptions, contracts};
use serde_json::{Value, json};

use crate::processes::http;

/// The first of the accounts that anvil gives funds to.
const DEPLOYER: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/// Those of the next four.
const SIGNERS: [&str; 4] = [
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
];
/// `increment()` and `count()`.
const INCREMENT: &str = "0xd09de08a";
const COUNT: &str = "0x06661abd";
/// Short, so that many fit between two kills.
const BLOCK_MS: u64 = 250;

pub struct Chain {
    anvil: Anvil,
    pub counter: String,
}

/// One question to a node. An error is not an answer.
async fn ask(url: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = http().post(url).json(&body).send().await.expect("anvil answers");
    let answer: Value = answer.json().await.expect("JSON");
    assert!(answer.get("error").is_none(), "{method}: {answer}");
    answer["result"].clone()
}

impl Chain {
    pub async fn start() -> Chain {
        let options = AnvilOptions { block_ms: Some(BLOCK_MS), ..AnvilOptions::default() };
        let started = tokio::task::spawn_blocking(move || (Anvil::start(options), contracts()));
        let (anvil, code) = started.await.expect("no panic");
        let (anvil, code) = (anvil.expect("anvil starts"), code.expect("contracts compile"));
        // It trusts no forwarder.
        let code = format!("{}{:064}", code["counter"].as_str().expect("code"), 0);
        let created = json!([{"from": DEPLOYER, "data": code, "gas": "0x4c4b40"}]);
        let hash = ask(anvil.url(), "eth_sendTransaction", created).await;
        ask(anvil.url(), "evm_mine", json!([])).await;
        let receipt = ask(anvil.url(), "eth_getTransactionReceipt", json!([hash])).await;
        let counter = receipt["contractAddress"].as_str().expect("it is there").to_owned();
        Chain { anvil, counter }
    }

    pub fn url(&self) -> &str {
        self.anvil.url()
    }

    /// What a relay must be told of it, whose nodes are these.
    pub fn variables(urls: &str) -> Vec<(String, String)> {
        let variables = [
            ("LANDFALL_EVM__RPC_URLS", urls.to_owned()),
            ("LANDFALL_EVM__SIGNERS", json!(SIGNERS).to_string()),
            ("LANDFALL_EVM__PULSE_MS", "100".to_owned()),
            ("LANDFALL_EVM__RPC_TIMEOUT_MS", "1000".to_owned()),
            ("LANDFALL_EVM__BREAKER_OPEN_MS", "500".to_owned()),
        ];
        variables.map(|(name, text)| (name.to_owned(), text)).to_vec()
    }

    /// The body of the call of this number.
    pub fn call(&self, number: usize) -> Value {
        json!({"to": self.counter, "data": format!("{INCREMENT}{number:064x}")})
    }

    /// What the contract has counted.
    pub async fn count(&self) -> usize {
        let asked = json!([{"to": self.counter, "data": COUNT}, "latest"]);
        let count = ask(self.url(), "eth_call", asked).await;
        number(&count)
    }

    /// How often the call of each number is in a block.
    pub async fn times(&self) -> BTreeMap<usize, usize> {
        let mut times = BTreeMap::new();
        let last = number(&ask(self.url(), "eth_blockNumber", json!([])).await);
        for block in 0..=last {
            let asked = json!([format!("{block:#x}"), true]);
            let block = ask(self.url(), "eth_getBlockByNumber", asked).await;
            let calls = block["transactions"].as_array().expect("a list").iter();
            for call in calls.filter(|call| call["to"] == self.counter) {
                let input = call["input"].as_str().expect("hexadecimal");
                *times.entry(number(&json!(&input[INCREMENT.len()..]))).or_default() += 1;
            }
        }
        times
    }

    /// Every call once, and nothing that nobody asked for.
    pub async fn assert_called_exactly_once(&self, calls: usize) {
        let times = self.times().await;
        let wrong: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
        assert!(wrong.is_empty(), "called more than once: {wrong:?}");
        assert!(times.keys().copied().eq(0..calls), "{} of {calls} were called", times.len());
        assert_eq!(self.count().await, calls);
    }
}

/// Of its hexadecimal digits.
fn number(digits: &Value) -> usize {
    let digits = digits.as_str().expect("hexadecimal").trim_start_matches("0x");
    usize::from_str_radix(digits, 16).expect("a number")
}
