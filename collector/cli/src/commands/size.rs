//! Sizes as typed by users: `800M`, `4GiB`, `1.5g`. All units are powers of 1024.

/// Size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Size {
    /// Returns the size in whole MiB, at least one.
    pub fn mebibytes(self) -> u64 {
        self.0.div_ceil(1 << 20).max(1)
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a size; write it as 800M, 4GiB or 1.5G");
        let split = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let shift = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(wrong()),
        };
        let bytes = number * (1u64 << shift) as f64;
        if !bytes.is_finite() || bytes >= u64::MAX as f64 {
            return Err(wrong());
        }
        Ok(Self(bytes as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("800M", 800 << 20),
            ("4GiB", 4 << 30),
            ("1.5k", 1536),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "M", "1.2.3", "4 parsecs", "-1", "1e9T"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(Size(1).mebibytes(), 1);
    }
}
