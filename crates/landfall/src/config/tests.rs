//! What a configuration may and may not say, and how it answers.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

/// Enough for `serve`.
const WHOLE: &str = r#"
[api]
auth = "off"
[near]
rpc_urls = ["http://one.example:3030", "http://two.example:3030"]
network = "testnet"
token = "token.testnet"
relay_account = "relay.testnet"
access_keys = ["ed25519:aaaa", "ed25519:bbbb"]
"#;

fn sources(file: &str, variables: &[(&str, &str)]) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(DEFAULT_FILE), file).expect("a file");
    let variables =
        variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let sources =
        Sources { folder: Some(folder.path().to_owned()), variables, ..Sources::default() };
    (folder, sources)
}

fn read(file: &str, variables: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let (_folder, sources) = sources(file, variables);
    load(&sources, Need::Serve)
}

/// The mistakes with the folder's name taken out.
fn told(file: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let (folder, sources) = sources(file, variables);
    let prefix = format!("{}/", folder.path().display());
    let mistakes = load(&sources, Need::Serve).expect_err("a mistake");
    mistakes.0.iter().map(|mistake| mistake.to_string().replace(&prefix, "")).collect()
}

fn check(file: &str, variables: &[(&str, &str)], expected: &str) {
    let told = told(file, variables);
    assert!(
        told.len() == 1 && told[0].contains(expected),
        "expected one mistake with {expected:?}, got {told:#?}"
    );
}

#[test]
fn every_default_is_a_value_of_its_own_type_and_range() {
    let config =
        Config::read(&mut Reading { given: Given::new(), mistakes: Vec::new(), need: Need::Serve });
    assert_eq!(config.near.linger_ms, 20);
    let has_both = |setting: &&Setting| setting.range.is_some() && !setting.default.is_empty();
    for setting in SETTINGS.iter().filter(has_both) {
        let number: u64 = setting.default.parse().expect("a number");
        let (least, most) = setting.range.expect("filtered");
        assert!((least..=most).contains(&number), "{}", setting.name());
    }
}

#[test]
fn every_setting_says_why_and_has_a_name_of_its_own() {
    let names: BTreeSet<String> = SETTINGS.iter().map(|setting| setting.variable()).collect();
    assert_eq!(names.len(), SETTINGS.len());
    assert!(SETTINGS.iter().all(|setting| setting.reason_line().len() > 10));
}

#[test]
fn a_whole_file_is_taken() {
    let config = read(WHOLE, &[]).expect("no mistakes");
    assert_eq!(config.near.rpc_urls.len(), 2);
    assert_eq!(config.near.access_keys[1].expose(), "ed25519:bbbb");
    assert_eq!(config.store_url(), StoreUrl::Sqlite(Path::new("landfall-data/landfall.db").into()));
}

