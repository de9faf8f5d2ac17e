//! How often each API key may call: one token bucket per key, a second's worth deep.
//!
//! A request is let in while its bucket holds anything, and may leave it in debt: so a request for
//! many transfers is never impossible, it only makes the next one wait.

use parking_lot::Mutex;

use crate::error::ApiError;

/// Buckets count thousandths, so that a bucket fills by its rate every millisecond.
const UNIT: i64 = 1_000;

pub struct RateLimit {
    per_s: i64,
    buckets: Vec<Mutex<Bucket>>,
}

struct Bucket {
    thousandths: i64,
    filled_ms: u64,
}

impl RateLimit {
    pub fn new(per_s: u32, keys: usize, now_ms: u64) -> RateLimit {
        let per_s = i64::from(per_s.max(1));
        let full = || Mutex::new(Bucket { thousandths: per_s * UNIT, filled_ms: now_ms });
        RateLimit { per_s, buckets: (0..keys.max(1)).map(|_| full()).collect() }
    }

    /// Takes one, or says when to come back.
    pub fn take(&self, key_index: usize, now_ms: u64) -> Result<(), ApiError> {
        let mut bucket = self.buckets[key_index].lock();
        // A clock set back fills nothing, and counts from there.
        let passed_ms = now_ms.saturating_sub(bucket.filled_ms).min(i64::MAX as u64) as i64;
        bucket.filled_ms = now_ms;
        let filled = bucket.thousandths.saturating_add(passed_ms.saturating_mul(self.per_s));
        bucket.thousandths = filled.min(self.per_s * UNIT);
        if bucket.thousandths < UNIT {
            let missing = (UNIT - bucket.thousandths).unsigned_abs();
            let retry_after_s = missing.div_ceil((self.per_s * UNIT).unsigned_abs());
            return Err(ApiError::RateLimited { retry_after_s });
        }
        bucket.thousandths -= UNIT;
        Ok(())
    }

    /// Charges what a request turned out to cost beyond the one it took.
    pub fn charge(&self, key_index: usize, count: usize) {
        self.buckets[key_index].lock().thousandths -= UNIT * count as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_lasts_a_second_and_fills_by_its_rate() {
        let limit = RateLimit::new(2, 1, 0);
        assert!(limit.take(0, 0).is_ok());
        assert!(limit.take(0, 0).is_ok());
        assert_eq!(limit.take(0, 0), Err(ApiError::RateLimited { retry_after_s: 1 }));
        assert!(limit.take(0, 499).is_err());
        assert!(limit.take(0, 500).is_ok());
        assert!(limit.take(0, 500).is_err());
    }

    #[test]
    fn many_are_let_in_whole_and_paid_off_later() {
        let limit = RateLimit::new(10, 1, 0);
        assert!(limit.take(0, 0).is_ok());
        limit.charge(0, 39);
        assert_eq!(limit.take(0, 0), Err(ApiError::RateLimited { retry_after_s: 4 }));
        assert!(limit.take(0, 3_000).is_err());
        assert!(limit.take(0, 3_100).is_ok());
    }

    #[test]
    fn a_clock_that_jumps_does_no_harm() {
        let limit = RateLimit::new(1, 2, 1_000);
        assert!(limit.take(0, u64::MAX).is_ok());
        assert!(limit.take(0, 0).is_err());
        assert!(limit.take(1, 0).is_ok());
    }
}
