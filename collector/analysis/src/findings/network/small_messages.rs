//! Many operations with very small payloads.

use super::small_buckets::transfer_rank_ns;
use crate::findings::draft::part::TRANSFER;
use crate::findings::facts::exposed_transfer_ns;
use crate::findings::rule::Rule;
use crate::findings::{Draft, Facts};
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
    let session = facts.session;
    let entries = facts.in_steps();
    let window: i64 = entries.iter().map(|entry| entry.window_ns).sum();
    let steps: u64 = entries.iter().map(|entry| entry.steps).sum();
    if window == 0 {
        return Vec::new();
    }
    let carrying = || {
        session
            .operations
            .iter()
            .filter(|class| class.operation != "barrier")
    };
    let single = || carrying().filter(|class| !class.launches);
    let all: u64 = single().map(|class| class.operations).sum();
    let tiny: u64 = single().filter(is_tiny).map(|class| class.operations).sum();
    let transfer = transfer_rank_ns(carrying().filter(is_tiny));
    let time_percent = transfer / window as f64 * 100.0;
    let per_step = tiny as f64 / steps as f64;
    if tiny * 100 < all * MIN_TINY_PERCENT || per_step < MIN_PER_STEP || time_percent < MIN_TIME_PERCENT {
        return Vec::new();
    }
    let ranks = entries.len() as i64;
    let exposed = exposed_transfer_ns(&entries) / ranks;
    let cost = (transfer as i64 / ranks).min(exposed);
    let mut kinds: Vec<&OperationClass> = single().filter(is_tiny).collect();
    kinds.sort_by_key(|class| std::cmp::Reverse(class.operations));
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
        tiny as f64 / all.max(1) as f64 * 100.0,
        ">=",
        MIN_TINY_PERCENT as f64,
        "%",
    )
    .holds("tiny operations per rank and step", per_step, ">=", MIN_PER_STEP, "")
    .holds("share of step time in them", time_percent, ">=", MIN_TIME_PERCENT, "%")
    .ranks(entries.iter().map(|entry| entry.rank))
    .look_at(slowest)
    .cost(
        cost,
        "upper bound: transfer time of these operations, mean over ranks, limited to the exposed transfer",
        &[TRANSFER],
    );
    vec![match session.steps.median_ns.value {
        Some(median) => draft.of_step(cost * ranks / (steps as i64).max(1), median),
        None => draft,
    }]
}
