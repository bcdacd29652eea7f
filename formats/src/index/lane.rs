//! Access to one lane: the spans in a window, the span at a moment, and the time per class until a moment.

use super::block::decode;
use super::contents::Contents;
use super::directory::{Block, ENTRY_BYTES};
use super::{BLOCK_SPANS, LaneInfo, Span, Sums};

/// One lane of an open index.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    /// Description of the lane.
    pub info: &'a LaneInfo,
    directory: &'a [u8],
    file: &'a Contents,
}

impl<'a> Lane<'a> {
    pub(super) fn new(info: &'a LaneInfo, directory: &'a [u8], file: &'a Contents) -> Self {
        Self {
            info,
            directory,
            file,
        }
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> usize {
        self.directory.len() / ENTRY_BYTES
    }

    pub(super) fn block(&self, number: usize) -> Block {
        let at = number * ENTRY_BYTES;
        Block::read(self.directory.get(at..at + ENTRY_BYTES).unwrap_or_default())
    }

    fn number_at(&self, number: usize, field: usize) -> i64 {
        let at = number * ENTRY_BYTES + field;
        self.directory
            .get(at..at + 8)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, i64::from_le_bytes)
    }

    /// Returns the start of a block, in nanoseconds.
    #[inline]
    pub(super) fn start_of(&self, number: usize) -> i64 {
        self.number_at(number, 0)
    }

    /// Returns the end of the last span of a block, in nanoseconds.
    #[inline]
    pub(super) fn end_of(&self, number: usize) -> i64 {
        self.number_at(number, 8)
    }

    /// Returns the first block for which `is_before` is false. It must be true for a prefix of the blocks.
    pub(super) fn partition(&self, from: usize, is_before: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (from, self.blocks());
        // Callers often search for neighbouring positions in turn, so the search starts with growing strides.
        let mut stride = 1;
        while low + stride < high {
            if !is_before(low + stride) {
                high = low + stride;
                break;
            }
            low += stride;
            stride *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Decodes the spans of a block into `out`, and replaces its content.
    pub(super) fn decode(&self, number: usize, out: &mut Vec<Span>) {
        out.clear();
        let block = self.block(number);
        let bytes = usize::try_from(block.offset)
            .ok()
            .and_then(|from| self.file.get(from..from.checked_add(block.bytes as usize)?));
        let count = (block.spans as usize).min(BLOCK_SPANS);
        decode(bytes.unwrap_or_default(), block.start_ns, count, out);
    }

    /// Calls `take` for each span that touches `from_ns..to_ns`, in order, until it returns `false`. A span without
    /// duration touches the windows that contain it.
    pub fn spans_in(&self, from_ns: i64, to_ns: i64, mut take: impl FnMut(&Span) -> bool) {
        let first = self.partition(0, |block| self.end_of(block) < from_ns);
        let mut spans = Vec::with_capacity(BLOCK_SPANS);
        for block in first..self.blocks() {
            if self.start_of(block) >= to_ns {
                return;
            }
            self.decode(block, &mut spans);
            for span in &spans {
                if span.start_ns >= to_ns {
                    return;
                }
                let touches = span.end_ns > from_ns || span.start_ns >= from_ns;
                if touches && !take(span) {
                    return;
                }
            }
        }
    }

    /// Returns the span at a moment, or else the nearest span that is at most `near_ns` away.
    pub fn span_at(&self, ns: i64, near_ns: i64) -> Option<Span> {
        let mut best: Option<(u64, Span)> = None;
        let (from, to) = (
            ns.saturating_sub(near_ns),
            ns.saturating_add(near_ns).saturating_add(1),
        );
        self.spans_in(from, to, |span| {
            let distance = if span.start_ns > ns {
                span.start_ns.abs_diff(ns)
            } else if span.end_ns <= ns {
                span.end_ns.abs_diff(ns).max(1)
            } else {
                0
            };
            if best.is_none_or(|(nearest, _)| distance < nearest) {
                best = Some((distance, *span));
            }
            span.start_ns <= ns
        });
        best.map(|(_, span)| span)
    }

    /// Returns the first span that starts after a moment.
    pub fn next_after(&self, ns: i64) -> Option<Span> {
        let mut found = None;
        self.spans_in(ns, i64::MAX, |span| {
            if span.start_ns > ns {
                found = Some(*span);
            }
            found.is_none()
        });
        found
    }

    /// Returns the last span that starts before a moment.
    pub fn last_before(&self, ns: i64) -> Option<Span> {
        let block = self
            .partition(0, |block| self.start_of(block) < ns)
            .checked_sub(1)?;
        let mut spans = Vec::with_capacity(BLOCK_SPANS);
        self.decode(block, &mut spans);
        spans.into_iter().rev().find(|span| span.start_ns < ns)
    }

    /// Returns the span of an instance whose operations are between two moments.
    pub fn span_of(&self, instance: u64, from_ns: i64, to_ns: i64) -> Option<Span> {
        let mut found = None;
        self.spans_in(from_ns, to_ns, |span| {
            if span.instance == Some(instance) {
                found = Some(*span);
            }
            found.is_none()
        });
        found
    }

    /// Returns the number of spans that start before a moment. It is exact except for the block of the moment, whose
    /// spans are assumed to be evenly spread.
    pub fn spans_before(&self, ns: i64) -> u64 {
        let after = self.partition(0, |block| self.start_of(block) < ns);
        let Some(block) = after.checked_sub(1) else {
            return 0;
        };
        let entry = self.block(block);
        // In a damaged file the times may be arbitrary.
        let length_ns = entry.end_ns.saturating_sub(entry.start_ns).max(1);
        let share = ns.saturating_sub(entry.start_ns) as f64 / length_ns as f64;
        (block * BLOCK_SPANS) as u64 + (share.clamp(0.0, 1.0) * f64::from(entry.spans)) as u64
    }

    /// Returns the time of each class before a moment.
    pub fn sums_until(&self, ns: i64) -> Sums {
        super::Sweep::new(*self).until(ns)
    }

    /// Returns the time of each class in a window.
    pub fn sums_in(&self, from_ns: i64, to_ns: i64) -> Sums {
        let mut sweep = super::Sweep::new(*self);
        let before = sweep.until(from_ns);
        sweep.until(to_ns.max(from_ns)).since(&before)
    }
}
