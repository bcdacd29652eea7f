//! Causes of device stalls. Joins the stalls of one rank with the waits and transfers that the matching of all ranks
//! finds in them (METRICS.md, section 6).

use crate::intervals::{Intervals, length};
use crate::model::count_and_time::CountAndTime;
use crate::model::interval::Interval;
use rankscope_formats::ids::{RankIndex, StepIndex};
use rankscope_formats::session::{CauseSum, DeviceStalls, LateSum, PauseKind, StallCause, StallRow};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

/// Distance that all ranks must be past the end of a stall before it is judged, in ns. By then, operations that began
/// in it have been matched.
const SETTLED_NS: i64 = 1_000_000_000;
/// Maximum number of waits and slow transfers of one rank that are kept for later stalls.
const MAX_REMEMBERED: usize = 1 << 12;
/// Maximum number of pending stalls of one rank. Beyond it, the oldest is judged by what is known.
const MAX_PENDING: usize = 1 << 12;
/// Maximum number of steps of one rank that are kept.
const MAX_STEPS: usize = 1 << 12;
/// Maximum number of late ranks in the summary.
const MAX_LATE: usize = 8;
/// A transfer is slow from this multiple of the median of its class on, …
const SLOW_TIMES: i64 = 2;
/// … if the class has at least this many transfers.
const ENOUGH_TRANSFERS: u64 = 8;
/// Minimum duration of a slow transfer, in ns. Shorter ones cannot fill half a stall.
pub const MIN_TRANSFER_NS: i64 = 500_000;

/// Returns true if a transfer took far longer than those of its class so far.
pub fn is_slow(transfer_ns: i64, (transfers, median_ns): (u64, f64)) -> bool {
    transfers >= ENOUGH_TRANSFERS && transfer_ns as f64 >= SLOW_TIMES as f64 * median_ns
}

#[derive(Clone, Copy)]
enum What {
    /// Wait for this rank.
    Wait(RankIndex),
    /// Wait for a micro-batch of a pipeline.
    Bubble,
    SlowTransfer,
}

#[derive(Clone, Copy)]
struct Piece {
    interval: Interval,
    what: What,
}

/// Named time of a host.
struct Pause {
    interval: Interval,
    kind: PauseKind,
}

/// A step that ended.
struct EndedStep {
    number: StepIndex,
    interval: Interval,
}

#[derive(Default)]
struct OfRank {
    pieces: VecDeque<Piece>,
    /// Named times of its host.
    pauses: VecDeque<Pause>,
    pending: VecDeque<StallRow>,
    /// Key of the rank's entry in [`StallBoard::due`]; `None` without one.
    due_ns: Option<i64>,
    /// True if steps of the rank will follow.
    has_steps: bool,
    /// The last steps.
    steps: VecDeque<EndedStep>,
    causes: BTreeMap<&'static str, CountAndTime>,
    late: BTreeMap<RankIndex, CountAndTime>,
    all: CountAndTime,
}

/// Stalls of all ranks.
pub struct StallBoard {
    /// State per rank; `None` without recorded device activity.
    ranks: Vec<Option<Box<OfRank>>>,
    /// Ranks with pending stalls that need no further step, by the end of the oldest; [`i64::MIN`] if there are too many.
    /// [`StallBoard::close`] runs after every batch, so it must not visit all ranks. An entry whose key is not the rank's
    /// `due_ns` is obsolete.
    due: BinaryHeap<Reverse<(i64, usize)>>,
}

impl StallBoard {
    /// Creates a board. `has_devices` says for each rank whether its device activity was recorded.
    pub fn new(has_devices: impl Iterator<Item = bool>) -> Self {
        Self {
            ranks: has_devices.map(|has| has.then(Box::default)).collect(),
            due: BinaryHeap::new(),
        }
    }

    /// Returns true if stalls of a rank are judged.
    pub fn has(&self, rank: RankIndex) -> bool {
        matches!(self.ranks.get(rank.index()), Some(Some(_)))
    }

    /// Announces steps of a rank. A stall then waits for the step that contains it.
    pub fn expect_steps(&mut self, rank: RankIndex) {
        if let Some(Some(of_rank)) = self.ranks.get_mut(rank.index()) {
            of_rank.has_steps = true;
        }
    }

    fn remember(&mut self, rank: RankIndex, interval: Interval, what: What) {
        let Some(Some(of_rank)) = self.ranks.get_mut(rank.index()) else {
            return;
        };
        if interval.is_empty() {
            return;
        }
        if of_rank.pieces.len() >= MAX_REMEMBERED {
            of_rank.pieces.pop_front();
        }
        of_rank.pieces.push_back(Piece { interval, what });
    }

