//! Names of the results in a run directory, next to the session.

/// The trace for Perfetto.
pub const TRACE: &str = "trace.pftrace";
/// The report.
pub const REPORT: &str = "report.html";
/// The report for people outside the site.
pub const SHARED_REPORT: &str = "report-shared.html";
/// Directory of the heat maps.
pub const HEATMAPS: &str = "heatmaps";
