//! Times as people type them: `1.5s-3s`, `250ms-`, from the beginning of the session.

/// From (inclusive) and to (exclusive), ns; open where nothing was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRange {
    /// First moment.
    pub from_ns: Option<i64>,
    /// First moment beyond.
    pub to_ns: Option<i64>,
}

impl std::str::FromStr for TimeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a time range; write it as 1.5s-3s, 250ms- or -10s");
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
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

fn time_ns(text: &str) -> Option<i64> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let factor = match unit {
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
        assert_eq!("1.5s-3s".parse(), range(Some(1_500_000_000), Some(3_000_000_000)));
        assert_eq!("250ms-".parse(), range(Some(250_000_000), None));
        assert_eq!("-10us".parse(), range(None, Some(10_000)));
        for text in ["", "-", "3s", "3s-1s", "1-2", "1s-2x"] {
            assert!(text.parse::<TimeRange>().is_err(), "{text}");
        }
    }
}
