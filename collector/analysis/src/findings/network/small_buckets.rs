//! DistributedDataParallel with small gradient buckets.

use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::exposed_transfer_ns;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::session::OperationClass;

/// All-reduces below this size are small (METRICS.md, section 10), in bytes.
const SMALL_BYTES: u64 = 1 << 20;
/// Minimum size of a gradient bucket, in bytes. Smaller all-reduces are a loss, a metric, or DDP's own bookkeeping.
const MIN_BYTES: u64 = 1 << 12;
/// Minimum share of small all-reduces, in percent.
const MIN_SMALL_PERCENT: u64 = 50;
/// Minimum share of step time in small all-reduces, in percent.
const MIN_TIME_PERCENT: f64 = 5.0;

/// Small gradient buckets.
pub const RULE: Rule = Rule {
    id: "small-buckets",
    title: "DDP reduces gradients in small buckets",
    means: "DistributedDataParallel reduces its gradients in buckets. Each bucket pays the latency of an all-reduce, \
            whatever its size.",
    fires: "DDP is active. Of the all-reduces of at least 4 KiB, at least half are below 1 MiB. The transfers of \
            these take at least 5 % of step time, and a rank has at least two of them per step. Smaller all-reduces \
            are not buckets.",
    silent: "Large buckets. One small all-reduce per step, such as a loss or a small model: no bucket size helps. \
            Programs without DDP (small-messages covers them). Operations without times.",
    find: Some(find),
    find_declared: None,
};

fn is_small(class: &&OperationClass) -> bool {
    class.size_below_bytes.is_some_and(|below| below <= SMALL_BYTES)
}

/// Returns the transfer time of these classes, summed over participating ranks, in rank-ns.
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
    let reducer_waits: u64 = facts.parts.sums.iter().map(|sums| sums.reducer.waits).sum();
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
            .filter(|class| class.size_below_bytes.is_some_and(|below| below > MIN_BYTES))
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
    // Per rank and step.
    let per_step = small as f64 / steps as f64;
    let bytes_per_step = bytes as f64 / steps as f64;
    if small * 100 < all * MIN_SMALL_PERCENT || time_percent < MIN_TIME_PERCENT || per_step < 2.0 {
        return Vec::new();
    }
    let ranks = entries.len() as i64;
    let exposed = exposed_transfer_ns(&entries) / ranks;
    let cost = (transfer as i64 / ranks).min(exposed);
    // The counts include operations outside whole steps, but the number per step is whole.
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
            "{small} of {all} all-reduces are below 1 MiB, and their transfers take {time_percent:.1} % of step \
             time: the gradient buckets are small"
        ),
    )
    .evidence(format!(
        "a rank reduces {:.2} MB per step in {per_step:.1} buckets of {:.0} kB",
        bytes_per_step / 1e6,
        piece / 1e3
    ))
    .evidence(format!(
        "the exposed transfer is {} per rank, {} of step time",
        shown(exposed),
        percent(exposed * ranks, window)
    ))
    .cause("bucket_cap_mb is too small for this path: each bucket pays the latency of an all-reduce")
    .advice(format!(
        "set DistributedDataParallel(bucket_cap_mb={cap_mib:.0}) or more (the default is 25), which reduces the same \
         gradients in fewer buckets"
    ))
    .holds("waits of DDP's reducer for gradients", reducer_waits as f64, ">", 0.0, "")
    .holds(
        "all-reduces below 1 MiB, as a share of those of at least 4 KiB",
        small as f64 / all.max(1) as f64 * 100.0,
        ">=",
        MIN_SMALL_PERCENT as f64,
        "%",
    )
    .holds("share of step time in them", time_percent, ">=", MIN_TIME_PERCENT, "%")
    .holds("small all-reduces per rank and step", per_step, ">=", 2.0, "")
    .ranks(entries.iter().map(|entry| entry.rank))
    .look_at(slowest)
    .cost(
        cost,
        "upper bound: transfer time of these all-reduces, mean over ranks, limited to the exposed transfer",
        &[TRANSFER],
    );
    vec![match session.steps.median_ns.value {
        Some(median) => draft.of_step(cost * ranks / (steps as i64).max(1), median),
        None => draft,
    }]
}
