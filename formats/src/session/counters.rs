//! Counters: samples that the program or the recorder took.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Returns the unit in the name of a counter: `bytes/s`, `bytes` or `ns`; `count` if the name has none.
pub fn counter_unit(name: &str) -> &'static str {
    if name.ends_with("_bytes_per_s") {
        "bytes/s"
    } else if name.ends_with("_bytes") {
        "bytes"
    } else if name.ends_with("_ns") {
        "ns"
    } else {
        "count"
    }
}

/// Samples of one counter of one rank. The table `counters` has each sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterSummary {
    /// Rank: index into [`super::Session::ranks`].
    pub rank: u32,
    /// Name.
    pub name: String,
    /// Number of samples.
    pub samples: u64,
    /// Smallest sample; missing if no sample is a finite number.
    pub min: Option<f64>,
    /// Mean of the samples that are finite.
    pub mean: Option<f64>,
    /// Largest sample.
    pub max: Option<f64>,
    /// Last sample; missing if it is not a finite number.
    pub last: Option<f64>,
}
