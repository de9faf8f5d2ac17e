//! Times as the relayer writes them.

/// Milliseconds since 1970 as RFC 3339, in UTC.
pub fn text(ms: u64) -> String {
    let (seconds, millis) = (ms / 1_000, ms % 1_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}+00:00")
}

/// Year, month and day of a number of days since 1970: years begin in March, so that leap days are
/// at their end.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_with_milliseconds() {
        assert_eq!(text(0), "1970-01-01T00:00:00.000+00:00");
        assert_eq!(text(951_782_400_001), "2000-02-29T00:00:00.001+00:00");
        assert_eq!(text(1_767_703_696_789), "2026-01-06T12:48:16.789+00:00");
    }
}
