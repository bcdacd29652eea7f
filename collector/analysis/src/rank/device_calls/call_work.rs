//! Device work of one call, as far as it is known.

use super::device_clock::DeviceClock;
use super::device_interval::DeviceInterval;
use crate::model::interval::Interval;
use crate::model::operation::RankOperation;
use crate::rank::event::DeviceReport;
use rankscope_ranklog::record::{Algorithm, Protocol};

/// Start and end of an operation on the axis.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    enter_ns: i64,
    leave_ns: i64,
    /// Maximum delay of both times, in nanoseconds.
    error_ns: u32,
}

/// Device work of a call, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallWork {
    /// Times on the device's clock; `None` if the library reports no times.
    pub times: Option<DeviceInterval>,
    /// Number of device records so far.
    pub parts: u32,
    /// Largest number of channels of any part.
    pub channels: u8,
    /// Algorithm.
    pub algorithm: Algorithm,
    /// Protocol.
    pub protocol: Protocol,
    /// True if the channels of a part never reported their times.
    pub is_partial: bool,
    /// True if the times come from CUDA events around the whole launch.
    pub by_events: bool,
    /// Its kernels on the axis. They are more exact than the library's reports.
    kernels: Option<Interval>,
}

impl CallWork {
    /// Creates work of which this number of device records is known, without their times.
    pub fn without_times(parts: u32) -> Self {
        Self {
            parts,
            is_partial: parts > 0,
            ..Self::default()
        }
    }

    /// Adds a report of the library.
    pub fn add(&mut self, report: &DeviceReport) {
        let work = report.work;
        if let Some(times) = DeviceInterval::of(report) {
            self.times = Some(self.times.map_or(times, |known| known.spanning(times)));
        } else if work.channels > 0 {
            self.is_partial = true;
        }
        // A copy of a rank to itself has no channels and no times. The times of the other parts apply.
        self.parts += 1;
        self.channels = self.channels.max(work.channels);
        if work.algorithm != Algorithm::Unknown {
            self.algorithm = work.algorithm;
        }
        if work.protocol != Protocol::Unknown {
            self.protocol = work.protocol;
        }
    }

    /// Sets the times of events around its launch. They are better than channels without times.
    pub fn set_times(&mut self, times: Option<DeviceInterval>) {
        if times.is_some() {
            (self.times, self.is_partial, self.by_events) = (times, false, true);
        }
    }

    /// Sets the time of its kernels on the axis.
    pub fn set_kernels(&mut self, kernels: Interval) {
        self.kernels = Some(kernels);
    }

    /// Returns true if its times are those of its kernels.
    pub fn by_kernels(&self) -> bool {
        self.kernels.is_some()
    }

    /// Returns its times on the axis, if they are complete.
    pub fn times_by(&self, clock: Option<&DeviceClock>) -> Option<Times> {
        if let Some(kernels) = self.kernels {
            return Some(Times {
                enter_ns: kernels.start_ns,
                leave_ns: kernels.end_ns,
                error_ns: 0,
            });
        }
        let times = self.times.filter(|_| !self.is_partial)?;
        let clock = clock?;
        let enter_ns = clock.ns(times.start_ns);
        // Without a lower bound, the times of two devices cannot be compared.
        let widest = clock.error.map_or(i64::MAX, |error| error.widest_ns);
        Some(Times {
            enter_ns,
            leave_ns: clock.ns(times.end_ns).max(enter_ns),
            error_ns: u32::try_from(widest).unwrap_or(u32::MAX),
        })
    }

    /// Copies the known values to the operation. Returns true if they include its completion.
    pub fn apply(&self, operation: &mut RankOperation, times: Option<Times>) -> bool {
        operation.channels = self.channels;
        operation.algorithm = self.algorithm;
        operation.protocol = self.protocol;
        let Some(times) = times else { return false };
        operation.called_ns = operation.enter_ns;
        operation.enter_ns = times.enter_ns;
        operation.leave_ns = times.leave_ns;
        operation.clock_error_ns = times.error_ns;
        true
    }
}
