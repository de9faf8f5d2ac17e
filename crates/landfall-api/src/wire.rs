//! What goes out in the same shape on several rails.
//!
//! Not here: transfers (each rail has its own), health (`health`).

use serde::{Serialize, Serializer};

/// Milliseconds since the Unix epoch, written as a time: RFC 3339 in UTC, with milliseconds.
#[derive(Clone, Copy)]
pub struct Time(pub u64);

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ms = i64::try_from(self.0).unwrap_or(i64::MAX);
        let time = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
        serializer.collect_str(&format_args!("{time:.3}"))
    }
}

/// A page of transfers.
#[derive(Serialize)]
pub struct PageBody<B> {
    pub transfers: Vec<B>,
    /// Give it back as `cursor` for the next page; none on the last.
    pub next_cursor: Option<String>,
}
