//! The origin of imported logs.

use rankscope_formats::session::{HtaFigures, Imported};
use rankscope_ranklog::reader::RankLog;

/// Property that marks a log as imported. Its value names the other profiler.
pub const SOURCE: &str = "import.source";
/// Property that describes the times of the log, and how much later than the events they may be.
pub const TIMES: &str = "import.times";
/// Prefix of the properties that describe what an import could not determine; a number follows.
pub const NOTE: &str = "import.note.";
/// Prefix of the properties with figures of Holistic Trace Analysis; a number follows.
pub const HTA: &str = "import.hta.";

/// Returns the origin of these logs, or `None` if they were recorded.
pub fn of_logs(logs: &[RankLog]) -> Option<Imported> {
    let source = logs.iter().find_map(|log| log.properties.get(SOURCE))?;
    let mut figures = HtaFigures::default();
    let rows = logs.iter().flat_map(|log| {
        log.properties
            .range(HTA.to_owned()..)
            .take_while(|(key, _)| key.starts_with(HTA))
    });
    for (_, row) in rows {
        let Ok(row) = serde_json::from_str::<serde_json::Value>(row) else {
            continue;
        };
        match row["table"].as_str() {
            Some("overlap") => figures.overlap.extend(serde_json::from_value(row)),
            Some("temporal") => figures.temporal.extend(serde_json::from_value(row)),
            Some("idle") => figures.idle.extend(serde_json::from_value(row)),
            _ => {}
        }
    }
    figures.overlap.sort_by_key(|row| row.rank);
    figures.temporal.sort_by_key(|row| row.rank);
    figures.idle.sort_by_key(|row| row.rank);
    Some(Imported {
        source: source.clone(),
        hta: (figures != HtaFigures::default()).then_some(figures),
    })
}
