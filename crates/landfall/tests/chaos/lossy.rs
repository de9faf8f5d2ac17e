//! A network that loses: an HTTP proxy before a node, which drops some requests on their way there
//! and some answers on their way back.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The share of requests that never arrive, and of answers that nobody hears.
const LOST: f64 = 0.05;

/// Ends with its guard.
pub struct Lossy {
    pub url: String,
    serving: JoinHandle<()>,
}

struct Way {
    node: String,
    client: reqwest::Client,
}

impl Lossy {
    pub async fn before(node: &str) -> Lossy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let way = Arc::new(Way { node: node.to_owned(), client: reqwest::Client::new() });
        let routes = Router::new().fallback(pass_on).with_state(way);
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("it serves");
        });
        Lossy { url, serving }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass_on(State(way): State<Arc<Way>>, body: Bytes) -> Response {
    let lost = || StatusCode::GATEWAY_TIMEOUT.into_response();
    if rand::random::<f64>() < LOST {
        return lost();
    }
    let request = way.client.post(&way.node).header("content-type", "application/json");
    let Ok(answer) = request.body(body).send().await else { return lost() };
    match answer.bytes().await {
        Ok(answer) if rand::random::<f64>() >= LOST => {
            ([("content-type", "application/json")], answer).into_response()
        }
        _ => lost(),
    }
}
