//! Compares the slices, flows, arguments and counter values that the real engine reads with those that were written.

mod engine;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use engine::{assert_clean, available, number, query};
use rankscope_formats::perfetto::{
    Arg, ArgValue, ChildOrder, ClockAnchor, CounterUnit, CounterValue, FlowId, Hosts, Instant, LaneStyle,
    Lanes, Options, ProcessTrack, Slice, ThreadTrack, TraceWriter, TrackId, TrackOptions, Written,
};

const START: u64 = 1_209_600_000_000_000;
const ANCHOR: ClockAnchor = ClockAnchor {
    trace_ns: START,
    realtime_ns: 1_735_689_600_000_000_000,
};

/// Expected slice or instant. Its argument "i" is its index in the list.
struct Expected {
    start: u64,
    duration: u64,
    name: String,
    category: &'static str,
    process: String,
}

/// Writer that also stores what it expects the engine to read.
struct Job {
    writer: TraceWriter<File>,
    slices: Vec<Expected>,
    /// Arrows, as (i of the source, i of the sink).
    flows: BTreeSet<(usize, usize)>,
}

impl Job {
    fn create(path: &Path, options: Options) -> Self {
        let file = File::create(path).expect("a file");
        let writer = TraceWriter::new(file, ANCHOR, options).expect("a trace");
        Job {
            writer,
            slices: Vec::new(),
            flows: BTreeSet::new(),
        }
    }

    /// Writes a slice and returns its number.
    fn slice(&mut self, track: TrackId, process: &str, slice: &Slice<'_>) -> usize {
        let i = self.slices.len();
        let mut args: Vec<Arg<'_>> = vec![("i", ArgValue::Uint(i as u64))];
        args.extend(slice.args);
        self.writer
            .slice(
                track,
                &Slice {
                    args: &args,
                    ..*slice
                },
            )
            .expect("a slice");
        self.slices.push(Expected {
            start: slice.start_ns,
            duration: slice.duration_ns,
            name: slice.name.to_owned(),
            category: if slice.category.is_empty() {
                "[NULL]"
            } else {
                "gloo"
            },
            process: process.to_owned(),
        });
        i
    }

    /// Finishes the trace, and compares slices, arrows and totals with those of the engine.
    fn confirm(self, path: &Path) -> Written {
        let (_, written) = self.writer.finish().expect("finishes");
        assert_eq!(written.bytes, std::fs::metadata(path).expect("the file").len());
        assert_clean(path);
        let [slices, flows, args, counters, processes] = query(
            path,
            [
                "select extract_arg(s.arg_set_id, 'debug.i'), s.ts, s.dur, s.name, s.category, \
                 coalesce(p1.name, p2.name) from slice s left join process_track pt on s.track_id = pt.id \
                 left join process p1 on pt.upid = p1.upid left join thread_track tt on s.track_id = tt.id \
                 left join thread t on tt.utid = t.utid left join process p2 on t.upid = p2.upid order by 1",
                "select extract_arg(o.arg_set_id, 'debug.i'), extract_arg(i.arg_set_id, 'debug.i') \
                 from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id",
                "select count(*) from slice join args using (arg_set_id) where key glob 'debug.*'",
                "select count(*) from counter",
                "select count(distinct upid) from process where name glob 'rank*'",
            ],
        );
        assert_eq!(slices.len() as u64, written.slices + written.instants);
        assert_eq!(slices.len(), self.slices.len());
        for (i, (found, expected)) in slices.iter().zip(&self.slices).enumerate() {
            let Expected {
                start,
                duration,
                name,
                category,
                process,
            } = expected;
            let expected = [
                i.to_string(),
                start.to_string(),
                duration.to_string(),
                name.clone(),
                (*category).to_owned(),
                process.clone(),
            ];
            assert_eq!(found[..], expected);
        }
        let cell = |cell: &String| cell.parse::<usize>().expect("a number");
        assert_eq!(flows.len(), self.flows.len(), "no arrow twice");
        let flows: BTreeSet<_> = flows.iter().map(|row| (cell(&row[0]), cell(&row[1]))).collect();
        assert_eq!(flows, self.flows);
        assert_eq!(number(&args), written.args);
        assert_eq!(number(&counters), written.counter_values);
        let expected: BTreeSet<_> = self.slices.iter().map(|slice| &slice.process).collect();
        assert_eq!(number(&processes), expected.len() as u64);
        written
    }
}

fn flow(number: usize) -> FlowId {
    FlowId::new(number as u64 + 1).expect("not 0")
}

