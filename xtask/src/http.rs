//! One kept-alive HTTP/1.1 connection: as little between a chore and the relay as possible, so
//! that what is measured is the relay.

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// A connection to `http://host:port`.
pub struct Connection {
    host: String,
    bearer: Option<String>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub fn new(url: &str, bearer: Option<&str>) -> Result<Connection> {
        let host = url.trim_end_matches('/').strip_prefix("http://").context("an http:// URL")?;
        let bearer = bearer.map(|key| format!("Bearer {key}"));
        Ok(Connection { host: host.to_owned(), bearer, sender: None })
    }

    /// One request; connects first if there is no live connection.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<(u16, Bytes)> {
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.host);
        if let Some(bearer) = &self.bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let sender = self.connected().await?;
        let answer = match sender.send_request(request).await {
            Ok(answer) => answer,
            Err(error) => {
                self.sender = None;
                return Err(error).with_context(|| format!("no answer from {}", self.host));
            }
        };
        let status = answer.status().as_u16();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// A GET that must answer 200.
    pub async fn get(&mut self, path: &str) -> Result<Bytes> {
        match self.send(Method::GET, path, &[], Vec::new()).await? {
            (200, body) => Ok(body),
            (status, _) => bail!("http://{}{path} answered {status}", self.host),
        }
    }

    async fn connected(&mut self) -> Result<&mut SendRequest<Full<Bytes>>> {
        if self.sender.as_ref().is_none_or(SendRequest::is_closed) {
            let stream = TcpStream::connect(&self.host).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        let sender = self.sender.as_mut().context("connected above")?;
        sender.ready().await?;
        Ok(sender)
    }
}
