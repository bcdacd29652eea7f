//! Selects which calls of a communicator are timed: all of them or, at high rates, one in 2, 4, 8 and so on.
//!
//! The selection uses the call's ordinal, so that members agree. The calls of a lower rate are a subset of those of a
//! higher rate.

use rankscope_ranklog::clock::ticks_per_second;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Maximum shift: at least one call in 2²⁰ is timed.
const MAX_SHIFT: u32 = 20;

/// Call rate of a communicator. Zeros describe a communicator that was never called.
#[derive(Default)]
pub struct Rate {
    shift: AtomicU32,
    count: AtomicU32,
    since_ticks: AtomicU64,
}

impl Rate {
    /// Creates the state of a communicator without calls.
    pub const fn new() -> Self {
        Self {
            shift: AtomicU32::new(0),
            count: AtomicU32::new(0),
            since_ticks: AtomicU64::new(0),
        }
    }

    /// Resets the state for a new communicator.
    pub fn reset(&self) {
        self.shift.store(0, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
        self.since_ticks.store(0, Ordering::Relaxed);
    }

    /// Returns true if this call is to be timed, where at most `wanted_per_s` calls per second are requested.
    pub fn takes(&self, ordinal: u32, now_ticks: u64, wanted_per_s: u32) -> bool {
        let count = self.count.load(Ordering::Relaxed).saturating_add(1);
        self.count.store(count, Ordering::Relaxed);
        let since = self.since_ticks.load(Ordering::Relaxed);
        if since == 0 {
            self.since_ticks.store(now_ticks.max(1), Ordering::Relaxed);
        }
        let passed = now_ticks.saturating_sub(since);
        if since != 0 && passed >= ticks_per_second() {
            let a_second = u128::from(count) * u128::from(ticks_per_second()) / u128::from(passed);
            self.shift
                .store(shift(a_second, u128::from(wanted_per_s)), Ordering::Relaxed);
            self.count.store(0, Ordering::Relaxed);
            self.since_ticks.store(now_ticks, Ordering::Relaxed);
        }
        is_among(ordinal, self.shift.load(Ordering::Relaxed))
    }
}

/// Returns true for one ordinal in 2^shift. Each of these is also selected by every smaller shift. It is not every
/// 2^shift-th ordinal: programs call in patterns, so that would always select the same part of a pattern.
fn is_among(ordinal: u32, shift: u32) -> bool {
    // The upper bits of a multiplicative hash (Knuth, golden ratio) are evenly distributed.
    let spread = ordinal.wrapping_mul(0x9E37_79B9);
    shift == 0 || spread >> (32 - shift) == 0
}

/// Returns the smallest shift that leaves at most `wanted` calls per second.
fn shift(a_second: u128, wanted: u128) -> u32 {
    (0..MAX_SHIFT)
        .find(|&shift| a_second >> shift <= wanted.max(1))
        .unwrap_or(MAX_SHIFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_rate_takes_a_subset_of_a_higher_rate() {
        for shift in 1..12 {
            let taken: Vec<u32> = (0..1 << 16).filter(|&ordinal| is_among(ordinal, shift)).collect();
            assert!(taken.iter().all(|&ordinal| is_among(ordinal, shift - 1)));
            let expected = (1usize << 16) >> shift;
            assert!(
                taken.len().abs_diff(expected) <= expected / 8 + 2,
                "{} for {expected}",
                taken.len()
            );
            // If two kinds of calls alternate, both kinds are selected.
            let odd = taken.iter().filter(|&&ordinal| ordinal % 2 == 1).count();
            assert!(
                odd * 4 > taken.len() && odd * 4 < taken.len() * 3,
                "{odd} of {}",
                taken.len()
            );
        }
    }

    #[test]
    fn few_calls_are_all_taken_and_many_calls_up_to_the_limit() {
        let second = ticks_per_second();
        for (calls, most) in [(100u32, 100), (2000, 2000), (2001, 1001), (64_000, 2000)] {
            let rate = Rate::new();
            let mut taken = 0;
            for call in 0..3 * calls {
                let now = 1 + u64::from(call) * second / u64::from(calls);
                let is_taken = rate.takes(call, now, 2000);
                taken += u32::from(is_taken && call >= 2 * calls);
            }
            assert!(
                taken <= most + most / 8 && taken >= most / 3,
                "{taken} of {calls}"
            );
        }
        assert_eq!(shift(u128::MAX, 1), MAX_SHIFT);
        assert_eq!(shift(5, 0), 2);
    }
}
