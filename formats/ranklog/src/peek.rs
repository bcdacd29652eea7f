//! The calls in progress of a live area, without the rest of it: what a watcher reads every second.
//!
//! A call is identified by its slot and its first word, whose generation is different for each call. So a caller needs no
//! clock to see that a call still lasts.

use super::layout::{HEADER_BYTES, IN_FLIGHT_SLOTS, LANE_BYTES, LIVE_MAGIC, header, lane};
use super::little_endian::{u32_at, u64_at};
use super::record::RECORD_BYTES;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Number of lanes that are read at once. Most processes use fewer.
const LANES_AT_ONCE: u64 = 16;

/// Identity of a call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallIdentity {
    /// Number of the slot, over all lanes.
    pub slot: u32,
    /// First word of the slot.
    pub commit_word: u64,
}

/// Returns the calls in progress of a live area, by slot.
pub fn calls(path: &Path) -> io::Result<Vec<CallIdentity>> {
    let file = File::open(path)?;
    let mut head = [0u8; HEADER_BYTES];
    file.read_exact_at(&mut head, 0)?;
    if u64_at(&head, header::MAGIC) != LIVE_MAGIC {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a live area"));
    }
    let start = u64_at(&head, header::LANES_OFFSET);
    let lanes = u64::from(u32_at(&head, header::LANE_COUNT));
    let mut found = Vec::new();
    let mut block = vec![0u8; LANE_BYTES * LANES_AT_ONCE as usize];
    let mut first = 0;
    while first < lanes {
        let count = LANES_AT_ONCE.min(lanes - first) as usize;
        let bytes = &mut block[..count * LANE_BYTES];
        let offset = start.saturating_add(first * LANE_BYTES as u64);
        file.read_exact_at(bytes, offset)?;
        let mut used = 0;
        for (index, block) in bytes.as_chunks::<LANE_BYTES>().0.iter().enumerate() {
            // Lanes are taken in order, so those behind unused ones are unused too.
            used += usize::from(u32_at(block, lane::STATE) != 0);
            for slot in 0..IN_FLIGHT_SLOTS {
                let commit_word = u64_at(block, 64 + slot * RECORD_BYTES);
                if commit_word != 0 {
                    let number = (first as usize + index) * IN_FLIGHT_SLOTS + slot;
                    found.push(CallIdentity {
                        slot: number as u32,
                        commit_word,
                    });
                }
            }
        }
        if used == 0 {
            break;
        }
        first += LANES_AT_ONCE;
    }
    Ok(found)
}
