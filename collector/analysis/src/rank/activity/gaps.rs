//! Finds idle gaps of streams by cause, and stretches in which a device did not compute (METRICS.md, section 6). Device
//! work must arrive in order of its start.

use crate::intervals::extend;
use crate::model::interval::Interval;
use rankscope_formats::session::{IdleCause, StallCause, StallRow, WorkClass};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Causes that are summed.
pub const CAUSES: [IdleCause; 4] = [
    IdleCause::HostWait,
    IdleCause::KernelWait,
    IdleCause::Other,
    IdleCause::Unknown,
];

/// Maximum gap between already launched kernels that is attributed to the device, in nanoseconds.
const KERNEL_WAIT_NS: i64 = 30_000;
/// Minimum length of a stall, in nanoseconds.
const STALL_NS: i64 = 1_000_000;
/// Compute below 1 / this of a stretch does not end the stretch.
const BUSY_SHARE: i64 = 100;

/// A stretch without compute that may continue.
#[derive(Clone, Copy)]
struct Stretch {
    start_ns: i64,
    end_ns: i64,
    communication_ns: i64,
    memory_ns: i64,
    compute_ns: i64,
    /// Compute after its end.
    tail_ns: i64,
    /// Time in which the compute that ended it, or ended a part of it, had not been launched; `None` if unknown.
    not_launched_ns: Option<i64>,
    /// Number of the name of the compute kernel that ended it.
    before: i32,
}

/// Place of a recurring stretch without compute in a step: the kernel after it, and the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Place {
    /// Number of the kernel's name in the log.
    pub before: i32,
    /// Cause, as far as the data of this rank shows it.
    pub cause: StallCause,
}

/// A stretch that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosedStretch {
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// Its place.
    pub place: Place,
    /// Length, in nanoseconds.
    pub length_ns: i64,
}

/// Device work on a stream.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Number of the stream.
    pub stream: u32,
    /// Class of the work.
    pub class: WorkClass,
    /// Number of a kernel's name; −1 if there is none.
    pub name: i32,
    /// Start, in nanoseconds.
    pub start_ns: i64,
    /// End, in nanoseconds.
    pub end_ns: i64,
    /// Launch, in nanoseconds; `None` if unknown.
    pub launch_ns: Option<i64>,
}

/// Why a stream was idle before device work, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// Cause.
    pub cause: IdleCause,
    /// Length of the gap, in nanoseconds.
    pub ns: i64,
}

/// Gaps and stretches of one rank's devices.
#[derive(Default)]
pub struct Gaps {
    /// End of the last work by stream.
    ends: FxHashMap<u32, i64>,
    /// End of all compute so far.
    computed_until: Option<i64>,
    /// Communication and memory work that extends beyond that end.
    communication: Union,
    memory: Union,
    open: Option<Stretch>,
    /// Completed stretches of any length.
    pub stretches: VecDeque<ClosedStretch>,
}

impl Gaps {
    /// Adds device work. Returns why its stream was idle before it.
    pub fn work(&mut self, work: &Ran, stalls: &mut Vec<StallRow>) -> Idle {
        self.see(work, stalls);
        let before = match self.ends.get_mut(&work.stream) {
            Some(end) => {
                let before = *end;
                *end = before.max(work.end_ns);
                Some(before)
            }
            None => self.ends.insert(work.stream, work.end_ns),
        };
        match before {
            Some(before) if work.start_ns > before => {
                let gap = work.start_ns - before;
                let cause = match work.launch_ns {
                    None => IdleCause::Unknown,
                    Some(launch) if launch > before => IdleCause::HostWait,
                    Some(_) if gap < KERNEL_WAIT_NS => IdleCause::KernelWait,
                    Some(_) => IdleCause::Other,
                };
                Idle { cause, ns: gap }
            }
            _ => Idle {
                cause: IdleCause::None,
                ns: 0,
            },
        }
    }

