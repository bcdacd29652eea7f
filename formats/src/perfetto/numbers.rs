//! Process and thread numbers that are unique on the engine's machine.
//!
//! The engine identifies a process by machine and pid, and a thread by machine and tid. Numbers may collide if one
//! machine shows processes of several hosts, containers or attempts of a job. The engine would treat such processes as
//! one reused process, or mix up their threads.

use std::collections::HashSet;

/// First replacement number. Linux assigns pids below 2^22, so replacements are recognisable.
const FIRST_REPLACEMENT: u32 = 1 << 22;

/// Numbers in use, by machine. Processes and threads share one number space, as in Linux.
pub(super) struct Numbers {
    taken: HashSet<(u32, u32)>,
    next: u32,
}

impl Numbers {
    /// Creates an empty set. Replacements count up from 2^22.
    pub(super) fn new() -> Self {
        Numbers {
            taken: HashSet::new(),
            next: FIRST_REPLACEMENT,
        }
    }

    /// Returns `wanted` if it is free and fits into an int32, else another number with these properties.
    pub(super) fn take(&mut self, machine: u32, wanted: u64) -> u32 {
        if let Ok(number) = u32::try_from(wanted)
            && number <= i32::MAX.cast_unsigned()
            && self.taken.insert((machine, number))
        {
            return number;
        }
        // The loop is bounded by the number of tracks, which is below 2^24.
        loop {
            let number = self.next;
            self.next += 1;
            if self.taken.insert((machine, number)) {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_used_or_oversized_numbers_are_replaced() {
        let mut numbers = Numbers::new();
        assert_eq!(numbers.take(0, 100), 100);
        assert_eq!(numbers.take(1, 100), 100);
        let replaced = numbers.take(0, 100);
        assert!(replaced >= FIRST_REPLACEMENT);
        assert_ne!(numbers.take(0, 1 << 40), replaced);
        assert_ne!(numbers.take(0, u64::from(replaced)), replaced);
    }
}
