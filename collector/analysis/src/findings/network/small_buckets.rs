//! DistributedDataParallel with small gradient buckets.

use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::StepTime;
use crate::findings::rule::Rule;
use crate::findings::shown::percent;
use crate::findings::{Draft, Facts, shown};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::{LookAt, OperationClass};

/// All-reduces below this size are small (METRICS.md, section 10), in bytes.
const SMALL_BYTES: u64 = 1 << 20;
/// Minimum size of a gradient bucket, in bytes. Smaller all-reduces are a loss, a metric, or DDP's own bookkeeping.
const MIN_BYTES: u64 = 1 << 12;
/// Minimum share of small all-reduces, in percent.
const MIN_SMALL_PERCENT: u64 = 50;
/// Minimum share of step time in small all-reduces, in percent.
const MIN_TIME_PERCENT: f64 = 5.0;
/// Minimum number of small all-reduces per rank and step. A single one can be a loss or a small model.
const MIN_PER_STEP: f64 = 2.0;

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
    SmallBuckets::measure(facts)
        .filter(SmallBuckets::fires)
        .map(|buckets| buckets.draft())
        .into_iter()
        .collect()
}

/// All-reduces that can be gradient buckets: those of at least 4 KiB.
struct SmallBuckets<'a> {
    time: StepTime<'a>,
    /// Waits of DDP's reducer for gradients, above 0.
    reducer_waits: u64,
    /// Number of all-reduces, without launches.
    all: u64,
    /// Number of those below 1 MiB.
    small: u64,
    /// Bytes of the small ones.
    bytes: u64,
    /// Transfer time of the small ones, summed over participating ranks, in rank-ns.
    transfer_rank_ns: f64,
    /// Longest of the small ones.
    slowest: Option<LookAt>,
}

impl<'a> SmallBuckets<'a> {
    fn measure(facts: &Facts<'a>) -> Option<Self> {
        let reducer_waits: u64 = facts.parts.sums.iter().map(|sums| sums.reducer.waits).sum();
        let time = facts.step_time().filter(|_| reducer_waits > 0)?;
        let reduces = || {
            facts
                .session
                .operations
                .iter()
                .filter(|class| class.operation == "all-reduce")
                .filter(|class| class.size_below_bytes.is_some_and(|below| below > MIN_BYTES))
        };
        let small = || reduces().filter(is_small);
        let calls = |classes: &mut dyn Iterator<Item = &OperationClass>| -> u64 {
            classes
                .filter(|class| !class.launches)
                .map(|class| class.operations)
                .sum()
        };
        Some(Self {
            time,
            reducer_waits,
            all: calls(&mut reduces()),
            small: calls(&mut small()),
            bytes: small().filter_map(|class| class.bytes.value).sum(),
            transfer_rank_ns: transfer_rank_ns(small()),
            slowest: small()
                .filter_map(|class| class.slowest.clone())
                .max_by_key(|moment| moment.end_ns - moment.start_ns),
        })
    }

    fn fires(&self) -> bool {
        self.small * 100 >= self.all * MIN_SMALL_PERCENT
            && self.time_percent() >= MIN_TIME_PERCENT
            && self.per_step() >= MIN_PER_STEP
    }

    /// Returns the share of step time in small all-reduces, in percent.
    fn time_percent(&self) -> f64 {
        self.transfer_rank_ns / self.time.window_ns as f64 * 100.0
    }

    /// Returns the number of small all-reduces per rank and step.
    fn per_step(&self) -> f64 {
        self.small as f64 / self.time.steps as f64
    }

    fn draft(self) -> Draft {
        let Self {
            ref time,
            reducer_waits,
            all,
            small,
            bytes,
            ..
        } = self;
        let (time_percent, per_step) = (self.time_percent(), self.per_step());
        let bytes_per_step = bytes as f64 / time.steps as f64;
        let exposed = time.exposed_transfer_ns();
        let cost = (self.transfer_rank_ns as i64 / time.ranks()).min(exposed);
        // The counts include operations outside whole steps, but the number per step is whole.
        let piece = bytes as f64 / small.max(1) as f64;
        let cap_mib = (piece * per_step.round() / f64::from(1 << 20))
            .ceil()
            .clamp(1.0, 25.0);
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
            percent(exposed * time.ranks(), time.window_ns)
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
        .holds("small all-reduces per rank and step", per_step, ">=", MIN_PER_STEP, "")
        .ranks(time.entries.iter().map(|entry| RankIndex(entry.rank)))
        .look_at(self.slowest)
        .cost(
            cost,
            "upper bound: transfer time of these all-reduces, mean over ranks, limited to the exposed transfer",
            &[TRANSFER],
        );
        time.add_cost_of_step(draft, cost)
    }
}