#[test]
fn the_older_relays_variables_are_enough() {
    let variables = [
        ("LANDFALL_STORE__URL", "sqlite:x.db"),
        ("LANDFALL_API__AUTH", "off"),
        ("NEAR_RPC_URL", "http://one.example, http://two.example"),
        ("NEAR_NETWORK", "testnet"),
        ("FT_TOKEN_ADDRESS", "token.testnet"),
        ("RELAY_ACCOUNT_ID", "relay.testnet"),
        ("RELAY_ACCESS_KEYS", r#"["ed25519:a", "ed25519:b", "ed25519:c"]"#),
        ("SERVER_PORT", "3100"),
        ("MAX_RETRIES", "4"),
        ("MAX_VERIFICATION_RETRIES", "5"),
    ];
    let config = read("", &variables).expect("no mistakes");
    assert_eq!(config.near.rpc_urls.len(), 2);
    assert_eq!(config.near.access_keys.len(), 3);
    assert_eq!(config.api.listen.to_string(), "0.0.0.0:3100");
    let engine = &config.engine;
    assert_eq!(
        (engine.registration_retries, engine.transfer_retries, engine.verification_retries),
        (4, 4, 5)
    );
}

#[test]
fn a_flag_beats_our_variable_beats_the_older_one_beats_the_file() {
    let with = |variables: &[(&str, &str)], flag: Option<&str>| {
        let file = format!("{WHOLE}[instance]\nname = \"n\"\n")
            .replace("auth = \"off\"", "auth = \"off\"\nlisten = \"127.0.0.1:1\"");
        let (_folder, sources) = sources(&file, variables);
        let sources = sources.with_flag("api.listen", "--listen", flag.map(str::to_owned));
        load(&sources, Need::Serve).expect("no mistakes").api.listen.port()
    };
    let older = ("SERVER_PORT", "2");
    let ours = ("LANDFALL_API__LISTEN", "127.0.0.1:3");
    assert_eq!(with(&[], None), 1);
    assert_eq!(with(&[older], None), 2);
    assert_eq!(with(&[older, ours], None), 3);
    assert_eq!(with(&[older, ours], Some("127.0.0.1:4")), 4);
}

/// Below that the wait for a lane, at least as long as the pause after a failed question, would be
/// longer than a renewal.
#[test]
fn leases_are_not_renewed_more_often_than_failed_questions_are_repeated() {
    let retry_ms = landfall_lanes::LaneSettings::default().retry_ms;
    let told = told("[engine]\nrenew_ms = 499\n", &[]);
    let expect = format!("engine.renew_ms is 499, out of range; give a number from {retry_ms} to");
    assert!(told.iter().any(|mistake| mistake.contains(&expect)), "{told:?}");
}

#[test]
fn a_rail_retries_at_its_own_pace_or_at_the_engines() {
    let own = "[engine]\nretry_ms = 700\n[internal]\nretry_max_ms = 900000\n";
    let config = read(&format!("{WHOLE}{own}"), &[]).expect("no mistakes");
    assert_eq!(config.retries_of(&config.internal.retries), (700, 900_000));
    assert_eq!(config.retries_of(&config.near.retries), (700, 60_000));
    let slow = [("LANDFALL_EVM__RETRY_MS", "60001")];
    check(WHOLE, &slow, "evm.retry_max_ms is 60000, less than the first pause of 60001");
    let never = [("LANDFALL_NEAR__RETRY_MS", "1")];
    check(WHOLE, &never, "near.retry_ms is 1, out of range; give a number from 10 to 600000");
}

#[test]
fn all_mistakes_are_told_at_once_with_their_lines() {
    let file = "[api]\nauth = \"perhaps\"\n[near]\nbatch_max = 1000\n[stroe]\nurl = \"x\"\n";
    let told = told(file, &[("NEAR_RPC_URL", "not a url"), ("LANDFALL_NEAR__LINGR_MS", "5")]);
    let expect = [
        "landfall.toml:2: api.auth is \"perhaps\"; give \"keys\" or \"off\"",
        "landfall.toml:4: near.batch_max is 1000, out of range; give a number from 1 to 100",
        "landfall.toml:5: [stroe] is no section; did you mean [store]?",
        "variable NEAR_RPC_URL: near.rpc_urls item 1 is not a URL",
        "variable LANDFALL_NEAR__LINGR_MS: is no setting; did you mean LANDFALL_NEAR__LINGER_MS?",
        "near.token is missing",
        "near.relay_account is missing",
        "near.access_keys is missing",
    ];
    for line in expect {
        assert!(told.iter().any(|told| told.contains(line)), "{line:?} is not in {told:#?}");
    }
    assert_eq!(told.len(), expect.len(), "{told:#?}");
}

#[test]
fn the_store_and_the_queue_are_named_by_their_urls() {
    let with = |variables: &[(&str, &str)]| read(WHOLE, variables).expect("no mistake");
    let redis = || Secret::new("redis://user:hush@host/1");
    let only_redis = with(&[("REDIS_URL", "redis://user:hush@host/1")]);
    assert_eq!(only_redis.store_url(), StoreUrl::Redis(redis()));
    assert_eq!(only_redis.queue_url(), QueueUrl::Redis(redis()));
    assert_eq!(only_redis.cache_url(), None, "Redis is not kept at hand in itself");
    let both = [("REDIS_URL", "redis://user:hush@host/1"), ("DATABASE_URL", "postgres://host/db")];
    let both = with(&both);
    assert_eq!(both.store_url(), StoreUrl::Postgres(Secret::new("postgres://host/db")));
    assert_eq!(both.queue_url(), QueueUrl::Redis(redis()));
    assert_eq!(both.cache_url(), Some(&redis()));
    assert!(!format!("{both:?}").contains("hush"));
    let database = with(&[("DATABASE_URL", "mariadb://host/db")]);
    assert_eq!(database.store_url(), StoreUrl::Mysql(Secret::new("mysql://host/db")));
    assert_eq!(database.queue_url(), QueueUrl::Store);
    let sqs = with(&[("DATABASE_URL", "mysql://host/db"), ("LANDFALL_QUEUE__URL", "sqs:")]);
    assert_eq!(sqs.queue_url(), QueueUrl::Sqs("relay-transactions".into()));
    let ours = [("REDIS_URL", "redis://localhost:6379"), ("LANDFALL_STORE__URL", "memory:")];
    assert_eq!(with(&ours).store_url(), StoreUrl::Memory);
    assert_eq!(with(&[]).queue_url(), QueueUrl::Ring);
    assert_eq!(with(&[]).cache_url(), None);
    let told = told(WHOLE, &[("LANDFALL_STORE__URL", "oracle://user:hush@host/1")]);
    assert!(told[0].contains("unknown kind") && !told[0].contains("hush"), "{told:?}");
}

const SERVICES: &str = r#"
[api]
auth = "off"
[internal]
services = [
    {name = "funding", url = "http://127.0.0.1:4001", freezes = true, auth = "Bearer hush",
     dedupe_window_s = "forever"},
    {name = "trading", url = "http://127.0.0.1:4002", freezes = false, dedupe_window_s = 86400,
     withdraw_path = "/debit"},
]
assets = [{id = 1, symbol = "BTC", decimals = 8}]
"#;

#[test]
fn services_alone_are_a_rail() {
    let config = read(SERVICES, &[]).expect("no mistake");
    assert!(config.has_internal() && !config.has_near());
    let [funding, trading] = &config.internal.services[..] else { panic!("two services") };
    assert!(funding.freezes && !trading.freezes);
    assert_eq!(trading.paths, [("withdraw", "/debit".to_owned())]);
    assert!(!format!("{config:?}").contains("hush"));
}

#[test]
fn mistakes_in_services_and_assets_are_named() {
    let with = |from: &str, to: &str| SERVICES.replace(from, to);
    check(&with("name = \"trading\", ", ""), &[], "item 2 has no name");
    check(&with("trading", "funding"), &[], "item 2 has the name of another item");
    check(&with("\"http://127.0.0.1:4001\"", "\"here\""), &[], "item 1 url");
    check(&with("freezes = true", "freezes = 1"), &[], "freezes is neither true nor false");
    check(&with("freezes = true", "freeze = true"), &[], "did you mean \"freezes\"?");
    check(&with("freezes = false, ", ""), &[], "does not say whether it freezes");
    check(&with(", dedupe_window_s = 86400", ""), &[], "needs dedupe_window_s");
    check(&with("/debit", "debit"), &[], "withdraw_path must start with /");
    check(&with("decimals = 8", "decimals = 19"), &[], "needs decimals from 0 to 18");
    check(&with("id = 1, ", ""), &[], "item 1 has no id");
    check(&with("assets = [{id = 1, symbol = \"BTC\", decimals = 8}]", ""), &[], "is missing");
}

#[test]
fn single_mistakes_name_their_place_and_remedy() {
    let near = |line: &str| format!("{WHOLE}{line}\n");
    check("[api\n", &[], "landfall.toml:1: this is not TOML");
    check(
        &near("quorum = 3"),
        &[],
        "near.quorum is 3, of 2 in near.rpc_urls; give a number from 1",
    );
    check(&near("listen = \"x\""), &[], "near.listen is no setting; did you mean api.listen?");
    check(&near("token = 1"), &[], "landfall.toml:10: this is not TOML (duplicate key");
    check(WHOLE, &[("LANDFALL_NEAR__TOKEN", "A B")], "is no NEAR account id");
    check(WHOLE, &[("LANDFALL_API__LISTEN", "here")], "is no address; give host and port");
    check(WHOLE, &[("LANDFALL_ENGINE__RENEW_MS", "9000")], "at most half of engine.lease_ms");
    check(WHOLE, &[("LANDFALL_STORE_URL", "memory:")], "did you mean LANDFALL_STORE__URL?");
    check(WHOLE, &[("LANDFALL_API__AUTH", "keys")], "api.keys is missing");
    check(WHOLE, &[("LANDFALL_LOG__LEVEL", "info,=loud")], "log.level is \"info,=loud\"; give");
    check(WHOLE, &[("LANDFALL_NEAR__ACCESS_KEYS_FILE", "k")], "give one of the two");
    check(WHOLE, &[("LANDFALL_API__KEYS", "[\"short\"]")], "shorter than 16");
}

#[test]
fn an_orchestrators_own_variables_are_left_alone() {
    let variables = [("LANDFALL_SERVICE_HOST", "10.0.0.1"), ("LANDFALL_PORT", "tcp://10.0.0.1:1")];
    assert!(read(WHOLE, &variables).is_ok());
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    assert!(read(WHOLE, &[("LANDFALL_STORE__URL", ""), ("REDIS_URL", " ")]).is_ok());
}

#[test]
fn keys_come_from_a_file_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    std::fs::write(&path, "# ours\ned25519:one\n\ned25519:two\n").expect("a file");
    let file = WHOLE.replace(
        "access_keys = [\"ed25519:aaaa\", \"ed25519:bbbb\"]",
        &format!("access_keys_file = {:?}", path.display().to_string()),
    );
    let config = read(&file, &[]).expect("no mistakes");
    assert_eq!(config.near.access_keys[1].expose(), "ed25519:two");
    std::fs::write(&path, "[\"ed25519:one\"]").expect("a file");
    assert_eq!(read(&file, &[]).expect("no mistakes").near.access_keys.len(), 1);
}

