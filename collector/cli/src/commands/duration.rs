//! Times as typed by users: `60s`, `500ms`, `5m`.

use rankscope_analysis::model::time_range::time_ns;
use std::time::Duration;

/// Parses a time longer than 0.
pub fn parse(text: &str) -> Result<Duration, String> {
    let nanos = time_ns(text).and_then(|ns| u64::try_from(ns).ok());
    let time = nanos.filter(|&ns| ns > 0).map(Duration::from_nanos);
    time.ok_or_else(|| format!("'{text}' is not a time; write it as 60s, 500ms or 5m"))
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn a_time_has_a_unit_and_is_positive() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "-3s", "0s", "soon"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
