//! What a session says of a run that another profiler recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where an imported run comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// The profiler whose files were read: `kineto`.
    pub source: String,
    /// What Holistic Trace Analysis says of the same files, where it was asked for. Whole µs, its own filter and classes;
    /// the session's other figures are exact.
    pub hta: Option<HtaFigures>,
}

/// Figures of Holistic Trace Analysis, under the names of its columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaFigures {
    /// `get_comm_comp_overlap`, a row per rank.
    pub overlap: Vec<HtaOverlap>,
    /// `get_temporal_breakdown`, a row per rank.
    pub temporal: Vec<HtaTemporal>,
    /// `get_idle_time_breakdown`, a row per rank, stream and cause.
    pub idle: Vec<HtaIdle>,
}

/// A row of `get_comm_comp_overlap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaOverlap {
    /// Rank.
    pub rank: u32,
    /// Of the time in which a communication kernel ran, percent in which one that computes did too; `null` (there NaN) without
    /// communication.
    pub comp_comm_overlap_pctg: Option<f64>,
}

/// A row of `get_temporal_breakdown`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaTemporal {
    /// Rank.
    pub rank: u32,
    /// From the first kernel's begin to the last one's end, time in which none ran, µs.
    #[serde(rename = "idle_time(us)")]
    pub idle_us: i64,
    /// Time in which one ran that computes, µs.
    #[serde(rename = "compute_time(us)")]
    pub compute_us: i64,
    /// Time in which only others ran, µs.
    #[serde(rename = "non_compute_time(us)")]
    pub non_compute_us: i64,
    /// From the first kernel's begin to the last one's end, µs.
    #[serde(rename = "kernel_time(us)")]
    pub kernel_us: i64,
    /// Percent of it.
    #[serde(rename = "idle_time_pctg")]
    pub idle_pctg: Option<f64>,
    /// Percent of it.
    #[serde(rename = "compute_time_pctg")]
    pub compute_pctg: Option<f64>,
    /// Percent of it.
    #[serde(rename = "non_compute_time_pctg")]
    pub non_compute_pctg: Option<f64>,
}

/// A row of `get_idle_time_breakdown`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HtaIdle {
    /// Rank.
    pub rank: u32,
    /// The stream's number.
    pub stream: i64,
    /// `host_wait`, `kernel_wait` or `other`.
    pub idle_category: String,
    /// Sum of the gaps, µs; negative where kernels of a stream overlap.
    #[serde(rename = "idle_time")]
    pub idle_time_us: i64,
    /// Share of the stream's gaps; `null` (there NaN) where these add up to nothing.
    pub idle_time_ratio: Option<f64>,
}
