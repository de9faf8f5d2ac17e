//! Opening: what is found at the address, and what is said of it.

use std::process::Command;

use landfall_core::store::LaneStore;
use landfall_servers::{Postgres, PostgresOptions as ServerOptions};
use landfall_store_postgres::{OpenError, PostgresOptions, PostgresStore};

use crate::{open, world};

fn psql(server: &Postgres, sql: &str) -> String {
    let output =
        Command::new("psql").args([server.url(), "-Atc", sql]).output().expect("psql runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

async fn refusal(url: &str, options: PostgresOptions) -> String {
    match PostgresStore::open(url, options).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

fn with(setting: &str, value: &str) -> Postgres {
    let settings = vec![(setting.to_owned(), value.to_owned())];
    Postgres::start_with(ServerOptions { settings, tls: None }).expect("PostgreSQL starts")
}

#[tokio::test]
async fn a_reopened_store_is_the_same_and_gives_new_ids() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let before = world(open(&server).await);
    let identity = before.store.identity().await.expect("identity");
    let first = before.accept(before.fresh("first")).await;
    drop(before);
    let after = world(open(&server).await);
    assert_eq!(after.store.identity().await.expect("identity").id, identity.id);
    assert_eq!(after.get(first.id).await, first);
    let second = after.accept(after.fresh("second")).await;
    assert!(second.id > first.id);
    assert_eq!(after.store.counts().await, Ok(vec![(first.state, 2)]));
}

#[tokio::test]
async fn a_restarted_server_has_another_incarnation_and_the_same_identity() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let store = open(&server).await;
    let before = store.identity().await.expect("identity");
    drop(store);
    server.restart().expect("it starts again");
    let after = open(&server).await.identity().await.expect("identity");
    assert_eq!(after.id, before.id);
    assert_ne!(after.incarnation, before.incarnation);
}

#[tokio::test]
async fn a_backup_loaded_into_a_running_server_is_another_incarnation() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let store = open(&server).await;
    let before = store.identity().await.expect("identity");
    let dump = std::env::temp_dir().join(format!("landfall-dump-{}", server.port()));
    let run = |name: &str, arguments: &[&str]| {
        let done = Command::new(name).args(arguments).output().expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let file = dump.to_str().expect("a path");
    run("pg_dump", &["-Fc", "-f", file, server.url()]);
    run("pg_restore", &["--clean", "-d", server.url(), file]);
    std::fs::remove_file(&dump).expect("removed");
    let after = store.identity().await.expect("identity");
    assert_eq!(after.id, before.id);
    assert_ne!(after.incarnation, before.incarnation);
}

#[tokio::test]
async fn stores_in_two_schemas_know_nothing_of_each_other() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let one = world(open(&server).await);
    let options = PostgresOptions { schema: "an \"other\"".into(), ..PostgresOptions::default() };
    let other = world(PostgresStore::open(server.url(), options).await.expect("a store"));
    assert_ne!(
        one.store.identity().await.expect("identity").id,
        other.store.identity().await.expect("identity").id
    );
    one.accept(one.fresh("k")).await;
    assert_eq!(other.store.counts().await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn instances_that_start_at_once_make_one_store() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let starts = (0..8).map(|_| {
        let url = server.url().to_owned();
        tokio::spawn(async move {
            let options = PostgresOptions { connections: 2, ..PostgresOptions::default() };
            let store = PostgresStore::open(&url, options).await.expect("a store");
            store.identity().await.expect("identity").id
        })
    });
    let mut identities = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        identities.push(start.await.expect("no panic"));
    }
    identities.dedup();
    assert_eq!(identities.len(), 1);
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_what_to_do() {
    let server = Postgres::start().expect("PostgreSQL starts");
    drop(open(&server).await);
    psql(&server, "UPDATE landfall.meta SET value = '99' WHERE name = 'landfall schema'");
    let message = refusal(server.url(), PostgresOptions::default()).await;
    assert!(message.contains("written by a newer Landfall (schema 99"), "{message}");
    assert!(message.contains("run the newer version, or restore a backup"), "{message}");
}

#[tokio::test]
async fn opening_that_may_not_migrate_asks_for_it_and_then_opens() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let options = PostgresOptions { migrate: false, ..PostgresOptions::default() };
    let message = refusal(server.url(), options.clone()).await;
    assert!(message.contains("run `landfall migrate` first"), "{message}");
    assert_eq!(psql(&server, "SELECT count(*) FROM pg_namespace WHERE nspname = 'landfall'"), "0");
    PostgresStore::migrate(server.url(), options.clone()).await.expect("migrated");
    PostgresStore::open(server.url(), options).await.expect("up to date");
}

