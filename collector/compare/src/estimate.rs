//! Change of one metric, and its precision.

use super::layout::{Layout, Side, Unit};
use super::statistics::{mean, pooled_variance, satterthwaite};
use rankscope_formats::comparison::{Mean, Value};

/// Selection of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// All counted steps.
    All,
    /// Counted steps without outliers.
    WithoutOutliers,
}

impl Steps {
    fn of(self, value: &Value) -> &Mean {
        match self {
            Self::All => &value.all,
            Self::WithoutOutliers => &value.without_outliers,
        }
    }
}

/// Known values of one metric: one value per run, in the order of the sides' runs.
#[derive(Clone, Debug)]
pub struct Values {
    /// Base values; `None` for a run that is not compared and lacks the metric.
    pub base: Vec<Option<Value>>,
    /// Values of the new runs.
    pub new: Vec<Option<Value>>,
    /// Values of other runs that supply the noise between runs, by batch.
    pub noise: Vec<Vec<Value>>,
}

/// Base and new values, and their variances.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Mean of the base.
    pub base: f64,
    /// Mean of the new runs.
    pub new: f64,
    /// Noise of both means; `None` if no noise is known.
    pub noise: Option<Noise>,
}

/// Noise of the means.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Variance of the base's mean.
    pub base: f64,
    /// Variance of the new runs' mean.
    pub new: f64,
    /// Degrees of freedom of the sum of both variances.
    pub degrees: f64,
    /// Variance of one more independent unit per side, by which the means become more precise with more runs.
    pub of_one: f64,
}

impl Estimate {
    /// Estimates these values; `None` unless all are finite numbers.
    pub fn of(values: &Values, layout: &Layout, steps: Steps) -> Option<Self> {
        let side = |side: Side, values: &[Option<Value>]| -> Option<f64> {
            let weights = layout.run_weights(side);
            let means: Vec<f64> = weights
                .iter()
                .map(|&(at, weight)| Some(weight * known(values, at, steps)?))
                .collect::<Option<_>>()?;
            (!means.is_empty()).then(|| means.iter().sum())
        };
        let (base, new) = (side(Side::Base, &values.base)?, side(Side::New, &values.new)?);
        let noise = match layout.unit {
            Unit::Batches => Some(Self::of_batches(values, layout, steps)?),
            Unit::Runs | Unit::Blocks => Self::of_runs(values, layout, steps)?,
            Unit::None => None,
        };
        let is_finite = (new - base).is_finite()
            && noise.is_none_or(|noise| (noise.base + noise.new).is_finite() && noise.degrees > 0.0);
        is_finite.then_some(Self { base, new, noise })
    }

    /// Estimates the noise of runs; the inner `None` means that none is known.
    fn of_runs(values: &Values, layout: &Layout, steps: Steps) -> Option<Option<Noise>> {
        let groups = groups(values, layout, steps);
        let Some((of_one, degrees)) = pooled_variance(groups.iter().map(Vec::as_slice)) else {
            return Some(None);
        };
        let mut variances = [0.0, 0.0];
        let mut blocks: Vec<(f64, f64)> = Vec::new();
        for (stratum, weight) in layout.strata.iter().zip(layout.weights()) {
            let sides = [(&stratum.base, &values.base), (&stratum.new, &values.new)];
            for ((runs, values), variance) in sides.into_iter().zip(&mut variances) {
                // A single run may be less precise than the variation between runs, for example with few steps.
                let own = values.get(*runs.first()?).and_then(|value| {
                    let mean = steps.of(value.as_ref()?);
                    Some((mean.variance?, f64::from(mean.blocks) - 1.0))
                });
                let of_mean = match (layout.unit, own) {
                    (Unit::Blocks, Some((own, degrees))) => {
                        blocks.push((weight * weight * own, degrees));
                        of_one + own
                    }
                    (_, Some((own, _))) if runs.len() == 1 => of_one.max(own),
                    _ => of_one / runs.len() as f64,
                };
                *variance += weight * weight * of_mean;
            }
        }
        if !blocks.is_empty() {
            let squares: f64 = layout.weights().iter().map(|weight| weight * weight).sum();
            blocks.push((2.0 * of_one * squares, degrees));
        }
        Some(Some(Noise {
            base: variances[0],
            new: variances[1],
            degrees: if blocks.is_empty() {
                degrees
            } else {
                satterthwaite(&blocks)
            },
            of_one,
        }))
    }

    /// Estimates the noise of batches: a change must exceed what a batch has in common.
    fn of_batches(values: &Values, layout: &Layout, steps: Steps) -> Option<Noise> {
        let of = |batch: &Vec<usize>, values: &[Option<Value>]| -> Option<f64> {
            let means: Vec<f64> = batch
                .iter()
                .map(|&at| known(values, at, steps))
                .collect::<Option<_>>()?;
            Some(mean(&means))
        };
        let side = |batches: &[Vec<usize>], values: &[Option<Value>]| -> Option<Vec<f64>> {
            batches.iter().map(|batch| of(batch, values)).collect()
        };
        let base = side(&layout.base_batches, &values.base)?;
        let new = side(&layout.new_batches, &values.new)?;
        let (between, degrees) = pooled_variance([base.as_slice(), new.as_slice()].into_iter())?;
        // The few batches may vary less by chance than runs of a batch.
        let inside = pooled_variance(groups(values, layout, steps).iter().map(Vec::as_slice));
        let (inside, inside_degrees) = inside.unwrap_or((0.0, f64::INFINITY));
        let by_batches = [between / base.len() as f64, between / new.len() as f64];
        let by_runs = [Side::Base, Side::New].map(|side| {
            let squares = layout
                .run_weights(side)
                .into_iter()
                .map(|(_, weight)| weight * weight);
            inside * squares.sum::<f64>()
        });
        let (variances, degrees, of_one) = if by_batches[0] + by_batches[1] >= by_runs[0] + by_runs[1] {
            (by_batches, degrees, between)
        } else {
            (by_runs, degrees.min(inside_degrees), inside)
        };
        Some(Noise {
            base: variances[0],
            new: variances[1],
            degrees,
            of_one,
        })
    }

    /// Returns the change.
    pub fn change(&self) -> f64 {
        self.new - self.base
    }

    /// Returns the standard error of `new − factor · base`.
    pub fn standard_error(&self, factor: f64) -> Option<f64> {
        let noise = self.noise?;
        Some((noise.new + factor * factor * noise.base).sqrt())
    }
}

fn known(values: &[Option<Value>], at: usize, steps: Steps) -> Option<f64> {
    Some(steps.of(values.get(at)?.as_ref()?).mean)
}

/// Returns all groups of runs that were recorded together: those of each side, and groups of other runs. Variation
/// within a group is noise.
fn groups(values: &Values, layout: &Layout, steps: Steps) -> Vec<Vec<f64>> {
    let of_side = |batches: &[Vec<usize>], values: &[Option<Value>]| -> Vec<Vec<f64>> {
        let of_batch = |batch: &Vec<usize>| batch.iter().filter_map(|&at| known(values, at, steps)).collect();
        batches.iter().map(of_batch).collect()
    };
    let mut out = of_side(&layout.base_batches, &values.base);
    out.extend(of_side(&layout.new_batches, &values.new));
    let others = values.noise.iter();
    out.extend(others.map(|batch| batch.iter().map(|value| steps.of(value).mean).collect()));
    out
}
