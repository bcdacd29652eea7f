//! Synchronising calls, after which the device is idle.

use crate::findings::draft::part::{HOST, IDLE};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use rankscope_ranklog::cuda_calls::CUDA_FUNCTIONS;
use std::collections::BTreeMap;

/// Minimum idle time after such calls, in percent of the recorded steps.
const MIN_IDLE_PERCENT: i64 = 5;
/// Minimum number of gaps per step.
const MIN_PER_STEP: f64 = 1.0;

/// Synchronising calls.
pub const RULE: Rule = Rule {
    id: "synchronising-calls",
    title: "The host waits for the device, and then the device waits for the host",
    means: "A synchronising call, such as cudaStreamSynchronize or a copy to the host, returns when the device is \
            done. The host launches the next kernels only then, and the device is idle until they arrive.",
    fires: "Per step, there is at least one gap on a compute stream in which such a call returned and after which \
            the next kernel was launched. These gaps take at least 5 % of the recorded device time.",
    silent: "Calls that wait while the next kernels are already queued. Gaps for other reasons (recurring-stall). \
            Runs without --kernels.",
    find: Some(find),
    find_declared: None,
};

fn find(facts: &Facts<'_>) -> Vec<Draft> {
    let (mut window, mut ranks_known, mut steps) = (0, 0, 0);
    let mut by_call: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    let mut ranks = Vec::new();
    for entry in facts.session.activity.iter().filter(|entry| entry.window_ns > 0) {
        let Some(activity) = facts
            .sums(entry.rank as usize)
            .and_then(|sums| sums.activity.as_ref())
        else {
            continue;
        };
        window += entry.window_ns;
        ranks_known += 1;
        steps += activity.parts.steps;
        // Gaps of several streams can overlap. Their sum is limited to the idle time of the device.
        let after_waits = &activity.idle.after_waits;
        let all: i64 = after_waits.values().map(|sum| sum.ns).sum();
        let idle = entry.idle_ns.max(0);
        for (&position, gaps) in after_waits {
            let ns = if all > idle {
                (gaps.ns as f64 * idle as f64 / all as f64) as i64
            } else {
                gaps.ns
            };
            let Some(function) = CUDA_FUNCTIONS.get(position) else {
                continue;
            };
            let sum = by_call.entry(function.name).or_default();
            sum.0 += gaps.count;
            sum.1 += ns;
        }
        if !after_waits.is_empty() {
            ranks.push(entry.rank);
        }
    }
    let gaps: u64 = by_call.values().map(|&(count, _)| count).sum();
    let idle: i64 = by_call.values().map(|&(_, ns)| ns).sum();
    let per_step = gaps as f64 / steps.max(1) as f64;
    if steps == 0 || per_step < MIN_PER_STEP || idle * 100 < window * MIN_IDLE_PERCENT {
        return Vec::new();
    }
    let mut calls: Vec<(&str, (u64, i64))> = by_call.into_iter().collect();
    calls.sort_by_key(|&(_, (_, ns))| std::cmp::Reverse(ns));
    let told: Vec<String> = calls
        .iter()
        .map(|(name, (count, ns))| format!("{name}: {count} times, {} of idle time after it", shown(*ns)))
        .collect();
    let first = calls.first().map_or("synchronising calls", |(name, _)| name);
    let draft = Draft::new(
        RULE.id,
        first,
        format!(
            "after synchronising calls, the device is idle for {} of its time, {per_step:.1} times per step",
            percent(idle, window)
        ),
    )
    .evidence(some(&told))
    .evidence(format!("on {}", some(&facts.names(&ranks))))
    .cause("the program reads a result of the device in the middle of the step: .item(), .cpu(), print(tensor), a \
            condition on a tensor")
    .advice(
        "keep results on the device, and read them every N steps or from an earlier step; \
         torch.cuda.set_sync_debug_mode(\"warn\") reports the source lines",
    )
    .holds("gaps after synchronising calls, per step", per_step, ">=", MIN_PER_STEP, "")
    .holds(
        "share of the devices' time",
        idle as f64 / window as f64 * 100.0,
        ">=",
        MIN_IDLE_PERCENT as f64,
        "%",
    )
    .ranks(ranks)
    .cost(
        idle / ranks_known,
        "time from the end of the last kernel to the start of the next in these gaps, mean over ranks",
        &[HOST, IDLE],
    );
    vec![draft]
}
