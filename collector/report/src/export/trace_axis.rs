//! Time axis of the trace.

/// Start of the trace on its own axis. Some tools treat zero as "not set".
pub const TRACE_START_NS: u64 = 1_000_000;

/// Conversion of times of the session, and the exported interval.
#[derive(Clone, Copy)]
pub struct TraceAxis {
    /// Start of the session's axis.
    pub start_ns: i64,
    /// Exported interval since the start; `None`: all.
    pub range_ns: Option<(i64, i64)>,
}

impl TraceAxis {
    /// Converts a time of the session to the trace.
    pub fn at(self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_sub(self.start_ns)).unwrap_or(0) + TRACE_START_NS
    }

    /// Returns true if a part of this interval is exported.
    pub fn is_exported(self, start_ns: i64, end_ns: i64) -> bool {
        self.range_ns.is_none_or(|(from, to)| {
            end_ns.saturating_sub(self.start_ns) >= from && start_ns.saturating_sub(self.start_ns) <= to
        })
    }
}
