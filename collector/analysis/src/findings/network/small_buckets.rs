//! DistributedDataParallel's gradient buckets are too small.

use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::exposed_transfer_ns;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::OperationClass;

/// All-reduces below this are small (METRICS.md, section 10).
const SMALL_BYTES: u64 = 1 << 20;
/// Smaller ones are no gradient buckets: a loss, a metric, DDP's own bookkeeping.
const LEAST_BYTES: u64 = 1 << 12;
/// Share of all-reduces that are small, percent.
const LEAST_SMALL_PERCENT: u64 = 50;
/// Share of step time in them, percent.
const LEAST_TIME_PERCENT: f64 = 5.0;

/// Buckets are too small.
pub const RULE: Rule = Rule {
    id: "small-buckets",
    title: "Gradients are reduced in small pieces",
    means: "DistributedDataParallel reduces its gradients in buckets; each costs a round trip, whatever its size.",
    fires: "DDP was seen at work, of the all-reduces of at least 4 KiB (smaller ones are no buckets) at least half are below 1 MiB, the transfers of these take at least 5 % of \
            step time, and a step has at least two of them, which together are more than one of them.",
    silent: "Large buckets, one small all-reduce per step (a loss, a small model: no bucket size helps), other programs than \
             DDP (small-messages), operations without times.",
    find: Some(find),
    of_stated: None,
};

fn is_small(class: &&OperationClass) -> bool {
    class.size_below_bytes.is_some_and(|below| below <= SMALL_BYTES)
}

/// Σ transfer of these classes over all that take part, rank-ns.
pub fn transfer_rank_ns<'a>(classes: impl Iterator<Item = &'a OperationClass>) -> f64 {
    let taking_part = |class: &OperationClass| match class.operation.as_str() {
        "send" | "receive" => 2.0,
        _ => f64::from(class.members),
    };
    classes
        .filter_map(|class| Some(class.transfer_ns.value?.sum * taking_part(class)))
        .sum()
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let session = facts.session;
    let reducer_waits: u64 = facts.parts.sums.iter().map(|sums| sums.reducer_waits).sum();
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    let steps: u64 = entries.iter().map(|entry| entry.steps).sum();
    if reducer_waits == 0 || window == 0 {
        return Vec::new();
    }
    let reduces = || {
        session
            .operations
            .iter()
            .filter(|class| class.operation == "all-reduce")
            .filter(|class| class.size_below_bytes.is_some_and(|below| below > LEAST_BYTES))
    };
    let calls = |classes: &mut dyn Iterator<Item = &OperationClass>| -> u64 {
        classes
            .filter(|class| !class.launches)
            .map(|class| class.operations)
            .sum()
    };
    let (all, small) = (calls(&mut reduces()), calls(&mut reduces().filter(is_small)));
    let transfer = transfer_rank_ns(reduces().filter(is_small));
    let bytes: u64 = reduces()
        .filter(is_small)
        .filter_map(|class| class.bytes.value)
        .sum();
    let time_percent = transfer / window as f64 * 100.0;
    // Of a rank, in a step.
    let per_step = small as f64 / steps as f64;
    let bytes_per_step = bytes as f64 / steps as f64;
    if small * 100 < all * LEAST_SMALL_PERCENT || time_percent < LEAST_TIME_PERCENT || per_step < 2.0 {
        return Vec::new();
    }
    let ranks = entries.len() as i64;
    let exposed = exposed_transfer_ns(&entries) / ranks;
    let cost = (transfer as i64 / ranks).min(exposed);
    // Operations outside of whole steps are counted, too: of a step there is a whole number.
    let piece = bytes as f64 / small.max(1) as f64;
    let cap_mib = (piece * per_step.round() / f64::from(1 << 20))
        .ceil()
        .clamp(1.0, 25.0);
    let slowest = reduces()
        .filter(is_small)
        .filter_map(|class| class.slowest.clone())
        .max_by_key(|moment| moment.end_ns - moment.start_ns);
    let draft = Draft::new(
        RULE.id,
        "DDP's gradient buckets",
        format!(
            "{small} of {all} all-reduces are below 1 MiB, and their transfers take {time_percent:.1} % of step time: the \
             gradient buckets are small"
        ),
    )
    .evidence(format!(
        "a rank reduces {:.2} MB per step in {per_step:.1} such pieces, {:.0} kB each",
        bytes_per_step / 1e6,
        piece / 1e3
    ))
    .evidence(format!(
        "of the transfers {} per rank could not be hidden, {} of step time",
        shown(exposed),
        percent(exposed * ranks, window)
    ))
    .cause("bucket_cap_mb is too small for this path: each piece pays the latency of an all-reduce")
    .advice(format!(
        "DistributedDataParallel(bucket_cap_mb={cap_mib:.0}) or more (the default is 25): the same gradients in fewer pieces"
    ))
    .holds("DDP's waits for gradients", reducer_waits as f64, ">", 0.0, "")
    .holds(
        "all-reduces below 1 MiB, of those from 4 KiB on",
        small as f64 / all.max(1) as f64 * 100.0,
        ">=",
        LEAST_SMALL_PERCENT as f64,
        "%",
    )
    .holds("step time in them", time_percent, ">=", LEAST_TIME_PERCENT, "%")
    .holds("of them per step", per_step, ">=", 2.0, "")
    .ranks(entries.iter().map(|entry| entry.rank))
    .look_at(slowest)
    .cost(
        cost,
        "at most: the transfers of these all-reduces as far as transfer was exposed at all, by the mean rank",
        &[TRANSFER],
    );
    vec![match session.steps.median_ns.value {
        Some(median) => draft.of_step(cost * ranks / (steps as i64).max(1), median),
        None => draft,
    }]
}
