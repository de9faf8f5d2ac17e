//! Opening: what the server promises, what it keeps, and whom it keeps it for.

use std::net::TcpListener;

use landfall_conformance::World;
use landfall_servers::{AppendFsync, Redis, RedisOptions as ServerOptions};
use landfall_store_redis::{OpenError, RedisOptions, RedisStore};

use crate::{operator, run, server, world};

async fn refusal(options: RedisOptions) -> String {
    match RedisStore::open(options).await {
        Ok(_) => panic!("opened"),
        Err(error) => error.to_string(),
    }
}

fn accepting(url: &str, names: &[&str]) -> RedisOptions {
    let accept_durability = names.iter().map(|name| (*name).to_owned()).collect();
    RedisOptions { accept_durability, ..RedisOptions::new(url) }
}

#[tokio::test]
async fn a_reopened_store_is_the_same_and_gives_new_ids() {
    let server = server();
    let before = world(RedisOptions::new(server.url())).await;
    let identity = before.store.identity().await.expect("identity").id;
    let first = before.accept(before.fresh("first")).await;
    drop(before);
    server.restart().expect("restarted");
    let after = world(RedisOptions::new(server.url())).await;
    assert_eq!(after.store.identity().await.expect("identity").id, identity);
    assert_eq!(after.get(first.id).await, first);
    assert!(after.accept(after.fresh("second")).await.id > first.id);
    assert_eq!(after.store.counts().await, Ok(vec![(first.state, 2)]));
}

#[tokio::test]
async fn environments_on_one_server_know_nothing_of_each_other() {
    let server = server();
    let options = RedisOptions::new(server.url());
    let one = world(RedisOptions { environment: "one".into(), ..options.clone() }).await;
    let two = world(RedisOptions { environment: "two".into(), ..options }).await;
    let id = async |world: &World| world.store.identity().await.expect("identity").id;
    assert_ne!(id(&one).await, id(&two).await);
    one.accept(one.fresh("k")).await;
    assert_eq!(two.store.counts().await, Ok(vec![]));
    assert_eq!(two.accept(two.fresh_to("k", "bob.near")).await.id.0, 1);
}

#[tokio::test]
async fn a_server_that_may_forget_is_refused_with_the_remedy_unless_accepted_by_name() {
    let fsync = |appendfsync| ServerOptions { appendfsync, ..ServerOptions::default() };
    for (options, name, remedy) in [
        (fsync(AppendFsync::EverySec), "everysec", "`appendfsync always` in redis.conf"),
        (fsync(AppendFsync::No), "no-fsync", "CONFIG SET appendfsync always"),
        (ServerOptions { appendonly: false, ..fsync(AppendFsync::Always) }, "no-aof", "appendonly"),
    ] {
        let server = Redis::start(options).expect("a server");
        let message = refusal(RedisOptions::new(server.url())).await;
        assert!(message.contains(remedy), "{message}");
        let accept = format!("accept_durability = [\"{name}\"]");
        assert!(message.contains(&accept), "{message}");
        let opened = RedisStore::open(accepting(server.url(), &[name])).await;
        assert!(opened.is_ok(), "{:?}", opened.err());
    }
    let message = refusal(accepting("redis://127.0.0.1:1", &["sometimes"])).await;
    assert!(message.contains("one of no-aof, everysec"), "{message}");
}

#[tokio::test]
async fn a_replica_and_a_server_that_evicts_are_refused() {
    let server = server();
    let mut operator = operator(&server).await;
    run(&mut operator, "CONFIG SET maxmemory 1gb").await;
    run(&mut operator, "CONFIG SET maxmemory-policy allkeys-lru").await;
    let message = refusal(RedisOptions::new(server.url())).await;
    assert!(message.contains("CONFIG SET maxmemory-policy noeviction"), "{message}");
    run(&mut operator, "CONFIG SET maxmemory-policy noeviction").await;
    world(RedisOptions::new(server.url())).await;
    run(&mut operator, "REPLICAOF 127.0.0.1 1").await;
    let message = refusal(RedisOptions::new(server.url())).await;
    assert!(message.contains("it is a replica"), "{message}");
}

