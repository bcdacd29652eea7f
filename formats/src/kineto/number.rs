//! Times in Kineto's format: microseconds as a decimal number, since 2024 with three decimals.

/// Number as in the file. Parsing it as a binary fraction would lose the nanoseconds, because a time since 1970 has 19
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Microseconds<'a>(pub &'a str);

impl Microseconds<'_> {
    /// Returns the time in nanoseconds. It is exact up to the third decimal and rounded there. `None` if it is not a
    /// number or does not fit into 64 bits.
    pub fn ns(&self) -> Option<i64> {
        let text = self.0.trim_matches('"');
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_plain = !whole.is_empty()
            && whole.bytes().all(|byte| byte.is_ascii_digit())
            && fraction.bytes().all(|byte| byte.is_ascii_digit());
        if !is_plain {
            return rounded(text.parse::<f64>().ok()? * 1e3);
        }
        let mut ns = whole.parse::<i64>().ok()?.checked_mul(1000)?;
        for (position, byte) in fraction.bytes().take(4).enumerate() {
            let digit = i64::from(byte - b'0');
            ns = ns.checked_add(match position {
                0 => digit * 100,
                1 => digit * 10,
                2 => digit,
                // The fourth decimal rounds. Further decimals cannot change the result.
                _ => i64::from(digit >= 5),
            })?;
        }
        Some(if negative { -ns } else { ns })
    }

    /// Returns the value as other tools read it; `None` if it is not a number.
    pub fn as_f64(&self) -> Option<f64> {
        self.0.trim_matches('"').parse().ok()
    }

    /// Returns true if the number has no fraction and no exponent.
    pub fn is_whole(&self) -> bool {
        self.0.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    }
}

fn rounded(ns: f64) -> Option<i64> {
    // Larger doubles cannot represent single nanoseconds, and do not fit into an `i64`.
    (ns.is_finite() && ns.abs() < 9e18).then_some(ns.round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_keep_their_nanoseconds() {
        for (text, ns) in [
            ("1661203462598738", Some(1_661_203_462_598_738_000)),
            ("4458676522690.655", Some(4_458_676_522_690_655)),
            ("0.0004", Some(0)),
            ("0.0005", Some(1)),
            ("-1.5", Some(-1500)),
            ("\"12.25\"", Some(12_250)),
            ("1e3", Some(1_000_000)),
            ("NaN", None),
            ("", None),
            ("99999999999999999999", None),
            ("1e300", None),
        ] {
            assert_eq!(Microseconds(text).ns(), ns, "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_numbers_are_read_back(ns in -1_000_000_000_000_000_000i64..1_000_000_000_000_000_000) {
            let text = format!("{}{}.{:03}", if ns < 0 { "-" } else { "" }, ns.abs() / 1000, ns.abs() % 1000);
            prop_assert_eq!(Microseconds(&text).ns(), Some(ns));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = Microseconds(&text).ns();
        }
    }
}