/// Known by their kind, whichever rail they are for.
#[test]
fn a_process_that_only_takes_transfers_reads_nothing_that_signs() {
    let signing = SETTINGS.iter().filter(|setting| setting.signs).map(|setting| setting.name());
    let expected = [
        "near.access_keys",
        "near.access_keys_file",
        "evm.signers",
        "evm.signers_file",
        "evm.keystore",
        "evm.keystore_password_file",
        "solana.keypair_path",
        "solana.keypairs",
    ];
    assert_eq!(signing.collect::<Vec<_>>(), expected);
    let bad = [("RELAY_ACCESS_KEYS", "[no key"), ("LANDFALL_NEAR__ACCESS_KEYS_FILE", "/nowhere")];
    let (_folder, sources) = sources(WHOLE, &bad);
    let config = load(&sources, Need::Take).expect("nobody reads them");
    assert!(config.near.access_keys.is_empty() && config.near.access_keys_file.is_none());
    assert!(load(&sources, Need::Serve).is_err());
    let chains = r#"[{"name":"base","rpc_urls":["http://127.0.0.1:1"],"signers":["0x11"]}]"#;
    let own = [("LANDFALL_EVM__RPC_URLS", "http://127.0.0.1:2"), ("LANDFALL_EVM__CHAINS", chains)];
    let (_folder, sources) = self::sources(WHOLE, &own);
    let config = load(&sources, Need::Take).expect("nobody wants signers");
    assert!(config.evm.chains[0].signers.is_empty(), "also where they are in a list");
}

