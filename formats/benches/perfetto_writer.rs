//! Benchmark of the Perfetto writer on one core.
//!
//! The data has the shape of an exported job: slices of communication calls with a category, eight arguments (two of
//! them strings) and one flow each. It prints bytes per slice in addition to criterion's slices per second.

use std::hint::black_box;
use std::io;

use criterion::{Criterion, Throughput};
use rankscope_formats::perfetto::{
    Arg, ArgValue, ClockAnchor, CounterUnit, CounterValue, FlowId, Options, ProcessTrack, Slice, ThreadTrack,
    TraceWriter, Written,
};

const RANKS: u64 = 8;
const NAMES: [&str; 4] = [
    "all_reduce",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "broadcast",
];
const TYPES: [&str; 3] = ["bfloat16", "float32", "int64"];

/// Writes `slices` slices to a sink, with `args` of the eight arguments each.
fn write(slices: u64, args: usize, counters: bool) -> Written {
    // Start of 2025 (2025-01-01) on the wall clock, two weeks after boot.
    let anchor = ClockAnchor {
        trace_ns: 1_209_600_000_000_000,
        realtime_ns: 1_735_689_600_000_000_000,
    };
    let options = Options {
        check_flows: false,
        ..Options::default()
    };
    let mut writer = TraceWriter::new(io::sink(), anchor, options).expect("a trace");
    let ranks: Vec<_> = (0..RANKS)
        .map(|rank| {
            let name = format!("rank {rank}");
            let process = ProcessTrack {
                pid: 1000 + rank as u32,
                name: &name,
                ..Default::default()
            };
            let process = writer.process(&process).expect("a process");
            let thread = ThreadTrack {
                tid: 1000 + rank,
                name: "main",
                rank: 0,
            };
            let thread = writer.thread(process, &thread).expect("a thread");
            let counter = writer
                .counter(Some(process), "bytes in flight", CounterUnit::Bytes)
                .expect("a counter");
            (thread, counter)
        })
        .collect();
    for i in 0..slices {
        let (thread, counter) = ranks[(i % RANKS) as usize];
        let instance = i / RANKS;
        let start_ns = anchor.trace_ns + instance * 31_000 + i % 7;
        let all: [Arg<'_>; 8] = [
            ("communicator", ArgValue::Str("world/default_pg")),
            ("type", ArgValue::Str(TYPES[(instance % 3) as usize])),
            ("sequence", ArgValue::Uint(instance)),
            ("bytes", ArgValue::Uint(1 << (10 + instance % 16))),
            ("wait_ns", ArgValue::Uint(instance % 20_000)),
            ("transfer_ns", ArgValue::Uint(9_000 + instance % 1000)),
            ("algbw_GBps", ArgValue::Double(12.5 + instance as f64 * 1e-6)),
            ("arrival", ArgValue::Int((i % RANKS) as i64)),
        ];
        let slice = Slice {
            start_ns,
            duration_ns: 20_000 + i % 997,
            name: NAMES[(instance % 4) as usize],
            category: "gloo",
            args: &all[..args],
            flows: &[FlowId::MIN.saturating_add(instance)],
            ends: &[],
        };
        writer.slice(thread, black_box(&slice)).expect("a slice");
        if counters {
            writer
                .counter_value(counter, start_ns, CounterValue::Int(i as i64))
                .expect("a value");
        }
    }
    writer.finish().expect("the trace").1
}

fn main() {
    const SLICES: u64 = 100_000;
    let mut criterion = Criterion::default().configure_from_args().sample_size(20);
    let mut group = criterion.benchmark_group("perfetto_writer");
    group.throughput(Throughput::Elements(SLICES));
    for (name, args, counters) in [
        ("slices, 8 args", 8, false),
        ("slices, no args", 0, false),
        ("slices, 8 args, a counter value", 8, true),
    ] {
        let bytes = write(SLICES, args, counters).bytes;
        eprintln!("{name}: {:.1} bytes per slice", bytes as f64 / SLICES as f64);
        group.bench_function(name, |bencher| bencher.iter(|| write(SLICES, args, counters)));
    }
    group.finish();
    criterion.final_summary();
}
