//! Values in files that other processes of this program read: CBOR with a checksum.

use rankscope_formats::whole_file;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io;
use std::path::Path;

/// Number of bytes of a checksum.
const CHECK_BYTES: usize = 4;

/// Writes a value as CBOR with a checksum, completely or not at all. Returns the checksum.
pub fn write(path: &Path, value: &impl Serialize) -> io::Result<u32> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(io::Error::other)?;
    let check = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&check.to_le_bytes());
    whole_file::write(path, &bytes)?;
    Ok(check)
}

/// Reads a value that [`write`] wrote, and its checksum.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<(T, u32)> {
    let bytes = fs::read(path)?;
    let damaged = |what: &str| {
        let what = format!("{}: {what}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let (content, check) = bytes
        .split_last_chunk::<CHECK_BYTES>()
        .ok_or_else(|| damaged("the file is empty"))?;
    let check = u32::from_le_bytes(*check);
    if crc32fast::hash(content) != check {
        return Err(damaged("the checksum is wrong"));
    }
    let value = ciborium::from_reader(content).map_err(|error| damaged(&error.to_string()))?;
    Ok((value, check))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let check = write(&path, &(1u8, f64::NEG_INFINITY)).expect("write");
        let (value, again) = read::<(u8, f64)>(&path).expect("read");
        assert_eq!((value, again), ((1, f64::NEG_INFINITY), check));
        let mut bytes = fs::read(&path).expect("bytes");
        bytes[1] ^= 1;
        fs::write(&path, &bytes).expect("write");
        let error = read::<(u8, f64)>(&path).expect_err("a wrong checksum");
        assert!(error.to_string().contains("checksum"), "{error}");
        fs::write(&path, b"ab").expect("write");
        read::<(u8, f64)>(&path).expect_err("too short");
    }
}