#[tokio::test]
async fn a_node_of_a_cluster_is_refused() {
    let settings = vec![("cluster-enabled".to_owned(), "yes".to_owned())];
    let server = Redis::start(ServerOptions { settings, ..ServerOptions::default() });
    let server = server.expect("a server");
    let message = refusal(RedisOptions::new(server.url())).await;
    assert!(message.contains("Redis Cluster"), "{message}");
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_what_to_do() {
    let server = server();
    world(RedisOptions::new(server.url())).await;
    run(&mut operator(&server).await, "HSET {landfall:main}:store schema 99").await;
    let opened = RedisStore::open(RedisOptions::new(server.url())).await;
    assert!(matches!(opened, Err(OpenError::Newer { found: 99, .. })), "{:?}", opened.err());
    let message = refusal(RedisOptions::new(server.url())).await;
    assert!(message.contains("run the newer version, or restore a backup"), "{message}");
}

#[tokio::test]
async fn a_part_of_a_store_is_named_damaged_not_made_anew() {
    let server = server();
    let world = world(RedisOptions::new(server.url())).await;
    world.accept(world.fresh("k")).await;
    run(&mut operator(&server).await, "DEL {landfall:main}:store").await;
    let opened = RedisStore::open(RedisOptions::new(server.url())).await;
    assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{:?}", opened.err());
}

#[tokio::test]
async fn no_message_shows_the_password() {
    let server = server();
    run(&mut operator(&server).await, "CONFIG SET requirepass right").await;
    let at = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
    world(RedisOptions::new(at("right"))).await;
    let wrong = RedisOptions::new(at("hunter2"));
    assert!(!format!("{wrong:?}").contains("hunter2"));
    let bad = RedisOptions::new("nonsense://:hunter2@127.0.0.1");
    let nobody = RedisOptions::new("redis://:hunter2@127.0.0.1:1");
    for options in [wrong, bad, nobody] {
        let error = RedisStore::open(options).await.err().expect("refused");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[tokio::test]
async fn a_name_that_would_break_the_hash_tag_is_refused() {
    for environment in ["", "a}b", "a b", "{x}"] {
        let options = RedisOptions::new("redis://127.0.0.1:1");
        let options = RedisOptions { environment: environment.into(), ..options };
        assert!(refusal(options).await.contains("environment cannot be"));
    }
}

/// A server that speaks TLS alone on a port of its own, and the certificate that vouches for it.
fn tls_server() -> (Redis, String, Vec<u8>, tempfile::TempDir) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let certificate = made.cert.pem().into_bytes();
    let folder = tempfile::tempdir().expect("a folder");
    let (public, secret) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&public, &certificate).expect("write");
    std::fs::write(&secret, made.signing_key.serialize_pem()).expect("write");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let port = free.expect("a free port").port();
    let setting = |name: &str, value: String| (name.to_owned(), value);
    let settings = vec![
        setting("tls-port", port.to_string()),
        setting("tls-cert-file", public.display().to_string()),
        setting("tls-key-file", secret.display().to_string()),
        setting("tls-ca-cert-file", public.display().to_string()),
        setting("tls-auth-clients", "no".to_owned()),
    ];
    let server = Redis::start(ServerOptions { settings, ..ServerOptions::default() });
    (server.expect("a server"), format!("rediss://127.0.0.1:{port}"), certificate, folder)
}

#[tokio::test]
async fn a_server_is_spoken_to_over_tls_if_it_is_vouched_for() {
    let (_server, url, certificate, _folder) = tls_server();
    let unknown = RedisStore::open(RedisOptions::new(&url)).await;
    assert!(matches!(unknown, Err(OpenError::Unavailable { .. })), "{:?}", unknown.err());
    let root_certificate = Some(certificate);
    let world = world(RedisOptions { root_certificate, ..RedisOptions::new(&url) }).await;
    world.accept(world.fresh("k")).await;
}