    /// Records that a rank waited for another.
    pub fn waited(&mut self, rank: RankIndex, start_ns: i64, end_ns: i64, late_rank: RankIndex) {
        self.remember(rank, Interval { start_ns, end_ns }, What::Wait(late_rank));
    }

    /// Records that a stage of a pipeline waited in a receive.
    pub fn waited_in_chain(&mut self, rank: RankIndex, start_ns: i64, end_ns: i64) {
        self.remember(rank, Interval { start_ns, end_ns }, What::Bubble);
    }

    /// Records named time of a rank's host.
    pub fn paused(&mut self, rank: RankIndex, start_ns: i64, end_ns: i64, kind: PauseKind) {
        if let Some(Some(of_rank)) = self.ranks.get_mut(rank.index()) {
            if of_rank.pauses.len() >= MAX_REMEMBERED {
                of_rank.pauses.pop_front();
            }
            let interval = Interval { start_ns, end_ns };
            of_rank.pauses.push_back(Pause { interval, kind });
        }
    }

    /// Records that a rank took part in a transfer that took far longer than usual.
    pub fn transferred_slowly(&mut self, rank: RankIndex, start_ns: i64, end_ns: i64) {
        self.remember(rank, Interval { start_ns, end_ns }, What::SlowTransfer);
    }

    /// Records the end of a rank's step.
    pub fn step(&mut self, rank: RankIndex, step: StepIndex, start_ns: i64, end_ns: i64) {
        if let Some(Some(of_rank)) = self.ranks.get_mut(rank.index()) {
            if of_rank.steps.len() >= MAX_STEPS {
                of_rank.steps.pop_front();
            }
            of_rank.steps.push_back(EndedStep {
                number: step,
                interval: Interval { start_ns, end_ns },
            });
            self.plan(rank.index());
        }
    }

    /// Adds a stall of a rank. Stalls arrive in order.
    pub fn take(&mut self, rank: RankIndex, row: StallRow) {
        if let Some(Some(of_rank)) = self.ranks.get_mut(rank.index()) {
            of_rank.pending.push_back(row);
            self.plan(rank.index());
        }
    }

    /// Adds a rank to `due` if its oldest stall waits for nothing but time.
    fn plan(&mut self, rank: usize) {
        let Some(Some(of_rank)) = self.ranks.get_mut(rank) else {
            return;
        };
        let due_ns = of_rank.due_ns();
        if due_ns != of_rank.due_ns {
            of_rank.due_ns = due_ns;
            self.due.extend(due_ns.map(|due_ns| Reverse((due_ns, rank))));
        }
    }

    /// Judges settled stalls and emits their rows by rank. `reached_ns` is the time that all ranks have reached, or
    /// `None` at the end of all logs.
    pub fn close(&mut self, reached_ns: Option<i64>, mut row: impl FnMut(usize, StallRow)) {
        let Some(reached_ns) = reached_ns else {
            for (rank, of_rank) in self.ranks.iter_mut().enumerate() {
                let Some(of_rank) = of_rank else { continue };
                while let Some(mut stall) = of_rank.pending.pop_front() {
                    of_rank.judge(&mut stall);
                    row(rank, stall);
                }
            }
            return;
        };
        let settled_ns = reached_ns.saturating_sub(SETTLED_NS);
        while let Some(&Reverse((due_ns, rank))) = self.due.peek()
            && is_over(due_ns, settled_ns)
        {
            self.due.pop();
            let Some(Some(of_rank)) = self.ranks.get_mut(rank) else {
                continue;
            };
            if of_rank.due_ns.take_if(|known| *known == due_ns).is_none() {
                continue;
            }
            while of_rank.due_ns().is_some_and(|due_ns| is_over(due_ns, settled_ns))
                && let Some(mut stall) = of_rank.pending.pop_front()
            {
                of_rank.judge(&mut stall);
                row(rank, stall);
            }
            self.plan(rank);
        }
    }

    /// Returns the summary of a rank's stalls.
    pub fn summary(&self, rank: usize) -> DeviceStalls {
        let Some(Some(of_rank)) = self.ranks.get(rank) else {
            return DeviceStalls::default();
        };
        let mut late: Vec<LateSum> = of_rank
            .late
            .iter()
            .map(|(&rank, &CountAndTime { count, ns })| LateSum {
                rank: rank.0,
                count,
                ns,
            })
            .collect();
        late.sort_by_key(|sum| (Reverse(sum.ns), sum.rank));
        late.truncate(MAX_LATE);
        let causes = of_rank.causes.iter().map(|(&cause, sum)| CauseSum {
            cause: cause.to_owned(),
            count: sum.count,
            ns: sum.ns,
        });
        DeviceStalls {
            count: of_rank.all.count,
            ns: of_rank.all.ns,
            by_cause: causes.collect(),
            by_late_rank: late,
        }
    }
}

