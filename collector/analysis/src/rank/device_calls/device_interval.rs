//! An interval on a device's clock.

use super::device_clock::is_usable;
use crate::rank::event::DeviceReport;

/// An interval on a device's clock, which is not the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInterval {
    /// Start, in nanoseconds of the device.
    pub start_ns: u64,
    /// End, in nanoseconds of the device.
    pub end_ns: u64,
}

impl DeviceInterval {
    /// Returns the interval of a report, or `None` if its start is implausible.
    pub fn of(report: &DeviceReport) -> Option<Self> {
        is_usable(report.start_ns).then(|| Self {
            start_ns: report.start_ns,
            end_ns: report.start_ns.saturating_add(report.work.duration_ns),
        })
    }

    /// Returns the smallest interval that contains both.
    pub fn spanning(self, other: Self) -> Self {
        Self {
            start_ns: self.start_ns.min(other.start_ns),
            end_ns: self.end_ns.max(other.end_ns),
        }
    }
}
