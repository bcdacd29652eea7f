//! Space for parts of indexes from object stores: one unnamed temporary file of the process, in which each index has a region.
//!
//! The regions are mapped, so that the system can reclaim their memory. They are written by calls and not through the mapping: a full
//! disk is then an error, where a store into the mapping would end the process. All regions share a descriptor, because a session
//! has more indexes than a process may have open files. The space of closed sessions is released only when the process ends.

use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Alignment of regions. It is a multiple of the page size of every supported machine.
const ALIGNMENT: u64 = 64 << 10;

/// The file, and the end of its last region.
static BACKING: Mutex<Option<(Arc<File>, u64)>> = Mutex::new(None);

/// Part of the file.
pub(super) struct Region {
    file: Arc<File>,
    offset: u64,
    mapped: MmapRaw,
}

impl Region {
    /// Creates a region. It takes space only where it is written. `bytes` is not 0.
    pub(super) fn create(bytes: usize) -> io::Result<Self> {
        // A panic while the lock was held left the end as it was.
        let mut backing = BACKING.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, end) = match backing.take() {
            Some(known) => known,
            None => (Arc::new(tempfile::tempfile()?), 0),
        };
        let new_end = end.saturating_add(bytes as u64).next_multiple_of(ALIGNMENT);
        *backing = Some((Arc::clone(&file), new_end));
        file.set_len(new_end)?;
        let mapped = MmapOptions::new()
            .offset(end)
            .len(bytes)
            .map_raw_read_only(&*file)?;
        Ok(Self {
            file,
            offset: end,
            mapped,
        })
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        self.mapped.len()
    }

    /// Writes bytes at an offset of the region, which they do not exceed.
    pub(super) fn write(&self, start: usize, bytes: &[u8]) -> io::Result<()> {
        if start.checked_add(bytes.len()).is_none_or(|end| end > self.len()) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        self.file.write_all_at(bytes, self.offset + start as u64)
    }

    /// Returns the bytes of a range that was written. `None`: the range is not inside the region.
    ///
    /// # Safety
    /// Nobody may write to these bytes while the result exists.
    pub(super) unsafe fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        let bytes = range.end.checked_sub(range.start)?;
        if range.end > self.len() {
            return None;
        }
        // SAFETY: the range is inside the mapping, which lives as long as `self`. The file only grows, and it has no name, so no other
        // program changes it. The caller excludes writers.
        Some(unsafe { std::slice::from_raw_parts(self.mapped.as_ptr().add(range.start), bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_apart_and_bounded() {
        let regions: Vec<Region> = [1, 70_000, 5]
            .map(|bytes| Region::create(bytes).expect("a region"))
            .into();
        for (number, region) in (1u8..).zip(&regions) {
            region.write(0, &vec![number; region.len()]).expect("written");
        }
        for (number, region) in (1u8..).zip(&regions) {
            // SAFETY: nobody writes any more.
            let bytes = unsafe { region.get(0..region.len()) }.expect("inside");
            assert!(bytes.iter().all(|&byte| byte == number));
            // SAFETY: as above.
            assert!(unsafe { region.get(0..region.len() + 1) }.is_none());
            assert!(region.write(region.len(), &[0]).is_err());
        }
    }
}
