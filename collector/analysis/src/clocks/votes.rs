//! Detects wrongly matched instances and clock jumps: both contradict their neighbours in time.
//!
//! A mismatch contradicts the sightings before and after it, and is excluded. After a jump all sightings contradict all
//! before it, and a new segment starts.
//!
//! If a rank is always late, its bounds are too wide to contradict anything. Then the leaves decide: they coincide in
//! every instance except a mismatched one.
//!
//! Excluding a correct sighting only widens the interval. So the vote may exclude generously.

use super::MAX_DRIFT_PPM;
use super::evidence::Sighting;
use std::collections::VecDeque;

/// Number of neighbours that vote on each side.
pub const NEIGHBOURS: usize = 12;
/// Minimum number of neighbours that can be compared.
const QUORUM: usize = 3;
/// Leaves are apart if their distance from the neighbours' median exceeds this multiple of the median distance …
const APART: i64 = 12;
/// … and is at least this, in nanoseconds.
const MIN_APART_NS: i64 = 100_000;
/// A sighting is excluded if it contradicts more than one in this many neighbours. A correct one contradicts only
/// mismatches, which are rarer.
const SUSPICIOUS: usize = 7;
/// Number of sightings that are judged together.
const BLOCK: usize = 64;
/// Number of sightings that wait for others which arrive out of order. Logs are read in turns. A sighting arrives when
/// both ends of a message, or all members of an instance, were read.
const WAITING: usize = 128;

/// Result of a vote on a sighting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It agrees with its neighbours.
    Fits,
    /// It agrees with its successors, and these contradict the sightings before it.
    FitsAfterJump,
    /// It contradicts its neighbours.
    Mismatch,
    /// It arrived after its neighbours had been judged.
    Late,
}

/// Judges the sightings of one pair of hosts in order of time.
#[derive(Default)]
pub struct Votes {
    /// The last sightings that fit.
    before: VecDeque<Sighting>,
    waiting: Vec<Sighting>,
    /// Time of the last judged sighting on the first clock, in nanoseconds.
    judged_ns: Option<i64>,
}

/// Returns true if both cannot be correct at any possible drift. Returns `None` if they bound the same side only.
fn contradict(one: &Sighting, other: &Sighting) -> Option<bool> {
    let above = |upper: &Sighting, lower: &Sighting| {
        let (upper, lower) = (upper.upper?, lower.lower?);
        let apart = (i128::from(upper.at_ns) - i128::from(lower.at_ns)).abs();
        let drift = apart * i128::from(MAX_DRIFT_PPM) / 1_000_000 + 1;
        Some(i128::from(upper.value_ns) + drift < i128::from(lower.value_ns))
    };
    match (above(one, other), above(other, one)) {
        (None, None) => None,
        (one, other) => Some(one == Some(true) || other == Some(true)),
    }
}

/// Number of comparable neighbours, and number of those that contradict.
#[derive(Clone, Copy)]
struct Count {
    asked: usize,
    against: usize,
}

impl Count {
    fn of<'a>(sighting: &Sighting, others: impl Iterator<Item = &'a Sighting>) -> Self {
        let mut count = Self { asked: 0, against: 0 };
        for other in others {
            if let Some(contradicts) = contradict(sighting, other) {
                count.asked += 1;
                count.against += usize::from(contradicts);
            }
        }
        count
    }

    /// Returns true if most neighbours contradict, or `None` without a quorum.
    fn most(self) -> Option<bool> {
        (self.asked >= QUORUM).then_some(2 * self.against > self.asked)
    }

    fn is_suspicious(self) -> bool {
        self.against >= QUORUM && self.against * SUSPICIOUS > self.asked
    }

    fn and(self, other: Self) -> Self {
        Self {
            asked: self.asked + other.asked,
            against: self.against + other.against,
        }
    }
}