/// Twelve ranks on three hosts with equal pids, 100,000 slices in lanes, a flow through every instance, and ties of
/// every kind. The limit for interned strings is so small that interning starts again many times.
#[test]
fn a_large_job_is_read_as_written() {
    if !available("the Perfetto engine's count of 100,000 slices") {
        return;
    }
    const HOSTS: usize = 3;
    const RANKS: usize = 12;
    const INSTANCES: usize = 8_000;
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("job.pftrace");
    let options = Options {
        interned_bytes: 6_000,
        check_flows: true,
        ..Options::default()
    };
    let mut job = Job::create(&path, options);
    let facts = [("org.rankscope.version", "0.1.0")];
    job.writer.attributes(&facts).expect("facts");
    for host in 0..HOSTS {
        job.writer
            .host(host as u32, &format!("node{host}"))
            .expect("a host");
    }
    let names: Vec<_> = (0..RANKS).map(|rank| format!("rank {rank}")).collect();
    let mut lanes = Vec::new();
    let mut threads = Vec::new();
    let mut counters = Vec::new();
    for (rank, name) in names.iter().enumerate() {
        let process = ProcessTrack {
            pid: 100 + (rank / HOSTS) as u32,
            name,
            labels: &["cuda:0"],
            host: (rank % HOSTS) as u32,
            rank: rank as i32,
            start_ns: None,
        };
        let process = job.writer.process(&process).expect("a process");
        let tid = 100 + (rank / HOSTS) as u64;
        let main = ThreadTrack {
            tid,
            name: "main",
            rank: 0,
        };
        let worker = ThreadTrack {
            tid: 5000,
            name: "worker",
            rank: 1,
        };
        threads.push([&main, &worker].map(|thread| job.writer.thread(process, thread).expect("a thread")));
        let group = TrackOptions {
            name: "communicators",
            child_order: ChildOrder::Rank,
            ..Default::default()
        };
        let group = job.writer.track(Some(process), &group).expect("a group");
        let style = if rank % 2 == 0 {
            LaneStyle::Merged
        } else {
            LaneStyle::Numbered
        };
        let options = TrackOptions {
            name: "world",
            rank: Some(1),
            ..Default::default()
        };
        lanes.push(Lanes::new(Some(group), &options, style));
        let unit = [CounterUnit::Bytes, CounterUnit::Count, CounterUnit::Named("GB/s")][rank % 3];
        counters.push(
            job.writer
                .counter(Some(process), "in flight", unit)
                .expect("a counter"),
        );
    }
    // Rank after rank, as an exporter streams logs, so that the slices of a flow are far from time order.
    let mut by_instance: Vec<Vec<(u64, usize)>> = vec![Vec::new(); INSTANCES];
    for rank in 0..RANKS {
        let mut previous_ns = 0;
        for (instance, members) in by_instance.iter_mut().enumerate() {
            // Three slices are open at the same time, every fourth has no length, and consecutive slices touch.
            let start_ns =
                START + instance as u64 * 1000 + (rank as u64 * 7 + instance as u64 * 13) % 5 * 100;
            let start_ns = start_ns.max(previous_ns);
            previous_ns = start_ns;
            let duration_ns = if instance % 4 == 3 { 0 } else { 3000 };
            let track = lanes[rank]
                .place(&mut job.writer, start_ns, duration_ns)
                .expect("a lane");
            let key = format!("world:{}", instance % 500);
            let args: [Arg<'_>; 7] = [
                ("key", ArgValue::Str(&key)),
                ("bytes", ArgValue::Uint(1 << (instance % 40))),
                ("wait_ns", ArgValue::Int(-(instance as i64))),
                ("algbw", ArgValue::Double(instance as f64 / 7.0)),
                ("late", ArgValue::Bool(rank == 3)),
                ("comm", ArgValue::Pointer(0x7fff_0000_0000 + rank as u64)),
                ("sizes", ArgValue::List(&[ArgValue::Int(1), ArgValue::Int(2)])),
            ];
            let slice = Slice {
                start_ns,
                duration_ns,
                name: ["all_reduce", "broadcast", "barrier"][instance % 3],
                category: "gloo",
                args: &args,
                flows: &[flow(instance)],
                ends: &[],
            };
            let i = job.slice(track, &names[rank], &slice);
            members.push((start_ns, i));
            if instance % 16 == 0 {
                let value = if rank % 2 == 0 {
                    CounterValue::Int(instance as i64)
                } else {
                    CounterValue::Double(instance as f64 / 3.0)
                };
                job.writer
                    .counter_value(counters[rank], start_ns, value)
                    .expect("a value");
            }
        }
        // Main thread: nested, touching and empty slices at the same time.
        for step in 0..500u64 {
            let at = START + step * 1000;
            for (from, to) in [
                (0, 1000),
                (0, 1000),
                (0, 400),
                (400, 400),
                (400, 1000),
                (1000, 1000),
            ] {
                let slice = Slice {
                    start_ns: at + from,
                    duration_ns: to - from,
                    name: "step",
                    ..Slice::default()
                };
                // The last slice of a step starts when the next step starts, so it goes to the other thread.
                job.slice(threads[rank][usize::from(from == 1000)], &names[rank], &slice);
            }
        }
    }
    // The engine draws the arrows of each instance in the order of time, and in the order of the file at equal times.
    for members in &mut by_instance {
        members.sort_unstable();
        job.flows
            .extend(members.windows(2).map(|pair| (pair[0].1, pair[1].1)));
    }
    let written = job.confirm(&path);
    assert_eq!(written.slices, (RANKS * (INSTANCES + 500 * 6)) as u64);
    assert!(written.slices > 100_000);
    assert!(written.interning_restarts > 100, "{written:?}");

    let [processes, counters, merged, facts, sums] = query(
        &path,
        [
            "select p.name, group_concat(a.display_value, '|') from process p join args a using (arg_set_id) \
             where a.key glob 'chrome.process_label*' group by p.upid order by p.upid limit 4",
            "select t.unit, count(*), sum(c.value) from counter c join counter_track t on c.track_id = t.id \
             where t.name = 'in flight' group by t.unit order by 1",
            "select count(*) from track where name = 'world 2'",
            "select str_value from metadata where name = 'trace_attribute.org.rankscope.version'",
            "select key, count(*), count(distinct display_value) from slice join args using (arg_set_id) \
             where category = 'gloo' and key glob 'debug.*' group by key order by key",
        ],
    );
    assert_eq!(processes[0], ["rank 0", "node0|cuda:0"]);
    assert_eq!(processes[1], ["rank 1", "node1|pid 100|cuda:0"]);
    assert_eq!(processes[3], ["rank 3", "node0|cuda:0"]);
    let samples = (INSTANCES / 16 * RANKS / 3) as u64;
    for (row, unit) in counters.iter().zip(["GB/s", "bytes", "count"]) {
        assert_eq!(row[..2], [unit.to_owned(), samples.to_string()]);
    }
    assert_eq!(number(&merged), RANKS as u64 / 2, "numbered lanes are not merged");
    assert_eq!(facts, [["0.1.0"]]);
    let sums: BTreeMap<_, _> = sums
        .iter()
        .map(|row| (row[0].as_str(), (row[1].as_str(), row[2].as_str())))
        .collect();
    let total = (RANKS * INSTANCES).to_string();
    for (key, distinct) in [
        ("key", 500),
        ("bytes", 40),
        ("late", 2),
        ("comm", RANKS),
        ("sizes[0]", 1),
    ] {
        let found = sums[format!("debug.{key}").as_str()];
        assert_eq!(found, (total.as_str(), distinct.to_string().as_str()), "{key}");
    }
}

