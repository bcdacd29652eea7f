//! Overlap, temporal breakdown and idle times with the exact results of Holistic Trace Analysis: its filter, its
//! classes, its window and its rounding (METRICS.md, section 5).
//!
//! Source: HolisticTraceAnalysis 0.5.0, `trace.py` (`_filter_irrelevant_gpu_kernels`,
//! `transform_correlation_to_index`), `trace_parser.py` (`round_down_time_stamps`), `breakdown_analysis.py`,
//! `communication_analysis.py`, `utils.py`. Unusual behaviour here reproduces that source.

use rankscope_formats::kineto::{Args, Category, Event};
use rankscope_formats::session::{HtaFigures, HtaIdle, HtaOverlap, HtaTemporal};
use rustc_hash::FxHashMap;

/// Gaps shorter than this count as delays of the device, in whole µs (`consecutive_kernel_delay`).
const KERNEL_DELAY_US: i64 = 30;
/// Causes of idle time, in output order.
const CAUSES: [&str; 3] = ["host_wait", "kernel_wait", "other"];

/// Class of a kernel, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Communication,
    Memory,
    Compute,
    Other,
}

impl Class {
    /// `get_kernel_type`: three expressions, tried in order.
    fn of(name: &str) -> Self {
        let is_communication = name
            .strip_prefix("nccl")
            .is_some_and(|rest| rest.contains("Kernel"));
        if is_communication {
            Self::Communication
        } else if ["Memcpy", "Memset", "dma"]
            .iter()
            .any(|word| name.starts_with(word))
        {
            Self::Memory
        } else if name.contains("Memcpy") || name.contains("Sync") {
            Self::Other
        } else {
            Self::Compute
        }
    }
}

/// Event on a stream.
#[derive(Clone, Copy, Debug)]
struct OnStream {
    correlation: i64,
    stream: i64,
    start: f64,
    end: f64,
    class: Class,
    /// Whether the category is kernel, copy or set. Others are excluded from idle times.
    is_work: bool,
}

/// Host events of one correlation.
#[derive(Clone, Copy, Debug, Default)]
struct Launched {
    /// Position in the file and start of the last one.
    last: (u32, f64),
    /// Starts, if there are several.
    starts: [f64; 2],
    count: u32,
}

/// State while a trace is read.
#[derive(Default)]
pub struct HtaTrace {
    on_stream: Vec<OnStream>,
    launched: FxHashMap<i64, Launched>,
    /// Start of the first event of the file, if it is a host event.
    first: Option<f64>,
    /// Names of steps, and the start of the last one.
    steps: std::collections::BTreeSet<String>,
    last_step: Option<f64>,
    /// Whether times have fractions, and so are rounded.
    is_fractional: bool,
}

impl HtaTrace {
    /// Processes an event, the `index`-th of the file.
    pub fn add(&mut self, index: u32, event: &Event<'_>) {
        let Some(start) = event.start else {
            return;
        };
        self.is_fractional |= !start.is_whole();
        let (Some(start), Some(duration)) = (
            start.as_f64(),
            event.duration.and_then(|duration| duration.as_f64()),
        ) else {
            return;
        };
        // This is not a time of a job: a sum of larger times would overflow.
        let is_time = |time: f64| time.is_finite() && time.abs() < 4e15;
        if !is_time(start) || !is_time(duration) || matches!(event.category, Category::None | Category::Trace)
        {
            return;
        }
        let name = event.name.as_str();
        // Most events are operators, which have neither.
        let args = if event.may_tell("correlation") || event.may_tell("stream") {
            event.args()
        } else {
            Args::default()
        };
        let stream = Args::integer(args.stream).unwrap_or(-1);
        let correlation = Args::integer(args.correlation).unwrap_or(-1);
        let is_on_device =
            (stream >= 0 && correlation >= 0) || name == "Event Sync" || name == "Context Sync";
        if is_on_device {
            if stream != -1 {
                self.on_stream.push(OnStream {
                    correlation,
                    stream,
                    start,
                    end: start + duration,
                    class: Class::of(name),
                    is_work: event.category.is_work(),
                });
            }
            return;
        }
        if index == 0 {
            self.first = Some(start);
        }
        if correlation != -1 {
            let launched = self.launched.entry(correlation).or_default();
            if let Some(place) = launched.starts.get_mut(launched.count as usize) {
                *place = start;
            }
            launched.count += 1;
            launched.last = (index, start);
        }
        if name.contains("ProfilerStep") {
            if !self.steps.contains(name) {
                self.steps.insert(name.to_owned());
            }
            self.last_step = Some(self.last_step.map_or(start, |last| last.max(start)));
        }
    }

