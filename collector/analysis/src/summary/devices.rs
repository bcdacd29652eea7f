//! Summary of device activity.

use crate::measures::merge_result::MergeResult;
use crate::model::kernel_name::demangled;
use crate::model::sources::{CUPTI, ENDED, OVERHEAD, OVERHEAD_RECORDED, REFUSED};
use crate::rank::{ActivitySums, CAUSES, DevicePartSums};
use rankscope_formats::ids::RankIndex;
use rankscope_formats::session::Window;
use rankscope_formats::session::{
    DeviceActivity, DeviceStream, Figure, IdleSum, KernelSum, Ratio, RecurringStall,
};
use rankscope_ranklog::reader::RankLog;
use rankscope_ranklog::record::RecordKind;

/// Returns an entry for each rank whose device activity was recorded, or was requested.
pub fn activity(parts: &MergeResult<'_>) -> Vec<DeviceActivity> {
    let entries = parts.sums.iter().enumerate().filter_map(|(rank, sums)| {
        let log = parts.logs.get(parts.identities.ranks.get(rank)?.log)?;
        let reason = reason(log);
        let version = log.properties.get(CUPTI);
        if version.is_none() && reason.is_none() {
            return None;
        }
        let none = ActivitySums {
            parts: DevicePartSums {
                adds_up: true,
                ..DevicePartSums::default()
            },
            ..ActivitySums::default()
        };
        let activity = sums.activity.as_ref().unwrap_or(&none);
        Some(of_rank(parts, rank, log, activity, reason))
    });
    entries.collect()
}

/// Returns why it was not recorded, as far as the log shows.
fn reason(log: &RankLog) -> Option<String> {
    [ENDED, REFUSED]
        .iter()
        .find_map(|key| log.properties.get(*key).cloned())
}

fn of_rank(
    parts: &MergeResult<'_>,
    rank: usize,
    log: &RankLog,
    sums: &ActivitySums,
    reason: Option<String>,
) -> DeviceActivity {
    let in_steps = sums.parts.steps > 0;
    let window = if in_steps {
        sums.parts.in_steps
    } else {
        sums.parts.run
    };
    let waited = parts.measures.steps.waited(RankIndex::of(rank), in_steps);
    let lost = log
        .losses
        .iter()
        .filter(|loss| loss.kind == RecordKind::Activity)
        .map(|loss| loss.count)
        .sum();
    let streams = log.streams.values().map(|stream| DeviceStream {
        device: stream.device,
        context: stream.context,
        number: stream.number,
    });
    let idle_by_cause = CAUSES
        .iter()
        .zip(sums.idle.by_cause)
        .map(|(cause, gaps)| IdleSum {
            cause: cause.name().to_owned(),
            count: gaps.count,
            ns: gaps.ns,
        });
    let name_of = |name: i32| {
        u32::try_from(name)
            .ok()
            .and_then(|number| log.texts.get(&number))
            .map_or_else(|| "(name not recorded)".to_owned(), |name| demangled(name))
    };
    let top = sums.top.iter().map(|kernel| KernelSum {
        name: name_of(kernel.name),
        count: kernel.runs.count,
        ns: kernel.runs.ns,
    });
    let recurring = sums.recurring.iter().map(|recurring| RecurringStall {
        before: name_of(recurring.place.before),
        cause: recurring.place.cause.name().to_owned(),
        steps: recurring.steps,
        of_steps: sums.parts.steps,
        ns: recurring.ns,
    });
    let known = |ns: Option<i64>, why: &str| ns.map_or_else(|| Figure::unknown(why), Figure::known);
    DeviceActivity {
        rank: rank as u32,
        cupti: log.properties.get(CUPTI).cloned().unwrap_or_default(),
        reason,
        streams: streams.collect(),
        kernels: sums.works.kernels,
        communication_kernels: sums.works.communication_kernels,
        copies: sums.works.copies,
        sets: sums.works.sets,
        graphs: sums.works.graphs,
        lost,
        with_launch: sums.calls.with_launch,
        launches_without_work: sums.calls.launches_without_work,
        calls_without_kernel: parts.sums[rank].operations.enqueued,
        without_call: sums.communication.without_call,
        by_order: sums.communication.by_order,
        covered_ns: sums.recorded.covered_ns,
        covered_communication_ns: sums.recorded.covered_communication_ns,
        yielded_ns: sums.recorded.yielded_ns,
        recorder_ns: match log.properties.get(OVERHEAD).map(String::as_str) {
            Some(OVERHEAD_RECORDED) => Figure::known(sums.recorded.recorder_ns),
            Some(reason) => Figure::unknown(reason),
            None => Figure::unknown("the recorder's overhead was not recorded"),
        },
        delivered_until_ns: sums.recorded.delivered_until_ns,
        shortest_launch_ns: known(sums.calls.shortest_launch_ns, "no launch was recorded"),
        shortest_wait_ns: known(sums.calls.shortest_wait_ns, "no synchronising call was recorded"),
        window: if in_steps { Window::Steps } else { Window::Run },
        window_ns: window.window_ns,
        compute_only_ns: window.compute_only_ns,
        overlapped_ns: window.overlapped_ns,
        exposed_communication_ns: window.exposed_communication_ns,
        exposed_wait_ns: waited.exposed_ns.min(window.exposed_communication_ns),
        exposed_memory_ns: window.exposed_memory_ns,
        idle_ns: window.idle_ns,
        overlap: overlap(sums),
        idle_by_cause: idle_by_cause.collect(),
        device_stalls: parts.measures.stalls.summary(rank),
        recurring_stalls: recurring.collect(),
        top: top.collect(),
        adds_up: sums.parts.adds_up && window.adds_up(),
    }
}

/// Returns the share of communication that computation of the devices hides, or why it is unknown.
pub fn overlap(sums: &ActivitySums) -> Figure<Ratio> {
    let window = if sums.parts.steps > 0 {
        sums.parts.in_steps
    } else {
        sums.parts.run
    };
    if window.window_ns == 0 {
        return Figure::unknown(if sums.recorded.covered_ns > 0 {
            "no whole step is inside the time with complete device records"
        } else {
            "not all device activity was recorded"
        });
    }
    Ratio::figure(
        window.overlapped_ns,
        window.communication_ns(),
        "no communication in the window",
    )
}
