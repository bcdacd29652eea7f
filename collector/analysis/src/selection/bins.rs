//! Bins of durations: four per power of two, with whole limits, so that the bin of a duration is unambiguous.

use rankscope_formats::session::TimeBin;

/// Counts by bin.
#[derive(Clone, Debug, Default)]
pub struct Bins(Vec<u64>);

/// Durations below this have one bin each.
const SINGLE_BELOW: u64 = 4;

fn bin_of(ns: u64) -> usize {
    if ns < SINGLE_BELOW {
        return ns as usize;
    }
    let power = ns.ilog2();
    let quarter = (ns >> (power - 2)) & 3;
    (power as usize - 1) * 4 + quarter as usize
}

/// Returns the shortest duration of a bin, or the largest number beyond the last bin.
fn from_ns(bin: usize) -> i64 {
    if bin < SINGLE_BELOW as usize {
        return bin as i64;
    }
    let (power, quarter) = (bin / 4 + 1, bin % 4);
    let ns = (4 + quarter as u128) << (power - 2);
    i64::try_from(ns).unwrap_or(i64::MAX)
}

impl Bins {
    /// Counts a duration. A negative one counts as 0.
    pub fn add(&mut self, ns: i64) {
        let bin = bin_of(ns.max(0).unsigned_abs());
        if self.0.len() <= bin {
            self.0.resize(bin + 1, 0);
        }
        self.0[bin] += 1;
    }

    /// Adds the counts of another instance.
    pub fn merge(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (sum, count) in self.0.iter_mut().zip(&other.0) {
            *sum += count;
        }
    }

    /// Returns the non-empty bins.
    pub fn table(&self) -> Vec<TimeBin> {
        let some = self.0.iter().enumerate().filter(|(_, count)| **count > 0);
        some.map(|(bin, &count)| TimeBin {
            from_ns: from_ns(bin),
            below_ns: from_ns(bin + 1),
            count,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_is_inside_its_bin(ns in prop_oneof![0i64..100, any::<i64>()]) {
            let mut bins = Bins::default();
            bins.add(ns);
            let table = bins.table();
            prop_assert_eq!(table.len(), 1);
            let (bin, ns) = (table[0], ns.max(0));
            prop_assert!(bin.from_ns <= ns && ns - bin.from_ns <= bin.from_ns / 4, "{bin:?}");
            prop_assert!(ns < bin.below_ns || ns == i64::MAX, "{bin:?}");
        }
    }
}
