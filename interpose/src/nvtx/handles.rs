//! Handles that NVTX returns: this library's own, or those of another injection if there is one.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Maximum number of handles of one kind.
const PLACES: usize = 2048;
/// Maximum number of slots that are probed for one handle.
const MAX_STEPS: usize = 32;

/// Table from handles to numbers. It never removes an entry, never allocates and takes no lock.
pub struct Handles {
    handles: [AtomicUsize; PLACES],
    values: [AtomicU32; PLACES],
}

impl Handles {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self {
            handles: [const { AtomicUsize::new(0) }; PLACES],
            values: [const { AtomicU32::new(0) }; PLACES],
        }
    }

    fn places(handle: usize) -> impl Iterator<Item = usize> {
        let start = (handle as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 48;
        (0..MAX_STEPS).map(move |step| (start + step) % PLACES)
    }

    /// Stores the number of a handle. If the table has no slot for it, the handle stays unknown.
    pub fn put(&self, handle: usize, value: u32) {
        if handle == 0 {
            return;
        }
        for place in Self::places(handle) {
            let found = &self.handles[place];
            let is_ours = match found.compare_exchange(0, handle, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => true,
                Err(other) => other == handle,
            };
            if is_ours {
                self.values[place].store(value + 1, Ordering::Release);
                return;
            }
        }
    }

    /// Returns the number of a handle.
    pub fn get(&self, handle: usize) -> Option<u32> {
        if handle == 0 {
            return None;
        }
        for place in Self::places(handle) {
            match self.handles[place].load(Ordering::Acquire) {
                0 => return None,
                found if found == handle => {
                    return self.values[place].load(Ordering::Acquire).checked_sub(1);
                }
                _ => {}
            }
        }
        None
    }
}

impl Default for Handles {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_return_the_value_that_was_put() {
        let handles = Box::new(Handles::new());
        for handle in 1..=100 {
            handles.put(handle * 64, handle as u32);
        }
        handles.put(64, 7);
        assert_eq!(handles.get(64), Some(7));
        assert_eq!(handles.get(128), Some(2));
        assert_eq!((handles.get(0), handles.get(65)), (None, None));
    }
}
