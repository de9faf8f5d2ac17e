//! One connection: HTTP/1.1 over a socket that is watched.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tower::ServiceExt as _;

use super::presence::Presence;
use super::{Patience, errors};

/// The largest head, far more than any request of ours needs. Twice that is kept of what a
/// connection has sent and nobody has read.
const HEAD_BYTES: usize = 64 * 1024;
/// After a stop, for what had been sent before it to arrive and for answers to leave.
const LINGER: Duration = Duration::from_millis(500);

/// Serves the client until it leaves, has to go, or the relay stops and it has its answer.
pub async fn attend(
    stream: TcpStream,
    router: Router,
    presence: &Arc<Presence>,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) {
    let answer = service_fn(|request: Request<Incoming>| {
        presence.asked(request.body().is_end_stream());
        let watched = |body| Body::new(Arriving { body, presence: presence.clone() });
        let answer = router.clone().oneshot(request.map(watched));
        async move {
            let answer = answer.await;
            presence.answered();
            answer.map_err(|never: Infallible| match never {})
        }
    });
    let socket = Watched { stream, presence: presence.clone(), unsent: Vec::new() };
    // Its own timeout cannot tell an idle client from one that is slow with a head.
    let served = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(2 * HEAD_BYTES)
        .serve_connection(TokioIo::new(socket), answer);
    let mut served = pin!(served);
    tokio::select! {
        // An error is the client's: it hears of it, or is gone.
        _ = &mut served => return,
        () = presence.outstays(patience) => return,
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    served.as_mut().graceful_shutdown();
    let left_alone = async {
        loop {
            presence.at_rest().await;
            presence.clock().sleep(LINGER).await;
            if !presence.is_served() {
                return;
            }
        }
    };
    tokio::select! {
        _ = served => {}
        () = left_alone => {}
    }
}

/// A body on its way in: its end makes the request whole.
struct Arriving {
    body: Incoming,
    presence: Arc<Presence>,
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.presence.has_all();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that tells what passes through it, and gives the parser's errors their bodies.
struct Watched {
    stream: TcpStream,
    presence: Arc<Presence>,
    /// Written in place of what the parser said, and not sent yet.
    unsent: Vec<u8>,
}

impl Watched {
    fn poll_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unsent))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unsent.drain(..sent);
        }
        Poll::Ready(Ok(()))
    }

    fn noted<T>(&self, sent: Poll<T>) -> Poll<T> {
        self.presence.takes(sent.is_ready());
        sent
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.presence.heard();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(context))?;
        if let Some(told) = errors::instead_of(bytes) {
            self.unsent = told.into_bytes();
            return Poll::Ready(Ok(bytes.len()));
        }
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_unsent(context))?;
        if let [bytes] = parts
            && errors::instead_of(bytes).is_some()
        {
            return self.poll_write(context, bytes);
        }
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.noted(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_unsent(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