#[tokio::test]
async fn another_programs_tables_are_left_alone() {
    let server = Postgres::start().expect("PostgreSQL starts");
    for table in ["theirs (id int)", "meta (id int)"] {
        let sql = format!("CREATE SCHEMA landfall; CREATE TABLE landfall.{table}");
        psql(&server, &sql);
        let message = refusal(server.url(), PostgresOptions::default()).await;
        assert!(message.contains("tables in its schema \"landfall\" that are not"), "{message}");
        assert_eq!(
            psql(&server, "SELECT count(*) FROM pg_tables WHERE schemaname = 'landfall'"),
            "1"
        );
        psql(&server, "DROP SCHEMA landfall CASCADE");
    }
}

#[tokio::test]
async fn a_server_that_may_forget_is_refused_unless_that_is_accepted_by_name() {
    for (setting, value) in
        [("fsync", "off"), ("full_page_writes", "off"), ("synchronous_commit", "local")]
    {
        let server = with(setting, value);
        let message = refusal(server.url(), PostgresOptions::default()).await;
        assert!(message.contains(&format!("its {setting} is {value}")), "{message}");
        assert!(message.contains(&format!("set {setting} = on in postgresql.conf")), "{message}");
        let accept_durability = vec![setting.to_owned()];
        let options = PostgresOptions { accept_durability, ..PostgresOptions::default() };
        PostgresStore::open(server.url(), options).await.expect("accepted");
    }
}

/// Set for the role alone, where nobody looks.
#[tokio::test]
async fn a_role_that_may_forget_is_refused_too() {
    let server = Postgres::start().expect("PostgreSQL starts");
    psql(&server, "ALTER ROLE postgres SET synchronous_commit = off");
    let message = refusal(server.url(), PostgresOptions::default()).await;
    assert!(message.contains("its synchronous_commit is off"), "{message}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = Postgres::start().expect("PostgreSQL starts");
    drop(open(&server).await);
    server.kill().expect("killed");
    std::fs::write(server.folder().join("standby.signal"), "").expect("written");
    server.restart().expect("it follows");
    let message = refusal(server.url(), PostgresOptions::default()).await;
    assert!(message.contains("is a replica and takes no writes"), "{message}");
}

#[tokio::test]
async fn a_wrong_address_is_named_without_its_password() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let port = server.port();
    let cases = [
        (format!("postgres://postgres:s3cret@127.0.0.1:{port}/none"), "has no such database"),
        ("postgres://postgres:s3cret@127.0.0.1:1/none".to_owned(), "cannot be reached"),
        ("postgres://postgres:s3cret@no.such.host.invalid/d".to_owned(), "cannot be reached"),
        (
            "postgres://postgres:s3cret@h/d?sslmode=maybe".to_owned(),
            "address of the store is wrong",
        ),
        ("mysql://postgres:s3cret@h/d".to_owned(), "address of the store is wrong"),
        ("postgres://postgres:s3cret@h:port/d".to_owned(), "address of the store is wrong"),
        ("postgres:///d".to_owned(), "it names no host"),
    ];
    for (url, expected) in cases {
        let error = PostgresStore::open(&url, PostgresOptions::default()).await.err();
        let error = error.unwrap_or_else(|| panic!("{url} opened"));
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_user_who_may_not_create_is_told_what_to_grant() {
    let server = Postgres::start().expect("PostgreSQL starts");
    psql(&server, "CREATE ROLE relay LOGIN");
    let url = server.url().replace("postgres@", "relay@");
    let refused = PostgresStore::open(&url, PostgresOptions::default()).await.err();
    assert!(matches!(refused, Some(OpenError::Forbidden { .. })), "{refused:?}");
    psql(&server, "CREATE SCHEMA landfall AUTHORIZATION relay");
    PostgresStore::open(&url, PostgresOptions::default()).await.expect("it may now");
}
