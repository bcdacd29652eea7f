//! Data of a session about a run that another profiler recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Source of an imported run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// Profiler whose files were imported: `kineto`, `nsys`, `flight-recorder` or `inspector`.
    pub source: String,
    /// Figures of Holistic Trace Analysis (HTA) for the same files, if they were requested. They use whole µs and HTA's
    /// filter and classes. The other figures of the session are exact.
    pub hta: Option<HtaFigures>,
}

/// Figures of Holistic Trace Analysis, under the names of its columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaFigures {
    /// Rows of `get_comm_comp_overlap`, one per rank.
    pub overlap: Vec<HtaOverlap>,
    /// Rows of `get_temporal_breakdown`, one per rank.
    pub temporal: Vec<HtaTemporal>,
    /// Rows of `get_idle_time_breakdown`, one per rank, stream and cause.
    pub idle: Vec<HtaIdle>,
}

/// Row of `get_comm_comp_overlap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaOverlap {
    /// Rank.
    pub rank: u32,
    /// Share of the communication time in which a compute kernel also ran, in percent. `null` without communication,
    /// where HTA has NaN.
    pub comp_comm_overlap_pctg: Option<f64>,
}

/// Row of `get_temporal_breakdown`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaTemporal {
    /// Rank.
    pub rank: u32,
    /// Time in which no kernel ran, between the start of the first and the end of the last kernel, in µs.
    #[serde(rename = "idle_time(us)")]
    pub idle_us: i64,
    /// Time in which a compute kernel ran, in µs.
    #[serde(rename = "compute_time(us)")]
    pub compute_us: i64,
    /// Time in which only other kernels ran, in µs.
    #[serde(rename = "non_compute_time(us)")]
    pub non_compute_us: i64,
    /// Time from the start of the first kernel to the end of the last one, in µs.
    #[serde(rename = "kernel_time(us)")]
    pub kernel_us: i64,
    /// `idle_time(us)` in percent of `kernel_time(us)`.
    #[serde(rename = "idle_time_pctg")]
    pub idle_pctg: Option<f64>,
    /// `compute_time(us)` in percent of `kernel_time(us)`.
    #[serde(rename = "compute_time_pctg")]
    pub compute_pctg: Option<f64>,
    /// `non_compute_time(us)` in percent of `kernel_time(us)`.
    #[serde(rename = "non_compute_time_pctg")]
    pub non_compute_pctg: Option<f64>,
}

/// Row of `get_idle_time_breakdown`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaIdle {
    /// Rank.
    pub rank: u32,
    /// Number of the stream.
    pub stream: i64,
    /// Cause of the gaps: `host_wait`, `kernel_wait` or `other`.
    pub idle_category: String,
    /// Sum of the gaps, in µs. It is negative if kernels of one stream overlap.
    #[serde(rename = "idle_time")]
    pub idle_time_us: i64,
    /// Share of the stream's gaps. `null` if the gaps add up to 0, where HTA has NaN.
    pub idle_time_ratio: Option<f64>,
}
