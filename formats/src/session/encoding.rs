//! Parquet encodings that encode value by value and use little more memory than the encoded data.
//!
//! A session has one file per rank and table, and all of them are open at the same time. Most columns of most row
//! groups hold a single value or a single step. The encoders of the parquet crate are made for few files: each of them
//! allocates a megabyte before its first value.

/// Number of deltas in a block. The format requires a multiple of 128.
const BLOCK: usize = 128;
/// Number of values in a miniblock. All values of a miniblock share a bit width.
const MINI: usize = 32;

/// Appends a varint: seven bits per byte, the lowest bits first.
pub(super) fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_zigzag(value: i64, out: &mut Vec<u8>) {
    put_varint(((value << 1) ^ (value >> 63)) as u64, out);
}

/// Appends 32 numbers of `width` bits each.
fn pack(numbers: &[u64; MINI], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let (mut word, mut filled) = (0u64, 0);
    for &number in numbers {
        word |= number << filled;
        filled += width;
        if filled >= 64 {
            out.extend_from_slice(&word.to_le_bytes());
            filled -= 64;
            word = if filled == 0 {
                0
            } else {
                number >> (width - filled)
            };
        }
    }
    // 32 numbers of any width fill whole half words.
    if filled > 0 {
        out.extend_from_slice(&(word as u32).to_le_bytes());
    }
}

/// Encoder for DELTA_BINARY_PACKED. While all values are one constant step apart, it only counts them.
#[derive(Default)]
pub(super) struct Delta {
    /// Differences wrap at 32 bits, as the type of the column does.
    is_narrow: bool,
    first: i64,
    last: i64,
    count: usize,
    /// Constant step between the values. `None` from the first value that breaks it.
    step: Option<i64>,
    /// Deltas of the current block.
    deltas: Vec<i64>,
    blocks: Vec<u8>,
}

impl Delta {
    /// Creates an encoder for a column of 32 bits (`is_narrow`) or of 64 bits.
    pub fn new(is_narrow: bool) -> Self {
        Self {
            is_narrow,
            ..Self::default()
        }
    }

    /// Returns the number of values so far.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Appends a value.
    #[inline]
    pub fn push(&mut self, value: i64) {
        let before = std::mem::replace(&mut self.last, value);
        self.count += 1;
        if self.count == 1 {
            self.first = value;
            return;
        }
        let delta = value.wrapping_sub(before);
        let delta = if self.is_narrow {
            i64::from(delta as i32)
        } else {
            delta
        };
        if self.count == 2 {
            self.step = Some(delta);
        } else if let Some(step) = self.step {
            if step == delta {
                return;
            }
            self.leave_step(step);
            self.put(delta);
        } else {
            self.put(delta);
        }
    }

    /// Turns the values that were only counted into deltas, because a value broke the constant step.
    #[cold]
    fn leave_step(&mut self, step: i64) {
        self.step = None;
        for _ in 0..self.count - 2 {
            self.put(step);
        }
    }

    #[inline]
    fn put(&mut self, delta: i64) {
        self.deltas.push(delta);
        if self.deltas.len() == BLOCK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Some(&least) = self.deltas.iter().min() else {
            return;
        };
        put_zigzag(least, &mut self.blocks);
        let widths = self.blocks.len();
        self.blocks.extend_from_slice(&[0; BLOCK / MINI]);
        for (index, mini) in self.deltas.chunks(MINI).enumerate() {
            // A last miniblock that is not full is padded with zeros.
            let mut above = [0; MINI];
            let mut used = 0;
            for (above, &delta) in above.iter_mut().zip(mini) {
                *above = delta.wrapping_sub(least) as u64;
                used |= *above;
            }
            let width = u64::BITS - used.leading_zeros();
            self.blocks[widths + index] = width as u8;
            pack(&above, width, &mut self.blocks);
        }
        self.deltas.clear();
    }

    /// Appends the encoded values of the page to `out` and resets the encoder.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(step) = self.step.take() {
            for _ in 0..self.count - 1 {
                self.put(step);
            }
        }
        self.flush();
        put_varint(BLOCK as u64, out);
        put_varint((BLOCK / MINI) as u64, out);
        put_varint(self.count as u64, out);
        let first = if self.is_narrow {
            i64::from(self.first as i32)
        } else {
            self.first
        };
        put_zigzag(first, out);
        out.append(&mut self.blocks);
        *self = Self::new(self.is_narrow);
    }
}

