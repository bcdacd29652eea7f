//! Counters: samples that the program or rankscope took.

use super::Session;
use crate::vocabulary::vocabulary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Endings of names, and their units.
const UNITS: [(&str, &str); 8] = [
    ("_bytes_per_s", "bytes/s"),
    ("_bytes", "bytes"),
    ("_ns", "ns"),
    ("_percent", "%"),
    ("_mhz", "MHz"),
    ("_watts", "W"),
    ("_celsius", "°C"),
    ("", "count"),
];

/// Returns the unit in the name of a counter, such as `bytes/s` or `ns`; `count` if the name has none.
pub fn counter_unit(name: &str) -> &'static str {
    let found = UNITS.iter().find(|(ending, _)| name.ends_with(ending));
    found.map_or("count", |(_, unit)| unit)
}

/// Name of the counter of a process's resident memory.
pub const RESIDENT_MEMORY: &str = "process_resident_memory_bytes";
/// Name of the counter of the part of it that belongs to no file and is not shared.
pub const PRIVATE_MEMORY: &str = "process_private_memory_bytes";
/// Name of the counter of the memory that is left on a host.
pub const AVAILABLE_MEMORY: &str = "host_available_memory_bytes";

vocabulary! {
    /// Who took the samples of a counter.
    CounterSource {
        /// The recorder or the collector.
        System = "system",
        /// The program.
        #[serde(other)]
        Program = "program",
    }
}

fn by_program() -> CounterSource {
    CounterSource::Program
}

/// Growth of a counter (METRICS.md, section 6). The time of its samples is cut into intervals of equal length. The first
/// quarter is left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterGrowth {
    /// Begin of the first interval, in nanoseconds on the axis.
    pub from_ns: i64,
    /// End of the last interval, in nanoseconds on the axis.
    pub to_ns: i64,
    /// Smallest sample of the first interval.
    pub first: f64,
    /// Smallest sample of the interval at two thirds.
    pub two_thirds: f64,
    /// Smallest sample of the last interval.
    pub last: f64,
    /// Sum of the decreases from one interval to the next.
    pub fallen: f64,
    /// Number of intervals whose smallest sample is larger than that of the interval before.
    pub rises: u32,
    /// Number of intervals.
    pub intervals: u32,
}

impl CounterGrowth {
    /// Returns the growth per hour.
    pub fn per_hour(&self) -> f64 {
        const HOUR_NS: f64 = 3.6e12;
        // The two samples are one interval less than the whole time apart.
        let apart_ns = (self.to_ns - self.from_ns) as f64 * f64::from(self.intervals.saturating_sub(1))
            / f64::from(self.intervals.max(1));
        (self.last - self.first) / apart_ns.max(1.0) * HOUR_NS
    }
}

/// Samples of one counter of one rank. The table `counters` has each sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CounterSummary {
    /// Rank: index into [`super::Session::ranks`].
    pub rank: u32,
    /// Name.
    pub name: String,
    /// Who took the samples.
    #[serde(default = "by_program")]
    pub source: CounterSource,
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
    /// Growth; only of the private memory of a process, if there are enough samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growth: Option<CounterGrowth>,
}

impl Session {
    /// Returns the names of the counters that rankscope sampled, and not the program.
    pub fn system_counters(&self) -> HashSet<&str> {
        let counters = self.counters.iter();
        counters
            .filter(|counter| counter.source == CounterSource::System)
            .map(|counter| counter.name.as_str())
            .collect()
    }
}
