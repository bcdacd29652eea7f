//! Directory of a lane: the location of each block, and the sums before it.
//!
//! ```text
//! per block, 96 bytes: start (i64), end of its last span (i64), offset in the file (u64), spans (u32), bytes (u32),
//!                      ns of each of eight classes in all blocks before it (u64 × 8)
//! ```

use super::{CLASSES, Span, operation};

/// Size of an entry, in bytes.
pub(super) const ENTRY_BYTES: usize = 32 + 8 * CLASSES;

/// Time of each class, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums(pub [u64; CLASSES]);

impl Sums {
    /// Adds a span.
    #[inline]
    pub fn add(&mut self, span: &Span) {
        let (wait, all) = (
            span.wait_ns.max(0) as u64,
            span.end_ns.saturating_sub(span.start_ns).max(0) as u64,
        );
        let wait = wait.min(all);
        // The addition saturates, because a damaged file may contain arbitrary durations.
        let mut put = |class: u8, ns: u64| {
            let sum = &mut self.0[usize::from(class) % CLASSES];
            *sum = sum.saturating_add(ns);
        };
        put(operation::WAITING, wait);
        put(span.class, all - wait);
    }

    /// Adds the part of a span before `ns`.
    #[inline]
    pub fn add_until(&mut self, span: &Span, ns: i64) {
        let end_ns = span.end_ns.min(ns);
        if end_ns > span.start_ns {
            self.add(&Span { end_ns, ..*span });
        }
    }

    /// Returns the difference to earlier sums of the same lane.
    #[must_use]
    #[inline]
    pub fn since(&self, before: &Self) -> Self {
        let mut out = *self;
        out.0
            .iter_mut()
            .zip(&before.0)
            .for_each(|(sum, before)| *sum = sum.saturating_sub(*before));
        out
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(sum, more)| *sum = sum.saturating_add(*more));
    }

    /// Returns the time of all classes together, in nanoseconds.
    #[inline]
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, &part| sum.saturating_add(part))
    }
}

/// One block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub start_ns: i64,
    pub end_ns: i64,
    pub offset: u64,
    pub spans: u32,
    pub bytes: u32,
    pub before: Sums,
}

impl Block {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.start_ns.to_le_bytes());
        out.extend(self.end_ns.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend(self.spans.to_le_bytes());
        out.extend(self.bytes.to_le_bytes());
        self.before.0.iter().for_each(|sum| out.extend(sum.to_le_bytes()));
    }

    /// Decodes an entry. Missing bytes count as zeros.
    #[inline]
    pub(super) fn read(entry: &[u8]) -> Self {
        let number = |at: usize| {
            entry
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        };
        let mut before = Sums::default();
        for (class, sum) in before.0.iter_mut().enumerate() {
            *sum = number(32 + 8 * class);
        }
        let sizes = number(24);
        Self {
            start_ns: number(0) as i64,
            end_ns: number(8) as i64,
            offset: number(16),
            spans: sizes as u32,
            bytes: (sizes >> 32) as u32,
            before,
        }
    }
}
