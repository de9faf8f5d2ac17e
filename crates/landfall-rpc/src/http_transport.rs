//! The real wire: HTTP/1.1 with kept-alive connections, over TCP or TLS.
//!
//! **Rule:** one call is one request on the wire. The pooling client would repeat a request that
//! met a dying connection; that is switched off, and so are redirects, proxies and everything else
//! that acts on its own. The only place of this crate that touches sockets or real time.

use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::{Header, HttpAnswer, HttpRequest, Method, Transport, TransportError, Url};

/// A connection that takes longer is as good as refused, and it is certain that nothing was sent.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Idle connections are dropped before common servers drop them (nginx: 75 s), so that a request
/// seldom meets a dying one.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The largest answer that is read, in bytes. A ledger's largest blocks are far below.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// [`Transport`] over sockets.
pub struct HttpTransport {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl HttpTransport {
    pub fn new() -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        // Said, not left to the build: a binary may hold other providers for other clients.
        let provider = rustls::crypto::ring::default_provider();
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)
            .expect("ring has the default protocol versions")
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .retry_canceled_requests(false)
            .build(tls);
        Self { client }
    }
}

impl Default for HttpTransport {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Transport for HttpTransport {
    async fn post(
        &self,
        url: &Url,
        body: Bytes,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        self.within(timeout, request(Method::Post, url, &[], body)?).await
    }

    async fn call(
        &self,
        asked: HttpRequest,
        timeout: Duration,
    ) -> Result<HttpAnswer, TransportError> {
        let HttpRequest { method, url, headers, body } = asked;
        self.within(timeout, request(method, &url, &headers, body)?).await
    }
}

impl HttpTransport {
    async fn within(
        &self,
        timeout: Duration,
        request: Request<Full<Bytes>>,
    ) -> Result<HttpAnswer, TransportError> {
        match tokio::time::timeout(timeout, self.exchange(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(TransportError::Unsure(format!("timed out after {timeout:?}"))),
        }
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<HttpAnswer, TransportError> {
        let answer = self.client.request(request).await.map_err(|error| {
            // Only a connection that was never made proves that nothing was sent.
            if error.is_connect() {
                TransportError::NotSent(causes(&error))
            } else {
                TransportError::Unsure(causes(&error))
            }
        })?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| TransportError::Unsure(causes(error.as_ref())))?
            .to_bytes();
        Ok(HttpAnswer { status, body })
    }
}

/// The user part of a URL is a credential for the header; it never goes on the request line.
fn request(
    method: Method,
    url: &Url,
    headers: &[Header],
    body: Bytes,
) -> Result<Request<Full<Bytes>>, TransportError> {
    let malformed = |_| TransportError::NotSent("malformed request".to_owned());
    let (whole, credentials) = split_credentials(url.expose());
    let uri: Uri = whole.parse().map_err(|_| TransportError::NotSent("malformed URL".into()))?;
    let (builder, body) = match method {
        Method::Get => (Request::get(uri), Bytes::new()),
        Method::Post => (Request::post(uri).header(CONTENT_TYPE, "application/json"), body),
    };
    let mut request = builder.body(Full::new(body)).map_err(malformed)?;
    if let Some(credentials) = credentials {
        let basic = format!("Basic {}", STANDARD.encode(credentials)).parse();
        let basic = basic.map_err(|_| TransportError::NotSent("malformed credentials".into()))?;
        request.headers_mut().insert(AUTHORIZATION, basic);
    }
    for (name, value) in headers.iter().map(Header::parts) {
        request.headers_mut().insert(name, value);
    }
    Ok(request)
}

fn split_credentials(url: &str) -> (String, Option<&str>) {
    let Some((scheme, rest)) = url.split_once("://") else {
        return (url.to_owned(), None);
    };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..authority_end].rfind('@') {
        Some(at) => (format!("{scheme}://{}", &rest[at + 1..]), Some(&rest[..at])),
        None => (url.to_owned(), None),
    }
}

/// The chain of causes, which names no URL.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_the_url_for_the_header() {
        let check = |url, whole: &str, credentials| {
            assert_eq!(split_credentials(url), (whole.to_owned(), credentials));
        };
        check("http://a:b@host:1/p", "http://host:1/p", Some("a:b"));
        check("http://host/p@q", "http://host/p@q", None);
        check("https://key@host?x=1", "https://host?x=1", Some("key"));
    }
}
