//! Blocks and tree of a counter that is being written. Needs less than a byte of memory per sample.

use super::spread::Spread;
use super::{BLOCK_SAMPLES, CounterInfo, FAN, Sample};

/// A counter that is being written.
pub(in crate::index) struct OpenCounter {
    name: String,
    end_ns: i64,
    /// Samples of the block that is not written yet.
    waiting: Vec<Sample>,
    last_ns: i64,
    samples: u64,
    blocks: Vec<Block>,
}

struct Block {
    start_ns: i64,
    offset: u64,
    spread: Spread,
}

impl OpenCounter {
    /// Creates a counter whose last value holds until `end_ns`.
    pub fn new(name: String, end_ns: i64) -> Self {
        Self {
            name,
            end_ns,
            waiting: Vec::with_capacity(BLOCK_SAMPLES),
            last_ns: i64::MIN,
            samples: 0,
            blocks: Vec::new(),
        }
    }

    /// Returns true if [`Self::end_block`] must precede the next sample.
    pub fn is_full(&self) -> bool {
        self.waiting.len() == BLOCK_SAMPLES
    }

    /// Appends a sample. If it is before the last one, it is moved to the time of that.
    pub fn push(&mut self, sample: Sample) {
        self.last_ns = self.last_ns.max(sample.at_ns);
        self.samples += 1;
        self.waiting.push(Sample {
            at_ns: self.last_ns,
            ..sample
        });
    }

    /// Encodes the block into `out`, which will be written at `offset`. Its last value holds until `until_ns`.
    pub fn end_block(&mut self, until_ns: i64, offset: u64, out: &mut Vec<u8>) {
        let Some(first) = self.waiting.first() else {
            return;
        };
        let mut block = Block {
            start_ns: first.at_ns,
            offset,
            spread: Spread::default(),
        };
        let ends = self.waiting.iter().skip(1).map(|next| next.at_ns);
        for (sample, end_ns) in self.waiting.iter().zip(ends.chain([until_ns])) {
            let held_ns = end_ns.saturating_sub(sample.at_ns).max(0).unsigned_abs();
            block.spread.add(sample.value, held_ns);
            out.extend(sample.at_ns.to_le_bytes());
            out.extend(sample.value.to_le_bytes());
        }
        self.blocks.push(block);
        self.waiting.clear();
    }

    /// Returns the time until which the last value holds.
    pub fn end_ns(&self) -> i64 {
        self.end_ns.max(self.last_ns)
    }

    /// Returns the description of the counter, and its tree, which will be written at `offset`. All blocks must have
    /// ended.
    pub fn finish(self, offset: u64) -> (CounterInfo, Vec<u8>) {
        let mut tree = Vec::new();
        for block in &self.blocks {
            tree.extend(block.start_ns.to_le_bytes());
            tree.extend(block.offset.to_le_bytes());
            block.spread.write(&mut tree);
        }
        let mut level: Vec<Spread> = self.blocks.iter().map(|block| block.spread).collect();
        while level.len() > 1 {
            level = level.chunks(FAN).map(joined).collect();
            level.iter().for_each(|node| node.write(&mut tree));
        }
        let info = CounterInfo {
            end_ns: self.end_ns(),
            name: self.name,
            samples: self.samples,
            directory: offset,
        };
        (info, tree)
    }
}

fn joined(nodes: &[Spread]) -> Spread {
    let mut out = Spread::default();
    nodes.iter().for_each(|node| out.merge(node));
    out
}