/// Returns true if a stall with this due time is judged, now that operations up to `settled_ns` have been matched.
fn is_over(due_ns: i64, settled_ns: i64) -> bool {
    due_ns == i64::MIN || due_ns < settled_ns
}

impl OfRank {
    /// Returns when the oldest stall is due; `None` if there is none, or if it waits for a step.
    fn due_ns(&self) -> Option<i64> {
        let stall = self.pending.front()?;
        if self.pending.len() > MAX_PENDING {
            return Some(i64::MIN);
        }
        // A step is reported when the next one is over.
        let has_step = match self.steps.back() {
            Some(last) => last.interval.end_ns > stall.start_ns,
            None => !self.has_steps,
        };
        has_step.then_some(stall.end_ns)
    }

    /// Returns the cause by named host time, if one kind fills more than half of the interval.
    fn named_cause(&self, start_ns: i64, end_ns: i64) -> Option<StallCause> {
        let causes = [
            (PauseKind::GarbageCollection, StallCause::GarbageCollection),
            (PauseKind::Checkpoint, StallCause::Checkpoint),
            (PauseKind::Evaluation, StallCause::Evaluation),
            (PauseKind::Input, StallCause::Input),
        ];
        causes.into_iter().find_map(|(kind, cause)| {
            let mut of_kind = Intervals::default();
            for pause in self.pauses.iter().filter(|pause| pause.kind == kind) {
                of_kind.add(pause.interval.start_ns, pause.interval.end_ns);
            }
            let mut inside = Vec::new();
            of_kind.take(start_ns, end_ns, &mut inside);
            (2 * length(&inside) > end_ns - start_ns).then_some(cause)
        })
    }

    fn judge(&mut self, stall: &mut StallRow) {
        // Several operations may wait at the same time. Each moment counts once, for the wait that began first.
        let mut inside: Vec<Piece> = self
            .pieces
            .iter()
            .filter(|piece| piece.interval.end_ns > stall.start_ns && piece.interval.start_ns < stall.end_ns)
            .copied()
            .collect();
        inside.sort_by_key(|piece| piece.interval.start_ns);
        let (mut at, mut waited_ns, mut slow_ns, mut bubble_ns) = (stall.start_ns, 0, 0, 0);
        let mut by_rank: BTreeMap<RankIndex, i64> = BTreeMap::new();
        for piece in inside {
            let counted = piece.interval.intersection(Interval::new(at, stall.end_ns));
            if counted.is_empty() {
                continue;
            }
            let ns = counted.duration_ns();
            match piece.what {
                What::Wait(late) => {
                    waited_ns += ns;
                    *by_rank.entry(late).or_default() += ns;
                }
                What::Bubble => bubble_ns += ns,
                What::SlowTransfer => slow_ns += ns,
            }
            at = counted.end_ns;
        }
        // Stalls arrive in order and do not overlap.
        self.pieces.retain(|piece| piece.interval.end_ns > stall.end_ns);
        for (&late, &ns) in &by_rank {
            self.late.entry(late).or_default().add(ns);
        }
        let late = by_rank.into_iter().max_by_key(|&(rank, ns)| (ns, Reverse(rank)));
        stall.wait_ns = waited_ns;
        stall.slow_transfer_ns = slow_ns;
        stall.late_rank = late.map(|(rank, _)| rank);
        if stall.cause == StallCause::Communication {
            if 2 * bubble_ns > stall.communication_ns {
                stall.cause = StallCause::PipelineBubble;
            } else if 2 * waited_ns > stall.communication_ns {
                stall.cause = StallCause::LatePeer;
            } else if 2 * slow_ns > stall.communication_ns {
                stall.cause = StallCause::SlowTransfer;
            }
        }
        if stall.cause == StallCause::HostLate
            && let Some(cause) = self.named_cause(stall.start_ns, stall.end_ns)
        {
            stall.cause = cause;
        }
        self.pauses.retain(|pause| pause.interval.end_ns > stall.end_ns);
        let step = self
            .steps
            .iter()
            .find(|step| step.interval.contains(stall.start_ns));
        stall.step = step.map(|step| step.number);
        let length_ns = stall.end_ns - stall.start_ns;
        self.all.add(length_ns);
        self.causes.entry(stall.cause.name()).or_default().add(length_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn stall(start_ms: i64, end_ms: i64, communication_ms: i64) -> StallRow {
        StallRow {
            start_ns: start_ms * MS,
            end_ns: end_ms * MS,
            step: None,
            communication_ns: communication_ms * MS,
            memory_ns: 0,
            compute_ns: 0,
            not_launched_ns: None,
            wait_ns: 0,
            slow_transfer_ns: 0,
            late_rank: None,
            cause: if 2 * communication_ms > end_ms - start_ms {
                StallCause::Communication
            } else {
                StallCause::HostLate
            },
        }
    }

    fn judged(board: &mut StallBoard, reached_ms: Option<i64>) -> Vec<StallRow> {
        let mut rows = Vec::new();
        board.close(reached_ms.map(|ms| ms * MS), |_, row| rows.push(row));
        rows
    }

    #[test]
    fn a_stall_is_attributed_to_the_rank_that_was_waited_for_most() {
        let mut board = StallBoard::new([true, false].into_iter());
        board.take(RankIndex(0), stall(10, 20, 9));
        board.waited(RankIndex(0), 8 * MS, 13 * MS, RankIndex(3));
        // Another operation waits at the same time. No moment counts twice.
        board.waited(RankIndex(0), 11 * MS, 13 * MS, RankIndex(2));
        board.waited(RankIndex(0), 14 * MS, 18 * MS, RankIndex(1));
        board.waited(RankIndex(1), 14 * MS, 18 * MS, RankIndex(1));
        board.expect_steps(RankIndex(0));
        assert!(
            judged(&mut board, Some(1021)).is_empty(),
            "its step has not been reported yet"
        );
        board.step(RankIndex(0), StepIndex(7), 0, 15 * MS);
        assert!(judged(&mut board, Some(1000)).is_empty(), "not settled");
        let rows = judged(&mut board, Some(1021));
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].cause, StallCause::LatePeer);
        assert_eq!((rows[0].wait_ns, rows[0].late_rank), (7 * MS, Some(RankIndex(1))));
        assert_eq!(rows[0].step, Some(StepIndex(7)));
        let summary = board.summary(0);
        assert_eq!((summary.count, summary.ns), (1, 10 * MS));
        let late: Vec<_> = summary
            .by_late_rank
            .iter()
            .map(|sum| (sum.rank, sum.ns))
            .collect();
        assert_eq!(late, [(1, 4 * MS), (3, 3 * MS)]);
        assert_eq!(board.summary(1).count, 0);
    }

