//! Figures: a value or the reason why it is unknown, ratios, and quantiles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure<T> {
    /// The number; `null` if it could not be computed.
    pub value: Option<T>,
    /// Reason why there is no number; `null` if there is one.
    pub reason: Option<String>,
}

impl<T> Figure<T> {
    /// Creates a figure with a number.
    pub fn known(value: T) -> Self {
        Self {
            value: Some(value),
            reason: None,
        }
    }

    /// Creates a figure without a number, with the reason.
    pub fn unknown(reason: impl Into<String>) -> Self {
        Self {
            value: None,
            reason: Some(reason.into()),
        }
    }

    /// Returns the number, or the reason.
    pub fn get(&self) -> Result<&T, &str> {
        self.value
            .as_ref()
            .ok_or_else(|| self.reason.as_deref().unwrap_or("not computed"))
    }
}

/// Percentage with the numbers from which it was computed. The share is `numerator / denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// Numerator, in the unit that the field of this ratio names.
    pub numerator: i64,
    /// Denominator, in the same unit; above 0.
    pub denominator: i64,
}

impl Ratio {
    /// Creates a ratio, or a figure with the reason if the denominator is 0.
    pub fn figure(numerator: i64, denominator: i64, reason_if_zero: &str) -> Figure<Self> {
        if denominator > 0 {
            Figure::known(Self {
                numerator,
                denominator,
            })
        } else {
            Figure::unknown(reason_if_zero)
        }
    }

    /// Returns the share. It is 0 to 1 if the numerator is a part of the denominator.
    pub fn share(self) -> f64 {
        self.numerator as f64 / self.denominator as f64
    }
}

/// Quantiles from a sketch, in the unit that the field of these quantiles names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Minimum, exact.
    pub min: f64,
    /// Lower quartile.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Upper quartile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum, exact.
    pub max: f64,
    /// Sum, exact.
    pub sum: f64,
    /// Maximum relative error of the percentiles; 0.01 is one percent.
    pub relative_error: f64,
}
