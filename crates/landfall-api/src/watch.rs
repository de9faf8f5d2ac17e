//! Watching requests: an id for each, one line in the log, and counts for `/metrics`.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{Request, State};
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;

use crate::router::App;

const REQUEST_ID: &str = "x-request-id";
/// Longest request id taken from a client: two UUIDs and room to spare.
const REQUEST_ID_MAX_CHARS: usize = 128;
/// Status codes are below this.
const STATUS_END: usize = 600;

/// What the API counts by itself.
pub struct Counters {
    /// Tells the ids of one run from those of another.
    started_ms: u64,
    requests: AtomicU64,
    panics: AtomicU64,
    by_status: Vec<AtomicU64>,
}

impl Counters {
    pub fn new(started_ms: u64) -> Counters {
        let by_status = (0..STATUS_END).map(|_| AtomicU64::new(0)).collect();
        Counters { started_ms, requests: AtomicU64::new(0), panics: AtomicU64::new(0), by_status }
    }

    pub fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    fn count_answer(&self, status: u16) {
        if let Some(counter) = self.by_status.get(usize::from(status)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn next_id(&self) -> HeaderValue {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let id = format!("{:x}-{number:x}", self.started_ms);
        HeaderValue::try_from(id).unwrap_or_else(|_| HeaderValue::from_static("-"))
    }

    /// Adds the API's own lines to the engine's, which may be OpenMetrics (that ends with `# EOF`
    /// and names a counter's family without its suffix) or the older text format.
    pub fn render_after(&self, mut text: String) -> String {
        const END: &str = "# EOF";
        let trimmed = text.trim_end();
        let open = trimmed.ends_with(END);
        let kept = if open { trimmed.len() - END.len() } else { text.len() };
        text.truncate(kept);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        let suffix = if open { "" } else { "_total" };
        let _ =
            writeln!(text, "# HELP landfall_api_requests{suffix} Requests answered, by status.");
        let _ = writeln!(text, "# TYPE landfall_api_requests{suffix} counter");
        for (status, counter) in self.by_status.iter().enumerate() {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                let _ =
                    writeln!(text, "landfall_api_requests_total{{status=\"{status}\"}} {count}");
            }
        }
        let _ = writeln!(text, "# HELP landfall_api_panics{suffix} Handlers that panicked.");
        let _ = writeln!(text, "# TYPE landfall_api_panics{suffix} counter");
        let _ = writeln!(text, "landfall_api_panics_total {}", self.panics.load(Ordering::Relaxed));
        if open {
            text.push_str("# EOF\n");
        }
        text
    }
}

/// Gives the request its id (the client's own where it sent a plain one), counts and logs it.
pub async fn watch(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let sent = request.headers().get(REQUEST_ID).filter(|id| is_plain(id)).cloned();
    let id = sent.unwrap_or_else(|| app.counters.next_id());
    let started_ms = app.config.clock.now_ms();
    let span = tracing::info_span!("request", id = id.to_str().unwrap_or_default());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    app.counters.count_answer(status);
    span.in_scope(|| {
        let duration_ms = app.config.clock.now_ms().saturating_sub(started_ms);
        tracing::debug!(%method, path = uri.path(), status, duration_ms, "answered");
    });
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

fn is_plain(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    (1..=REQUEST_ID_MAX_CHARS).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_graphic())
}
