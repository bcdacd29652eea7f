//! Records as a CUPTI wrote them, saved byte by byte. Tests on machines without CUPTI use the records of a real one.
//!
//! A file begins with the line `rankscope cupti dump 1 VERSION`. VERSION is the version that CUPTI reports. Records
//! follow: a little-endian `u32` with the length of the record, and that number of bytes.

use crate::record::{Activity, TooShort};

const HEAD: &str = "rankscope cupti dump 1 ";
/// Maximum length of a record, in bytes. No record of any version is longer.
const MOST_BYTES: usize = 1 << 16;

/// Returns the head of a file.
pub fn head(version: u32) -> String {
    format!("{HEAD}{version}\n")
}

/// Appends a record.
pub fn put(record: &[u8], out: &mut Vec<u8>) {
    let bytes = record.len().min(MOST_BYTES);
    out.extend_from_slice(&(bytes as u32).to_le_bytes());
    out.extend_from_slice(&record[..bytes]);
}

/// Problem of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The file does not begin with a valid head.
    NoDump,
    /// The file ends inside the record at this offset.
    CutOff(usize),
    /// The record at this offset is too short for its kind.
    TooShort(usize, TooShort),
}

/// Records of a file.
#[derive(Debug)]
pub struct Dump<'a> {
    /// Version of CUPTI.
    pub version: u32,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Dump<'a> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// If the file has no valid head.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Problem> {
        let end = bytes
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or(Problem::NoDump)?;
        let version = std::str::from_utf8(&bytes[..end])
            .ok()
            .and_then(|line| line.strip_prefix(HEAD)?.parse().ok())
            .ok_or(Problem::NoDump)?;
        Ok(Self {
            version,
            bytes,
            at: end + 1,
        })
    }
}

impl Iterator for Dump<'_> {
    type Item = Result<(Activity, usize), Problem>;

    /// Returns the next record and its length.
    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let record = rest
            .split_first_chunk::<4>()
            .and_then(|(length, rest)| rest.get(..u32::from_le_bytes(*length) as usize));
        let Some(record) = record else {
            self.at = self.bytes.len();
            return Some(Err(Problem::CutOff(at)));
        };
        self.at = at + 4 + record.len();
        Some(
            Activity::of_bytes(record)
                .map(|activity| (activity, record.len()))
                .map_err(|short| Problem::TooShort(at, short)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_entries_are_read_back_and_damage_is_named() {
        let mut kernel = vec![0u8; 208];
        kernel[..4].copy_from_slice(&10u32.to_le_bytes());
        kernel[16..24].copy_from_slice(&77u64.to_le_bytes());
        let mut file = head(24).into_bytes();
        put(&kernel, &mut file);
        let second = file.len();
        put(&kernel[..100], &mut file);
        put(&[99, 0, 0, 0], &mut file);
        let third = file.len();
        put(&kernel, &mut file);
        let cut = &file[..file.len() - 1];
        let mut dump = Dump::open(cut).expect("a dump");
        assert_eq!(dump.version, 24);
        assert!(matches!(dump.next(), Some(Ok((Activity::Kernel(kernel), 208))) if kernel.span.start == 77));
        let short = TooShort { kind: 10, bytes: 100 };
        assert!(
            matches!(dump.next(), Some(Err(Problem::TooShort(at, found))) if at == second && found == short)
        );
        assert!(matches!(dump.next(), Some(Ok((Activity::Other(99), 4)))));
        assert!(matches!(dump.next(), Some(Err(Problem::CutOff(at))) if at == third));
        assert!(dump.next().is_none());
        for none in [&b""[..], b"rankscope cupti dump 1 x\n", b"other\n"] {
            assert!(matches!(Dump::open(none), Err(Problem::NoDump)));
        }
    }
}
