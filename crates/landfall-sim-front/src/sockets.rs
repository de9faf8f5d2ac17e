//! Addresses, connections, and tasks that end with the simulator. `/sim` routes are served past all
//! faults.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::host::{self, Host};

/// Ports tried above a given one for further nodes.
const PORTS_TRIED: u16 = 200;
/// Pause after an accept that failed, for want of file descriptors most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {addr}")]
pub struct ListenError {
    pub addr: SocketAddr,
    pub source: io::Error,
}

/// Addresses taken for nodes, nobody being served yet.
pub struct Sockets(Vec<(SocketAddr, TcpListener)>);

impl Sockets {
    /// The first is at the given address, further ones at the next free ports. Port 0: any.
    pub async fn bind(first: SocketAddr, nodes: usize) -> Result<Sockets, ListenError> {
        let mut bound: Vec<(SocketAddr, TcpListener)> = Vec::new();
        for _ in 0..nodes {
            let listener = listen(first, bound.last().map(|(last, _)| *last)).await?;
            bound.push((listener.local_addr().unwrap_or(first), listener));
        }
        Ok(Sockets(bound))
    }

    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|(addr, _)| *addr).collect()
    }
}

/// Binds the first address, or the next free port after the last node's.
async fn listen(first: SocketAddr, after: Option<SocketAddr>) -> Result<TcpListener, ListenError> {
    let mut addr = first;
    let tries = match after {
        Some(last) if first.port() != 0 => {
            addr.set_port(last.port().saturating_add(1));
            PORTS_TRIED
        }
        _ => 1,
    };
    let mut tried = 1;
    loop {
        match TcpListener::bind(addr).await {
            Ok(listener) => return Ok(listener),
            Err(_) if tried < tries => addr.set_port(addr.port().saturating_add(1)),
            Err(source) => return Err(ListenError { addr, source }),
        }
        tried += 1;
    }
}

/// A simulator at work on the current runtime. Stops when dropped.
#[derive(Default)]
pub struct Running {
    addrs: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// Serves one node on each socket.
    pub fn serve<H: Host>(&mut self, sockets: Sockets, host: &Arc<H>) {
        for (node, (addr, listener)) in sockets.0.into_iter().enumerate() {
            self.addrs.push(addr);
            self.tasks.push(tokio::spawn(accept(host.clone(), node, listener)));
        }
    }

    /// Makes a block now and one each so many milliseconds, as long as that succeeds.
    pub fn every(
        &mut self,
        block_ms: u64,
        mut make_block: impl FnMut() -> io::Result<()> + Send + 'static,
    ) {
        self.tasks.push(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(block_ms.max(1)));
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if let Err(error) = make_block() {
                    tracing::error!(%error, "the state file cannot be written: no more blocks");
                    return;
                }
            }
        }));
    }

    pub fn urls(&self) -> Vec<String> {
        self.addrs.iter().map(|addr| format!("http://{addr}")).collect()
    }

    pub async fn shutdown(mut self) {
        for task in std::mem::take(&mut self.tasks) {
            task.abort();
            // Aborted on purpose: how it ended says nothing.
            let _ = task.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn accept<H: Host>(host: Arc<H>, node: usize, listener: TcpListener) {
    let routes = host.clone().routes();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(host.clone(), node, stream, routes.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection<H: Host>(host: Arc<H>, node: usize, stream: TcpStream, routes: Router) {
    // Without this small answers wait for the client's acknowledgements.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (host, routes) = (host.clone(), routes.clone());
        async move {
            let request = request.map(Body::new);
            if request.uri().path().starts_with("/sim/") {
                let answer: Result<Response, Infallible> =
                    TowerToHyperService::new(routes).call(request).await;
                return answer.map_err(|never| match never {});
            }
            host::serve(host, node, request).await
        }
    });
    // Ends with an error whenever a fault closes it, or a client goes away.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
