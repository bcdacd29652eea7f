//! Steps: their number, duration and source, and the rate of things that the program counts.

use super::line::{Level, Line};
use crate::figures::{self, count, counted, percent, quoted, rule, time_f};
use crate::prose::prose;
use rankscope_formats::session::Session;
use std::collections::BTreeSet;

/// Returns the number and duration of steps, and their source.
pub fn steps(session: &Session) -> Line {
    const DURATION: &str = "/steps/duration_ns/value";
    let steps = &session.steps;
    let duration = match steps.duration_ns.get() {
        Ok(duration) if steps.count > 0 => duration,
        Ok(_) => return Line::new(Level::Plain, "no complete step was found"),
        Err(reason) => {
            let reason = quoted(reason, "/steps/duration_ns/reason");
            return Line::new(Level::Plain, prose!["– (", reason, ")"]);
        }
    };
    let source = match steps.source.as_str() {
        "marks" => "as marked by the program".into(),
        "none" => "from an unknown source".into(),
        _ => {
            let explains = steps.confidence.get().ok().map(|&explained| {
                let explained = percent(explained, "/steps/confidence/value");
                prose![" (explains ", explained, " of the operations)"]
            });
            prose!["detected from a repeating pattern", explains]
        }
    };
    let worlds: BTreeSet<u32> = steps.list.iter().map(|step| step.world).collect();
    let worlds = (worlds.len() > 1).then(|| {
        prose![
            " in ",
            count(worlds.len() as u64, "/steps/list/*/world"),
            " worlds,"
        ]
    });
    Line::new(
        Level::Plain,
        prose![
            count(steps.count, "/steps/count"),
            worlds,
            " of ",
            time_f(duration.p50, format!("{DURATION}/p50")),
            " (median; ",
            rule("p90"),
            " ",
            time_f(duration.p90, format!("{DURATION}/p90")),
            ", longest ",
            time_f(duration.max, format!("{DURATION}/max")),
            "), ",
            source,
            (steps.other_kinds > 0).then(|| prose![
                "; ",
                counted(steps.other_kinds, "step", "/steps/other_kinds"),
                " of evaluation or checkpoints counted separately"
            ])
        ],
    )
}

/// Returns the rate of things that the program counts, such as tokens, and the time per thing.
pub fn throughput(session: &Session) -> Vec<Line> {
    let each = session.steps.counted.iter().enumerate().map(|(at, things)| {
        let of = |field: &str| format!("/steps/counted/{at}/{field}");
        let one = things.what.strip_suffix('s').unwrap_or(&things.what);
        let source = match things.source.as_str() {
            "stated" => "as declared",
            _ => "as marked by the program",
        };
        let whole = |number: f64, field: &str| count(number.round() as u64, of(field));
        let exposed = "exposed_communication_ns_each";
        Line::new(
            Level::Plain,
            prose![
                whole(things.per_second, "per_second"),
                " ",
                quoted(&things.what, of("what")),
                " per second (",
                whole(things.per_step, "per_step"),
                format!(" per step, {source}): "),
                time_f(things.ns_each, of("ns_each")),
                " of step time and ",
                time_f(things.exposed_communication_ns_each, of(exposed)),
                " of exposed communication per ",
                figures::part(one, of("what"))
            ],
        )
    });
    each.collect()
}
