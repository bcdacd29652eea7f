//! Sums of one metric over the blocks of a run's counted steps, with and without outlier steps.

use rankscope_formats::comparison::{Mean, Value};
use std::ops::AddAssign;

/// Maximum number of blocks. With more blocks, neighbouring blocks would be correlated.
pub const MAX_BLOCKS: usize = 20;
/// Minimum number of blocks from which the variance of a mean can be estimated.
pub const MIN_BLOCKS: usize = 4;
/// Length of the shortest block, in steps.
const SHORTEST: usize = 5;

/// Returns the number of blocks for N counted steps.
pub fn blocks(steps: usize) -> usize {
    match steps / SHORTEST {
        0..MIN_BLOCKS => 1,
        blocks => blocks.min(MAX_BLOCKS),
    }
}

/// Place of a counted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Block of the step.
    pub block: u8,
    /// Whether the step is an outlier.
    pub is_outlier: bool,
}

/// Sums of one cell. A metric is the quotient of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quotient {
    /// Sum above the line.
    pub numerator: f64,
    /// Sum below the line.
    pub denominator: f64,
}

impl AddAssign for Quotient {
    fn add_assign(&mut self, other: Self) {
        self.numerator += other.numerator;
        self.denominator += other.denominator;
    }
}

/// Sums by block, of typical steps and of outliers.
#[derive(Clone, Debug, Default)]
pub struct Cells {
    of_blocks: Vec<[Quotient; 2]>,
}

impl Cells {
    /// Adds a value of a step.
    pub fn add(&mut self, place: Place, numerator: f64, denominator: f64) {
        let block = usize::from(place.block);
        if self.of_blocks.len() <= block {
            self.of_blocks.resize_with(block + 1, Default::default);
        }
        self.of_blocks[block][usize::from(place.is_outlier)] += Quotient {
            numerator,
            denominator,
        };
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.of_blocks.is_empty()
    }

    /// Adds all sums of another object.
    pub fn merge(&mut self, other: &Self) {
        if self.of_blocks.len() < other.of_blocks.len() {
            self.of_blocks
                .resize_with(other.of_blocks.len(), Default::default);
        }
        for (own, others) in self.of_blocks.iter_mut().zip(&other.of_blocks) {
            own[0] += others[0];
            own[1] += others[1];
        }
    }

    /// Returns the same numerators over other denominators. These count the steps of each block, whether or not
    /// anything was added.
    pub fn over(&self, counts: &Self) -> Self {
        let of_blocks = counts.of_blocks.iter().enumerate().map(|(block, counts)| {
            let sums = self.of_blocks.get(block).copied().unwrap_or_default();
            [0, 1].map(|kind| Quotient {
                numerator: sums[kind].numerator,
                denominator: counts[kind].denominator,
            })
        });
        Self {
            of_blocks: of_blocks.collect(),
        }
    }

    /// Returns the numerator over all blocks.
    pub fn total(&self) -> f64 {
        self.of_blocks.iter().flatten().map(|cell| cell.numerator).sum()
    }

    /// Returns the value of the run; `None` if the denominator is empty.
    pub fn value(&self) -> Option<Value> {
        let all = self.mean(|[typical, outliers]| {
            let mut sum = *typical;
            sum += *outliers;
            sum
        })?;
        Some(Value {
            all,
            without_outliers: self.mean(|[typical, _]| *typical)?,
        })
    }

    /// Returns the mean over all blocks, and its variance from the block means.
    fn mean(&self, of: impl Fn(&[Quotient; 2]) -> Quotient) -> Option<Mean> {
        let mut whole = Quotient::default();
        for cell in &self.of_blocks {
            whole += of(cell);
        }
        let mean = whole.numerator / whole.denominator;
        if !mean.is_finite() {
            return None;
        }
        let means: Vec<f64> = self
            .of_blocks
            .iter()
            .map(of)
            .filter(|cell| cell.denominator > 0.0)
            .map(|cell| cell.numerator / cell.denominator)
            .collect();
        let variance = (means.len() >= MIN_BLOCKS).then(|| {
            let centre = means.iter().sum::<f64>() / means.len() as f64;
            let squares: f64 = means.iter().map(|mean| (mean - centre).powi(2)).sum();
            squares / (means.len() * (means.len() - 1)) as f64
        });
        Some(Mean {
            mean,
            variance,
            blocks: means.len() as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_all_steps_and_variances_of_blocks() {
        let mut cells = Cells::default();
        for step in 0..8_u8 {
            let place = Place {
                block: step / 2,
                is_outlier: step == 7,
            };
            cells.add(place, if step == 7 { 80.0 } else { f64::from(step) }, 1.0);
        }
        let value = cells.value().expect("a value");
        assert!((value.all.mean - 101.0 / 8.0).abs() < 1e-12);
        assert!((value.without_outliers.mean - 3.0).abs() < 1e-12);
        // Blocks without outliers: 0.5, 2.5, 4.5, 6.
        let means = [0.5_f64, 2.5, 4.5, 6.0];
        let centre = means.iter().sum::<f64>() / 4.0;
        let expected = means.iter().map(|mean| (mean - centre).powi(2)).sum::<f64>() / 12.0;
        assert!((value.without_outliers.variance.expect("four blocks") - expected).abs() < 1e-12);
        assert_eq!(Cells::default().value(), None);
    }

    #[test]
    fn a_short_run_is_one_block_and_a_long_one_has_twenty() {
        assert_eq!([0, 7, 19, 20, 55, 5000].map(blocks), [1, 1, 1, 4, 11, 20]);
    }
}