    #[test]
    fn the_mark_names_the_cause_of_a_late_host_and_a_bubble_is_no_late_peer() {
        let mut board = StallBoard::new([true].into_iter());
        board.take(RankIndex(0), stall(0, 10, 0));
        board.take(RankIndex(0), stall(20, 30, 0));
        board.take(RankIndex(0), stall(40, 50, 9));
        board.paused(RankIndex(0), 3 * MS, 7 * MS, PauseKind::Input);
        board.paused(RankIndex(0), 8 * MS, 12 * MS, PauseKind::Input);
        board.paused(RankIndex(0), 24 * MS, 29 * MS, PauseKind::Checkpoint);
        board.waited_in_chain(RankIndex(0), 38 * MS, 47 * MS);
        let causes: Vec<_> = judged(&mut board, None).iter().map(|row| row.cause).collect();
        assert_eq!(
            causes,
            [
                StallCause::Input,
                // Exactly half is not enough.
                StallCause::HostLate,
                StallCause::PipelineBubble
            ]
        );
    }

    #[test]
    fn a_transfer_is_slow_compared_with_others_of_its_kind() {
        assert!(!is_slow(10 * MS, (7, 1e6)), "too few transfers to compare with");
        assert!(is_slow(2 * MS, (8, 1e6)));
        assert!(!is_slow(2 * MS - 1, (8, 1e6)));
        let mut board = StallBoard::new([true].into_iter());
        board.take(RankIndex(0), stall(0, 10, 10));
        board.take(RankIndex(0), stall(20, 30, 10));
        board.take(RankIndex(0), stall(40, 50, 1));
        board.transferred_slowly(RankIndex(0), 2 * MS, 9 * MS);
        // The cause remains a late host, in spite of a short wait in the stall.
        board.waited(RankIndex(0), 40 * MS, 41 * MS, RankIndex(4));
        let rows = judged(&mut board, None);
        let causes: Vec<_> = rows.iter().map(|row| row.cause).collect();
        assert_eq!(
            causes,
            [
                StallCause::SlowTransfer,
                StallCause::Communication,
                StallCause::HostLate
            ]
        );
        assert_eq!(rows[2].wait_ns, MS);
    }
}
