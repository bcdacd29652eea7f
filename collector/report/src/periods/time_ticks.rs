//! Ticks of an axis of dates.

use rankscope_analysis::model::date;

const SECOND_NS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// Distances of ticks, in seconds.
const STEPS: [i64; 23] = [
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    10_800,
    21_600,
    43_200,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    364 * DAY,
];

/// Returns at most `most` round times between two times, in nanoseconds since 1970, with their labels.
pub fn time_ticks(from_unix_ns: i64, until_unix_ns: i64, most: usize) -> Vec<(i64, String)> {
    let span_ns = until_unix_ns.saturating_sub(from_unix_ns);
    let fits = |step: &&i64| span_ns / (**step * SECOND_NS) < most.max(1) as i64;
    let step = STEPS.iter().find(fits).copied().unwrap_or(364 * DAY);
    let step_ns = step * SECOND_NS;
    let first = from_unix_ns.div_euclid(step_ns) + i64::from(from_unix_ns.rem_euclid(step_ns) > 0);
    let last = until_unix_ns.div_euclid(step_ns);
    let ticks = (first..=last).map(|number| number * step_ns);
    ticks.map(|unix_ns| (unix_ns, label(unix_ns, step))).collect()
}

/// Formats a date for ticks at this distance, in seconds: `11-28`, `11-28 17:00` or `17:00:05`.
fn label(unix_ns: i64, step: i64) -> String {
    let text = date::utc(unix_ns);
    let part = match step {
        DAY.. => 5..10,
        60.. => 5..16,
        _ => 11..19,
    };
    text.get(part).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_dates() {
        let from = 1_795_255_201 * SECOND_NS;
        let labels = |until_s: i64, most| -> Vec<String> {
            let ticks = time_ticks(from, from + until_s * SECOND_NS, most);
            ticks.into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(20, 4), ["10:00:10", "10:00:20"]);
        assert_eq!(labels(4 * 3_600, 4), ["11-21 12:00", "11-21 14:00"]);
        assert_eq!(labels(7 * DAY, 5), ["11-23", "11-25", "11-27"]);
    }
}
