//! Formatting of values.

/// Formats a duration.
pub fn shown(ns: i64) -> String {
    let value = ns as f64;
    match ns.unsigned_abs() {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", value / 1e6),
        _ => format!("{:.2} s", value / 1e9),
    }
}

/// Formats a share in percent, or "–" if the whole is 0.
pub fn percent(part: i64, whole: i64) -> String {
    if whole > 0 {
        format!("{:.1} %", part as f64 / whole as f64 * 100.0)
    } else {
        "–".to_owned()
    }
}

/// Formats a number of things: `1 rank`, `2 ranks`.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Lists the first names, and the number of the others.
pub fn some(names: &[String]) -> String {
    const MOST: usize = 6;
    let mut shown = names[..names.len().min(MOST)].join(", ");
    if names.len() > MOST {
        shown.push_str(&format!(" and {} more", names.len() - MOST));
    }
    shown
}

/// Formats a number with its unit.
pub fn in_unit(value: f64, unit: &str) -> String {
    match unit {
        "ns" => shown(value.round() as i64),
        "%" => format!("{value:.1} %"),
        "bytes" => format!("{value:.0} bytes"),
        "probability" => super::chance::shown_probability(value),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}
