//! What NVTX hands out as handles: ours where nobody else gives any, another injection's where one does.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Handles of one kind at most.
const PLACES: usize = 2048;
/// Places that are looked at for one handle.
const MOST_STEPS: usize = 32;

/// From handles to numbers. Never forgets one; never allocates; no lock.
pub struct Handles {
    handles: [AtomicUsize; PLACES],
    values: [AtomicU32; PLACES],
}

impl Handles {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            handles: [const { AtomicUsize::new(0) }; PLACES],
            values: [const { AtomicU32::new(0) }; PLACES],
        }
    }

    fn places(handle: usize) -> impl Iterator<Item = usize> {
        let start = (handle as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize >> 48;
        (0..MOST_STEPS).map(move |step| (start + step) % PLACES)
    }

    /// Notes what a handle stands for; one too many stands for nothing.
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

    /// What it stands for.
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
    fn handles_stand_for_what_was_put() {
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
