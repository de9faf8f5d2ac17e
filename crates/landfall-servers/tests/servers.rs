//! Each server starts, answers, and is the same after it was killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Duration;

use landfall_servers::{AppendFsync, MariaDb, Postgres, Redis, RedisOptions, Server, Sqs};

fn text(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn redis(server: &Server, command: &[&str]) -> String {
    let port = server.port().to_string();
    text(Command::new("redis-cli").args(["-p", &port]).args(command).output().expect("redis-cli"))
}

fn psql(server: &Server, sql: &str) -> String {
    text(Command::new("psql").args([server.url(), "-Atc", sql]).output().expect("psql"))
}

fn mariadb(server: &Server, sql: &str) -> String {
    let port = server.port().to_string();
    let mut client = Command::new("mariadb");
    client.args(["--no-defaults", "-h127.0.0.1", "-ulandfall", "-plandfall", "-P", &port]);
    text(client.args(["-Ne", sql, "landfall"]).output().expect("mariadb"))
}

fn sqs(server: &Server, action: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    let request = format!(
        "POST / HTTP/1.0\r\nX-Amz-Target: AmazonSQS.{action}\r\nContent-Type: \
         application/x-amz-json-1.0\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn redis_keeps_what_it_was_told_when_it_is_killed() {
    for appendfsync in [AppendFsync::Always, AppendFsync::EverySec, AppendFsync::No] {
        let server = Redis::start(RedisOptions { appendfsync, ..RedisOptions::default() });
        let server = server.expect("Redis starts");
        assert_eq!(redis(&server, &["ping"]), "PONG");
        redis(&server, &["set", "kept", "7"]);
        server.kill().expect("killed");
        assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
        server.restart().expect("it starts again");
        if appendfsync == AppendFsync::Always {
            assert_eq!(redis(&server, &["get", "kept"]), "7");
        }
    }
}

#[test]
fn postgres_keeps_what_it_was_told_when_it_is_killed() {
    let server = Postgres::start().expect("PostgreSQL starts");
    assert_eq!(psql(&server, "SHOW fsync"), "on");
    psql(&server, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)");
    for _ in 0..2 {
        server.kill().expect("killed");
        assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
        server.restart().expect("it starts again");
        assert_eq!(psql(&server, "SELECT n FROM kept"), "7");
    }
}

#[test]
fn mariadb_keeps_what_it_was_told_when_it_is_killed() {
    let server = MariaDb::start().expect("MariaDB starts");
    assert_eq!(mariadb(&server, "SELECT @@innodb_flush_log_at_trx_commit"), "1");
    mariadb(&server, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)");
    server.kill().expect("killed");
    assert!(TcpStream::connect(("127.0.0.1", server.port())).is_err());
    server.restart().expect("it starts again");
    assert_eq!(mariadb(&server, "SELECT n FROM kept"), "7");
}

#[test]
fn sqs_is_there_again_after_a_kill_without_its_queues() {
    let server = Sqs::start().expect("fauxqs starts");
    let created = sqs(&server, "CreateQueue", r#"{"QueueName":"hints"}"#);
    assert!(created.contains("/hints"), "{created}");
    server.kill().expect("killed");
    server.restart().expect("it starts again");
    let queues = sqs(&server, "ListQueues", "{}");
    assert!(queues.starts_with("HTTP/1.1 200"), "{queues}");
    assert!(!queues.contains("hints"), "{queues}");
}

#[test]
fn a_paused_server_answers_nobody_until_it_is_resumed() {
    let server = Redis::start(RedisOptions::default()).expect("Redis starts");
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    server.pause().expect("paused");
    stream.write_all(b"PING\r\n").expect("sent");
    let mut answer = [0; 7];
    assert!(stream.read(&mut answer).is_err());
    server.resume().expect("resumed");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn a_paused_postgres_stops_with_all_its_sessions() {
    let server = Postgres::start().expect("PostgreSQL starts");
    server.pause().expect("paused");
    let asked = Command::new("psql")
        .args([server.url(), "-Atc", "SELECT 1"])
        .env("PGCONNECT_TIMEOUT", "2")
        .output()
        .expect("psql");
    assert!(!asked.status.success());
    server.resume().expect("resumed");
    assert_eq!(psql(&server, "SELECT 1"), "1");
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let server = Postgres::start().expect("PostgreSQL starts");
    let (port, folder) = (server.port(), server.folder());
    drop(server);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!folder.exists());
}