/// One argument of every type and extreme value, instants, flows that end, and the maximum nesting depth.
#[test]
fn every_kind_of_thing_is_read_as_written() {
    if !available("the Perfetto engine's view of every argument type") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kinds.pftrace");
    let mut job = Job::create(
        &path,
        Options {
            check_flows: true,
            ..Options::default()
        },
    );
    let rank = ProcessTrack {
        pid: 1,
        name: "rank 0",
        ..Default::default()
    };
    let process = job.writer.process(&rank).expect("a process");
    let other = job
        .writer
        .process(&ProcessTrack {
            name: "rank 1",
            ..rank
        })
        .expect("a process");
    assert_eq!(job.writer.pid(process), Some(1));
    assert_ne!(job.writer.pid(other), Some(1));
    let main = job
        .writer
        .thread(
            process,
            &ThreadTrack {
                tid: 1,
                name: "main",
                rank: 0,
            },
        )
        .expect("a thread");
    let args: [Arg<'_>; 16] = [
        ("bool", ArgValue::Bool(false)),
        ("int", ArgValue::Int(i64::MIN)),
        ("uint", ArgValue::Uint(i64::MAX as u64)),
        ("double", ArgValue::Double(0.1)),
        ("nan", ArgValue::Double(f64::NAN)),
        ("infinite", ArgValue::Double(f64::NEG_INFINITY)),
        ("str", ArgValue::Str("interned")),
        ("text", ArgValue::Text("in place")),
        ("empty str", ArgValue::Str("")),
        ("empty text", ArgValue::Text("")),
        ("unicode", ArgValue::Str("größer → 火")),
        ("pointer", ArgValue::Pointer(0xdead_beef)),
        (
            "list",
            ArgValue::List(&[ArgValue::Int(1), ArgValue::Str("b"), ArgValue::Bool(true)]),
        ),
        (
            "dict",
            ArgValue::Dict(&[
                ("a", ArgValue::Int(1)),
                ("b", ArgValue::List(&[ArgValue::Int(2)])),
            ]),
        ),
        ("empty list", ArgValue::List(&[])),
        ("empty dict", ArgValue::Dict(&[])),
    ];
    let slice = Slice {
        start_ns: START,
        duration_ns: 10,
        name: "everything",
        category: "gloo",
        ..Slice::default()
    };
    let source = job.slice(
        main,
        "rank 0",
        &Slice {
            args: &args,
            flows: &[flow(1), flow(2)],
            ..slice
        },
    );
    // At the same time but later in the file, so the arrow must exist.
    let sink = job.slice(
        other,
        "rank 1",
        &Slice {
            ends: &[flow(1)],
            ..slice
        },
    );
    job.flows.insert((source, sink));
    // Its flow ends in an instant, at which another flow starts.
    let i = job.slices.len();
    let instant = Instant {
        time_ns: START + 5,
        name: "mark",
        category: "gloo",
        args: &[("i", ArgValue::Uint(i as u64))],
        flows: &[flow(3)],
        ends: &[flow(2)],
    };
    job.writer.instant(other, &instant).expect("an instant");
    job.slices.push(Expected {
        start: START + 5,
        duration: 0,
        name: "mark".into(),
        category: "gloo",
        process: "rank 1".into(),
    });
    job.flows.insert((source, i));
    let last = job.slice(
        main,
        "rank 0",
        &Slice {
            start_ns: START + 20,
            ends: &[flow(3)],
            ..slice
        },
    );
    job.flows.insert((i, last));
    for depth in 0..511 {
        let deep = Slice {
            start_ns: START + 1000,
            duration_ns: 1000 - depth,
            name: "deep",
            ..Slice::default()
        };
        job.slice(main, "rank 0", &deep);
    }
    let deeper = Slice {
        start_ns: START + 1000,
        duration_ns: 1,
        name: "deeper",
        ..Slice::default()
    };
    assert!(job.writer.slice(main, &deeper).is_err());
    let counter = job
        .writer
        .counter(Some(main), "per thread", CounterUnit::Nanoseconds)
        .expect("a counter");
    for value in [
        CounterValue::Int(-1),
        CounterValue::Int(1 << 53),
        CounterValue::Double(-0.5),
    ] {
        job.writer.counter_value(counter, START, value).expect("a value");
    }
    job.confirm(&path);

    let [found, depth, values, names] = query(
        &path,
        [
            "select key, coalesce(display_value, '[NULL]') from slice join args using (arg_set_id) \
             where name = 'everything' and dur = 10 and ts = (select min(ts) from slice) \
             and key glob 'debug.*' and key <> 'debug.i' order by key",
            "select max(depth) from slice",
            "select value from counter order by value",
            "select t.name, t.tid = p.pid from thread t join process p using (upid) where t.name = 'main'",
        ],
    );
    let expected = [
        ("bool", "false"),
        ("dict.a", "1"),
        ("dict.b[0]", "2"),
        ("double", "0.1"),
        ("empty dict", "{}"),
        ("empty list", "[]"),
        ("empty str", ""),
        ("empty text", ""),
        ("infinite", "-inf"),
        ("int", "-9223372036854775808"),
        ("list[0]", "1"),
        ("list[1]", "b"),
        ("list[2]", "true"),
        ("nan", "NaN"),
        ("pointer", "0xdeadbeef"),
        ("str", "interned"),
        ("text", "in place"),
        ("uint", "9223372036854775807"),
        ("unicode", "größer → 火"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(key, value)| [format!("debug.{key}"), (*value).to_owned()])
        .collect();
    assert_eq!(found, expected);
    assert_eq!(number(&depth), 510);
    assert_eq!(values, [["-1"], ["-0.5"], ["9007199254740992"]]);
    assert_eq!(names, [["main", "1"]]);
}

/// Hosts as separate machines: equal pids are kept, and every machine has separate interned strings.
#[test]
fn hosts_can_be_machines() {
    if !available("the Perfetto engine's view of several machines") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("machines.pftrace");
    let options = Options {
        hosts: Hosts::Machines,
        check_flows: true,
        interned_bytes: 500,
        ..Options::default()
    };
    let mut job = Job::create(&path, options);
    let mut tracks = Vec::new();
    let names: Vec<_> = (0..6).map(|rank| format!("rank {rank}")).collect();
    for (rank, name) in names.iter().enumerate() {
        let host = rank as u32 % 3;
        job.writer.host(host, &format!("node{host}")).expect("a host");
        let process = ProcessTrack {
            pid: 10 + rank as u32 / 3,
            name,
            host,
            ..Default::default()
        };
        let process = job.writer.process(&process).expect("a process");
        assert_eq!(job.writer.pid(process), Some(10 + rank as u32 / 3));
        tracks.push(
            job.writer
                .thread(
                    process,
                    &ThreadTrack {
                        tid: 77,
                        name: "worker",
                        rank: 0,
                    },
                )
                .expect("a thread"),
        );
    }
    for step in 0..200u64 {
        for rank in 0..6 {
            let text = format!("text {}", step % 20);
            let slice = Slice {
                start_ns: START + step * 10,
                duration_ns: 10,
                name: "op",
                category: "gloo",
                args: &[("text", ArgValue::Str(&text))],
                ..Slice::default()
            };
            // Flows stay on their machine: they connect ranks r and r + 3.
            let number = step as usize * 3 + rank % 3;
            let i = if rank < 3 {
                job.slice(
                    tracks[rank],
                    &names[rank],
                    &Slice {
                        flows: &[flow(number)],
                        ..slice
                    },
                )
            } else {
                job.slice(
                    tracks[rank],
                    &names[rank],
                    &Slice {
                        ends: &[flow(number)],
                        ..slice
                    },
                )
            };
            if rank >= 3 {
                job.flows.insert((i - 3, i));
            }
        }
    }
    let across = Slice {
        start_ns: START + 1_000_000,
        duration_ns: 1,
        name: "across",
        ..Slice::default()
    };
    job.slice(
        tracks[0],
        "rank 0",
        &Slice {
            flows: &[flow(9999)],
            ..across
        },
    );
    assert!(
        job.writer
            .slice(
                tracks[1],
                &Slice {
                    ends: &[flow(9999)],
                    ..across
                }
            )
            .is_err()
    );
    let written = job.confirm(&path);
    assert!(written.interning_restarts > 0);
    let [pids, texts] = query(
        &path,
        [
            "select machine_id, group_concat(pid) from process where name glob 'rank*' group by machine_id",
            "select count(*) from slice join args using (arg_set_id) where key = 'debug.text' \
             and string_value = 'text ' || ((ts - (select min(ts) from slice)) / 10 % 20)",
        ],
    );
    assert_eq!(pids, [["0", "10,11"], ["1", "10,11"], ["2", "10,11"]]);
    assert_eq!(number(&texts), 1200);
}

/// Parts that were written in parallel and then concatenated.
#[test]
fn shards_concatenate() {
    if !available("the Perfetto engine's view of concatenated parts") {
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("whole.pftrace");
    let mut whole = Vec::new();
    for shard in 0..3u16 {
        let options = Options {
            shard,
            check_flows: false,
            ..Options::default()
        };
        let mut writer = TraceWriter::new(Vec::new(), ANCHOR, options).expect("a trace");
        let name = format!("rank {shard}");
        let process = ProcessTrack {
            pid: 10 + u32::from(shard),
            name: &name,
            ..Default::default()
        };
        let process = writer.process(&process).expect("a process");
        for step in 0..100u64 {
            let name = format!("op {}", step % 10);
            let slice = Slice {
                start_ns: START + step * 10 + u64::from(shard),
                duration_ns: 10,
                name: &name,
                flows: &[flow(step as usize)],
                ..Slice::default()
            };
            writer.slice(process, &slice).expect("a slice");
        }
        whole.extend(writer.finish().expect("finishes").0);
    }
    std::fs::write(&path, whole).expect("written");
    assert_clean(&path);
    let [slices, flows, names] = query(
        &path,
        [
            "select count(*) from slice",
            "select count(*) from flow",
            "select name, count(*) from slice group by name order by name limit 1",
        ],
    );
    assert_eq!((number(&slices), number(&flows)), (300, 200));
    assert_eq!(names, [["op 0", "30"]]);
}