#[test]
fn chains_are_read_from_a_section_and_a_list_and_each_names_what_it_lacks() {
    let chains = r#"[{"name":"base","rpc_urls":["http://127.0.0.1:1"],"signers":["0x11"],
                      "finality":"3"}, {"name":"main","rpc_urls":["http://127.0.0.1:3"]}]"#;
    let given = [
        ("LANDFALL_EVM__RPC_URLS", "http://127.0.0.1:2"),
        ("LANDFALL_EVM__FORWARDER", "0x5FbDB2315678afecb367f032d93F642f64180aa4"),
        ("LANDFALL_EVM__FINALITY", "0"),
        ("LANDFALL_EVM__CHAINS", chains),
    ];
    let (_folder, sources) = sources(WHOLE, &given);
    let told = load(&sources, Need::Serve).unwrap_err().to_string();
    for part in [
        "evm.forwarder",
        "checksum",
        "evm.finality",
        "evm.signers",
        "main has no signers",
        "has the name of another",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn callers_of_the_api_are_read_with_tenant_and_scopes() {
    let keys = r#"[{"key":"0123456789abcdef","tenant":"acme","scopes":["submit"]},
                   "fedcba9876543210"]"#;
    let variables = [("LANDFALL_API__AUTH", "keys"), ("LANDFALL_API__KEYS", keys)];
    let config = read(WHOLE, &variables).expect("no mistakes");
    assert_eq!(config.api.keys[0].tenant, "acme");
    assert_eq!(config.api.keys[0].scopes, [Scope::Submit]);
    assert_eq!(config.api.keys[1].scopes, [Scope::Submit, Scope::Read]);
}

