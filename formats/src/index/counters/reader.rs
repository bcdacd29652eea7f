//! Access to one counter: its samples, the value at a moment, and the spread of an interval.

use super::super::contents::Contents;
use super::spread::{SPREAD_BYTES, Spread};
use super::{BLOCK_SAMPLES, CounterInfo, ENTRY_BYTES, FAN, SAMPLE_BYTES, Sample};

/// One counter of an open index.
#[derive(Clone, Copy)]
pub struct Counter<'a> {
    /// Description of the counter.
    pub info: &'a CounterInfo,
    /// Number of samples.
    samples: usize,
    /// Directory and levels.
    tree: &'a [u8],
    file: &'a Contents,
}

/// Returns the size of directory and levels, in bytes.
fn tree_bytes(blocks: usize) -> Option<usize> {
    let mut bytes = blocks.checked_mul(ENTRY_BYTES)?;
    let mut nodes = blocks;
    while nodes > 1 {
        nodes = nodes.div_ceil(FAN);
        bytes = bytes.checked_add(nodes.checked_mul(SPREAD_BYTES)?)?;
    }
    Some(bytes)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at.saturating_add(8))
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_le_bytes)
}

fn sample_of(bytes: &[u8]) -> Sample {
    Sample {
        at_ns: number(bytes, 0) as i64,
        value: f64::from_bits(number(bytes, 8)),
    }
}

/// Returns the number of items before the first one for which `is_before` is false. It must be true for a prefix.
fn partition(count: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
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

impl<'a> Counter<'a> {
    /// Returns the counter; `None` if its tree is not inside the file.
    pub(in crate::index) fn new(info: &'a CounterInfo, file: &'a Contents) -> Option<Self> {
        let samples = usize::try_from(info.samples).ok()?;
        let start = usize::try_from(info.directory).ok()?;
        let bytes = tree_bytes(samples.div_ceil(BLOCK_SAMPLES))?;
        Some(Self {
            info,
            samples,
            tree: file.get(start..start.checked_add(bytes)?)?,
            file,
        })
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.samples
    }

    /// Returns true without samples.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    fn blocks(&self) -> usize {
        self.samples.div_ceil(BLOCK_SAMPLES)
    }

    fn start_of(&self, block: usize) -> i64 {
        number(self.tree, block * ENTRY_BYTES) as i64
    }

    /// Returns the encoded samples of a block.
    fn block(&self, block: usize) -> &'a [u8] {
        let samples = BLOCK_SAMPLES.min(self.samples.saturating_sub(block * BLOCK_SAMPLES));
        usize::try_from(number(self.tree, block * ENTRY_BYTES + 8))
            .ok()
            .and_then(|from| self.file.get(from..from.checked_add(samples * SAMPLE_BYTES)?))
            .unwrap_or_default()
    }

    /// Returns a sample by its number.
    pub fn sample(&self, sample: usize) -> Option<Sample> {
        if sample >= self.samples {
            return None;
        }
        let at = sample % BLOCK_SAMPLES * SAMPLE_BYTES;
        let bytes = self.block(sample / BLOCK_SAMPLES).get(at..at + SAMPLE_BYTES)?;
        Some(sample_of(bytes))
    }

    /// Returns the number of samples before a moment.
    pub fn samples_before(&self, ns: i64) -> usize {
        let after = partition(self.blocks(), |block| self.start_of(block) < ns);
        let Some(block) = after.checked_sub(1) else {
            return 0;
        };
        let bytes = self.block(block);
        let inside = partition(bytes.len() / SAMPLE_BYTES, |sample| {
            (number(bytes, sample * SAMPLE_BYTES) as i64) < ns
        });
        block * BLOCK_SAMPLES + inside
    }

    /// Returns the time until which the value of a sample holds.
    fn until_ns(&self, sample: usize) -> i64 {
        let next = self.sample(sample + 1);
        next.map_or(self.info.end_ns, |next| next.at_ns)
    }

    /// Returns the sample whose value holds at a moment.
    pub fn held_at(&self, ns: i64) -> Option<Sample> {
        let number = self.samples_before(ns.saturating_add(1)).checked_sub(1)?;
        let sample = self.sample(number)?;
        (ns < self.until_ns(number) || ns == sample.at_ns).then_some(sample)
    }

    /// Returns the spread of the values that hold in `from_ns..to_ns`, including samples whose value holds for no time.
    pub fn spread_in(&self, from_ns: i64, to_ns: i64) -> Spread {
        let mut out = Spread::default();
        if from_ns >= to_ns {
            return out;
        }
        let (first, after) = (self.samples_before(from_ns), self.samples_before(to_ns));
        let held = first
            .checked_sub(1)
            .and_then(|held| Some((self.sample(held)?, self.until_ns(held).min(to_ns))));
        if let Some((held, until_ns)) = held.filter(|&(_, until_ns)| until_ns > from_ns) {
            out.add(held.value, until_ns.abs_diff(from_ns));
        }
        if first >= after {
            return out;
        }
        self.add_whole(first, after - 1, &mut out);
        self.add_until(after - 1, to_ns, &mut out);
        out
    }

    /// Adds the value of a sample until a moment at most.
    fn add_until(&self, number: usize, ns: i64, out: &mut Spread) {
        if let Some(sample) = self.sample(number) {
            let until_ns = self.until_ns(number).min(ns).max(sample.at_ns);
            out.add(sample.value, until_ns.abs_diff(sample.at_ns));
        }
    }

    /// Adds the values of samples, each until the next sample.
    fn add_whole(&self, from: usize, to: usize, out: &mut Spread) {
        let (first, last) = (from.div_ceil(BLOCK_SAMPLES), to / BLOCK_SAMPLES);
        if first >= last {
            (from..to).for_each(|sample| self.add_until(sample, i64::MAX, out));
            return;
        }
        (from..first * BLOCK_SAMPLES).for_each(|sample| self.add_until(sample, i64::MAX, out));
        self.add_blocks(first, last, out);
        (last * BLOCK_SAMPLES..to).for_each(|sample| self.add_until(sample, i64::MAX, out));
    }

    /// Adds blocks by the largest nodes that are inside the range.
    fn add_blocks(&self, from: usize, to: usize, out: &mut Spread) {
        let (mut from, mut to) = (from, to);
        let (mut start, mut nodes) = (0, self.blocks());
        let mut size = ENTRY_BYTES;
        let mut add = |start: usize, size: usize, node: usize| {
            // The spread is at the end of the entry of a block.
            let at = start + node * size + size - SPREAD_BYTES;
            out.merge(&Spread::read(self.tree.get(at..).unwrap_or_default()));
        };
        while from < to {
            while from < to && !from.is_multiple_of(FAN) {
                add(start, size, from);
                from += 1;
            }
            while from < to && !to.is_multiple_of(FAN) {
                to -= 1;
                add(start, size, to);
            }
            (from, to) = (from / FAN, to / FAN);
            start += nodes * size;
            nodes = nodes.div_ceil(FAN);
            size = SPREAD_BYTES;
        }
    }
}