    /// Returns the names of the steps. The filter applies if all ranks together have two.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(String::as_str)
    }

    /// Converts a time to whole µs. Starts are rounded up and ends down if the file has fractions.
    fn up(&self, time: f64) -> i64 {
        if self.is_fractional {
            time.ceil() as i64
        } else {
            time as i64
        }
    }

    fn down(&self, time: f64) -> i64 {
        if self.is_fractional {
            time.floor() as i64
        } else {
            time as i64
        }
    }

    /// Computes the figures of one rank. `is_filtered`: kernels of the last step, and kernels without a launch, are
    /// left out.
    pub fn figures(&self, rank: u32, is_filtered: bool) -> HtaFigures {
        let last_step = self.last_step.map_or(i64::MIN, |start| self.up(start));
        let is_before = |start: f64| self.up(start) < last_step;
        let mut kernels: Vec<Kernel> = Vec::new();
        for event in &self.on_stream {
            let launched = self.launched.get(&event.correlation);
            // The source joins tables: a kernel appears once for each of its host events.
            let times = match launched {
                _ if !is_filtered => 1,
                None => 0,
                Some(launched) => {
                    let known = &launched.starts[..(launched.count as usize).min(2)];
                    known.iter().filter(|&&start| is_before(start)).count()
                }
            };
            let launch = match launched {
                // The launch is not in the trace. The first event of the file takes its place.
                None => self.first.filter(|_| event.correlation > 0),
                Some(launched) if launched.last.0 == 0 => self.first,
                Some(launched) => Some(launched.last.1),
            };
            let launch = launch.filter(|&start| !is_filtered || is_before(start));
            for _ in 0..times {
                kernels.push(Kernel {
                    stream: event.stream,
                    start: self.up(event.start),
                    end: self.down(event.end),
                    launch: launch.map(|start| self.up(start)),
                    class: event.class,
                    is_work: event.is_work,
                });
            }
        }
        let merged = |class: Option<Class>| {
            merge(
                kernels
                    .iter()
                    .filter(|kernel| class.is_none_or(|class| kernel.class == class))
                    .map(|kernel| Span {
                        start_us: kernel.start,
                        end_us: kernel.end,
                    })
                    .collect(),
            )
        };
        let (all, compute, communication) = (
            merged(None),
            merged(Some(Class::Compute)),
            merged(Some(Class::Communication)),
        );
        let shared = intersection(&compute, &communication);
        let overlap = ratio(shared, length(&communication));
        let kernel_us = match (all.first(), all.last()) {
            (Some(first), Some(last)) => last.end_us - first.start_us,
            _ => 0,
        };
        let idle_us = kernel_us - length(&all);
        let compute_us = length(&compute);
        let non_compute_us = kernel_us - compute_us - idle_us;
        let percent = |part: i64| ratio(part, kernel_us).map(|ratio| hundredths(100.0 * ratio));
        HtaFigures {
            overlap: vec![HtaOverlap {
                rank,
                comp_comm_overlap_pctg: overlap.map(|ratio| hundredths(100.0 * ratio)),
            }],
            temporal: vec![HtaTemporal {
                rank,
                idle_us,
                compute_us,
                non_compute_us,
                kernel_us,
                idle_pctg: percent(idle_us),
                compute_pctg: percent(compute_us),
                non_compute_pctg: percent(non_compute_us),
            }],
            idle: idle(rank, &kernels),
        }
    }
}

/// Kernel that passed the filter, in whole µs.
struct Kernel {
    stream: i64,
    start: i64,
    end: i64,
    launch: Option<i64>,
    class: Class,
    is_work: bool,
}

/// A time span in whole µs, as the figures are computed in.
#[derive(Clone, Copy)]
struct Span {
    start_us: i64,
    end_us: i64,
}

fn ratio(part: i64, whole: i64) -> Option<f64> {
    (whole != 0).then(|| part as f64 / whole as f64)
}

/// Rounds as numpy does.
fn hundredths(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

/// `merge_kernel_intervals`: a kernel opens a new interval if it starts after the end of all earlier ones. Rounding may
/// place an end before its start. Such a kernel still opens an interval.
fn merge(mut kernels: Vec<Span>) -> Vec<Span> {
    kernels.sort_by_key(|kernel| kernel.start_us);
    let mut merged: Vec<Span> = Vec::new();
    for kernel in kernels {
        match merged.last_mut() {
            Some(last) if kernel.start_us <= last.end_us => last.end_us = last.end_us.max(kernel.end_us),
            _ => merged.push(kernel),
        }
    }
    merged
}

/// Returns the total length of merged spans, in µs. The analysis has the same functions for
/// nanoseconds, but Holistic Trace Analysis counts in whole microseconds.
fn length(spans: &[Span]) -> i64 {
    spans.iter().map(|span| span.end_us - span.start_us).sum()
}

/// Returns the length of the intersection of two lists of merged spans, in µs.
fn intersection(one: &[Span], other: &[Span]) -> i64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while let (Some(a), Some(b)) = (one.get(i), other.get(j)) {
        sum += (a.end_us.min(b.end_us) - a.start_us.max(b.start_us)).max(0);
        if a.end_us <= b.end_us { i += 1 } else { j += 1 }
    }
    sum
}

