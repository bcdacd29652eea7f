//! The largest error between any two hosts during a run.
//!
//! Reports and findings ask for all pairs, several times. With thousands of hosts these are millions, so they are computed
//! once, in the order in which their bounds are in memory.

/// Marks a pair whose error is unbounded at some moment.
const UNBOUNDED: i64 = i64::MAX;

/// Largest error of each pair of hosts.
#[derive(Clone, Debug, Default)]
pub struct LargestErrors {
    hosts: usize,
    /// Errors of the pairs in order, the lower number first, in ± nanoseconds.
    errors_ns: Vec<i64>,
}

impl LargestErrors {
    /// Computes the errors of all pairs, on `threads` threads. `largest_ahead` returns by how many nanoseconds at most a
    /// second clock may be ahead of where it is assumed, seen from a first clock; `None` if that is unbounded.
    pub fn new(
        hosts: usize,
        threads: usize,
        largest_ahead: impl Fn(usize, usize) -> Option<i64> + Sync,
    ) -> Self {
        let mut ahead_ns = vec![UNBOUNDED; hosts * hosts];
        let rows = hosts.div_ceil(threads.max(1)).max(1);
        std::thread::scope(|scope| {
            for (number, part) in ahead_ns.chunks_mut(rows * hosts.max(1)).enumerate() {
                let largest_ahead = &largest_ahead;
                let mut work = move || {
                    for (at, ahead_ns) in part.iter_mut().enumerate() {
                        let (one, other) = (number * rows + at / hosts, at % hosts);
                        *ahead_ns = largest_ahead(one, other).unwrap_or(UNBOUNDED);
                    }
                };
                if rows >= hosts {
                    work();
                } else {
                    scope.spawn(work);
                }
            }
        });
        let pairs = (0..hosts).flat_map(|one| (one + 1..hosts).map(move |other| (one, other)));
        // If one clock is ahead of the other, the other is behind.
        let errors_ns =
            pairs.map(|(one, other)| ahead_ns[one * hosts + other].max(ahead_ns[other * hosts + one]));
        Self {
            hosts,
            errors_ns: errors_ns.collect(),
        }
    }

    /// Returns the largest error between two different hosts, in ± nanoseconds; `None` if it is unbounded.
    pub fn between(&self, one: usize, other: usize) -> Option<i64> {
        let (one, other) = (one.min(other), one.max(other));
        if one == other || other >= self.hosts {
            return None;
        }
        // Pairs of the hosts before, and pairs of this one.
        let place = one * self.hosts - one * (one + 1) / 2 + other - one - 1;
        self.errors_ns
            .get(place)
            .copied()
            .filter(|&error_ns| error_ns != UNBOUNDED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_the_larger_of_its_two_sides() {
        for threads in [1, 3] {
            let errors = LargestErrors::new(7, threads, |one, other| {
                ((one, other) != (5, 2)).then_some((100 * one + other) as i64)
            });
            for one in 0..7 {
                for other in (0..7).filter(|&other| other != one) {
                    let (low, high) = (one.min(other), one.max(other));
                    let expected = ((low, high) != (2, 5)).then_some((100 * high + low) as i64);
                    assert_eq!(errors.between(one, other), expected, "{one} {other}");
                }
            }
            assert_eq!(errors.between(0, 7), None);
        }
    }
}
