//! Recorded device activity, and what limited its recording.

use super::line::{Level, Line, share_of, some_prose};
use crate::figures::{self, counted, quoted, time};
use crate::prose::{Prose, prose};
use crate::source::{among, less, max, min, number, sum};
use rankscope_formats::session::LogEnding;
use rankscope_formats::session::{DeviceActivity, Session};

/// Returns the recorded device activity, and what limited its recording.
pub fn activity(session: &Session) -> Vec<Line> {
    let entries = &session.activity;
    let mut lines = work(entries);
    lines.extend(other_profiler(entries));
    lines.extend(of_recorder(entries));
    lines.extend(undelivered(session));
    lines.extend(unrecorded(entries));
    lines.extend(by_order(entries));
    lines.extend(without_call(entries));
    lines
}

fn total(entries: &[DeviceActivity], of: fn(&DeviceActivity) -> u64) -> u64 {
    entries.iter().map(of).sum()
}

/// Bound of the error of device times.
struct ClockBound {
    of: fn(&DeviceActivity) -> Option<i64>,
    from: &'static str,
    before: &'static str,
    after: &'static str,
    /// Warning if the smallest time is negative.
    contradiction: &'static str,
}

const CLOCK_BOUNDS: [ClockBound; 2] = [
    ClockBound {
        of: |entry| entry.shortest_launch_ns.value,
        from: "/activity/*/shortest_launch_ns/value",
        before: "; kernels start at least ",
        after: " after their launch",
        contradiction: "a kernel starts before its launch: device times are too early by at least this much",
    },
    ClockBound {
        of: |entry| entry.shortest_wait_ns.value,
        from: "/activity/*/shortest_wait_ns/value",
        before: "; they end at least ",
        after: " before a call that waits for them returns",
        contradiction: "a kernel ends after the wait for it: device times are too late by at least this much",
    },
];

/// Returns the number of kernels and other works, and how far device times can be wrong.
fn work(entries: &[DeviceActivity]) -> Vec<Line> {
    let kernels = total(entries, |entry| entry.kernels + entry.communication_kernels);
    let others = total(entries, |entry| entry.copies + entry.sets + entry.graphs);
    if kernels + others == 0 {
        return Vec::new();
    }
    let with_kernels: Vec<usize> = (0..entries.len())
        .filter(|&at| entries[at].kernels + entries[at].communication_kernels > 0)
        .collect();
    let mut text = prose![
        counted(
            kernels,
            "kernel",
            sum(&["/activity/*/kernels", "/activity/*/communication_kernels"])
        ),
        ", ",
        counted(
            others,
            "other work",
            sum(&["/activity/*/copies", "/activity/*/sets", "/activity/*/graphs"])
        ),
        ", on ",
        counted(
            with_kernels.len() as u64,
            "rank",
            number(among("/activity", with_kernels, "/rank"))
        )
    ];
    let mut warnings = Vec::new();
    for bound in &CLOCK_BOUNDS {
        if let Some(least) = entries.iter().filter_map(bound.of).min() {
            text.push(prose![bound.before, time(least, min(bound.from)), bound.after]);
            if least < 0 {
                warnings.push(Line::new(Level::Warning, bound.contradiction));
            }
        }
    }
    let mut lines = vec![Line::new(Level::Plain, text)];
    lines.extend(warnings);
    lines
}

/// Returns the time in which another profiler used CUPTI.
fn other_profiler(entries: &[DeviceActivity]) -> Option<Line> {
    let yielded = entries.iter().map(|entry| entry.yielded_ns).max().unwrap_or(0);
    (yielded > 0).then(|| {
        Line::new(
            Level::Warning,
            prose![
                "another profiler used CUPTI for up to ",
                time(yielded, max("/activity/*/yielded_ns")),
                ": device activity of that time was not recorded"
            ],
        )
    })
}

/// Smallest share of the recorded time from which the recorder's own time is reported, in percent.
const MIN_OF_RECORDER_PERCENT: i64 = 1;

