//! Quantiles in fixed memory. The buckets of the histogram are 1/64 of an octave wide.

use rankscope_formats::session::Quantiles;

/// Bits of the mantissa that select a bucket inside an octave.
const MANTISSA_BITS: u32 = 6;
/// Bucket of 1.0, the smallest value with a separate bucket.
const FIRST: u64 = 1023 << MANTISSA_BITS;
/// Maximum relative error of a percentile: half a bucket, relative to its lower end.
const RELATIVE_ERROR: f64 = 1.0 / 128.0;

/// A sketch of numbers ≥ 0. All numbers below 1 share one bucket; quantiles in it are reported as the minimum.
#[derive(Clone, Debug, Default)]
pub struct Sketch {
    buckets: Vec<u64>,
    below_one: u64,
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
}

impl Sketch {
    /// Adds a number. Negative numbers and NaN count as 0.
    #[inline]
    pub fn add(&mut self, value: f64) {
        let value = value.max(0.0);
        if self.count == 0 || value < self.min {
            self.min = value;
        }
        if value > self.max {
            self.max = value;
        }
        self.count += 1;
        self.sum += value;
        if value < 1.0 {
            self.below_one += 1;
            return;
        }
        let bucket = ((value.to_bits() >> (52 - MANTISSA_BITS)) - FIRST) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Adds the numbers of another sketch.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.below_one += other.below_one;
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += count;
        }
    }

    /// Returns the memory of the buckets, in bytes.
    pub fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u64>()
    }

    /// Returns the sketch as bytes: little-endian words of 64 bits. They are for intermediate results of one version.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [
            self.below_one,
            self.count,
            self.min.to_bits(),
            self.max.to_bits(),
            self.sum.to_bits(),
        ];
        head.iter()
            .chain(&self.buckets)
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// Returns the sketch of bytes that [`to_bytes`](Self::to_bytes) made; `None` for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
        let mut next = || words.next();
        let sketch = Self {
            below_one: next()?,
            count: next()?,
            min: f64::from_bits(next()?),
            max: f64::from_bits(next()?),
            sum: f64::from_bits(next()?),
            buckets: words.collect(),
        };
        let counted = sketch
            .buckets
            .iter()
            .try_fold(sketch.below_one, |sum, &count| sum.checked_add(count));
        (rest.is_empty() && counted == Some(sketch.count)).then_some(sketch)
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean. Returns 0 for an empty sketch.
    pub fn mean(&self) -> f64 {
        self.sum / self.count.max(1) as f64
    }

    /// Returns the value below which this share of the numbers is. Returns 0 for an empty sketch.
    pub fn quantile(&self, share: f64) -> f64 {
        self.at(position(share, self.count))
    }

    /// Returns the number at a position in ascending order, from 1. Returns 0 for an empty sketch.
    pub fn at(&self, position: u64) -> f64 {
        let mut seen = self.below_one;
        if seen >= position {
            return self.min;
        }
        for (bucket, &count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= position {
                let low = f64::from_bits((bucket as u64 + FIRST) << (52 - MANTISSA_BITS));
                return (low * (1.0 + RELATIVE_ERROR)).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Returns the summary, or `None` for an empty sketch.
    pub fn quantiles(&self) -> Option<Quantiles> {
        (self.count > 0).then(|| Quantiles {
            count: self.count,
            min: self.min,
            p25: self.quantile(0.25),
            p50: self.quantile(0.5),
            p75: self.quantile(0.75),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            max: self.max,
            sum: self.sum,
            relative_error: RELATIVE_ERROR,
        })
    }
}

/// Returns the position in ascending order, from 1, of the number below which this share of `count` numbers is.
pub fn position(share: f64, count: u64) -> u64 {
    ((share * count as f64).ceil() as u64).clamp(1, count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_quantiles_equal_those_of_all_values(
            one in proptest::collection::vec(0u64..1 << 40, 0..50),
            other in proptest::collection::vec(0u64..1 << 40, 0..50),
        ) {
            let sketch = |values: &mut dyn Iterator<Item = &u64>| {
                let mut sketch = Sketch::default();
                values.for_each(|&value| sketch.add(value as f64));
                sketch
            };
            let mut merged = sketch(&mut one.iter());
            prop_assert_eq!(Sketch::from_bytes(&merged.to_bytes()).map(|copy| copy.quantiles()), Some(merged.quantiles()));
            prop_assert!(Sketch::from_bytes(&merged.to_bytes()[1..]).is_none());
            merged.merge(&sketch(&mut other.iter()));
            prop_assert_eq!(merged.quantiles(), sketch(&mut one.iter().chain(&other)).quantiles());
        }

        #[test]
        fn a_quantile_is_within_the_stated_error(mut values in proptest::collection::vec(0u64..1 << 40, 1..200), share in 0.0f64..1.0) {
            let mut sketch = Sketch::default();
            values.iter().for_each(|&value| sketch.add(value as f64));
            values.sort_unstable();
            let exact = values[((share * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1] as f64;
            let estimate = sketch.quantile(share);
            prop_assert!((estimate - exact).abs() <= exact * RELATIVE_ERROR + 1e-9, "{estimate} for {exact}");
        }
    }
}
