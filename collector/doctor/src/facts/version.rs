//! Version numbers of libraries.

use std::fmt;

/// Version of up to three numbers. Missing numbers are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub [u32; 3]);

impl Version {
    /// Reads the numbers at the start of a text; `None` if there is none.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 3];
        let digits = |part: &str| part.bytes().take_while(u8::is_ascii_digit).count();
        for (at, part) in text.trim().splitn(3, '.').enumerate() {
            let end = digits(part);
            match part[..end].parse() {
                Ok(number) => numbers[at] = number,
                Err(_) if at == 0 => return None,
                Err(_) => break,
            }
            if end < part.len() {
                break;
            }
        }
        Some(Self(numbers))
    }

    /// Whether the version is at least this one.
    pub fn is_at_least(self, major: u32, minor: u32) -> bool {
        self >= Self([major, minor, 0])
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(formatter, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_at_the_first_letter() {
        assert_eq!(Version::parse("2.28.9+cuda12.9"), Some(Version([2, 28, 9])));
        assert_eq!(Version::parse("1.13.0a0"), Some(Version([1, 13, 0])));
        assert_eq!(Version::parse("2.7"), Some(Version([2, 7, 0])));
        assert_eq!(Version::parse("2.7rc1.5"), Some(Version([2, 7, 0])));
        assert_eq!(Version::parse("unknown"), None);
        assert!(Version([2, 27, 0]).is_at_least(2, 27) && !Version([2, 26, 9]).is_at_least(2, 27));
    }
}
