//! Synchronising calls, after which the device is idle.

use crate::findings::draft::part::{HOST, IDLE};
use crate::findings::rule::Rule;
use crate::findings::shown::{percent, some};
use crate::findings::{Draft, Facts, shown};
use crate::model::count_and_time::CountAndTime;
use rankscope_formats::ids::RankIndex;
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
    Some(GapsAfterCalls::measure(facts))
        .filter(GapsAfterCalls::fires)
        .map(|gaps| gaps.draft(facts))
        .into_iter()
        .collect()
}

/// Gaps on compute streams after synchronising calls.
#[derive(Default)]
struct GapsAfterCalls {
    /// Gaps by the name of the function.
    by_call: BTreeMap<&'static str, CountAndTime>,
    /// Ranks with such gaps.
    ranks: Vec<RankIndex>,
    /// Number of ranks with recorded device work.
    ranks_known: i64,
    /// Recorded time of these ranks, in rank-ns.
    window_ns: i64,
    /// Number of steps, summed over ranks.
    steps: u64,
}

impl GapsAfterCalls {
    fn measure(facts: &Facts<'_>) -> Self {
        let mut gaps = Self::default();
        for entry in facts.session.activity.iter().filter(|entry| entry.window_ns > 0) {
            let sums = facts.sums(entry.rank as usize);
            let Some(activity) = sums.and_then(|sums| sums.activity.as_ref()) else {
                continue;
            };
            gaps.window_ns += entry.window_ns;
            gaps.ranks_known += 1;
            gaps.steps += activity.parts.steps;
            // Gaps of several streams can overlap. Their sum is limited to the idle time of the device.
            let after_waits = &activity.idle.after_waits;
            let all: i64 = after_waits.values().map(|sum| sum.ns).sum();
            let idle = entry.idle_ns.max(0);
            for (&position, gap) in after_waits {
                let ns = if all > idle {
                    (gap.ns as f64 * idle as f64 / all as f64) as i64
                } else {
                    gap.ns
                };
                let Some(function) = CUDA_FUNCTIONS.get(position) else {
                    continue;
                };
                let sum = gaps.by_call.entry(function.name).or_default();
                sum.add_all(CountAndTime { count: gap.count, ns });
            }
            if !after_waits.is_empty() {
                gaps.ranks.push(RankIndex(entry.rank));
            }
        }
        gaps
    }

    fn fires(&self) -> bool {
        self.steps > 0
            && self.per_step() >= MIN_PER_STEP
            && self.idle_ns() * 100 >= self.window_ns * MIN_IDLE_PERCENT
    }

    /// Returns the number of gaps per step.
    fn per_step(&self) -> f64 {
        let gaps: u64 = self.by_call.values().map(|gaps| gaps.count).sum();
        gaps as f64 / self.steps.max(1) as f64
    }

    /// Returns the idle time in the gaps, summed over ranks.
    fn idle_ns(&self) -> i64 {
        self.by_call.values().map(|gaps| gaps.ns).sum()
    }

    fn draft(&self, facts: &Facts<'_>) -> Draft {
        let (per_step, idle) = (self.per_step(), self.idle_ns());
        let mut calls: Vec<(&str, CountAndTime)> =
            self.by_call.iter().map(|(&name, &sum)| (name, sum)).collect();
        calls.sort_by_key(|(_, gaps)| std::cmp::Reverse(gaps.ns));
        let listed: Vec<String> = calls
            .iter()
            .map(|(name, gaps)| {
                format!(
                    "{name}: {} times, {} of idle time after it",
                    gaps.count,
                    shown(gaps.ns)
                )
            })
            .collect();
        let first = calls.first().map_or("synchronising calls", |&(name, _)| name);
        Draft::new(
            RULE.id,
            first,
            format!(
                "after synchronising calls, the device is idle for {} of its time, {per_step:.1} times per step",
                percent(idle, self.window_ns)
            ),
        )
        .evidence(some(&listed))
        .evidence(format!("on {}", some(&facts.names(&self.ranks))))
        .cause("the program reads a result of the device in the middle of the step: .item(), .cpu(), print(tensor), a \
                condition on a tensor")
        .advice(
            "keep results on the device, and read them every N steps or from an earlier step; \
             torch.cuda.set_sync_debug_mode(\"warn\") reports the source lines",
        )
        .holds("gaps after synchronising calls, per step", per_step, ">=", MIN_PER_STEP, "")
        .holds(
            "share of the devices' time",
            idle as f64 / self.window_ns as f64 * 100.0,
            ">=",
            MIN_IDLE_PERCENT as f64,
            "%",
        )
        .ranks(self.ranks.iter().copied())
        .cost(
            idle / self.ranks_known,
            "time from the end of the last kernel to the start of the next in these gaps, mean over ranks",
            &[HOST, IDLE],
        )
    }
}