/// Returns true if the leaves of a sighting are apart from those of its neighbours, or `None` without a quorum.
fn leaves_apart<'a>(
    sighting: &Sighting,
    others: impl Iterator<Item = &'a Sighting>,
    scratch: &mut Vec<i64>,
) -> Option<bool> {
    let own = sighting.leaves_ns?;
    scratch.clear();
    scratch.extend(others.filter_map(|other| other.leaves_ns));
    if scratch.len() < QUORUM {
        return None;
    }
    scratch.sort_unstable();
    let middle = scratch[scratch.len() / 2];
    scratch
        .iter_mut()
        .for_each(|leaves_ns| *leaves_ns = leaves_ns.saturating_sub(middle).saturating_abs());
    scratch.sort_unstable();
    let spread = scratch[scratch.len() / 2];
    let limit = spread.saturating_mul(APART).max(MIN_APART_NS);
    Some(own.saturating_sub(middle).saturating_abs() > limit)
}

impl Votes {
    /// Takes a sighting, and emits the sightings that can be judged.
    pub fn take(&mut self, sighting: Sighting, mut hand_on: impl FnMut(Sighting, Verdict)) {
        // Among later neighbours it would look like a jump back.
        if self.judged_ns.is_some_and(|judged_ns| sighting.at_ns < judged_ns) {
            hand_on(sighting, Verdict::Late);
            return;
        }
        self.waiting.push(sighting);
        if self.waiting.len() >= BLOCK + WAITING {
            self.judge(WAITING, hand_on);
        }
    }

    /// Judges the remaining sightings.
    pub fn finish(&mut self, hand_on: impl FnMut(Sighting, Verdict)) {
        self.judge(0, hand_on);
    }

    /// Counts the neighbours of both sides. A later neighbour counts as contradicting only if it agrees with the
    /// sightings before: others are mismatches, or follow a jump.
    fn of_both(&self, sighting: &Sighting, of_before: Count, of_after: Count, after: &[Sighting]) -> Count {
        if of_after.against == 0 {
            return of_before.and(of_after);
        }
        let against = after
            .iter()
            .filter(|other| contradict(sighting, other) == Some(true))
            .filter(|other| Count::of(other, self.before.iter()).most() != Some(true))
            .count();
        of_before.and(Count { against, ..of_after })
    }

