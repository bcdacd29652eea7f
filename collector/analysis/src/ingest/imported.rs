//! What the logs of an import say of where they come from.

use rankscope_formats::session::{HtaFigures, Imported};
use rankscope_ranklog::reader::RankLog;

/// Says that a log was not recorded but made from another profiler's file, and which profiler's.
pub const SOURCE: &str = "import.source";
/// What an import could not tell, one property each: this and a number.
pub const NOTE: &str = "import.note.";
/// Figures of Holistic Trace Analysis, one property each: this and a number.
pub const HTA: &str = "import.hta.";

/// What a session of these logs says of its origin; `None` if they were recorded.
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
