//! Labels of metrics, and the limits of their number. A server of metrics keeps a series for each set of labels, so a job must
//! not create them without limit.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelSetEncoder, LabelValueEncoder};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use rankscope_formats::session::Figure;
use std::fmt;
use std::fmt::Write;
use std::sync::atomic::AtomicU64;

/// Default number of ranks up to which each rank has its own series. Above it only quantiles over the ranks remain.
pub const MAX_RANKS: usize = 256;
/// Maximum number of pairs of operation and role. Further roles are `other`.
pub const MAX_OPERATIONS: usize = 64;
/// Maximum number of size classes with a bandwidth, those with the most time.
pub const MAX_BANDWIDTHS: usize = 32;

/// A gauge with a floating-point value.
pub type Number = Gauge<f64, AtomicU64>;

/// No label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NoLabel;

impl EncodeLabelSet for NoLabel {
    fn encode(&self, _encoder: &mut LabelSetEncoder) -> fmt::Result {
        Ok(())
    }
}

/// Sets a gauge to a figure. It has no sample while the figure is unknown.
pub fn set(family: &Family<NoLabel, Number>, value: Option<f64>) {
    match value {
        Some(value) => {
            family.get_or_create(&NoLabel).set(value);
        }
        None => family.clear(),
    }
}

/// Returns a time in seconds.
pub fn seconds(figure: &Figure<i64>) -> Option<f64> {
    figure.value.map(|ns| ns as f64 / 1e9)
}

/// Labels of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfRank {
    /// Number of the rank, or its name if it has no number.
    pub rank: String,
    /// Host of the rank.
    pub host: String,
}

/// Label of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfHost {
    /// Name of the host.
    pub host: String,
}

/// Label of a statistic over the ranks. `quantile` is a label of summaries of Prometheus alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfStatistic {
    /// `min`, `p50`, `p90`, `p99` or `max`.
    pub statistic: &'static str,
}

/// Label of a state of ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfState {
    /// `running`, `elsewhere`, `ended` or `killed`.
    pub state: &'static str,
}

/// Labels of operations.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfOperation {
    /// Name of the operation, such as `all-reduce`.
    pub operation: &'static str,
    /// Role of the communicator.
    pub role: String,
    /// Range of the payload.
    pub size: SizeRange,
}

/// Labels of the distribution of transfers. It has many series for each set of labels, and therefore no role.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfTransfer {
    /// Name of the operation, such as `all-reduce`.
    pub operation: &'static str,
    /// Range of the payload.
    pub size: SizeRange,
}

/// Labels of a bandwidth.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfBandwidth {
    /// Name of the operation, such as `all-reduce`.
    pub operation: String,
    /// Role of the communicators.
    pub role: String,
    /// Number of members of the communicators.
    pub members: u32,
    /// Smallest payload of the class, in bytes.
    pub size_from_bytes: u64,
}

/// Labels of a warning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfWarning {
    /// Kind of the finding.
    pub kind: String,
    /// Severity of the finding.
    pub severity: &'static str,
    /// Rank, pair of ranks, or host that it is about; empty if it is about more.
    pub subject: String,
}

/// Label of the number of warnings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfKind {
    /// Kind of the finding.
    pub kind: String,
}

/// Labels of a hang.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfHang {
    /// Kind of the cause.
    pub kind: &'static str,
    /// Rank that causes the wait; with several, the first.
    pub rank: String,
    /// Operation that the others wait in; empty if it is unknown.
    pub operation: String,
}

/// Label of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OfBuild {
    /// Version of rankscope.
    pub version: &'static str,
}

/// Range of payloads. Ranges have several size classes of METRICS.md, so that few series result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizeRange(&'static str);

impl SizeRange {
    /// Upper limits of the ranges in bytes, and their names.
    const RANGES: [(u64, &'static str); 5] = [
        (1 << 16, "<64KiB"),
        (1 << 20, "64KiB-1MiB"),
        (1 << 24, "1MiB-16MiB"),
        (1 << 28, "16MiB-256MiB"),
        (u64::MAX, ">=256MiB"),
    ];

    /// Returns the range of a payload.
    pub fn of(bytes: Option<u64>) -> Self {
        let Some(bytes) = bytes else {
            return Self("unknown");
        };
        let mut ranges = Self::RANGES.into_iter();
        Self(
            ranges
                .find(|&(below, _)| bytes < below)
                .map_or(">=256MiB", |(_, name)| name),
        )
    }
}

impl EncodeLabelValue for SizeRange {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
        encoder.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SizeRange;

    #[test]
    fn ranges_include_their_lower_limit() {
        let names = [
            None,
            Some(0),
            Some(65_535),
            Some(65_536),
            Some(1 << 20),
            Some(u64::MAX),
        ];
        let names = names.map(|bytes| SizeRange::of(bytes).0);
        assert_eq!(
            names,
            [
                "unknown",
                "<64KiB",
                "<64KiB",
                "64KiB-1MiB",
                "1MiB-16MiB",
                ">=256MiB"
            ]
        );
    }
}
