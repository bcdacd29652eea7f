//! Named parts of host time.

use super::line::{Level, Line, share_of};
use crate::figures::{counted, time};
use crate::prose::{Prose, prose};
use crate::source::{among, less, sum};
use rankscope_formats::session::Window;
use rankscope_formats::session::{RankBreakdown, Session};
use std::collections::BTreeMap;

/// Sum of one kind of named time over all ranks.
#[derive(Default)]
struct KindOfTime {
    count: u64,
    in_run_ns: i64,
    in_steps_ns: i64,
    elsewhere_ns: i64,
    /// Ranks' entries by the position of the kind among the parts of a rank. Ranks of one program name the same kinds,
    /// so a few ranges hold all of them.
    at: BTreeMap<usize, Vec<usize>>,
}

impl KindOfTime {
    fn sum_of(&self, field: &str) -> String {
        let each = self.at.iter().map(|(place, entries)| {
            among(
                "/named_times/ranks",
                entries.iter().copied(),
                &format!("/parts/{place}/{field}"),
            )
        });
        sum(&each.collect::<Vec<_>>())
    }
}

/// Returns the named parts of host time over all ranks, or nothing without names.
pub fn named_times(session: &Session) -> Vec<Line> {
    let named = &session.named_times;
    let mut kinds: Vec<(&str, KindOfTime)> = Vec::new();
    for (entry_at, entry) in named.ranks.iter().enumerate() {
        for (place, part) in entry.parts.iter().enumerate() {
            let known = kinds.iter().position(|(kind, _)| *kind == part.kind);
            let known = known.unwrap_or_else(|| {
                kinds.push((&part.kind, KindOfTime::default()));
                kinds.len() - 1
            });
            let (_, of) = &mut kinds[known];
            of.count += part.count;
            of.in_run_ns += part.in_run_ns;
            of.in_steps_ns += part.in_steps_ns;
            of.elsewhere_ns += part.elsewhere_ns;
            of.at.entry(place).or_default().push(entry_at);
        }
    }
    if kinds.is_empty() {
        return Vec::new();
    }
    let (of_run, run) = all_runs(session);
    let in_steps = |(_, entry): &(usize, &RankBreakdown)| entry.window == Window::Steps;
    let in_steps = session.breakdown.iter().enumerate().filter(in_steps);
    let of_steps: i64 = in_steps.clone().map(|(_, entry)| entry.window_ns).sum();
    let steps = sum(&[among("/breakdown", in_steps.map(|(at, _)| at), "/window_ns")]);
    let each = kinds.iter().map(|(kind, of)| {
        let mut text = prose![
            pause_kind(kind),
            " ",
            share_of(of.in_run_ns, of_run, &of.sum_of("in_run_ns"), &run),
            " of the run"
        ];
        if of_steps > 0 {
            let part = share_of(of.in_steps_ns, of_steps, &of.sum_of("in_steps_ns"), &steps);
            text.push(prose![", ", part, " of the steps"]);
        }
        if of.elsewhere_ns > 0 {
            let elsewhere = time(of.elsewhere_ns, of.sum_of("elsewhere_ns"));
            text.push(prose![", and ", elsewhere, " on other threads"]);
        }
        prose![text, " (", counted(of.count, "time", of.sum_of("count")), ")"]
    });
    let mut text = Prose::join(each, "; ");
    let not_seen: Vec<&str> = named.not_seen.iter().map(|kind| pause_kind(&kind.kind)).collect();
    if !not_seen.is_empty() {
        text.push(format!("; – not seen: {}", not_seen.join(", ")));
    }
    vec![Line::new(Level::Plain, text)]
}

/// Returns the sum over all ranks of the time from first to last record, with its source.
fn all_runs(session: &Session) -> (i64, String) {
    let (spans, known): (Vec<i64>, Vec<usize>) = session
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(at, rank)| Some((rank.end_ns.value? - rank.start_ns.value?, at)))
        .unzip();
    let of_all = |field: &str| sum(&[among("/ranks", known.iter().copied(), field)]);
    (
        spans.iter().sum(),
        less(of_all("/end_ns/value"), of_all("/start_ns/value")),
    )
}

/// Returns the name of a kind of pause.
pub fn pause_kind(kind: &str) -> &str {
    match kind {
        "garbage-collection" => "garbage collection",
        "checkpoint" => "checkpoints",
        "optimizer" => "optimiser",
        "between-passes" => "between backward and forward",
        other => other,
    }
}
