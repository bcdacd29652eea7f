//! Divides the events of a whole log into cycles, and the operations between them.

use crate::steps::cycle::Search;
use crate::steps::events::{Event, LastOfWidest, REDUCER, StepEnd};
use std::collections::VecDeque;

/// Operations between two steps are not training up to this share of the bytes that a step reduces, in percent.
const MAX_REDUCED_PERCENT: u64 = 10;

/// A whole cycle.
pub(super) struct Found {
    /// Last shared operation between this cycle and the previous one, if they form a step of another kind.
    pub between: Option<StepEnd>,
    /// The anchor of the cycle.
    pub anchor: Option<StepEnd>,
}

/// Operations between two cycles.
#[derive(Clone, Copy, Default)]
struct Between {
    operations: u64,
    reduced_bytes: u64,
    /// The last operation that all members of the widest communicator call.
    last: LastOfWidest,
}

/// Finds whole cycles in a stream of events, and the operations between them.
pub(super) struct CycleMatcher<'a> {
    search: Search<'a>,
    anchor: usize,
    recent: VecDeque<Event>,
    between: Between,
    operations_in_cycle: u64,
    /// Number of cycles.
    pub cycles: u64,
    /// Number of operations in cycles.
    pub explained: u64,
    /// Number of operations between the first and the last cycle.
    pub total: u64,
    since_last: u64,
}

impl<'a> CycleMatcher<'a> {
    /// Creates a matcher. `anchor` is the position in the cycle of the operation that ends a step.
    pub fn new(cycle: &'a [u32], anchor: usize) -> Self {
        let operations_in_cycle = cycle.iter().filter(|&&symbol| symbol != REDUCER).count() as u64;
        Self {
            search: Search::new(cycle),
            anchor,
            recent: VecDeque::new(),
            between: Between::default(),
            operations_in_cycle,
            cycles: 0,
            explained: 0,
            total: 0,
            since_last: 0,
        }
    }

    /// Returns the cycle that this event completes, if any.
    pub fn feed(&mut self, symbol: u32, event: &Event) -> Option<Found> {
        self.since_last += u64::from(event.key.is_some());
        self.recent.push_back(*event);
        if self.recent.len() > self.search.cycle.len()
            && let Some(event) = self.recent.pop_front()
        {
            self.pass(&event);
        }
        if !self.search.feed(symbol) {
            return None;
        }
        self.cycles += 1;
        self.explained += self.operations_in_cycle;
        let between = std::mem::take(&mut self.between);
        let reduced = self
            .recent
            .iter()
            .fold(0u64, |sum, event| sum.saturating_add(event.reduced_bytes));
        // Operations that reduce as much as a step are a step in another order. A single operation is a barrier, a
        // metric or a flag.
        let is_other = between.operations > 1
            && reduced > 0
            && between.reduced_bytes.saturating_mul(100) <= reduced.saturating_mul(MAX_REDUCED_PERCENT);
        // Warm-up before the first cycle, the end after the last cycle, and steps of other kinds do not count against
        // the pattern.
        self.total += if self.cycles == 1 || is_other {
            self.operations_in_cycle
        } else {
            self.since_last
        };
        self.since_last = 0;
        let anchor = self.recent.get(self.anchor).and_then(|event| {
            Some(StepEnd {
                key: event.key?,
                end_ns: event.end_ns,
            })
        });
        self.recent.clear();
        Some(Found {
            between: between.last.end().filter(|_| is_other && self.cycles > 1),
            anchor,
        })
    }

    /// Counts an event that belongs to no cycle.
    fn pass(&mut self, event: &Event) {
        let Some(key) = event.key else { return };
        self.between.operations += 1;
        self.between.reduced_bytes = self.between.reduced_bytes.saturating_add(event.reduced_bytes);
        self.between.last.take(event, key);
    }
}
