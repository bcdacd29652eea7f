//! Writes samples as records of the recorder's own thread.

use crate::thread_lane::ThreadLane;
use crate::{marks, texts};
use rankscope_ranklog::clock::ticks;
use std::time::Duration;

/// Destination of samples, and the interval that ends now.
pub struct Samples {
    lane: &'static ThreadLane,
    from_ticks: u64,
    to_ticks: u64,
    elapsed: Duration,
}

impl Samples {
    /// Creates it on the recorder's thread. Its first interval begins now.
    pub fn new() -> Self {
        let now = ticks();
        Self {
            // It lives as long as the thread. A process has one recorder's thread, and each of its forked children another.
            lane: Box::leak(Box::new(ThreadLane::new())),
            from_ticks: now,
            to_ticks: now,
            elapsed: Duration::ZERO,
        }
    }

    /// Ends the last interval and begins the next.
    pub fn begin_interval(&mut self, elapsed: Duration) {
        self.from_ticks = self.to_ticks;
        self.to_ticks = ticks();
        self.elapsed = elapsed;
    }

    /// Writes a value of this instant.
    pub fn put(&self, name: &[&[u8]], value: f64) {
        self.commit(name, value, self.to_ticks);
    }

    /// Writes the rate at which something grew during the interval, per second.
    pub fn put_rate(&self, name: &[&[u8]], growth: f64) {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.commit(name, growth / seconds, self.from_ticks);
        }
    }

    fn commit(&self, name: &[&[u8]], value: f64, from_ticks: u64) {
        if let Some(text) = texts::number(name) {
            marks::system_counter(self.lane, text, value, (from_ticks, self.to_ticks));
        }
    }
}
