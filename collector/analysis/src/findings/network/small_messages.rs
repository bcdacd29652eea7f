//! Many operations with very small payloads.

use super::small_buckets::transfer_rank_ns;
use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::StepTime;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::OperationClass;

/// Operations below this size are tiny, in bytes. Latency determines their duration.
const TINY_BYTES: u64 = 1 << 12;
/// Minimum share of tiny operations, in percent.
const MIN_TINY_PERCENT: u64 = 50;
/// Minimum share of step time in tiny operations, in percent.
const MIN_TIME_PERCENT: f64 = 5.0;
/// Minimum number of tiny operations per rank and step.
const MIN_PER_STEP: f64 = 16.0;

/// Many tiny operations.
pub const RULE: Rule = Rule {
    id: "small-messages",
    title: "Most operations are tiny",
    means: "Most operations carry less than 4 KiB. Each takes about as long as an operation of a hundred times its \
            size.",
    fires: "At least half of the operations, except barriers, carry less than 4 KiB. A rank has at least 16 of them \
            per step. Their transfers take at least 5 % of step time.",
    silent: "A few scalars per step. Many tiny operations that take little time. Operations without times.",
    find: Some(find),
    find_declared: None,
};

fn is_tiny(class: &&OperationClass) -> bool {
    class.size_below_bytes.is_some_and(|below| below <= TINY_BYTES)
}

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    TinyOperations::measure(facts)
        .filter(TinyOperations::fires)
        .map(|tiny| tiny.draft())
        .into_iter()
        .collect()
}

/// Operations that carry data, and the tiny ones among them.
struct TinyOperations<'a> {
    time: StepTime<'a>,
    /// Number of operations that carry data, without launches.
    all: u64,
    /// Number of tiny ones.
    tiny: u64,
    /// Classes of tiny ones, the most frequent first.
    kinds: Vec<&'a OperationClass>,
    /// Transfer time of tiny operations, summed over participating ranks, in rank-ns.
    transfer_rank_ns: f64,
}

impl<'a> TinyOperations<'a> {
    fn measure(facts: &Facts<'a>) -> Option<Self> {
        let time = facts.step_time()?;
        let operations = &facts.session.operations;
        let carrying = || operations.iter().filter(|class| class.operation != "barrier");
        let single = || carrying().filter(|class| !class.launches);
        let mut kinds: Vec<&OperationClass> = single().filter(is_tiny).collect();
        kinds.sort_by_key(|class| std::cmp::Reverse(class.operations));
        Some(Self {
            time,
            all: single().map(|class| class.operations).sum(),
            tiny: kinds.iter().map(|class| class.operations).sum(),
            kinds,
            transfer_rank_ns: transfer_rank_ns(carrying().filter(is_tiny)),
        })
    }

    fn fires(&self) -> bool {
        self.tiny * 100 >= self.all * MIN_TINY_PERCENT
            && self.per_step() >= MIN_PER_STEP
            && self.time_percent() >= MIN_TIME_PERCENT
    }

    /// Returns the share of step time in tiny operations, in percent.
    fn time_percent(&self) -> f64 {
        self.transfer_rank_ns / self.time.window_ns as f64 * 100.0
    }

    /// Returns the number of tiny operations per rank and step.
    fn per_step(&self) -> f64 {
        self.tiny as f64 / self.time.steps as f64
    }

    fn draft(&self) -> Draft {
        let Self {
            time,
            all,
            tiny,
            kinds,
            ..
        } = self;
        let (time_percent, per_step) = (self.time_percent(), self.per_step());
        let cost = (self.transfer_rank_ns as i64 / time.ranks()).min(time.exposed_transfer_ns());
        let most: Vec<String> = kinds
            .iter()
            .take(3)
            .map(|class| format!("{} × {}", class.operations, class.operation))
            .collect();
        let slowest = kinds.iter().find_map(|class| class.slowest.clone());
        let draft = Draft::new(
            RULE.id,
            "tiny operations",
            format!(
                "{tiny} of {all} operations carry less than 4 KiB, {per_step:.0} per rank and step; their transfers take \
                 {time_percent:.1} % of step time"
            ),
        )
        .evidence(format!("most frequent: {}", most.join(", ")))
        .cause("values are sent one by one, and each operation pays the latency of the path")
        .advice(
            "combine values before they are sent: use one flat tensor or coalesced collectives \
             (torch.distributed._coalescing_manager, ncclGroupStart), and exchange metrics only every N steps",
        )
        .holds(
            "operations below 4 KiB",
            *tiny as f64 / (*all).max(1) as f64 * 100.0,
            ">=",
            MIN_TINY_PERCENT as f64,
            "%",
        )
        .holds("tiny operations per rank and step", per_step, ">=", MIN_PER_STEP, "")
        .holds("share of step time in them", time_percent, ">=", MIN_TIME_PERCENT, "%")
        .ranks(time.entries.iter().map(|entry| RankIndex(entry.rank)))
        .look_at(slowest)
        .cost(
            cost,
            "upper bound: transfer time of these operations, mean over ranks, limited to the exposed transfer",
            &[TRANSFER],
        );
        time.add_cost_of_step(draft, cost)
    }
}
