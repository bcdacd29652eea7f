//! GPUs that `rankscope run` sampled by NVML (METRICS.md, section 6).

#[cfg(doc)]
use super::Session;
use super::figure::{Figure, Ratio};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Samples of one GPU. The table `counters` has each sample of a GPU that a rank uses. A sample is busy if its utilization
/// is at least 50 %.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuSummary {
    /// Rank that uses the GPU: index into [`Session::ranks`]; `null` if no rank's log has its address.
    pub rank: Option<u32>,
    /// Ordinal of the device in the process of the rank, if the process uses several sampled GPUs.
    pub device: Option<u32>,
    /// PCI address, as NVML writes it.
    pub address: String,
    /// Model; `null` if unknown.
    pub model: Option<String>,
    /// Highest clock of the multiprocessors, in MHz; `null` if unknown.
    pub max_sm_clock_mhz: Option<u32>,
    /// Number of samples during the life of the rank, or in the run if no rank uses the GPU.
    pub samples: u64,
    /// Number of busy samples.
    pub busy_samples: u64,
    /// Clock of the multiprocessors, mean over busy samples, in MHz.
    pub busy_sm_clock_mhz: Figure<f64>,
    /// Busy samples with clocks that the temperature reduces, and all busy samples with known reasons.
    pub throttled_by_temperature: Figure<Ratio>,
    /// Busy samples with clocks that the power limit or the power supply reduces, and all with known reasons.
    pub throttled_by_power: Figure<Ratio>,
    /// Busy samples with clocks that the hardware reduces, and all with known reasons.
    pub throttled_by_hardware: Figure<Ratio>,
}
