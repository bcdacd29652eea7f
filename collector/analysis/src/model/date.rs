//! Formats a timestamp as a date and time in UTC.

use jiff::Timestamp;

/// Returns a Unix time in nanoseconds as text, such as `2026-01-31 23:59:59 UTC`.
pub fn utc(unix_ns: i64) -> String {
    // All times of 64 bits are in the years 1677 to 2262, which `Timestamp` covers.
    let time = Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(-1), "1969-12-31 23:59:59 UTC");
        assert_eq!(utc(i64::MIN), "1677-09-21 00:12:43 UTC");
        assert_eq!(utc(1_795_255_201_999_999_999), "2026-11-21 10:00:01 UTC");
    }
}
