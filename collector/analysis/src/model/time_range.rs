//! Time ranges as users type them: `1.5s..3s`, `250ms..`. Times count from the start of the session. A hyphen may
//! replace the two dots.

use rankscope_formats::session::Session;

/// A time range: from (inclusive) and to (exclusive), in nanoseconds. `None` is an open end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// Start of the range, included.
    pub from_ns: Option<i64>,
    /// End of the range, excluded.
    pub to_ns: Option<i64>,
}

impl TimeRange {
    /// Returns the window in a session. Open ends become the session's start and end.
    pub fn window(self, session: &Session) -> (i64, i64) {
        let axis = &session.axis;
        (
            self.from_ns.unwrap_or(axis.start_ns),
            // The end is exclusive, so one nanosecond more includes what starts with the last record.
            self.to_ns.unwrap_or(axis.end_ns.saturating_add(1)),
        )
    }
}

impl std::str::FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("invalid time range '{text}'; write it as 1.5s..3s, 250ms.. or ..10s");
        let (from, to) = text
            .split_once("..")
            .or_else(|| text.split_once('-'))
            .ok_or_else(wrong)?;
        let read = |text: &str| match text.trim() {
            "" => Ok(None),
            time => time_ns(time).map(Some).ok_or_else(wrong),
        };
        let range = Self {
            from_ns: read(from)?,
            to_ns: read(to)?,
        };
        match (range.from_ns, range.to_ns) {
            (None, None) => Err(wrong()),
            (Some(from), Some(to)) if from >= to => Err(wrong()),
            _ => Ok(range),
        }
    }
}

/// Parses a duration with its unit, such as `1.5s` or `250ms`, to nanoseconds.
pub fn time_ns(text: &str) -> Option<i64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor = match unit.trim_start() {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * factor).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_unit_is_refused() {
        let range = |from_ns, to_ns| Ok(TimeRange { from_ns, to_ns });
        for text in ["1.5s-3s", "1.5s..3s", "1.5 s .. 3 s"] {
            assert_eq!(text.parse(), range(Some(1_500_000_000), Some(3_000_000_000)));
        }
        for text in ["250ms-", "250ms.."] {
            assert_eq!(text.parse(), range(Some(250_000_000), None));
        }
        for text in ["-10us", "..10µs"] {
            assert_eq!(text.parse(), range(None, Some(10_000)));
        }
        for text in [
            "", "-", "..", "3s", "3s-1s", "1-2", "1s-2x", "3s..1s", "1..2", "1s...2s", "-1s..2s",
        ] {
            assert!(text.parse::<TimeRange>().is_err(), "{text}");
        }
    }
}
