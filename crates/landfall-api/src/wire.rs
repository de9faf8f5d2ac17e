//! What goes out in the same shape on several rails.
//!
//! Not here: transfers (each rail has its own), health (`health`).

use landfall_core::Fault;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

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
#[derive(Serialize, ToSchema)]
pub struct PageBody<B> {
    /// Newest first.
    pub transfers: Vec<B>,
    /// The cursor of the next page; null on the last.
    #[schema(pattern = "^[0-9]{1,18}$", required)]
    pub next_cursor: Option<String>,
}

/// What went wrong.
#[derive(Serialize, ToSchema)]
#[schema(as = Fault)]
pub struct FaultBody<'a> {
    /// A short name for machines.
    error_type: &'a str,
    message: &'a str,
    retry_count: u32,
    will_retry: bool,
}

impl<'a> FaultBody<'a> {
    pub fn of(fault: &'a Fault) -> FaultBody<'a> {
        FaultBody {
            error_type: &fault.error_type,
            message: &fault.message,
            retry_count: fault.retry_count,
            will_retry: fault.will_retry,
        }
    }
}
