//! Reader of the index of one rank. It reads only the parts that are requested.

use super::contents::Contents;
use super::directory::ENTRY_BYTES;
use super::{Counter, Footer, Lane, LaneKind, MAGIC, Name};
use std::io;
use std::path::{Path, PathBuf};

/// Error: an index is not usable. It can always be built again from the tables.
#[derive(Debug, thiserror::Error)]
pub enum ViewError {
    /// An operation on the file failed.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        source: io::Error,
    },
    /// The file is not an index, is of another version, or is damaged.
    #[error("{path}: at {offset}: {what}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the damage, in bytes.
        offset: u64,
        /// Expected content.
        what: &'static str,
    },
}

/// Index of one rank.
#[derive(Debug)]
pub struct ViewFile {
    bytes: Contents,
    footer: Footer,
}

const TRAILER_BYTES: usize = 32;

impl ViewFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<Self, ViewError> {
        let io = |source| ViewError::Io {
            path: path.to_path_buf(),
            source,
        };
        Self::of(Contents::open(path).map_err(io)?, path)
    }

    /// As [`ViewFile::open`], but for bytes that are already in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, ViewError> {
        Self::of(Contents::Owned(bytes), Path::new("memory"))
    }

    fn of(bytes: Contents, path: &Path) -> Result<Self, ViewError> {
        let footer = read_footer(&bytes).map_err(|(offset, what)| ViewError::Damaged {
            path: path.to_path_buf(),
            offset,
            what,
        })?;
        Ok(Self { bytes, footer })
    }

    /// Returns the footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Returns the size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns true if no part of the index must be read from an object store any more.
    pub fn is_resident(&self) -> bool {
        self.bytes.is_resident()
    }

    /// Reads the rest of an index in an object store. Afterwards, [`ViewFile::failure`] has the error, if there was one.
    pub fn load(&self) {
        self.bytes.load();
    }

    /// Returns why a part of an index in an object store could not be read. Lanes then lack spans.
    pub fn failure(&self) -> Option<&io::Error> {
        self.bytes.failure()
    }

    /// Returns a lane by its index in [`Footer::lanes`].
    pub fn lane(&self, position: usize) -> Option<Lane<'_>> {
        let info = self.footer.lanes.get(position)?;
        let start = usize::try_from(info.directory).ok()?;
        let bytes = usize::try_from(info.blocks).ok()?.checked_mul(ENTRY_BYTES)?;
        let directory = self.bytes.get(start..start.checked_add(bytes)?)?;
        Some(Lane::new(info, directory, &self.bytes))
    }

    /// Returns all lanes of a kind, with their indices.
    pub fn lanes_of(&self, wanted: impl Fn(LaneKind) -> bool) -> impl Iterator<Item = (usize, Lane<'_>)> {
        (0..self.footer.lanes.len())
            .filter_map(|position| Some((position, self.lane(position)?)))
            .filter(move |(_, lane)| wanted(lane.info.kind))
    }

    /// Returns a counter by its index in [`Footer::counters`].
    pub fn counter(&self, position: usize) -> Option<Counter<'_>> {
        Counter::new(self.footer.counters.get(position)?, &self.bytes)
    }

    /// Returns a counter by its name.
    pub fn counter_named(&self, name: &str) -> Option<Counter<'_>> {
        let counters = &self.footer.counters;
        let position = counters.binary_search_by(|counter| counter.name.as_str().cmp(name));
        self.counter(position.ok()?)
    }

    /// Returns a name by its number.
    pub fn name(&self, number: u32) -> Option<&Name> {
        self.footer.names.get(number as usize)
    }
}

fn read_footer(map: &Contents) -> Result<Footer, (u64, &'static str)> {
    // The start of an object is usually not needed. Its end has the same bytes.
    let is_checked = !matches!(map, Contents::Remote(_));
    if is_checked && map.get(0..6) != Some(&MAGIC[..6]) {
        return Err((0, "no index of rankscope's viewer"));
    }
    if is_checked && map.get(0..8) != Some(&MAGIC) {
        return Err((6, "the index is of another version"));
    }
    let at = map
        .len()
        .checked_sub(TRAILER_BYTES)
        .ok_or((8, "the file ends here; a trailer of 32 bytes was expected"))?;
    let number = |from: usize| {
        map.get(at + from..at + from + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };
    if map.get(at + 24..map.len()) != Some(&MAGIC) {
        return Err((at as u64 + 24, "the file is cut off: no trailer"));
    }
    let (offset, length) = (number(0), number(8));
    let text = usize::try_from(offset)
        .ok()
        .zip(usize::try_from(length).ok())
        .and_then(|(from, length)| map.get(from..from.checked_add(length)?))
        .ok_or((at as u64, "the footer is outside of the file"))?;
    if u64::from(crc32fast::hash(text)) != number(16) & 0xffff_ffff {
        return Err((offset, "the footer's checksum is wrong"));
    }
    serde_json::from_slice(text).map_err(|_| (offset, "the footer is not as it should be"))
}
