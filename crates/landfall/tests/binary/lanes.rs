//! `landfall lanes serve`, the client in TypeScript against it, and the examples on anvil and on
//! the simulated NEAR.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use landfall_servers::{Anvil, AnvilOptions, TypeScript, Workerd, node, npm_package};
use serde_json::{Value, json};

use crate::world::{Process, Simulator, landfall};

const SECRET: &str = "a secret that our own servers share";

/// A server on a store of its own; the process, and the space's address.
fn start(folder: &Path) -> (Process, String) {
    let mut command = landfall(folder);
    command.args(["lanes", "serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    command.env("LANDFALL_LANES_SECRET", SECRET).stdout(Stdio::piped());
    let mut process = Process::start(&mut command);
    let line = process.lines().next().expect("it says where it is");
    let base = line.strip_prefix("lanes at ").expect("its address").to_owned();
    (process, base)
}

#[test]
fn the_typescript_client_passes_its_tests_on_a_server_of_lanes() {
    let folder = tempfile::tempdir().expect("a folder");
    let (process, base) = start(folder.path());
    let built = TypeScript::compiled().expect("compiled");
    let mut tests = Command::new(node().expect("node"));
    tests
        .args(["--test", "--test-force-exit"])
        .arg(built.root.join("clients/typescript/test/execute.test.mjs"));
    tests.env("LANES_URL", &base).env("LANES_SECRET", SECRET);
    let output = tests.env("LANES_CLIENT", &built.client).output().expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_short_secret_is_a_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = landfall(folder.path());
    command.args(["lanes", "serve", "--data", "data"]).env("LANDFALL_LANES_SECRET", "short");
    let output = command.output().expect("it runs");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("at least 32 bytes"), "{said}");
}

/// A folder with the examples and the packages that they import.
fn app(built: &TypeScript) -> tempfile::TempDir {
    let app = tempfile::tempdir().expect("a folder");
    let examples = built.root.join("clients/typescript/examples");
    for example in std::fs::read_dir(examples).expect("examples").flatten() {
        std::fs::copy(example.path(), app.path().join(example.file_name())).expect("copied");
    }
    let packages = app.path().join("node_modules");
    let ours = packages.join("landfall-lanes");
    std::fs::create_dir_all(&ours).expect("a folder");
    let manifest = built.root.join("clients/typescript/package.json");
    std::fs::copy(manifest, ours.join("package.json")).expect("copied");
    symlink(&built.client, ours.join("dist")).expect("linked");
    for name in ["express", "ethers", "near-api-js"] {
        let at = npm_package(name).expect("installed");
        symlink(at, packages.join(name)).expect("linked");
    }
    app
}

/// Starts one of the examples; the process, and where it listens.
fn example(command: &mut Command) -> (Process, String) {
    let mut process = Process::start(command.stdout(Stdio::piped()));
    let line = process.lines().next().expect("it says where it is");
    (process, line.split_once(" at ").expect("its address").1.to_owned())
}

/// What clients of an example see, and what the chain has then.
fn check_payouts(built: &TypeScript, payouts: &str, chain: &Anvil) {
    let mut tests = Command::new(node().expect("node"));
    tests.args(["--test", "--test-force-exit"]);
    tests.arg(built.root.join("clients/typescript/test/payouts.test.mjs"));
    let output = tests.env("PAYOUTS_URL", payouts).env("EVM_RPC", chain.url()).output();
    let output = output.expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A chain that is final after two blocks, and the first of its accounts.
fn chain() -> Anvil {
    let options = AnvilOptions { block_ms: Some(250), ..AnvilOptions::default() };
    Anvil::start(options).expect("anvil")
}

const PRIVATE_KEY: &str = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

#[test]
fn two_express_servers_with_one_key_make_each_payout_once() {
    let (folder, chain) = (tempfile::tempdir().expect("a folder"), chain());
    let (_lanes, base) = start(folder.path());
    let built = TypeScript::compiled().expect("compiled");
    let app = app(&built);
    let server = || {
        let mut command = Command::new(node().expect("node"));
        command.arg("express.mjs").current_dir(app.path()).env("PORT", "0");
        command.env("EVM_RPC", chain.url()).env("PRIVATE_KEY", PRIVATE_KEY);
        example(command.env("LANES_URL", &base).env("LANES_SECRET", SECRET))
    };
    let ((_one, first), (_two, second)) = (server(), server());
    std::thread::scope(|both| {
        for payouts in [&first, &second] {
            both.spawn(|| check_payouts(&built, payouts, &chain));
        }
    });
}

#[test]
fn a_worker_makes_each_payout_once() {
    let chain = chain();
    let variables =
        json!({ "EVM_RPC": chain.url(), "PRIVATE_KEY": PRIVATE_KEY, "LANES_SECRET": SECRET });
    let worker = Workerd::payouts(&variables).expect("a Worker");
    check_payouts(&TypeScript::compiled().expect("compiled"), worker.url(), &chain);
}

#[test]
fn two_servers_with_one_key_create_and_relay_on_near_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let near = Simulator::start(folder.path(), &["--block-ms", "100"]);
    let (_lanes, base) = start(folder.path());
    let built = TypeScript::compiled().expect("compiled");
    let app = app(&built);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let (account, secret_key) =
        (text(&near.said["relay_account"]), text(&near.said["access_keys"][0]));
    let server = || {
        let mut command = Command::new(node().expect("node"));
        command.arg("accounts.mjs").current_dir(app.path()).env("PORT", "0");
        command.env("NEAR_RPC", near.url()).env("ACCOUNT", &account);
        command.env("SECRET_KEY", &secret_key).env("LANES_URL", &base);
        example(command.env("LANES_SECRET", SECRET))
    };
    let ((_one, first), (_two, second)) = (server(), server());
    let mut tests = Command::new(node().expect("node"));
    tests.args(["--test", "--test-force-exit"]);
    tests.arg(built.root.join("clients/typescript/test/accounts.test.mjs"));
    tests.env("ACCOUNTS_URL", first).env("OTHER_URL", second).env("APP", app.path());
    let output = tests.env("NEAR_RPC", near.url()).env("PARENT", &account).output();
    let output = output.expect("node runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