    /// Adds device work to the stretches without compute.
    fn see(&mut self, work: &Ran, stalls: &mut Vec<StallRow>) {
        let (start_ns, end_ns) = (work.start_ns, work.end_ns);
        // Work that extends beyond the first compute, which has not arrived yet, may fill a stretch after it. Before
        // the first compute there is no stall.
        let computed_until = self.computed_until.unwrap_or(start_ns);
        match work.class {
            WorkClass::Communication => self
                .communication
                .add(Interval { start_ns, end_ns }, computed_until),
            WorkClass::Memory => self.memory.add(Interval { start_ns, end_ns }, computed_until),
            WorkClass::Compute => {
                if start_ns > computed_until {
                    self.gap(computed_until, work, stalls);
                }
                let computed = end_ns - start_ns.max(computed_until);
                if computed > 0
                    && let Some(open) = &mut self.open
                {
                    open.tail_ns += computed;
                }
                self.computed_until = Some(computed_until.max(end_ns));
            }
        }
    }

    /// Adds an interval without compute, from a time to the start of compute.
    fn gap(&mut self, from: i64, compute: &Ran, stalls: &mut Vec<StallRow>) {
        let (to, before) = (compute.start_ns, compute.name);
        let gap = Interval::new(from, to);
        let piece = Stretch {
            start_ns: from,
            end_ns: to,
            communication_ns: self.communication.inside_ns(gap),
            memory_ns: self.memory.inside_ns(gap),
            compute_ns: 0,
            tail_ns: 0,
            not_launched_ns: compute.launch_ns.map(|launch| (launch.min(to) - from).max(0)),
            before,
        };
        self.open = Some(match self.open.take() {
            // Intervals are joined if the compute between them is less than a hundredth of the whole.
            Some(open)
                if (open.compute_ns + open.tail_ns).saturating_mul(BUSY_SHARE) < to - open.start_ns =>
            {
                Stretch {
                    start_ns: open.start_ns,
                    end_ns: to,
                    communication_ns: open.communication_ns + piece.communication_ns,
                    memory_ns: open.memory_ns + piece.memory_ns,
                    compute_ns: open.compute_ns + open.tail_ns,
                    tail_ns: 0,
                    not_launched_ns: open
                        .not_launched_ns
                        .zip(piece.not_launched_ns)
                        .map(|(one, other)| one + other),
                    before,
                }
            }
            Some(open) => {
                self.close(open, stalls);
                piece
            }
            None => piece,
        });
    }

    fn close(&mut self, stretch: Stretch, stalls: &mut Vec<StallRow>) {
        let length = stretch.end_ns - stretch.start_ns;
        let is_most = |part: i64| 2 * part > length;
        let cause = if is_most(stretch.communication_ns) {
            StallCause::Communication
        } else if is_most(stretch.memory_ns) {
            StallCause::Memory
        } else if stretch.not_launched_ns.is_some_and(is_most) {
            StallCause::HostLate
        } else {
            StallCause::Unknown
        };
        let place = Place {
            before: stretch.before,
            cause,
        };
        self.stretches.push_back(ClosedStretch {
            end_ns: stretch.end_ns,
            place,
            length_ns: length,
        });
        if length < STALL_NS {
            return;
        }
        stalls.push(StallRow {
            start_ns: stretch.start_ns,
            end_ns: stretch.end_ns,
            step: None,
            communication_ns: stretch.communication_ns,
            memory_ns: stretch.memory_ns,
            compute_ns: stretch.compute_ns,
            not_launched_ns: stretch.not_launched_ns,
            wait_ns: 0,
            slow_transfer_ns: 0,
            late_rank: None,
            cause,
        });
    }

    /// Closes the last stretch.
    pub fn finish(&mut self, stalls: &mut Vec<StallRow>) {
        if let Some(open) = self.open.take() {
            self.close(open, stalls);
        }
    }
}

/// A union of intervals that arrive in order of their starts.
#[derive(Default)]
struct Union {
    pieces: VecDeque<Interval>,
}

