//! Bounds between all clocks at one moment, in little memory.
//!
//! Of n hosts there are n² bounds. Nearly all are within seconds of the assumed offset, so 32 bits are enough for them.

use super::UNBOUNDED_NS;

/// Marks a pair without a bound.
const NONE: u32 = u32::MAX;

/// Row i, column j: how far clock j minus clock i may be above the assumed value.
#[derive(Clone, Debug)]
enum Slack {
    Narrow(Vec<u32>),
    /// The bounds themselves, if one of them is far from the assumed value or below it.
    Wide(Vec<i64>),
}

/// Bounds and assumed offsets of all clocks.
#[derive(Clone, Debug)]
pub struct Bounds {
    slack: Slack,
    /// Assumed offset of each clock from the axis, in nanoseconds.
    assumed_ns: Vec<i64>,
}

impl Bounds {
    /// Packs upper bounds, row by row: of clock j minus clock i, [`UNBOUNDED_NS`] if there is none.
    pub fn new(most_ns: &[i64], assumed_ns: Vec<i64>) -> Self {
        let hosts = assumed_ns.len().max(1);
        let narrow = |(at, &most_ns): (usize, &i64)| -> Option<u32> {
            if most_ns >= UNBOUNDED_NS {
                return Some(NONE);
            }
            let assumed = assumed_ns[at % hosts].checked_sub(assumed_ns[at / hosts])?;
            let slack = u32::try_from(most_ns.checked_sub(assumed)?).ok()?;
            (slack != NONE).then_some(slack)
        };
        let slack = match most_ns.iter().enumerate().map(narrow).collect() {
            Some(narrow) => Slack::Narrow(narrow),
            None => Slack::Wide(most_ns.to_vec()),
        };
        Self { slack, assumed_ns }
    }

    /// Returns the upper bound of clock `to` minus clock `from`, in nanoseconds.
    pub fn most_ns(&self, from: usize, to: usize) -> Option<i64> {
        let at = from * self.assumed_ns.len() + to;
        match &self.slack {
            Slack::Narrow(slack) => {
                let slack = slack[at];
                let assumed = self.assumed_ns[to] - self.assumed_ns[from];
                (slack != NONE).then(|| assumed + i64::from(slack))
            }
            Slack::Wide(most_ns) => Some(most_ns[at]).filter(|&most_ns| most_ns < UNBOUNDED_NS),
        }
    }

    /// Returns the assumed offset of a clock from the axis, in nanoseconds.
    pub fn assumed_ns(&self, host: usize) -> i64 {
        self.assumed_ns[host]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packing_loses_nothing(
            assumed in proptest::collection::vec(-1i64 << 40..1 << 40, 1..6),
            slacks in proptest::collection::vec(prop_oneof![0i64..1 << 33, Just(i64::from(u32::MAX)), Just(UNBOUNDED_NS), -5i64..5], 36),
            is_far in any::<bool>(),
        ) {
            let hosts = assumed.len();
            let most: Vec<i64> = (0..hosts * hosts)
                .map(|at| match slacks[at] {
                    UNBOUNDED_NS => UNBOUNDED_NS,
                    slack => assumed[at % hosts] - assumed[at / hosts] + if is_far { slack } else { slack & 0xFFFF },
                })
                .collect();
            let bounds = Bounds::new(&most, assumed.clone());
            for (at, &most) in most.iter().enumerate() {
                let expected = (most < UNBOUNDED_NS).then_some(most);
                prop_assert_eq!(bounds.most_ns(at / hosts, at % hosts), expected);
            }
        }
    }
}
