//! Writes samples as records of the recorder's own thread.

use crate::thread_lane::ThreadLane;
use crate::{marks, texts};
use rankscope_ranklog::clock::ticks;
use std::time::Instant;

/// Destination of samples.
pub struct Samples {
    lane: &'static ThreadLane,
}

impl Samples {
    /// Creates it on the recorder's thread.
    pub fn new() -> Self {
        Self {
            // It lives as long as the thread. A process has one recorder's thread, and each of its forked children another.
            lane: Box::leak(Box::new(ThreadLane::new())),
        }
    }

    /// Writes a value of this instant.
    pub fn put(&self, name: &[&[u8]], value: f64) {
        let now = ticks();
        self.commit(name, value, (now, now));
    }

    /// Writes the rate at which something grew during an interval, per second.
    pub fn put_rate(&self, name: &[&[u8]], growth: f64, during: &EndedInterval) {
        if during.seconds > 0.0 {
            self.commit(name, growth / during.seconds, during.ticks);
        }
    }

    fn commit(&self, name: &[&[u8]], value: f64, interval: (u64, u64)) {
        if let Some(text) = texts::number(name) {
            marks::system_counter(self.lane, text, value, interval);
        }
    }
}

/// Interval between two readings of what grows. It is taken at the readings: the thread may be stopped between two
/// counters.
pub struct Interval {
    began: Instant,
    began_ticks: u64,
}

/// Interval that has ended.
pub struct EndedInterval {
    ticks: (u64, u64),
    seconds: f64,
}

impl Interval {
    /// Begins the first interval.
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
            began_ticks: ticks(),
        }
    }

    /// Ends the interval, and begins the next.
    pub fn end(&mut self) -> EndedInterval {
        let before = std::mem::replace(self, Self::begin());
        EndedInterval {
            ticks: (before.began_ticks, self.began_ticks),
            seconds: self.began.duration_since(before.began).as_secs_f64(),
        }
    }
}

impl EndedInterval {
    /// Returns the length, in nanoseconds.
    pub fn ns(&self) -> u64 {
        (self.seconds * 1e9) as u64
    }
}
