//! Lanes: sibling tracks for intervals that overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use super::{Error, TraceWriter, TrackId, TrackOptions};

/// Gives every interval the lowest lane that is free at its start, so that no two intervals of a
/// lane overlap and there are never more lanes than intervals open at once. Pure: no track is
/// involved. Memory grows with the number of lanes, not of intervals.
///
/// A lane is free again at the end of its interval: touching intervals share a lane, and so do
/// intervals of length 0 at the same time.
#[derive(Debug, Default)]
pub struct LaneAllocator {
    latest_start: u64,
    /// Lanes in use, by the end of their interval.
    busy: BinaryHeap<Reverse<(u64, usize)>>,
    free: BinaryHeap<Reverse<usize>>,
    lanes: usize,
}

impl LaneAllocator {
    /// No lanes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The lane (from 0) of the interval `[start, end]`; all in one unit, usually ns. `None`, and
    /// nothing changes, if it starts before its predecessor or ends before it starts.
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

    /// How many lanes have been needed so far: the most intervals open at once.
    #[must_use]
    pub fn lanes(&self) -> usize {
        self.lanes
    }
}

/// How the lanes of one thing look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LaneStyle {
    /// All lanes have the same name and are one track to the reader, as high as it needs to be.
    #[default]
    Merged,
    /// Every lane is a track of its own, named "name", "name 2", "name 3", …, and keeps its place.
    Numbered,
}

/// Tracks for intervals that may overlap, made as they are needed.
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
    /// Lanes under `parent`, of which none is made yet. Children of a lane are not foreseen: the
    /// child order of `options` is ignored, and so is its description.
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

    /// The track for a slice that starts at `start_ns` and lasts `duration_ns`; ask in order of starts.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] and [`Error::TimeRange`] for the interval, and those of
    /// [`TraceWriter::track`] if it needs another lane.
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

    /// The tracks made so far, by lane.
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
            // The most open at once, counted where each interval starts.
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
