//! Private memory that grows over the whole run.

use crate::findings::rule::Rule;
use crate::findings::shown::{counted, in_unit, some};
use crate::findings::{Draft, Facts};
use crate::model::units;
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{AVAILABLE_MEMORY, CounterGrowth, Host, LookAt, PRIVATE_MEMORY, Severity};

/// Minimum duration of the observed growth, in nanoseconds.
const MIN_WINDOW_NS: i64 = 60_000_000_000;
/// Minimum growth, in bytes.
const MIN_GROWTH_BYTES: f64 = 64.0 * (1 << 20) as f64;
/// Minimum growth as a share of the memory at the begin.
const MIN_GROWTH_SHARE: f64 = 0.02;
/// Minimum share of the growth that belongs to the last third. Caches fill up, and level off.
const MIN_LATE_SHARE: f64 = 0.15;
/// Maximum sum of the decreases as a share of the growth. Memory that goes up and down may end high.
const MAX_FALLEN_SHARE: f64 = 0.25;
/// Minimum number of rises between 12 intervals. Of 11 pairs, memory without a trend rises in about 5.
const MIN_RISES: u32 = 9;
/// Remaining time below which the finding is a warning, in hours.
const URGENT_HOURS: f64 = 24.0;

/// Growing memory.
pub const RULE: Rule = Rule {
    id: "growing-memory",
    title: "Memory grows and does not level off",
    means: "A process keeps more and more memory. In the end the kernel kills it, or the host swaps.",
    fires: "The smallest values of 12 equal intervals are compared, after the first quarter of the run. At least 9 of 11 \
            rise. The growth is at least 64 MiB and 2 %, and at least 15 % of it belongs to the last third. \
            Decreases add up to at most a quarter of it. The 12 intervals take at least 60 s. A warning if the available memory of the host suffices for less than 24 h.",
    silent: "Runs below 80 s. Memory that levels off. Mapped files and shared memory, which the kernel can drop or which several ranks share. Memory of processes that are no ranks, such as those that load \
             data. Memory of devices. Recordings with --counters off.",
    find: Some(find),
    find_declared: None,
};

/// A rank whose memory grows.
struct Growing {
    rank: RankIndex,
    growth: CounterGrowth,
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let growing = measure(facts);
    let hosts = (0..).zip(&facts.session.hosts);
    hosts
        .filter_map(|(host, known)| {
            let on_host: Vec<&Growing> = growing
                .iter()
                .filter(|growing| known.ranks.contains(&growing.rank.0))
                .collect();
            (!on_host.is_empty()).then(|| draft(facts, host, known, &on_host))
        })
        .collect()
}

fn measure(facts: &Facts<'_>) -> Vec<Growing> {
    let counters = facts.session.counters.iter();
    counters
        .filter(|counter| counter.name == PRIVATE_MEMORY)
        .filter_map(|counter| {
            Some(Growing {
                rank: RankIndex(counter.rank),
                growth: counter.growth?,
            })
        })
        .filter(|growing| fires(&growing.growth))
        .collect()
}

fn fires(growth: &CounterGrowth) -> bool {
    let grown = growth.last - growth.first;
    growth.to_ns - growth.from_ns >= MIN_WINDOW_NS
        && growth.rises >= MIN_RISES
        && grown >= MIN_GROWTH_BYTES.max(growth.first * MIN_GROWTH_SHARE)
        && growth.last - growth.two_thirds >= grown * MIN_LATE_SHARE
        && growth.fallen <= grown * MAX_FALLEN_SHARE
}

/// Returns the available memory of a host at the end, in bytes.
fn available_bytes(facts: &Facts<'_>, host: &Host) -> Option<f64> {
    let counters = facts.session.counters.iter();
    counters
        .filter(|counter| counter.name == AVAILABLE_MEMORY && host.ranks.contains(&counter.rank))
        .find_map(|counter| counter.last)
}

fn draft(facts: &Facts<'_>, host: u32, known: &Host, growing: &[&Growing]) -> Draft {
    let per_hour: f64 = growing.iter().map(|growing| growing.growth.per_hour()).sum();
    let ranks: Vec<RankIndex> = growing.iter().map(|growing| growing.rank).collect();
    let available = available_bytes(facts, known);
    let hours = available.map(|bytes| bytes / per_hour);
    let is_urgent = hours.is_some_and(|hours| hours < URGENT_HOURS);
    let of_all = if ranks.len() > 1 { " in all" } else { "" };
    let mut draft = Draft::new(
        RULE.id,
        format!("host {}", known.name),
        format!(
            "private memory of {} on {} grows by {} per hour{of_all}",
            if ranks.len() > 1 {
                counted(ranks.len() as u64, "rank")
            } else {
                some(&facts.names(&ranks))
            },
            known.name,
            units::bytes_f(per_hour)
        ),
    )
    .severity(if is_urgent { Severity::Warning } else { Severity::Note })
    .cause(
        "objects that are kept in a list or cache for each step, such as a loss with its graph; buffers of a data \
         pipeline; a library that leaks",
    )
    .advice(
        "keep numbers instead of tensors (loss.item(), loss.detach()); compare two snapshots of tracemalloc, or of \
         memray for native memory",
    )
    .ranks(ranks)
    .hosts([host]);
    for growing in growing {
        let CounterGrowth {
            first,
            last,
            rises,
            intervals,
            ..
        } = growing.growth;
        draft = draft.evidence(format!(
            "{}: from {} to {} in {}; {rises} of {} intervals rise",
            facts.name(growing.rank),
            units::bytes_f(first),
            units::bytes_f(last),
            in_unit((growing.growth.to_ns - growing.growth.from_ns) as f64, "ns"),
            intervals.saturating_sub(1),
        ));
    }
    if let (Some(bytes), Some(hours)) = (available, hours) {
        draft = draft.evidence(format!(
            "{} available on {}: enough for {hours:.1} hours",
            units::bytes_f(bytes),
            known.name
        ));
    }
    if let Some(largest) = growing
        .iter()
        .max_by(|one, other| grown(one).total_cmp(&grown(other)))
    {
        let growth = &largest.growth;
        draft = draft
            .holds(
                "growth of the private memory",
                grown(largest),
                ">=",
                MIN_GROWTH_BYTES,
                "bytes",
            )
            .holds(
                "rising intervals",
                f64::from(growth.rises),
                ">=",
                f64::from(MIN_RISES),
                "",
            )
            .holds(
                "share of the growth in the last third",
                (growth.last - growth.two_thirds) / grown(largest) * 100.0,
                ">=",
                MIN_LATE_SHARE * 100.0,
                "%",
            )
            .look_at([LookAt {
                what: "private memory grows".to_owned(),
                rank: Some(largest.rank.0),
                instance: None,
                step: None,
                start_ns: growth.from_ns,
                end_ns: growth.to_ns,
            }]);
    }
    if let Some(hours) = hours.filter(|_| is_urgent) {
        draft = draft.holds("hours until the memory is used up", hours, "<", URGENT_HOURS, "");
    }
    draft.without_cost("the job loses nothing until the memory is used up")
}

fn grown(growing: &Growing) -> f64 {
    growing.growth.last - growing.growth.first
}
