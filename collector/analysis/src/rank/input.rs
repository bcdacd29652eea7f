//! Reads the records of one log in parts of limited size.

use super::event::Stamp;
use crate::clocks::clock::Line;
use rankscope_ranklog::reader::{Problem, RankLog, RecordStream, ThreadRecord};
use std::ops::Range;

/// Default maximum number of records of a part.
const STRIDE: usize = 1 << 13;

/// Records of a log, nearly in order of their leave.
pub struct Input<'a> {
    stream: RecordStream<'a>,
    batch: Vec<ThreadRecord>,
    /// Position of the next record in the batch.
    at: usize,
    stride: usize,
}

/// A part of the records. [`Input::give_back`] takes its memory back.
pub struct Part {
    batch: Vec<ThreadRecord>,
    range: Range<usize>,
}

impl Part {
    /// Returns the records.
    pub fn records(&self) -> &[ThreadRecord] {
        &self.batch[self.range.clone()]
    }
}

impl<'a> Input<'a> {
    /// Creates an input at the start of a log.
    pub fn new(log: &'a RankLog) -> Self {
        Self {
            stream: log.records(),
            batch: Vec::new(),
            at: 0,
            stride: STRIDE,
        }
    }

    /// Sets the maximum number of records of a part.
    pub fn set_stride(&mut self, records: usize) {
        self.stride = records.max(1);
    }

    /// Returns the next records, or `None` at the end. With `in_frames`, whole frames are read and sorted at once.
    pub fn next_part(&mut self, in_frames: bool) -> Option<Part> {
        if self.at == self.batch.len() {
            self.at = 0;
            let most = if in_frames {
                usize::MAX
            } else {
                // Records beyond the watermark of earlier frames are added, so the total is little more than a stride.
                self.stride.div_ceil(2)
            };
            if !self.stream.next_part(most, &mut self.batch) {
                self.batch.clear();
            }
        }
        if self.at == self.batch.len() {
            return None;
        }
        let end = self.batch.len().min(self.at.saturating_add(self.stride));
        let range = self.at..end;
        self.at = end;
        Some(Part {
            batch: std::mem::take(&mut self.batch),
            range,
        })
    }

    /// Takes back the memory of a part that was processed.
    pub fn give_back(&mut self, part: Part) {
        self.batch = part.batch;
    }

    /// Returns thread and time of a record.
    #[inline]
    pub fn stamp(&self, entry: &ThreadRecord, line: &Line) -> Stamp {
        let enter_ns = line.ns(entry.record.enter_ticks);
        let thread = self.stream.threads().get(entry.thread as usize);
        Stamp {
            thread_id: thread.map_or(0, |thread| thread.id),
            lane: entry.lane,
            enter_ns,
            leave_ns: line.ns(entry.record.leave_ticks).max(enter_ns),
        }
    }

    /// Returns the problems found in the records.
    pub fn problems(&self) -> &[Problem] {
        self.stream.problems()
    }
}
