//! Selects the collectives whose messages are kept: about eight per second of each communicator, or all if there are
//! fewer.
//!
//! A message is evidence only if both its ends are kept, and each end decides alone. A clock cannot decide: two ranks
//! would soon select different collectives. The collective's key decides, because all members know it. The selection of
//! a lower rate is a subset of that of a higher rate.

use rankscope_ranklog::clock::ticks_per_second;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum shift: at least one collective in 2²⁴ is selected.
const MAX_SHIFT: u32 = 24;
/// Target rate of selected collectives, per second.
const WANTED_PER_S: u64 = 8;

/// Rate of a communicator's collectives. Zeros describe a communicator without collectives.
#[derive(Default)]
pub struct Sampling {
    shift: AtomicU32,
    last_ticks: AtomicU64,
    /// Time at which the shift decreases if no collective was selected until then: the rate has fallen.
    patience_ticks: AtomicU64,
}

impl Sampling {
    /// Creates the state of a communicator without collectives.
    pub const fn new() -> Self {
        Self {
            shift: AtomicU32::new(0),
            last_ticks: AtomicU64::new(0),
            patience_ticks: AtomicU64::new(0),
        }
    }

    /// Resets the state for a new communicator.
    pub fn reset(&self) {
        self.shift.store(0, Ordering::Relaxed);
        self.last_ticks.store(0, Ordering::Relaxed);
        self.patience_ticks.store(0, Ordering::Relaxed);
    }

    /// Returns true if the messages of the collective that starts now are to be kept.
    #[inline]
    pub fn takes(&self, tag: u32, sequence: u32, now_ticks: u64) -> bool {
        let shift = self.shift.load(Ordering::Relaxed);
        if is_among(tag, sequence, shift) {
            self.taken(shift, now_ticks);
            return true;
        }
        if now_ticks >= self.patience_ticks.load(Ordering::Relaxed) {
            self.none_for_long(shift, now_ticks);
        }
        false
    }

    #[cold]
    fn taken(&self, shift: u32, now_ticks: u64) {
        let wanted = ticks_per_second() / WANTED_PER_S;
        let gap = now_ticks.saturating_sub(self.last_ticks.load(Ordering::Relaxed));
        if gap < wanted / 2 {
            self.shift.store((shift + 1).min(MAX_SHIFT), Ordering::Relaxed);
        } else if gap > wanted * 2 {
            self.shift.store(shift.saturating_sub(1), Ordering::Relaxed);
        }
        self.last_ticks.store(now_ticks, Ordering::Relaxed);
        self.patience_ticks
            .store(now_ticks + ticks_per_second() / 2, Ordering::Relaxed);
    }

    #[cold]
    fn none_for_long(&self, shift: u32, now_ticks: u64) {
        self.shift.store(shift.saturating_sub(1), Ordering::Relaxed);
        self.patience_ticks
            .store(now_ticks + ticks_per_second() / WANTED_PER_S, Ordering::Relaxed);
    }
}

/// Returns true for one key in 2^shift. Each of these is also selected by every smaller shift. It is not every
/// 2^shift-th key: programs call in patterns, so that would always select the same part of a pattern.
#[inline]
fn is_among(tag: u32, sequence: u32, shift: u32) -> bool {
    // The upper bits of a multiplicative hash (Knuth, golden ratio). For consecutive numbers, such as tags of c10d and
    // uses of one tag, the selected ones are nearly equally spaced.
    let spread = (u64::from(tag) << 32 | u64::from(sequence)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    spread.leading_zeros() >= shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_rate_takes_a_subset_of_a_higher_rate() {
        for shift in 1..12 {
            // Consecutive tags, and consecutive uses of one tag.
            for by_tag in [true, false] {
                let among = |number: u32, shift: u32| {
                    if by_tag {
                        is_among(number, 0, shift)
                    } else {
                        is_among(7, number, shift)
                    }
                };
                let taken: Vec<u32> = (0..1 << 16).filter(|&number| among(number, shift)).collect();
                assert!(taken.iter().all(|&number| among(number, shift - 1)));
                let expected = (1usize << 16) >> shift;
                assert!(
                    taken.len().abs_diff(expected) <= expected / 8 + 2,
                    "{} for {expected}",
                    taken.len()
                );
                // If two kinds of collectives alternate, both kinds are selected.
                let odd = taken.iter().filter(|&&number| number % 2 == 1).count();
                assert!(
                    odd * 4 > taken.len() && odd * 4 < taken.len() * 3,
                    "{odd} of {}",
                    taken.len()
                );
            }
        }
    }

    /// Members that arrive at different times keep both ends of a message, at any rate and soon after a change of the
    /// rate.
    #[test]
    fn members_that_arrive_at_different_times_take_the_same() {
        let second = ticks_per_second();
        let members = [Sampling::new(), Sampling::new()];
        let mut tag = 0;
        let mut now = second;
        for (a_second, seconds) in [(3u64, 20u64), (40, 20), (3000, 20), (100_000, 5), (20, 20)] {
            let (mut taken, mut by_both) = ([0u64; 2], 0u64);
            for call in 0..a_second * seconds {
                now += second / a_second;
                tag += 1;
                let kept = [0, 1].map(|member| {
                    // The second member is late by up to two calls, by a different time for each call.
                    let late = member as u64 * (u64::from(tag) % 7) * second / a_second / 3;
                    members[member].takes(tag, 0, now + late)
                });
                // Counts from two seconds after the change of the rate.
                if call >= 2 * a_second {
                    taken = [0, 1].map(|member| taken[member] + u64::from(kept[member]));
                    by_both += u64::from(kept[0] && kept[1]);
                }
            }
            let expected = a_second.min(WANTED_PER_S) * (seconds - 2);
            assert!(
                by_both * 3 >= expected && taken.iter().all(|&taken| taken <= 2 * expected + 2),
                "{a_second} a second: {taken:?}, by both {by_both}, of {expected}"
            );
        }
    }
}
