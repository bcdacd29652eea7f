//! The change of one metric, and how exactly it is known.

use super::layout::{Layout, Unit};
use super::statistics::{mean, pooled_variance, satterthwaite};
use rankscope_formats::comparison::{Mean, Value};

/// Which steps of the runs are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// All counted ones.
    All,
    /// Those that are no outliers.
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

/// One metric's values, as far as they are known: a value per run, in the order of the sides' runs.
#[derive(Clone, Debug)]
pub struct Values {
    /// Of the base; `None` for a run that is not compared and lacks the metric.
    pub base: Vec<Option<Value>>,
    /// Of the new runs.
    pub new: Vec<Option<Value>>,
    /// Of other runs that say how much runs differ, by batch.
    pub noise: Vec<Vec<Value>>,
}

/// Base and new values, and the variances of the two.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Mean of the base.
    pub base: f64,
    /// Mean of the new runs.
    pub new: f64,
    /// Variances of both means and the degrees of freedom of their sum; `None` where no noise is known.
    pub noise: Option<Noise>,
}

/// How exactly means are known.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// Variance of the base's mean.
    pub base: f64,
    /// Variance of the new runs' mean.
    pub new: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// Variance of one more independent unit a side: by it more runs make the means more exact.
    pub of_one: f64,
}

impl Estimate {
    /// Of these values.
    pub fn of(values: &Values, layout: &Layout, steps: Steps) -> Option<Self> {
        let base: Vec<f64> = layout
            .compared_base()
            .iter()
            .map(|&at| known(&values.base, at, steps))
            .collect::<Option<_>>()?;
        let new: Vec<f64> = (0..values.new.len())
            .map(|at| known(&values.new, at, steps))
            .collect::<Option<_>>()?;
        if base.is_empty() || new.is_empty() || base.iter().chain(&new).any(|value| !value.is_finite()) {
            return None;
        }
        match layout.unit {
            Unit::Batches => Self::by_batches(values, layout, steps),
            Unit::Runs | Unit::Blocks | Unit::None => Self::by_runs(values, layout, steps),
        }
    }

    fn by_runs(values: &Values, layout: &Layout, steps: Steps) -> Option<Self> {
        let groups = groups(values, layout, steps);
        let pooled = pooled_variance(groups.iter().map(Vec::as_slice));
        let (mut base, mut new, mut base_variance, mut new_variance) = (0.0, 0.0, 0.0, 0.0);
        let mut blocks: Vec<(f64, f64)> = Vec::new();
        let mut is_known = pooled.is_some();
        for (stratum, weight) in layout.strata.iter().zip(layout.weights()) {
            let sides = [
                (&stratum.base, &values.base, &mut base, &mut base_variance),
                (&stratum.new, &values.new, &mut new, &mut new_variance),
            ];
            for (runs, values, sum, variance) in sides {
                let means: Vec<f64> = runs
                    .iter()
                    .map(|&at| known(values, at, steps))
                    .collect::<Option<_>>()?;
                *sum += weight * mean(&means);
                // A run alone may be less exact than runs differ: by few steps, say.
                let own = values.get(runs[0]).and_then(|value| {
                    let mean = steps.of(value.as_ref()?);
                    Some((mean.variance?, f64::from(mean.blocks) - 1.0))
                });
                let of_one = pooled.map_or(0.0, |(pooled, _)| pooled);
                let of_mean = match (layout.unit, own) {
                    (Unit::Blocks, Some((own, degrees))) => {
                        blocks.push((own, degrees));
                        of_one + own
                    }
                    (_, Some((own, _))) if means.len() == 1 => of_one.max(own),
                    _ => of_one / means.len() as f64,
                };
                *variance += weight * weight * of_mean;
            }
        }
        is_known &= layout.unit != Unit::None;
        let noise = pooled.filter(|_| is_known).map(|(of_one, degrees)| Noise {
            base: base_variance,
            new: new_variance,
            degrees: if blocks.is_empty() {
                degrees
            } else {
                blocks.push((2.0 * of_one, degrees));
                satterthwaite(&blocks)
            },
            of_one,
        });
        Some(Self { base, new, noise })
    }

    /// The new batch beside those of the base: what a batch has in common is no change.
    fn by_batches(values: &Values, layout: &Layout, steps: Steps) -> Option<Self> {
        let of = |batch: &Vec<usize>, values: &[Option<Value>]| -> Option<f64> {
            let means: Vec<f64> = batch
                .iter()
                .map(|&at| known(values, at, steps))
                .collect::<Option<_>>()?;
            Some(mean(&means))
        };
        let base: Vec<f64> = layout
            .base_batches
            .iter()
            .map(|batch| of(batch, &values.base))
            .collect::<Option<_>>()?;
        let new: Vec<f64> = layout
            .new_batches
            .iter()
            .map(|batch| of(batch, &values.new))
            .collect::<Option<_>>()?;
        let (between, degrees) = pooled_variance([base.as_slice(), new.as_slice()].into_iter())?;
        // Runs of a batch may differ more than batches seem to, which are few.
        let inside = pooled_variance(groups(values, layout, steps).iter().map(Vec::as_slice));
        let (inside, inside_degrees) = inside.unwrap_or((0.0, f64::INFINITY));
        let by_batches = between / base.len() as f64 + between / new.len() as f64;
        let runs = |batches: &[Vec<usize>]| batches.iter().map(Vec::len).sum::<usize>() as f64;
        let by_runs = [
            inside / runs(&layout.base_batches),
            inside / runs(&layout.new_batches),
        ];
        let noise = if by_batches >= by_runs[0] + by_runs[1] {
            Noise {
                base: between / base.len() as f64,
                new: between / new.len() as f64,
                degrees,
                of_one: between,
            }
        } else {
            Noise {
                base: by_runs[0],
                new: by_runs[1],
                degrees: degrees.min(inside_degrees),
                of_one: inside,
            }
        };
        Some(Self {
            base: mean(&base),
            new: mean(&new),
            noise: Some(noise),
        })
    }

    /// The change.
    pub fn change(&self) -> f64 {
        self.new - self.base
    }

    /// Standard error of `new − factor · base`.
    pub fn standard_error(&self, factor: f64) -> Option<f64> {
        let noise = self.noise?;
        Some((noise.new + factor * factor * noise.base).sqrt())
    }
}

fn known(values: &[Option<Value>], at: usize, steps: Steps) -> Option<f64> {
    Some(steps.of(values.get(at)?.as_ref()?).mean)
}

/// All runs that were recorded together on one side, and all groups of other runs: what varies inside a group is noise.
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