/// Returns the recorder's own time if it is relevant.
fn of_recorder(entries: &[DeviceActivity]) -> Option<Line> {
    let relevant = entries.iter().enumerate().filter_map(|(at, entry)| {
        let ns = entry.recorder_ns.value?;
        let is_worth_it = entry.covered_ns > 0
            && ns.saturating_mul(100) >= entry.covered_ns.saturating_mul(MIN_OF_RECORDER_PERCENT);
        is_worth_it.then_some((at, ns, entry.covered_ns))
    });
    let (at, ns, covered_ns) = relevant
        .max_by(|one, other| (one.1 as f64 / one.2 as f64).total_cmp(&(other.1 as f64 / other.2 as f64)))?;
    Some(Line::new(
        Level::Plain,
        prose![
            "the overhead of CUPTI, on any thread, took up to ",
            share_of(
                ns,
                covered_ns,
                &format!("/activity/{at}/recorder_ns/value"),
                &format!("/activity/{at}/covered_ns")
            ),
            " of the recorded time: spans of kind \"recorder\""
        ],
    ))
}

/// Returns the activity that CUPTI had not delivered when the process ended. Its amount is not known.
fn undelivered(session: &Session) -> Option<Line> {
    let missing = |entry: &DeviceActivity| {
        let rank = session.ranks.get(entry.rank as usize)?;
        let missing = rank.end_ns.value? - entry.delivered_until_ns?;
        (rank.ending != LogEnding::Closed && missing > 0).then_some(missing)
    };
    let of: Vec<(usize, &DeviceActivity, i64)> = session
        .activity
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| Some((at, entry, missing(entry)?)))
        .collect();
    let &(longest_at, longest_of, longest) = of.iter().max_by_key(|(.., missing)| missing)?;
    let names: Vec<Prose> = of
        .iter()
        .map(|(_, entry, _)| figures::rank(session, entry.rank).into())
        .collect();
    let total = |of_entry: fn(&DeviceActivity) -> u64, field: &str| {
        let count = of.iter().map(|(_, entry, _)| of_entry(entry)).sum();
        let from = sum(&[among("/activity", of.iter().map(|(at, ..)| *at), field)]);
        counted(count, "call", from)
    };
    Some(Line::new(
        Level::Warning,
        prose![
            "device activity of the last moments was not delivered, up to ",
            time(
                longest,
                less(
                    format!("/ranks/{}/end_ns/value", longest_of.rank),
                    format!("/activity/{longest_at}/delivered_until_ns")
                )
            ),
            ": ",
            some_prose(names, 4),
            "; no activity is recorded for ",
            total(|entry| entry.launches_without_work, "/launches_without_work"),
            " of CUDA and for ",
            total(|entry| entry.calls_without_kernel, "/calls_without_kernel"),
            " of NCCL"
        ],
    ))
}

/// Returns the reasons for which activity was not recorded.
fn unrecorded(entries: &[DeviceActivity]) -> Option<Line> {
    let mut reasons: Vec<(&str, usize)> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| Some((entry.reason.as_deref()?, at)))
        .collect();
    reasons.sort_unstable();
    reasons.dedup_by_key(|(reason, _)| *reason);
    if reasons.is_empty() {
        return None;
    }
    let reasons: Vec<Prose> = reasons
        .iter()
        .map(|(reason, at)| quoted(*reason, format!("/activity/{at}/reason")).into())
        .collect();
    Some(Line::new(
        Level::Warning,
        prose![
            "device activity was not recorded, or only in part: ",
            some_prose(reasons, 3)
        ],
    ))
}

/// Returns the number of kernels that only their order links to a call.
fn by_order(entries: &[DeviceActivity]) -> Option<Line> {
    let by_order = total(entries, |entry| entry.by_order);
    (by_order > 0).then(|| {
        Line::new(
            Level::Plain,
            prose![
                counted(by_order, "kernel", sum(&["/activity/*/by_order"])),
                format!(
                    " of NCCL {} assigned to a call by the order on {} stream: no record links them",
                    if by_order == 1 { "was" } else { "were" },
                    if by_order == 1 { "its" } else { "their" },
                )
            ],
        )
    })
}

/// Returns the number of NCCL's kernels without a call.
fn without_call(entries: &[DeviceActivity]) -> Option<Line> {
    let without = total(entries, |entry| entry.without_call);
    (without > 0).then(|| {
        Line::new(
            Level::Plain,
            prose![
                counted(without, "kernel", sum(&["/activity/*/without_call"])),
                " of NCCL could not be assigned to a call"
            ],
        )
    })
}
