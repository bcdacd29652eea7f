//! The option `--flight` of `rankscope run`: what is kept.

use super::duration;
use super::size::Size;
use std::str::FromStr;
use std::time::Duration;

/// Size of the live areas if only a time is given, in MiB.
const AREA_MIB: u64 = 64;

/// What flight mode keeps of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flight {
    /// What fits into a live area of this size.
    Area(Size),
    /// The last seconds, as far as they fit into a live area.
    Time(Duration),
}

impl Flight {
    /// Returns the value of `RANKSCOPE_FLIGHT`.
    pub fn variable(self) -> String {
        match self {
            Self::Area(_) => "area".to_owned(),
            Self::Time(time) => time.as_secs_f64().ceil().max(1.0).to_string(),
        }
    }

    /// Returns the size of the live areas, in MiB.
    pub fn live_mib(self) -> u64 {
        match self {
            Self::Area(size) => size.mebibytes(),
            Self::Time(_) => AREA_MIB,
        }
    }
}

impl FromStr for Flight {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = duration::parse(text) {
            return Ok(Self::Time(time));
        }
        match text.parse::<Size>() {
            Ok(size) if (1..=4096).contains(&(size.0 >> 20)) => Ok(Self::Area(size)),
            _ => Err(format!(
                "'{text}' is neither a size from 1MiB to 4GiB nor a time; write it as 64MiB or 30s"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_or_a_time_is_kept() {
        let of = |text: &str| {
            text.parse::<Flight>()
                .map(|flight| (flight.variable(), flight.live_mib()))
        };
        assert_eq!(of("64MiB"), Ok(("area".to_owned(), 64)));
        assert_eq!(of("1G"), Ok(("area".to_owned(), 1024)));
        assert_eq!(of("30s"), Ok(("30".to_owned(), 64)));
        assert_eq!(of("500ms"), Ok(("1".to_owned(), 64)));
        for text in ["", "64", "0s", "8G", "soon"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