    /// Judges all waiting sightings except the last `keep`.
    fn judge(&mut self, keep: usize, mut hand_on: impl FnMut(Sighting, Verdict)) {
        // They arrive nearly in order.
        self.waiting.sort_by_key(|sighting| sighting.at_ns);
        let count = self.waiting.len().saturating_sub(keep);
        let mut scratch = Vec::with_capacity(NEIGHBOURS);
        for at in 0..count {
            let sighting = self.waiting[at];
            let after = &self.waiting[at + 1..self.waiting.len().min(at + 1 + NEIGHBOURS)];
            let of_before = Count::of(&sighting, self.before.iter());
            let of_after = Count::of(&sighting, after.iter());
            let verdict = match of_before.most() {
                Some(true) => {
                    let agree = after
                        .iter()
                        .filter(|other| Count::of(other, self.before.iter()).most() == Some(true))
                        .count();
                    let is_jump = 2 * agree > after.len()
                        && agree >= QUORUM
                        && of_after.most() == Some(false)
                        && !of_after.is_suspicious();
                    if is_jump {
                        Verdict::FitsAfterJump
                    } else {
                        Verdict::Mismatch
                    }
                }
                // The later neighbours contradict it: it is one of the first sightings, or a jump follows.
                _ if of_after.most() == Some(true) => {
                    if of_before.asked < QUORUM || of_before.against > 0 {
                        Verdict::Mismatch
                    } else {
                        Verdict::Fits
                    }
                }
                _ if self
                    .of_both(&sighting, of_before, of_after, after)
                    .is_suspicious() =>
                {
                    Verdict::Mismatch
                }
                _ => {
                    let apart_before = leaves_apart(&sighting, self.before.iter(), &mut scratch);
                    let apart_after = leaves_apart(&sighting, after.iter(), &mut scratch);
                    match (apart_before, apart_after) {
                        (Some(true) | None, Some(true)) | (Some(true), None) => Verdict::Mismatch,
                        _ => Verdict::Fits,
                    }
                }
            };
            if verdict == Verdict::FitsAfterJump {
                self.before.clear();
            }
            if verdict != Verdict::Mismatch {
                if self.before.len() == NEIGHBOURS {
                    self.before.pop_front();
                }
                self.before.push_back(sighting);
            }
            hand_on(sighting, verdict);
        }
        self.judged_ns = count
            .checked_sub(1)
            .and_then(|last| self.waiting.get(last))
            .map(|last| last.at_ns)
            .or(self.judged_ns);
        self.waiting.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocks::hull::Bound;

    /// Returns a sighting that bounds the offset to ±100 µs.
    fn sighting(at_ns: i64, offset_ns: i64) -> Sighting {
        Sighting {
            at_ns,
            other_ns: at_ns + offset_ns,
            upper: Some(Bound {
                at_ns,
                value_ns: offset_ns + 100_000,
            }),
            lower: Some(Bound {
                at_ns,
                value_ns: offset_ns - 100_000,
            }),
            leaves_ns: None,
        }
    }

    fn judged(sightings: impl Iterator<Item = Sighting>) -> Vec<Verdict> {
        let mut votes = Votes::default();
        let mut out = Vec::new();
        for sighting in sightings {
            votes.take(sighting, |_, verdict| out.push(verdict));
        }
        votes.finish(|_, verdict| out.push(verdict));
        out
    }

    #[test]
    fn mismatches_are_distinguished_from_a_jump() {
        // One every 10 ms. Every seventh is off by 10 ms, ahead and behind in turn. The clock gains a second before
        // number 501.
        let off = |n: i64| {
            if n % 7 == 3 {
                if n % 2 == 0 { 10_000_000 } else { -10_000_000 }
            } else {
                0
            }
        };
        let base = |n: i64| if n < 501 { 0 } else { 1_000_000_000 };
        let verdicts = judged((0..1000).map(|n| sighting(n * 10_000_000, 5 + base(n) + off(n))));
        for (n, &verdict) in (0i64..).zip(&verdicts) {
            let expected = if off(n) != 0 {
                Verdict::Mismatch
            } else if n == 501 {
                Verdict::FitsAfterJump
            } else {
                Verdict::Fits
            };
            assert_eq!(verdict, expected, "{n}");
        }
        assert_eq!(verdicts.len(), 1000);
    }

    /// Sightings from logs that are read in turns. Around a jump the earlier ones arrive among the later ones, and some
    /// arrive after everything else.
    #[test]
    fn sightings_out_of_order_are_no_jump() {
        let base = |n: i64| if n < 500 { 0 } else { -3_000_000_000 };
        let in_order = |n: i64| sighting(n * 10_000_000, base(n));
        let shuffled = (0..1000i64).map(|n| in_order(n / 100 * 100 + n % 100 * 37 % 100));
        let verdicts = judged(shuffled.chain([in_order(7), in_order(499)]));
        let count = |verdict: Verdict| verdicts.iter().filter(|&&other| other == verdict).count();
        assert_eq!(
            (
                count(Verdict::FitsAfterJump),
                count(Verdict::Mismatch),
                count(Verdict::Late)
            ),
            (1, 0, 2)
        );
    }

    #[test]
    fn drift_and_one_sided_bounds_are_no_contradiction() {
        let drifting = (0..300).map(|n| sighting(n * 1_000_000_000, n * 199_000));
        assert!(judged(drifting).iter().all(|&verdict| verdict == Verdict::Fits));
        let uppers = (0..300).map(|n| Sighting {
            lower: None,
            ..sighting(n * 1_000_000, (n % 9) * 50_000_000)
        });
        assert!(judged(uppers).iter().all(|&verdict| verdict == Verdict::Fits));
    }

    #[test]
    fn the_first_sighting_is_judged_by_later_ones() {
        let verdicts = judged((0..20).map(|n| sighting(n * 1_000_000, if n < 2 { 30_000_000 } else { 0 })));
        assert_eq!(
            verdicts[..3],
            [Verdict::Mismatch, Verdict::Mismatch, Verdict::Fits]
        );
    }
}