/// List of numbers below 65,536. Most lists contain only one distinct number, so the list counts it until a different
/// one arrives.
#[derive(Default)]
pub(super) struct Sequence {
    value: u16,
    same: usize,
    rest: Rest,
}

/// Numbers after the leading run of equal numbers.
enum Rest {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

impl Default for Rest {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Rest {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(list) => list.len(),
            Self::Words(list) => list.len(),
        }
    }

    fn at(&self, index: usize) -> u16 {
        match self {
            Self::Bytes(list) => u16::from(list[index]),
            Self::Words(list) => list[index],
        }
    }
}

impl Sequence {
    /// Returns the number of elements so far.
    pub fn len(&self) -> usize {
        self.same + self.rest.len()
    }

    /// Returns the number at `index`.
    pub fn at(&self, index: usize) -> u16 {
        match index.checked_sub(self.same) {
            None => self.value,
            Some(index) => self.rest.at(index),
        }
    }

    /// Appends `count` copies of `number`.
    #[inline]
    pub fn push_run(&mut self, number: u16, count: usize) {
        if count == 0 {
            return;
        }
        if self.rest.len() == 0 && (self.same == 0 || self.value == number) {
            self.value = number;
            self.same += count;
            return;
        }
        match (&mut self.rest, u8::try_from(number)) {
            (Rest::Words(list), _) => list.extend(std::iter::repeat_n(number, count)),
            (Rest::Bytes(list), Ok(byte)) => list.extend(std::iter::repeat_n(byte, count)),
            (Rest::Bytes(list), Err(_)) => {
                let mut words: Vec<u16> = list.iter().map(|&byte| u16::from(byte)).collect();
                words.extend(std::iter::repeat_n(number, count));
                self.rest = Rest::Words(words);
            }
        }
    }

    /// Returns the length of the run of equal numbers that starts at `index`.
    fn run(&self, index: usize) -> usize {
        let number = self.at(index);
        let from = index.max(self.same);
        let behind = (from..self.len()).take_while(|&next| self.at(next) == number);
        from - index + behind.count()
    }

    /// Appends the numbers with `width` bits each, in Parquet's hybrid of runs and bit-packed groups of eight.
    pub fn put_hybrid(&self, width: u32, out: &mut Vec<u8>) {
        let length = self.len();
        let bytes_per_value = width.div_ceil(8) as usize;
        let mut packed: Vec<u8> = Vec::new();
        let mut groups = 0;
        let mut at = 0;
        let hand_out = |packed: &mut Vec<u8>, groups: &mut u64, out: &mut Vec<u8>| {
            if *groups > 0 {
                put_varint(*groups << 1 | 1, out);
                out.append(packed);
                *groups = 0;
            }
        };
        while at < length {
            let run = self.run(at);
            if run >= 8 {
                hand_out(&mut packed, &mut groups, out);
                put_varint((run as u64) << 1, out);
                out.extend_from_slice(&self.at(at).to_le_bytes()[..bytes_per_value]);
                at += run;
                continue;
            }
            let mut bits = 0u128;
            for (place, index) in (at..length.min(at + 8)).enumerate() {
                bits |= u128::from(self.at(index)) << (place as u32 * width);
            }
            packed.extend_from_slice(&bits.to_le_bytes()[..width as usize]);
            groups += 1;
            at += 8;
        }
        hand_out(&mut packed, &mut groups, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_values_take_no_memory_and_few_bytes() {
        let mut delta = Delta::new(false);
        (0..100_000).for_each(|value| delta.push(value * 7));
        assert_eq!((delta.deltas.capacity(), delta.blocks.capacity()), (0, 0));
        let mut out = Vec::new();
        delta.finish(&mut out);
        // One step and four widths per 128 values.
        assert!(out.len() < 100_000 / 128 * 5 + 32, "{}", out.len());

        let mut sequence = Sequence::default();
        (0..100_000).for_each(|_| sequence.push_run(3, 1));
        assert_eq!(sequence.rest.len(), 0);
        out.clear();
        sequence.put_hybrid(2, &mut out);
        assert_eq!(out, [0xC0, 0x9A, 0x0C, 3], "one run of 100,000 times 3");
    }
}
