//! Opening: what the server is set to, what is found in the database, and who else is there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use landfall_conformance::{ManualClock, World};
use landfall_core::store::LaneStore;
use landfall_servers::MariaDb;
use landfall_store_mysql::{MysqlOptions, MysqlStore, OpenError};

use crate::server::{new_database, run, shared};

async fn open(url: &str) -> Result<MysqlStore, OpenError> {
    MysqlStore::open(url, MysqlOptions::default()).await
}

async fn refusal(url: &str) -> String {
    match open(url).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

fn world(store: MysqlStore) -> World {
    World { store: Arc::new(store), time: Arc::new(ManualClock::new()) }
}

#[tokio::test]
async fn a_reopened_store_is_the_same_and_gives_new_ids() {
    let url = new_database(shared()).await;
    let before = world(open(&url).await.expect("a new store"));
    let identity = before.store.identity().await;
    let first = before.accept(before.fresh("first")).await;
    drop(before);
    let after = world(open(&url).await.expect("reopened"));
    assert_eq!(after.store.identity().await.expect("identity").id, identity.expect("identity").id);
    assert_eq!(after.get(first.id).await, first);
    let second = after.accept(after.fresh("second")).await;
    assert!(second.id > first.id);
    assert_eq!(after.store.counts().await, Ok(vec![(first.state, 2)]));
}

#[tokio::test]
async fn an_empty_database_is_another_store() {
    let one = open(&new_database(shared()).await).await.expect("a new store");
    let two = open(&new_database(shared()).await).await.expect("a new store");
    let id = async |store: &MysqlStore| store.identity().await.expect("identity").id;
    assert_ne!(id(&one).await, id(&two).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_that_open_a_new_database_at_once_all_open_the_same_store() {
    let url = new_database(shared()).await;
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move {
                let store = open(&url).await.expect("a store");
                store.identity().await.expect("identity").id
            })
        })
        .collect();
    let mut ids = Vec::new();
    for task in opening {
        ids.push(task.await.expect("no panic"));
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn a_migration_that_was_cut_off_is_done_again() {
    let url = new_database(shared()).await;
    MysqlStore::migrate(&url, MysqlOptions::default()).await.expect("migrated");
    run(&url, "DELETE FROM landfall_meta WHERE name = 'version'").await;
    run(&url, "DROP TABLE landfall_claims").await;
    let store = world(open(&url).await.expect("a store"));
    store.accept(store.fresh("k")).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_an_older_one_where_migrating_is_not_allowed() {
    let url = new_database(shared()).await;
    let not_allowed = MysqlOptions { migrate: false, ..MysqlOptions::default() };
    let refused = MysqlStore::open(&url, not_allowed.clone()).await.err().expect("refused");
    assert!(refused.to_string().contains("run `landfall migrate`"), "{refused}");
    MysqlStore::migrate(&url, MysqlOptions::default()).await.expect("migrated");
    MysqlStore::open(&url, not_allowed).await.expect("a store");
    run(&url, "UPDATE landfall_meta SET value = '99' WHERE name = 'version'").await;
    assert!(refusal(&url).await.contains("newer Landfall (schema 99"));
}

#[tokio::test]
async fn what_is_wrong_with_the_address_is_told_without_the_password() {
    let url = shared().url();
    let port = shared().port();
    let wrong = [
        ("mysql://landfall:s3cret@127.0.0.1/", "names no database"),
        ("redis://landfall:s3cret@127.0.0.1/landfall", "scheme is redis"),
        ("mysql://landfall:s3cret@127.0.0.1:1/landfall", "cannot be reached"),
        (&format!("mysql://landfall:s3cret@127.0.0.1:{port}/landfall"), "check user, password"),
        (&url.replace(&format!("{port}/landfall"), &format!("{port}/nowhere")), "CREATE DATABASE"),
    ];
    for (url, expected) in wrong {
        let why = refusal(url).await;
        assert!(why.contains(expected), "{why}");
        assert!(!why.contains("s3cret"), "{why}");
    }
}

#[tokio::test]
async fn a_table_that_another_engine_keeps_is_refused() {
    let url = new_database(shared()).await;
    open(&url).await.expect("a store");
    run(&url, "ALTER TABLE landfall_fates ENGINE = Aria").await;
    assert!(refusal(&url).await.contains("ALTER TABLE landfall_fates ENGINE = InnoDB"));
}

/// MariaDB as it is shipped passes: every other test here runs on one.
#[tokio::test]
async fn a_server_that_may_forget_is_refused_unless_that_is_accepted_by_name() {
    let cases = [
        (&[("innodb-flush-log-at-trx-commit", "2")][..], "innodb_flush_log_at_trx_commit"),
        (&[("innodb-doublewrite", "0")][..], "innodb_doublewrite"),
        (&[("log-bin", "binlog"), ("sync-binlog", "0")][..], "sync_binlog"),
    ];
    for (settings, name) in cases {
        let server = MariaDb::start_with(settings).expect("a server");
        let why = refusal(server.url()).await;
        assert!(why.contains(name) && why.contains("set it to"), "{why}");
        let accept_durability = vec![name.to_owned()];
        let options = MysqlOptions { accept_durability, ..MysqlOptions::default() };
        MysqlStore::open(server.url(), options).await.expect("accepted");
    }
}

#[tokio::test]
async fn a_server_with_a_safe_binary_log_is_as_good_and_a_read_only_one_is_not() {
    let settings = [("log-bin", "binlog"), ("sync-binlog", "1"), ("server-id", "7")];
    let server = MariaDb::start_with(&settings).expect("a server");
    let store = world(open(server.url()).await.expect("a store"));
    let held = store.started("lane").await;
    let members = store.accept_ready(&["a"]).await;
    store.open(&held, 0, &members).await;
    run(server.url(), "SET GLOBAL read_only = 1").await;
    assert!(refusal(server.url()).await.contains("connect to the primary"));
}

#[tokio::test]
async fn keys_that_differ_by_a_space_or_an_accent_are_two() {
    let store = world(open(&new_database(shared()).await).await.expect("a store"));
    let mut ids = Vec::new();
    for key in ["resume", "resume ", "résumé", "Resume", "re\u{301}sume\u{301}", "' OR 1=1 --"] {
        ids.push(store.accept(store.fresh(key)).await.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

/// An authority, and a server's certificate and key that it vouches for, as files.
fn certificates(folder: &Path) -> [PathBuf; 3] {
    let mut authority = rcgen::CertificateParams::new([]).expect("parameters");
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().expect("a key");
    let root = authority.self_signed(&authority_key).expect("a root");
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().expect("a key");
    let server = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).expect("parameters");
    let server = server.signed_by(&key, &issuer).expect("a certificate");
    let contents = [root.pem(), server.pem(), key.serialize_pem()];
    let paths = ["ca.pem", "server.pem", "key.pem"].map(|name| folder.join(name));
    for (path, text) in paths.iter().zip(contents) {
        std::fs::write(path, text).expect("written");
    }
    paths
}

#[tokio::test]
async fn a_connection_is_encrypted_and_a_server_nobody_vouches_for_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let [authority, certificate, key] = certificates(folder.path());
    let text = |path: &Path| path.to_str().expect("a path").to_owned();
    let (certificate, key) = (text(&certificate), text(&key));
    let settings = [
        ("ssl-cert", certificate.as_str()),
        ("ssl-key", key.as_str()),
        ("require-secure-transport", "ON"),
    ];
    let server = MariaDb::start_with(&settings).expect("a server");
    let with = async |tls, tls_ca: Option<&Path>| {
        let tls_ca = tls_ca.map(Path::to_path_buf);
        let options = MysqlOptions { tls, tls_ca, ..MysqlOptions::default() };
        MysqlStore::open(server.url(), options).await
    };
    let store = world(with(true, Some(&authority)).await.expect("a store"));
    store.accept(store.fresh("k")).await;
    assert!(with(false, None).await.is_err(), "it went without encryption");
    let stranger = with(true, None).await.err().expect("refused").to_string();
    assert!(stranger.contains("cannot be reached"), "{stranger}");
    let missing = with(true, Some(&folder.path().join("none.pem"))).await.err().expect("refused");
    assert!(missing.to_string().contains("none.pem"), "{missing}");
}