fn idle(rank: u32, kernels: &[Kernel]) -> Vec<HtaIdle> {
    let mut streams: Vec<i64> = Vec::new();
    let mut by_stream: FxHashMap<i64, Vec<&Kernel>> = FxHashMap::default();
    for kernel in kernels.iter().filter(|kernel| kernel.is_work) {
        let of_stream = by_stream.entry(kernel.stream).or_default();
        if of_stream.is_empty() {
            streams.push(kernel.stream);
        }
        of_stream.push(kernel);
    }
    let mut rows = Vec::new();
    for stream in streams {
        let Some(mut of_stream) = by_stream.remove(&stream) else {
            continue;
        };
        of_stream.sort_by_key(|kernel| kernel.start);
        // The first kernel has no gap before it, and counts as "other".
        let mut sums: [Option<i64>; 3] = [None, None, Some(0)];
        for pair in of_stream.windows(2) {
            let gap = pair[1].start - pair[0].end;
            let cause = if pair[1].launch.is_some_and(|launch| launch > pair[0].end) {
                0
            } else if gap < KERNEL_DELAY_US {
                1
            } else {
                2
            };
            *sums[cause].get_or_insert(0) += gap;
        }
        let total: i64 = sums.iter().flatten().sum();
        for (cause, sum) in CAUSES.iter().zip(sums) {
            if let Some(sum) = sum {
                rows.push(HtaIdle {
                    rank,
                    stream,
                    idle_category: (*cause).to_owned(),
                    idle_time_us: sum,
                    idle_time_ratio: ratio(sum, total).map(hundredths),
                });
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use rankscope_formats::kineto::{self, Part};

    fn read(events: &[&str]) -> HtaTrace {
        let mut trace = HtaTrace::default();
        for (index, text) in (0..).zip(events) {
            kineto::read(format!("[{text}]").as_bytes(), &mut |_, part| {
                if let Part::Event(event) = part {
                    trace.add(index, &event);
                }
            });
        }
        trace
    }

    /// Computed by hand: computation from 10 to 20 and 40 to 50, communication from 15 to 45. The window of 40 has no
    /// idle time.
    #[test]
    fn figures_of_a_small_trace() {
        let trace = read(&[
            r#"{"ph":"X","cat":"cpu_op","name":"a","ts":0,"dur":1}"#,
            r#"{"ph":"X","cat":"cuda_runtime","name":"l","ts":1,"dur":1,"args":{"correlation":1}}"#,
            r#"{"ph":"X","cat":"cuda_runtime","name":"l","ts":2,"dur":1,"args":{"correlation":2}}"#,
            r#"{"ph":"X","cat":"cuda_runtime","name":"l","ts":30,"dur":1,"args":{"correlation":3}}"#,
            r#"{"ph":"X","cat":"kernel","name":"gemm","ts":10,"dur":10,"args":{"correlation":1,"stream":7}}"#,
            r#"{"ph":"X","cat":"kernel","name":"ncclDevKernel_X","ts":15,"dur":30,"args":{"correlation":2,"stream":9}}"#,
            r#"{"ph":"X","cat":"kernel","name":"gemm","ts":40,"dur":10,"args":{"correlation":3,"stream":7}}"#,
        ]);
        let figures = trace.figures(0, false);
        assert_eq!(figures.overlap[0].comp_comm_overlap_pctg, Some(33.33));
        let temporal = &figures.temporal[0];
        assert_eq!(
            (
                temporal.idle_us,
                temporal.compute_us,
                temporal.non_compute_us,
                temporal.kernel_us
            ),
            (0, 20, 20, 40)
        );
        let rows: Vec<(i64, &str, i64)> = figures
            .idle
            .iter()
            .map(|row| (row.stream, row.idle_category.as_str(), row.idle_time_us))
            .collect();
        assert_eq!(rows, [(7, "host_wait", 20), (7, "other", 0), (9, "other", 0)]);
        assert_eq!(figures.idle[2].idle_time_ratio, None, "nothing of nothing");
    }

    #[test]
    fn classes_are_those_of_the_three_expressions() {
        for (name, class) in [
            ("ncclKernel_AllReduce_RING_LL_Sum_float", Class::Communication),
            ("ncclDevKernel_AllReduce", Class::Communication),
            ("nccl_all_reduce", Class::Compute),
            ("Memcpy DtoD (Device -> Device)", Class::Memory),
            ("Memset (Device)", Class::Memory),
            ("dma_thing", Class::Memory),
            ("my_Memcpy_kernel", Class::Other),
            ("my_Memset_kernel", Class::Compute),
            ("Event Sync", Class::Other),
            ("gemm", Class::Compute),
        ] {
            assert_eq!(Class::of(name), class, "{name}");
        }
    }
}
