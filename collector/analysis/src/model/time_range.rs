//! Times as people type them: `1.5s..3s`, `250ms..`, from the beginning of the session. One hyphen does as well as two dots.

use rankscope_formats::session::Session;

/// From (inclusive) and to (exclusive), ns; open where nothing was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First moment.
    pub from_ns: Option<i64>,
    /// First moment beyond.
    pub to_ns: Option<i64>,
}

impl TimeRange {
    /// The window that is meant in a session: where it is open, all that there is.
    pub fn window(self, session: &Session) -> (i64, i64) {
        let axis = &session.axis;
        (
            self.from_ns.unwrap_or(axis.start_ns),
            // What begins with the last record is in the session, too.
            self.to_ns.unwrap_or(axis.end_ns.saturating_add(1)),
        )
    }
}

impl std::str::FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a time range; write it as 1.5s..3s, 250ms.. or ..10s");
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

/// A length of time with its unit: `1.5s`, `250ms`.
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
    fn units_are_asked_for() {
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