#[test]
fn no_secret_is_in_the_debug_form_or_in_any_mistake() {
    let file = WHOLE
        .replace("auth = \"off\"", "keys = [{key = \"hush-0123456789abcdef\", tenant = \"acme\"}]")
        .replace("http://one.example:3030", "http://user:hush@one.example/hush")
        .replace("ed25519:aaaa", "ed25519:hush");
    let config = read(&file, &[]).expect("no mistakes");
    assert!(!format!("{config:?} {config:#?}").contains("hush"));

    let bad = [
        ("RELAY_ACCESS_KEYS", "[\"hush\", \"hush\""),
        ("LANDFALL_NEAR__ACCESS_KEYS", "[\"hush\", {\"hush\":1}]"),
        ("LANDFALL_API__KEYS", "[\"hush\"]"),
        ("NEAR_RPC_URL", "ftp://hush"),
    ];
    for (name, text) in bad {
        let told = told(&file, &[(name, text)]).join("\n");
        assert!(!told.contains("hush"), "{told}");
    }
    let told = told("[near]\naccess_keys = [\"ed25519:hush\" \"x\"]\n", &[]).join("\n");
    assert!(!told.contains("hush"), "{told}");
}

#[test]
fn reading_the_store_minds_no_mistake_elsewhere() {
    let (_folder, sources) = sources("[near]\ntoken = \"A B\"\nnope = 1\n", &[]);
    assert!(load(&sources, Need::Store).is_ok());
}

#[test]
fn the_reference_page_is_true() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let written = std::fs::read_to_string(&page).unwrap_or_default();
    assert_eq!(written, reference_markdown(), "run `cargo xtask docs`");
}

/// Whatever the file holds, it is read or its mistakes are named; nothing panics, and no secret
/// of it is told.
#[test]
fn a_damaged_file_is_read_or_its_mistakes_are_named() {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};
    let mut random = StdRng::seed_from_u64(1);
    for _ in 0..1_000 {
        let mut bytes = WHOLE.as_bytes().to_vec();
        for _ in 0..random.random_range(1..=4) {
            let at = random.random_range(0..bytes.len());
            match random.random_range(0..3) {
                0 => bytes[at] = random.random_range(b' '..=b'~'),
                1 => bytes.insert(at, *b"[]=\"\n".get(at % 5).unwrap_or(&b'=')),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let file = String::from_utf8(bytes).expect("only ASCII is put in");
        if let Err(mistakes) = read(&file, &[]) {
            assert!(!mistakes.0.is_empty(), "{file}");
            let told = format!("{mistakes} {mistakes:?}");
            assert!(!told.contains("ed25519:aaaa"), "{told}");
        }
    }
}

/// Mended in one go, not one start at a time.
#[test]
fn every_mistake_within_a_list_is_told_at_once() {
    let text = "[api]\nkeys = [\"short\",\
                {key = \"0123456789abcdef\", scope = [], tenat = \"a\"}]\n\
                [near]\nrpc_urls = [\"here\", \"http://127.0.0.1:1\", 7]\n\
                [internal]\nservices = [{name = \"a\"}, {url = \"there\", freezes = 1}]\n\
                assets = [{}, 5]\n";
    let told = told(text, &[]).join("\n");
    for part in [
        "api.keys item 1: the key is missing or shorter",
        "api.keys item 2 has an unknown field \"scope\"",
        "api.keys item 2 has an unknown field \"tenat\"",
        "near.rpc_urls item 1 must begin with http",
        "near.rpc_urls item 3 is no text",
        "internal.services item 1 has no url",
        "internal.services item 1 does not say whether it freezes",
        "internal.services item 1 needs dedupe_window_s",
        "internal.services item 2 has no name",
        "internal.services item 2 url must begin with http",
        "internal.services item 2 freezes is neither true nor false",
        "internal.assets item 1 has no id",
        "internal.assets item 1 has no symbol",
        "internal.assets item 1 needs decimals",
        "internal.assets item 2 is no table",
    ] {
        assert!(told.contains(part), "{part:?} in {told}");
    }
}
