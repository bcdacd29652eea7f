//! Communicators of unbound buffers, stored when a buffer is created.
//!
//! Every collective creates buffers too, so this is on the hot path. It is a fixed table of small buckets that are
//! overwritten without a lock. If other buffers replaced a buffer's entry, its communicator is recorded as unknown,
//! never as a wrong one.

use rankscope_ranklog::sequence_lock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const BUCKETS: usize = 4096;
const WAYS: usize = 4;
/// Address in a place that a thread is writing. No buffer has it.
const WRITING: u64 = 1;

struct Place {
    /// Address of the buffer; 0 if there is none.
    buffer: AtomicU64,
    /// Its communicator and its size in bytes.
    values: [AtomicU64; 2],
}

static PLACES: [[Place; WAYS]; BUCKETS] = [const {
    [const {
        Place {
            buffer: AtomicU64::new(0),
            values: [const { AtomicU64::new(0) }; 2],
        }
    }; WAYS]
}; BUCKETS];

/// Next entry to replace in a bucket whose entries are all taken.
static NEXT_WAY: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

fn bucket(buffer: u64) -> usize {
    buffer.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 52
}

/// Stores a new buffer. If another thread is writing the same place, the buffer stays unknown.
#[inline]
pub fn created(buffer: usize, communicator: u32, bytes: u64) {
    let buffer = buffer as u64;
    let bucket = bucket(buffer);
    let places = &PLACES[bucket];
    let place = places
        .iter()
        .find(|place| place.buffer.load(Ordering::Relaxed) == buffer)
        .or_else(|| {
            places
                .iter()
                .find(|place| place.buffer.load(Ordering::Relaxed) == 0)
        })
        .unwrap_or_else(|| &places[NEXT_WAY[bucket].fetch_add(1, Ordering::Relaxed) as usize % WAYS]);
    let before = place.buffer.load(Ordering::Relaxed);
    let claimed = place
        .buffer
        .compare_exchange(before, WRITING, Ordering::Acquire, Ordering::Relaxed);
    if before == WRITING || claimed.is_err() {
        return;
    }
    sequence_lock::put(
        &place.buffer,
        &place.values,
        buffer,
        [u64::from(communicator), bytes],
    );
}

/// Returns the communicator and the bytes of a buffer; `None` if it is unknown, or was replaced.
#[inline]
pub fn find(buffer: usize) -> Option<(u32, u64)> {
    let buffer = buffer as u64;
    let place = PLACES[bucket(buffer)]
        .iter()
        .find(|place| place.buffer.load(Ordering::Relaxed) == buffer)?;
    let (found, [communicator, bytes]) = sequence_lock::copy(&place.buffer, &place.values)?;
    (found == buffer).then_some((communicator as u32, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_found_until_others_take_its_place_and_then_it_is_unknown() {
        created(0x5000, 3, 64);
        assert_eq!(find(0x5000), Some((3, 64)));
        created(0x5000, 4, 128);
        assert_eq!(find(0x5000), Some((4, 128)));
        for n in 1..200_000usize {
            created(0x10_0000 + n * 48, 5, n as u64);
        }
        assert!(matches!(find(0x5000), None | Some((4, 128))));
        assert_eq!(find(0x10_0000 + 199_999 * 48), Some((5, 199_999)));
    }
}
