//! What only a real connection shows: broken framing, vanished clients.

use axum::Router;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{ALICE, World};

async fn served(router: Router) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Sends bytes, ends the sending side, and returns all that comes back.
async fn exchange(address: std::net::SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

const HEAD: &str = "POST /transfer HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\
     Content-Type: application/json\r\nX-Idempotency-Key: k\r\n";

#[tokio::test]
async fn a_client_that_vanishes_in_mid_body_stores_nothing() {
    let world = World::new();
    let address = served(world.router.clone()).await;
    exchange(address, format!("{HEAD}Content-Length: 100\r\n\r\n{ALICE}").as_bytes()).await;
    exchange(address, format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\n{{\"re").as_bytes())
        .await;
    exchange(address, format!("{HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n").as_bytes()).await;
    exchange(address, HEAD.as_bytes()).await;
    exchange(address, b"\x16\x03\x01 this is not HTTP\r\n\r\n").await;
    assert_eq!(world.stored(), 0);
    let whole = format!("{HEAD}Content-Length: {}\r\n\r\n{ALICE}", ALICE.len());
    let answer = exchange(address, whole.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert_eq!(world.stored(), 1);
}

#[tokio::test]
async fn a_body_in_chunks_is_read_up_to_the_limit() {
    let world = World::new();
    let address = served(world.router.clone()).await;
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000)).repeat(17);
    let sent = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n{chunk}0\r\n\r\n");
    let answer = exchange(address, sent.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.ends_with("{\"error\":\"body: is too large; at most 65536 bytes are taken\"}"));
    assert_eq!(world.stored(), 0);
}
