//! The simulated EVM chain as a process: what it announces, how it leaves, what survives it.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::world::{Process, landfall, request};

fn start(folder: &Path) -> (Process, Value) {
    let mut command = landfall(folder);
    command.args(["sim", "evm", "--listen", "127.0.0.1:0", "--nodes", "2", "--signers", "3"]);
    command.args(["--block-ms", "20", "--state", "chain"]).stdout(Stdio::piped());
    let mut process = Process::start(&mut command);
    let line = process.lines().next().expect("it announces itself");
    (process, serde_json::from_str(&line).expect("one line of JSON"))
}

fn ask(said: &Value, node: usize, method: &str, params: Value) -> Value {
    let url = format!("{}/", said["rpc_urls"][node].as_str().expect("a node"));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let (_, answer) = request("POST", &url, &[], &body.to_string()).expect("an answer");
    answer["result"].clone()
}

#[test]
fn a_simulated_chain_announces_itself_and_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let (process, said) = start(folder.path());
    assert_eq!(said["signers"].as_array().map(Vec::len), Some(3));
    let chain_id = said["chain_id"].as_u64().expect("a number");
    for node in 0..2 {
        let answered = ask(&said, node, "eth_chainId", json!([]));
        assert_eq!(answered, json!(format!("{chain_id:#x}")));
    }
    for contract in ["forwarder", "counter"] {
        let code = ask(&said, 0, "eth_getCode", json!([said[contract], "latest"]));
        assert_ne!(code, "0x", "{contract}");
    }
    let block = |said: &Value| ask(said, 0, "eth_getBlockByNumber", json!(["0x1", false]));
    let first = loop {
        let first = block(&said);
        if !first.is_null() {
            break first;
        }
    };
    process.kill_9();
    let (process, again) = start(folder.path());
    assert_eq!((&again["signers"], block(&again)), (&said["signers"], first));
    assert_eq!(process.terminate(), Some(0));
}
