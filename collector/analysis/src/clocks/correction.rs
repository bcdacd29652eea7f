//! Converts a host's time to the axis: straight pieces, and gaps in which its clock stopped.

use crate::model::interval::Interval;
use serde::{Deserialize, Serialize};

/// Number of fraction bits of a slope.
const FRACTION_BITS: u32 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Stretch {
    /// Start on the host's clock, in nanoseconds.
    start_ns: i64,
    /// Start on the axis, in nanoseconds.
    axis_ns: i64,
    /// Axis time per host time, as a fixed-point number.
    slope: i64,
}

/// A time span of the axis as a host's clock sees it.
#[derive(Clone, Copy, Debug)]
pub struct AxisStretch {
    /// Time span on the axis.
    pub axis: Interval,
    /// Offset of the host's clock from the axis at start and end, in nanoseconds.
    pub offset_ns: [i64; 2],
    /// True if the host's clock jumped inside.
    pub has_jump: bool,
}

/// A map from a host's time to the axis. The default is the identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Correction {
    stretches: Vec<Stretch>,
}

impl Correction {
    /// Creates the map from time spans of the axis in order.
    pub fn new(stretches: impl Iterator<Item = AxisStretch>) -> Self {
        let mut correction = Self::default();
        for stretch in stretches {
            let Interval { start_ns, end_ns } = stretch.axis;
            let offset = stretch.offset_ns;
            let by_host = [
                start_ns.saturating_add(offset[0]),
                end_ns.saturating_add(offset[1]),
            ];
            if stretch.has_jump {
                // The first half continues the offset before the jump, the second half has the offset after it.
                let half = by_host[0].saturating_add(by_host[1].saturating_sub(by_host[0]).max(0) / 2);
                correction.push(by_host[0], start_ns, 1 << FRACTION_BITS);
                correction.push(half, half.saturating_sub(offset[1]), 1 << FRACTION_BITS);
            } else {
                let axis = i128::from(end_ns) - i128::from(start_ns);
                let host = (i128::from(by_host[1]) - i128::from(by_host[0])).max(1);
                // No clock runs at half or twice the speed of another: such a value comes from damaged data.
                let one = 1i128 << FRACTION_BITS;
                let slope = ((axis << FRACTION_BITS) / host).clamp(one / 2, one * 2);
                correction.push(by_host[0], start_ns, slope as i64);
            }
        }
        correction
    }

    fn push(&mut self, start_ns: i64, axis_ns: i64, slope: i64) {
        // A clock that was set back shows the same time twice. The later one counts.
        while self
            .stretches
            .last()
            .is_some_and(|last| last.start_ns >= start_ns)
        {
            self.stretches.pop();
        }
        self.stretches.push(Stretch {
            start_ns,
            axis_ns,
            slope,
        });
    }

    /// Converts a time of the host to the axis, in nanoseconds.
    #[inline]
    pub fn axis_ns(&self, host_ns: i64) -> i64 {
        if self.stretches.is_empty() {
            return host_ns;
        }
        let at = self
            .stretches
            .partition_point(|stretch| stretch.start_ns <= host_ns)
            .saturating_sub(1);
        let stretch = self.stretches[at];
        let since = i128::from(host_ns) - i128::from(stretch.start_ns);
        let ns = i128::from(stretch.axis_ns) + ((since * i128::from(stretch.slope)) >> FRACTION_BITS);
        ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(start_ns: i64, end_ns: i64, offset_ns: [i64; 2], has_jump: bool) -> AxisStretch {
        AxisStretch {
            axis: Interval { start_ns, end_ns },
            offset_ns,
            has_jump,
        }
    }

    #[test]
    fn a_host_that_slept_wakes_later_on_the_axis() {
        // 5 ns ahead, then suspended for 1000 ns somewhere between 100 and 1110.
        let correction = Correction::new(
            [
                stretch(0, 100, [5, 5], false),
                stretch(100, 1110, [5, -995], true),
                stretch(1110, 2000, [-995, -995], false),
            ]
            .into_iter(),
        );
        assert_eq!(correction.axis_ns(5), 0);
        assert_eq!(correction.axis_ns(105), 100);
        assert_eq!(correction.axis_ns(109), 104);
        assert_eq!(
            correction.axis_ns(110),
            1105,
            "the middle of what it saw of the gap"
        );
        assert_eq!(correction.axis_ns(115), 1110);
        assert_eq!(correction.axis_ns(1000), 1995);
        assert_eq!(
            correction.axis_ns(-10),
            -15,
            "before the first stretch it ran as in it"
        );
        assert!((-50..1200).all(|ns| correction.axis_ns(ns) <= correction.axis_ns(ns + 1)));
    }

    #[test]
    fn drift_is_removed_and_damage_does_not_overflow() {
        let correction = Correction::new([stretch(0, 1_000_000_000, [0, 100_000], false)].into_iter());
        assert!(correction.axis_ns(1_000_100_000).abs_diff(1_000_000_000) <= 1);
        assert!(correction.axis_ns(500_050_000).abs_diff(500_000_000) <= 1);
        let broken = Correction::new(
            [
                stretch(i64::MIN, i64::MAX, [i64::MAX, i64::MIN], false),
                stretch(5, 1, [0, 0], true),
            ]
            .into_iter(),
        );
        for ns in [i64::MIN, 0, i64::MAX] {
            broken.axis_ns(ns);
        }
        assert_eq!(Correction::default().axis_ns(7), 7);
    }
}
