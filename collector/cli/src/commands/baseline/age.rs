//! Ages as typed by users: `30d`, `12h`, `2w`.

/// Age of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Age {
    /// Age in nanoseconds.
    pub ns: i64,
}

impl std::str::FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not an age; write it as 30d, 12h or 2w");
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let seconds: i64 = match unit {
            "s" => 1,
            "min" => 60,
            "h" => 3_600,
            "d" => 86_400,
            "w" => 7 * 86_400,
            _ => return Err(wrong()),
        };
        let number: i64 = number.parse().map_err(|_| wrong())?;
        let ns = number
            .checked_mul(seconds)
            .and_then(|seconds| seconds.checked_mul(1_000_000_000));
        ns.map(|ns| Self { ns }).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_as_people_write_them() {
        let day = 86_400_000_000_000;
        for (text, ns) in [("0d", 0), ("30d", 30 * day), ("24h", day), ("2w", 14 * day)] {
            assert_eq!(text.parse(), Ok(Age { ns }), "{text}");
        }
        for text in ["", "30", "d", "-1d", "1.5d", "1m", "9999999999w"] {
            assert!(text.parse::<Age>().is_err(), "{text}");
        }
    }
}