impl Union {
    /// Adds an interval, and removes pieces that end by `until`: they are no longer needed.
    fn add(&mut self, interval: Interval, until: i64) {
        while self.pieces.front().is_some_and(|piece| piece.end_ns <= until) {
            self.pieces.pop_front();
        }
        extend(&mut self.pieces, interval);
    }

    /// Returns the length of the part of an interval that is in the union.
    fn inside_ns(&self, interval: Interval) -> i64 {
        self.pieces.iter().map(|piece| piece.overlap_ns(interval)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: i64 = 1000;
    const MS: i64 = 1_000_000;

    fn run(works: &[(u32, WorkClass, i64, i64, Option<i64>)]) -> (Vec<(IdleCause, i64)>, Vec<StallRow>) {
        let (mut gaps, mut stalls) = (Gaps::default(), Vec::new());
        let idle = works
            .iter()
            .map(|&(stream, class, start_ns, end_ns, launch_ns)| {
                let work = Ran {
                    stream,
                    class,
                    name: 5,
                    start_ns,
                    end_ns,
                    launch_ns,
                };
                let idle = gaps.work(&work, &mut stalls);
                (idle.cause, idle.ns)
            })
            .collect();
        gaps.finish(&mut stalls);
        (idle, stalls)
    }

    #[test]
    fn a_gap_has_the_first_cause_that_applies() {
        use WorkClass::Compute;
        let (idle, _) = run(&[
            (7, Compute, 0, 100 * US, Some(-5)),
            // Launched after the previous one ended.
            (7, Compute, 110 * US, 200 * US, Some(105 * US)),
            (7, Compute, 210 * US, 300 * US, Some(150 * US)),
            (7, Compute, 400 * US, 500 * US, Some(150 * US)),
            (7, Compute, 600 * US, 700 * US, None),
            // A different stream, and work that overlaps.
            (8, Compute, 600 * US, 650 * US, None),
            (7, Compute, 690 * US, 800 * US, None),
        ]);
        assert_eq!(
            idle,
            [
                (IdleCause::None, 0),
                (IdleCause::HostWait, 10 * US),
                (IdleCause::KernelWait, 10 * US),
                (IdleCause::Other, 100 * US),
                (IdleCause::Unknown, 100 * US),
                (IdleCause::None, 0),
                (IdleCause::None, 0),
            ]
        );
    }

    #[test]
    fn a_stall_lasts_a_millisecond_and_names_what_filled_it() {
        use WorkClass::{Communication, Compute, Memory};
        let (_, stalls) = run(&[
            (7, Compute, 0, MS, Some(0)),
            (9, Communication, MS / 2, 4 * MS, Some(0)),
            (7, Compute, 4 * MS, 5 * MS, Some(0)),
            // A stretch of 0.9 ms is no stall.
            (7, Compute, 5 * MS + 900 * US, 7 * MS, Some(0)),
            // The host was late.
            (7, Compute, 9 * MS, 10 * MS, Some(9 * MS - 10 * US)),
            (8, Memory, 10 * MS, 12 * MS, Some(0)),
            (7, Compute, 12 * MS, 13 * MS, Some(0)),
        ]);
        let reported: Vec<_> = stalls
            .iter()
            .map(|stall| (stall.start_ns, stall.end_ns, stall.cause, stall.communication_ns))
            .collect();
        assert_eq!(
            reported,
            [
                (MS, 4 * MS, StallCause::Communication, 3 * MS),
                (7 * MS, 9 * MS, StallCause::HostLate, 0),
                (10 * MS, 12 * MS, StallCause::Memory, 0),
            ]
        );
    }

    #[test]
    fn communication_hidden_by_compute_fills_no_stretch() {
        use WorkClass::{Communication, Compute};
        let (_, stalls) = run(&[
            (7, Compute, 0, MS, Some(0)),
            (9, Communication, MS, MS + 100 * US, Some(0)),
            (7, Compute, MS, 5 * MS, Some(0)),
            (9, Communication, 2 * MS, 4 * MS, Some(0)),
            // Communication that starts hidden and extends into the stretch.
            (9, Communication, 4 * MS + 500 * US, 5 * MS + 200 * US, Some(0)),
            (7, Compute, 7 * MS, 8 * MS, Some(7 * MS - 10 * US)),
        ]);
        let reported: Vec<_> = stalls
            .iter()
            .map(|stall| (stall.start_ns, stall.communication_ns, stall.cause))
            .collect();
        assert_eq!(reported, [(5 * MS, 200 * US, StallCause::HostLate)]);
    }

    #[test]
    fn stretches_of_any_length_name_the_kernel_after_them() {
        let (mut gaps, mut stalls) = (Gaps::default(), Vec::new());
        let mut work = |class, name, start_ns, end_ns, launch| {
            let work = Ran {
                stream: 7,
                class,
                name,
                start_ns,
                end_ns,
                launch_ns: Some(launch),
            };
            gaps.work(&work, &mut stalls);
        };
        work(WorkClass::Compute, 1, 0, 100 * US, 0);
        work(WorkClass::Compute, 2, 150 * US, 250 * US, 149 * US);
        work(WorkClass::Communication, 9, 250 * US, 290 * US, 0);
        work(WorkClass::Compute, 3, 300 * US, 400 * US, 0);
        gaps.finish(&mut stalls);
        assert!(stalls.is_empty(), "none of a millisecond");
        let stretch = |end_ns, before, cause| ClosedStretch {
            end_ns,
            place: Place { before, cause },
            length_ns: 50 * US,
        };
        assert_eq!(
            gaps.stretches,
            [
                stretch(150 * US, 2, StallCause::HostLate),
                stretch(300 * US, 3, StallCause::Communication),
            ]
        );
    }

    #[test]
    fn a_kernel_of_less_than_a_hundredth_does_not_end_a_stall() {
        use WorkClass::Compute;
        let (_, stalls) = run(&[
            (7, Compute, 0, MS, None),
            (7, Compute, 3 * MS, 3 * MS + 10 * US, None),
            (7, Compute, 5 * MS, 9 * MS, None),
        ]);
        let reported: Vec<_> = stalls
            .iter()
            .map(|stall| (stall.start_ns, stall.end_ns, stall.compute_ns, stall.cause))
            .collect();
        assert_eq!(reported, [(MS, 5 * MS, 10 * US, StallCause::Unknown)]);
    }

    /// Activity of one hundredth of a millisecond.
    #[derive(Clone, Copy, Default)]
    struct Tick {
        compute: bool,
        communication: bool,
        memory: bool,
    }

    const TICK: i64 = 10 * US;

    type Work = (u32, WorkClass, i64, i64, Option<i64>);

    /// Start, end, communication, memory and compute in it, time not launched, cause.
    type StallParts = (i64, i64, [i64; 3], Option<i64>, StallCause);

    /// Computes the same by examining every tick.
    fn stalls_by_moments(works: &[Work]) -> Vec<StallParts> {
        let last = works.iter().map(|work| work.3 / TICK).max().unwrap_or(0) as usize;
        let mut ticks = vec![Tick::default(); last];
        for &(_, class, start, end, _) in works {
            for tick in &mut ticks[(start / TICK) as usize..(end / TICK) as usize] {
                match class {
                    WorkClass::Compute => tick.compute = true,
                    WorkClass::Communication => tick.communication = true,
                    WorkClass::Memory => tick.memory = true,
                }
            }
        }
        let count = |from: usize, to: usize, is: fn(&Tick) -> bool| {
            ticks[from..to].iter().filter(|tick| is(tick)).count() as i64
        };
        let mut gaps = Vec::new();
        let mut at = ticks.iter().position(|tick| tick.compute).unwrap_or(last);
        while let Some(from) = (at..last).find(|&at| !ticks[at].compute)
            && let Some(to) = (from..last).find(|&at| ticks[at].compute)
        {
            gaps.push((from, to));
            at = to;
        }
        let mut joined: Vec<Vec<(usize, usize)>> = Vec::new();
        for gap in gaps {
            match joined.last_mut() {
                Some(open)
                    if 100 * count(open[0].0, gap.0, |tick| tick.compute) < (gap.1 - open[0].0) as i64 =>
                {
                    open.push(gap);
                }
                _ => joined.push(vec![gap]),
            }
        }
        let mut out = Vec::new();
        for gaps in joined {
            let (from, to) = (gaps[0].0, gaps[gaps.len() - 1].1);
            let in_gaps = |is: fn(&Tick) -> bool| gaps.iter().map(|gap| count(gap.0, gap.1, is)).sum::<i64>();
            let (communication, memory) = (in_gaps(|tick| tick.communication), in_gaps(|tick| tick.memory));
            let not_launched: Option<i64> = gaps
                .iter()
                .map(|gap| {
                    let ends = works
                        .iter()
                        .find(|work| work.1 == WorkClass::Compute && work.2 / TICK == gap.1 as i64);
                    let launch = ends?.4? / TICK;
                    Some((gap.0 as i64..gap.1 as i64).filter(|&at| at < launch).count() as i64)
                })
                .sum();
            let length = (to - from) as i64;
            let cause = if 2 * communication > length {
                StallCause::Communication
            } else if 2 * memory > length {
                StallCause::Memory
            } else if not_launched.is_some_and(|ticks| 2 * ticks > length) {
                StallCause::HostLate
            } else {
                StallCause::Unknown
            };
            if length * TICK >= MS {
                let compute = count(from, to, |tick| tick.compute);
                out.push((
                    from as i64 * TICK,
                    to as i64 * TICK,
                    [communication * TICK, memory * TICK, compute * TICK],
                    not_launched.map(|ticks| ticks * TICK),
                    cause,
                ));
            }
        }
        out
    }

    /// Computes the same from all earlier work of the stream.
    fn idle_by_brute_force(works: &[Work]) -> Vec<(IdleCause, i64)> {
        let of = |at: usize| {
            let (stream, _, start, _, launch) = works[at];
            let earlier = works[..at].iter().filter(|other| other.0 == stream);
            let Some(before) = earlier.map(|other| other.3).max().filter(|&end| end < start) else {
                return (IdleCause::None, 0);
            };
            let cause = match launch {
                None => IdleCause::Unknown,
                Some(launch) if launch > before => IdleCause::HostWait,
                Some(_) if start - before < 30 * US => IdleCause::KernelWait,
                Some(_) => IdleCause::Other,
            };
            (cause, start - before)
        };
        (0..works.len()).map(of).collect()
    }

    fn work() -> impl Strategy<Value = (u32, WorkClass, i64, i64, Option<i64>)> {
        let class = prop_oneof![
            4 => Just(WorkClass::Compute),
            2 => Just(WorkClass::Communication),
            1 => Just(WorkClass::Memory)
        ];
        let length = prop_oneof![3 => 1..4_i64, 2 => 4..150_i64];
        let pause = prop_oneof![2 => 0..3_i64, 2 => 3..120_i64];
        (
            0..3_u32,
            class,
            pause,
            length,
            proptest::option::weighted(0.8, 0..150_i64),
        )
    }

    proptest! {
        #[test]
        fn every_gap_and_every_stall_is_found(drawn in proptest::collection::vec(work(), 1..60)) {
            let mut now = 200;
            let works: Vec<Work> = drawn
                .iter()
                .map(|&(stream, class, pause, length, before)| {
                    now += pause;
                    (stream, class, now * TICK, (now + length) * TICK, before.map(|before| (now - before) * TICK))
                })
                .collect();
            let (idle, stalls) = run(&works);
            prop_assert_eq!(idle, idle_by_brute_force(&works));
            let reported: Vec<_> = stalls
                .iter()
                .map(|stall| {
                    let parts = [stall.communication_ns, stall.memory_ns, stall.compute_ns];
                    (stall.start_ns, stall.end_ns, parts, stall.not_launched_ns, stall.cause)
                })
                .collect();
            prop_assert_eq!(reported, stalls_by_moments(&works));
        }
    }
}
