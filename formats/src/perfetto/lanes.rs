//! Lanes: sibling tracks for intervals that overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use super::{Error, TraceWriter, TrackId, TrackOptions};

/// Allocator that assigns the lowest free lane to every interval. Intervals of a lane do not overlap, and there are
/// never more lanes than intervals that are open at the same time. It does not use tracks. Its memory grows with the
/// number of lanes, not of intervals.
///
/// A lane is free again at the end of its interval. Touching intervals may therefore share a lane, and so may intervals
/// of length 0 at the same time.
#[derive(Debug, Default)]
pub struct LaneAllocator {
    latest_start: u64,
    /// Lanes in use, ordered by the end of their interval.
    busy: BinaryHeap<Reverse<(u64, usize)>>,
    free: BinaryHeap<Reverse<usize>>,
    lanes: usize,
}

impl LaneAllocator {
    /// Creates an allocator without lanes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the lane (from 0) of the interval `[start, end]`; both in the same unit, usually nanoseconds. Returns
    /// `None` and changes nothing if the interval starts before its predecessor or ends before it starts.
    pub fn assign(&mut self, start: u64, end: u64) -> Option<usize> {
        if start < self.latest_start || end < start {
            return None;
        }
        self.latest_start = start;
        while let Some(&Reverse((busy_until, lane))) = self.busy.peek() {
            if busy_until > start {
                break;
            }
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let lane = self.free.pop().map_or_else(
            || {
                self.lanes += 1;
                self.lanes - 1
            },
            |Reverse(lane)| lane,
        );
        self.busy.push(Reverse((end, lane)));
        Some(lane)
    }

    /// Returns the number of lanes so far: the maximum number of intervals open at the same time.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes
    }
}

/// Appearance of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LaneStyle {
    /// All lanes have the same name. The viewer shows them as one track of the necessary height.
    #[default]
    Merged,
    /// Every lane is a separate track, named "name", "name 2", "name 3" and so on, and keeps its position.
    Numbered,
}

/// Tracks for intervals that may overlap. They are created on demand.
#[derive(Debug)]
pub struct Lanes {
    parent: Option<TrackId>,
    name: String,
    rank: Option<i32>,
    style: LaneStyle,
    allocator: LaneAllocator,
    tracks: Vec<TrackId>,
}

impl Lanes {
    /// Creates lanes under `parent` without creating a track yet. Lanes have no children, so the child order of
    /// `options` is ignored. Its description is ignored too.
    #[must_use]
    pub fn new(parent: Option<TrackId>, options: &TrackOptions<'_>, style: LaneStyle) -> Self {
        Lanes {
            parent,
            name: options.name.to_owned(),
            rank: options.rank,
            style,
            allocator: LaneAllocator::new(),
            tracks: Vec::new(),
        }
    }

    /// Returns the track for a slice that starts at `start_ns` and lasts `duration_ns`. Calls must be in the order of
    /// starts.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] and [`Error::TimeRange`] for the interval, and those of [`TraceWriter::track`] if another
    /// lane is needed.
    pub fn place<W: Write>(
        &mut self,
        writer: &mut TraceWriter<W>,
        start_ns: u64,
        duration_ns: u64,
    ) -> Result<TrackId, Error> {
        let end_ns = start_ns
            .checked_add(duration_ns)
            .ok_or(Error::TimeRange(start_ns))?;
        let previous_ns = self.allocator.latest_start;
        let lane = self
            .allocator
            .assign(start_ns, end_ns)
            .ok_or_else(|| Error::OutOfOrder {
                track: self.name.clone(),
                start_ns,
                previous_ns,
            })?;
        while self.tracks.len() <= lane {
            let track = self.add(writer)?;
            self.tracks.push(track);
        }
        Ok(self.tracks[lane])
    }

    fn add<W: Write>(&self, writer: &mut TraceWriter<W>) -> Result<TrackId, Error> {
        let ordinal = self.tracks.len() + 1;
        match self.style {
            LaneStyle::Merged => {
                let options = TrackOptions {
                    name: &self.name,
                    rank: self.rank,
                    ..TrackOptions::default()
                };
                writer.merged_track(self.parent, &options)
            }
            LaneStyle::Numbered => {
                let name = if ordinal == 1 {
                    self.name.clone()
                } else {
                    format!("{} {ordinal}", self.name)
                };
                writer.track(
                    self.parent,
                    &TrackOptions {
                        name: &name,
                        rank: self.rank,
                        ..TrackOptions::default()
                    },
                )
            }
        }
    }

    /// Returns the tracks created so far, by lane.
    #[must_use]
    pub fn tracks(&self) -> &[TrackId] {
        &self.tracks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lowest_free_lane_is_taken() {
        let mut lanes = LaneAllocator::new();
        let assigned: Vec<_> = [
            (0, 10),
            (2, 4),
            (3, 9),
            (4, 5),
            (9, 12),
            (10, 11),
            (12, 12),
            (12, 12),
        ]
        .iter()
        .map(|&(start, end)| lanes.assign(start, end))
        .collect();
        assert_eq!(
            assigned,
            [
                Some(0),
                Some(1),
                Some(2),
                Some(1),
                Some(1),
                Some(0),
                Some(0),
                Some(0)
            ]
            .to_vec()
        );
        assert_eq!(lanes.lanes(), 3);
    }

    #[test]
    fn disorder_is_refused_and_changes_nothing() {
        let mut lanes = LaneAllocator::new();
        assert_eq!(lanes.assign(5, 10), Some(0));
        assert_eq!(lanes.assign(4, 6), None);
        assert_eq!(lanes.assign(7, 6), None);
        assert_eq!(lanes.assign(5, 6), Some(1));
    }

    proptest! {
        #[test]
        fn lanes_never_overlap_and_are_as_few_as_possible(
            mut intervals in prop::collection::vec((0u64..500, 0u64..80), 0..300)
        ) {
            intervals.sort_unstable();
            let mut allocator = LaneAllocator::new();
            let mut ends: Vec<u64> = Vec::new();
            for &(start, duration) in &intervals {
                let lane = allocator.assign(start, start + duration).expect("sorted");
                prop_assert!(lane <= ends.len());
                if lane == ends.len() {
                    ends.push(0);
                }
                prop_assert!(ends[lane] <= start);
                ends[lane] = start + duration;
            }
            // Maximum number of open intervals, counted at the start of each interval.
            let most = intervals
                .iter()
                .enumerate()
                .map(|(i, &(start, _))| 1 + intervals[..i].iter().filter(|&&(s, d)| s + d > start).count())
                .max()
                .unwrap_or(0);
            prop_assert_eq!(allocator.lanes(), most);
        }
    }
}
