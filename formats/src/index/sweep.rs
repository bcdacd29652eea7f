//! Sums of one lane at many moments in ascending order. Each block is decoded once.

use super::directory::Block;
use super::{Lane, Span, Sums};

/// Position in a lane that only moves forward.
pub struct Sweep<'a> {
    lane: Lane<'a>,
    block: Option<(usize, Block)>,
    decoded: Option<usize>,
    spans: Vec<Span>,
    /// Number of spans of the decoded block that are counted in `sums`.
    passed: usize,
    sums: Sums,
}

impl<'a> Sweep<'a> {
    /// Creates a sweep at the start of a lane.
    pub fn new(lane: Lane<'a>) -> Self {
        Self {
            lane,
            block: None,
            decoded: None,
            spans: Vec::new(),
            passed: 0,
            sums: Sums::default(),
        }
    }

    /// Finds the last block that starts before a moment; `None` if there is none.
    fn seek(&mut self, ns: i64) -> Option<Block> {
        let from = self.block.map_or(0, |(number, _)| number);
        let is_last =
            |number: usize| number + 1 >= self.lane.blocks() || self.lane.start_of(number + 1) >= ns;
        if let Some((number, block)) = self.block
            && is_last(number)
            && block.start_ns < ns
        {
            return Some(block);
        }
        let number = self
            .lane
            .partition(from, |number| self.lane.start_of(number) < ns)
            .checked_sub(1)?;
        let block = self.lane.block(number);
        self.block = Some((number, block));
        Some(block)
    }

    /// Returns the time of each class before a moment. Moments must not decrease between calls.
    pub fn until(&mut self, ns: i64) -> Sums {
        let Some(block) = self.seek(ns) else {
            return Sums::default();
        };
        let number = self.block.map_or(0, |(number, _)| number);
        if ns >= block.end_ns && number + 1 < self.lane.blocks() {
            return self.lane.block(number + 1).before;
        }
        if self.decoded != Some(number) {
            self.lane.decode(number, &mut self.spans);
            self.decoded = Some(number);
            self.passed = 0;
            self.sums = block.before;
        }
        while let Some(span) = self.spans.get(self.passed).filter(|span| span.end_ns <= ns) {
            self.sums.add(span);
            self.passed += 1;
        }
        let mut sums = self.sums;
        if let Some(span) = self.spans.get(self.passed) {
            sums.add_until(span, ns);
        }
        sums
    }

    /// Returns the span that contains a moment. Moments must not decrease between calls. Do not mix it with the methods
    /// that return sums.
    pub fn span(&mut self, ns: i64) -> Option<Span> {
        let block = self.seek(ns.saturating_add(1))?;
        if ns >= block.end_ns {
            return None;
        }
        let number = self.block.map_or(0, |(number, _)| number);
        if self.decoded != Some(number) {
            self.lane.decode(number, &mut self.spans);
            self.decoded = Some(number);
            self.passed = 0;
        }
        while self.spans.get(self.passed).is_some_and(|span| span.end_ns <= ns) {
            self.passed += 1;
        }
        self.spans
            .get(self.passed)
            .copied()
            .filter(|span| span.start_ns <= ns)
    }

    /// As [`Sweep::until`], but from the directory alone. Time inside a block is assumed to be evenly spread.
    pub fn estimate(&mut self, ns: i64) -> Sums {
        let Some(block) = self.seek(ns) else {
            return Sums::default();
        };
        let number = self.block.map_or(0, |(number, _)| number);
        let after = if number + 1 < self.lane.blocks() {
            self.lane.block(number + 1).before
        } else {
            self.lane.info.totals()
        };
        if ns >= block.end_ns {
            return after;
        }
        // In a damaged file the times may be arbitrary.
        let length_ns = block.end_ns.saturating_sub(block.start_ns).max(1);
        let share = ns.saturating_sub(block.start_ns) as f64 / length_ns as f64;
        let inside = after.since(&block.before);
        let mut sums = block.before;
        for (sum, inside) in sums.0.iter_mut().zip(inside.0) {
            *sum = sum.saturating_add((inside as f64 * share) as u64);
        }
        sums
    }
}
