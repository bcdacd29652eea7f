//! Range and time-weighted mean of a value over an interval.

/// Size of a spread in the file, in bytes.
pub(super) const SPREAD_BYTES: usize = 32;

/// Range and time-weighted mean of a value over an interval. Values that are not finite count nowhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    min: f64,
    max: f64,
    mean: f64,
    held_ns: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            held_ns: 0,
        }
    }
}

impl Spread {
    /// Returns the smallest value; `None` without a finite value.
    #[inline]
    pub fn min(&self) -> Option<f64> {
        self.is_known().then_some(self.min)
    }

    /// Returns the largest value; `None` without a finite value.
    #[inline]
    pub fn max(&self) -> Option<f64> {
        self.is_known().then_some(self.max)
    }

    /// Returns the mean, weighted by the time for which each value holds. `None` if no finite value holds for any time.
    #[inline]
    pub fn mean(&self) -> Option<f64> {
        (self.is_known() && self.held_ns > 0).then(|| self.mean.clamp(self.min, self.max))
    }

    /// Returns the time for which finite values hold, in nanoseconds.
    #[inline]
    pub fn held_ns(&self) -> u64 {
        self.held_ns
    }

    /// In a damaged file, the range may be reversed or not a number.
    #[inline]
    fn is_known(&self) -> bool {
        self.min <= self.max
    }

    /// Adds a value that holds for a time.
    #[inline]
    pub(super) fn add(&mut self, value: f64, held_ns: u64) {
        if value.is_finite() {
            self.merge(&Self {
                min: value,
                max: value,
                mean: value,
                held_ns,
            });
        }
    }

    /// Adds another interval.
    #[inline]
    pub(super) fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if other.held_ns == 0 {
            return;
        }
        // A weighted mean of means stays in their range. A sum of values times nanoseconds may exceed a float.
        let held_ns = self.held_ns.saturating_add(other.held_ns);
        let (own, more) = (
            self.held_ns as f64 / held_ns as f64,
            other.held_ns as f64 / held_ns as f64,
        );
        self.mean = self.mean * own + other.mean * more;
        self.held_ns = held_ns;
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.min.to_le_bytes());
        out.extend(self.max.to_le_bytes());
        out.extend(self.mean.to_le_bytes());
        out.extend(self.held_ns.to_le_bytes());
    }

    /// Decodes a spread. Missing bytes give one without values.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            bytes
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok())
                .map(u64::from_le_bytes)
        };
        match (number(0), number(8), number(16), number(24)) {
            (Some(min), Some(max), Some(mean), Some(held_ns)) => Self {
                min: f64::from_bits(min),
                max: f64::from_bits(max),
                mean: f64::from_bits(mean),
                held_ns,
            },
            _ => Self::default(),
        }
    }
}
