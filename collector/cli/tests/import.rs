//! Tests the import of torch.profiler traces. They are written here event by event, so every figure is known by hand.

#[allow(dead_code, reason = "other tests use the rest")]
mod import_support;

use import_support::kineto::{BEGIN, span, write};
use import_support::nsys::report;
use rankscope_analysis::{MergeOptions, index, merge};
use rankscope_formats::index::{LaneKind, ViewFile, overhead, view_path};
use rankscope_formats::session::{
    Figure, ProblemSummary, Session, SpanKind, SpanRow, TableReader, rank_path,
};
use rankscope_import::{ImportError, ImportOptions, ReadOptions};
use rankscope_report::{Places, TextLayout};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn options(files: Vec<PathBuf>, output: &Path) -> ImportOptions {
    ImportOptions {
        files,
        output: output.to_path_buf(),
        read: ReadOptions {
            operators: false,
            hta: true,
        },
        ..ImportOptions::default()
    }
}

fn session(options: &ImportOptions) -> Session {
    rankscope_import::kineto(options, &|_| {}).expect("imported");
    merge(&MergeOptions::of_run(&options.output), &mut |_| {}).expect("merged")
}

#[test]
fn an_imported_job_has_the_figures_of_its_construction() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    let session = session(&options(write(work.path(), Some("node"), 0), &run));
    assert_eq!(
        session.imported.as_ref().map(|imported| imported.source.as_str()),
        Some("kineto")
    );
    assert!(
        session.problems.listed.is_empty(),
        "{:?}",
        session.problems.listed
    );
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (2, Some(2))
    );
    assert_eq!(session.hosts.len(), 1);
    assert_eq!(session.ranks[1].name, "rank 1");
    let class = &session.operations[0];
    assert_eq!(
        (class.operation.as_str(), class.operations, class.members),
        ("all-reduce", 12, 2)
    );
    // Rank 0 arrives 200 µs into the step, rank 1 at 350, and both leave at 500.
    assert_eq!(
        class.transfer_ns.value.as_ref().map(|times| times.p50),
        Some(150_000.0)
    );
    assert_eq!(class.exposed_wait_rank_ns, 6 * 150_000);
    // 4 MB in 150 µs is 26.7 GB/s. For two members the factor is 1.
    assert!(
        class.bus_bytes_per_s.value.is_none(),
        "a wait share of 33 % gives no bandwidth (METRICS.md, section 2)"
    );
    let rank_0 = &session.activity[0];
    assert!(rank_0.adds_up);
    let per_step = |ns: i64| ns * 1_000_000 / rank_0.window_ns;
    assert_eq!(per_step(rank_0.compute_only_ns), 100_000);
    assert_eq!(per_step(rank_0.exposed_communication_ns), 300_000);
    assert_eq!(per_step(rank_0.exposed_wait_ns), 150_000);
    assert_eq!(per_step(rank_0.idle_ns), 600_000);
    assert_eq!(session.activity[1].exposed_wait_ns, 0);
    assert_eq!(session.steps.source, "marks");
    let activity = &session.activity[0];
    assert_eq!((activity.kernels, activity.communication_kernels), (6, 6));
}

#[test]
fn a_trace_that_starts_earlier_is_matched_by_its_steps() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    let session = session(&options(write(work.path(), Some("node"), 3), &run));
    let class = &session.operations[0];
    assert_eq!(class.operations, 15);
    assert_eq!(
        class.exposed_wait_rank_ns,
        6 * 150_000,
        "the three before belong to nobody else"
    );
    assert_eq!(session.matching.incomplete, 3);
}

#[test]
fn without_a_host_name_there_is_no_common_clock_unless_it_is_declared() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), None, 0);
    let unknown = session(&options(files.clone(), &work.path().join("unknown")));
    assert_eq!(unknown.hosts.len(), 2);
    assert!(
        unknown
            .problems
            .listed
            .iter()
            .any(|problem| problem.what.contains("--one-host"))
    );
    let stated = ImportOptions {
        one_host: true,
        ..options(files, &work.path().join("stated"))
    };
    let stated = session(&stated);
    assert_eq!(stated.hosts.len(), 1);
    assert_eq!(stated.operations[0].exposed_wait_rank_ns, 6 * 150_000);
}

#[test]
fn hta_figures_are_computed_by_its_rules() {
    let work = tempfile::tempdir().expect("a folder");
    let session = session(&options(
        write(work.path(), Some("node"), 0),
        &work.path().join("run"),
    ));
    let figures = session
        .imported
        .and_then(|imported| imported.hta)
        .expect("asked for");
    // Without the last step there are five steps, from the first kernel at 100 to the end of the last one at 4500.
    let row = &figures.temporal[0];
    assert_eq!(
        (row.kernel_us, row.compute_us, row.non_compute_us),
        (4400, 500, 1500)
    );
    assert_eq!(row.idle_us, 2400);
    assert_eq!(row.idle_pctg, Some(54.55));
    assert_eq!(figures.overlap[0].comp_comm_overlap_pctg, Some(0.0));
    let rows: Vec<(i64, &str, i64)> = figures
        .idle
        .iter()
        .filter(|row| row.rank == 0)
        .map(|row| (row.stream, row.idle_category.as_str(), row.idle_time_us))
        .collect();
    // The gaps between kernels of one stream are 900 and 700 µs. Each kernel was launched after its predecessor had
    // ended.
    assert_eq!(
        rows,
        [
            (7, "host_wait", 3600),
            (7, "other", 0),
            (20, "host_wait", 2800),
            (20, "other", 0)
        ]
    );
}

#[test]
fn operators_are_kept_on_request() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let spans = |operators: bool, name: &str| {
        let run = work.path().join(name);
        let options = ImportOptions {
            read: ReadOptions {
                operators,
                hta: false,
            },
            ..options(files.clone(), &run)
        };
        let session = session(&options);
        assert!(session.imported.is_some_and(|imported| imported.hta.is_none()));
        session
            .tables
            .iter()
            .find(|table| table.name == "spans")
            .map_or(0, |table| table.rows)
    };
    assert_eq!(
        spans(true, "with") - spans(false, "without"),
        12,
        "record_param_comms of six steps and two ranks"
    );
}

/// Returns the events that torch.profiler writes about itself and the driver, all of them under process −1.
fn overheads() -> Vec<Value> {
    let at = |us: i64| (BEGIN + us) as f64;
    let event =
        |name: &str, thread: i64, ts: f64, dur: f64| span("overhead", name, (-1, thread), ts, dur, json!({}));
    vec![
        // 80 µs of recording, of which both threads lost 20 µs.
        event("Activity Buffer Request", 4000, at(60), 60.0),
        event("Instrumentation", 77, at(100), 40.0),
        event("Lazy Function Loading", 4000, at(1060), 500.0),
        event("Command Buffer Full", 4000, at(2060), 5.0),
        event("Something New", 0, at(3000), 20.0),
        // Such an event may come long after the profiler stopped, or far after everything that it recorded.
        event("Activity Buffer Request", 4000, at(9_000_000), 5_000_000.0),
    ]
}

#[test]
fn the_profilers_own_time_is_listed_separately_and_changes_no_other_figure() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let without = session(&options(files.clone(), &work.path().join("without")));
    let mut trace: Value =
        serde_json::from_str(&fs::read_to_string(&files[0]).expect("a trace")).expect("JSON");
    // The overhead comes first, where it could be mistaken for the process that the trace describes.
    trace["traceEvents"]
        .as_array_mut()
        .expect("events")
        .splice(1..1, overheads());
    fs::write(&files[0], trace.to_string()).expect("written");
    let run = work.path().join("with");
    let with = session(&options(files, &run));

    let mut expected = vec![
        (
            SpanKind::Recorder,
            4000,
            60_000,
            60_000,
            "activity buffer request",
        ),
        (SpanKind::Recorder, 77, 100_000, 40_000, "instrumentation"),
        (
            SpanKind::Driver,
            4000,
            1_060_000,
            500_000,
            "lazy function loading",
        ),
        (SpanKind::Driver, 4000, 2_060_000, 5_000, "command buffer full"),
        (SpanKind::Recorder, 0, 3_000_000, 20_000, "unknown"),
        (
            SpanKind::Recorder,
            4000,
            9_000_000_000,
            5_000_000_000,
            "activity buffer request",
        ),
    ];
    let directory = run.join("session");
    let rows: Vec<SpanRow> = TableReader::read_all(&rank_path::<SpanRow>(&directory, 0)).expect("a table");
    assert!(rows.is_sorted_by_key(|row| row.start_ns));
    let step = rows
        .iter()
        .find(|row| {
            row.name
                .as_deref()
                .is_some_and(|name| name.starts_with("ProfilerStep"))
        })
        .expect("a step");
    let reported = rows
        .iter()
        .filter(|row| matches!(row.kind, SpanKind::Recorder | SpanKind::Driver));
    let reported: Vec<_> = reported
        .map(|row| {
            let name = row.name.as_deref().expect("what for");
            (
                row.kind,
                row.thread_id,
                row.start_ns - step.start_ns,
                row.end_ns - row.start_ns,
                name,
            )
        })
        .collect();
    expected.sort_by_key(|row| row.2);
    assert_eq!(reported, expected);

    // 80 µs and 20 µs, each counted once. The driver's overhead is not the profiler's own, and later overhead was not
    // recorded.
    assert_eq!(with.activity[0].recorder_ns, Figure::known(100_000));
    let reason = "the recorder's overhead was not recorded";
    assert_eq!(with.activity[1].recorder_ns, Figure::unknown(reason));
    let other_figures = |session: &Session| {
        let mut session = session.clone();
        // Paths and amounts of records of the run are no figures of the job.
        session.written_unix_ns = 0;
        session.directories.clear();
        session.tables.clear();
        session.totals.records = 0;
        for activity in &mut session.activity {
            activity.recorder_ns = Figure::unknown(reason);
        }
        for rank in &mut session.ranks {
            rank.log.clear();
            (rank.log_bytes, rank.records) = (0, 0);
        }
        serde_json::to_value(session).expect("JSON")
    };
    let (one, other) = (other_figures(&without), other_figures(&with));
    for (field, value) in one.as_object().expect("an object") {
        assert_eq!(value, &other[field], "{field}");
    }

    // 100 of 6000 µs are reported.
    let message = rankscope_report::summary_text(&with, &Places::default(), &TextLayout::plain(200));
    assert!(
        message.contains("took up to 1.7 % of the recorded time"),
        "{message}"
    );
    assert!(
        !rankscope_report::summary_text(&without, &Places::default(), &TextLayout::plain(200))
            .contains("the overhead of CUPTI")
    );

    // The index has one overhead lane per thread, and lanes differ in the owner of the overhead.
    index::build(&directory, &with, 0, &AtomicBool::new(false)).expect("an index");
    let index = ViewFile::open(&view_path(&directory, 0)).expect("an index");
    let is_overhead = |kind: LaneKind| matches!(kind, LaneKind::Overhead { .. });
    let mut lanes: Vec<_> = index
        .lanes_of(is_overhead)
        .map(|(_, lane)| {
            let totals = lane.info.totals;
            (
                lane.info.kind,
                lane.info.spans,
                totals[usize::from(overhead::RECORDER)],
                totals[usize::from(overhead::DRIVER)],
            )
        })
        .collect();
    lanes.sort();
    let of = |thread_id| LaneKind::Overhead { thread_id };
    assert_eq!(
        lanes,
        [
            (of(0), 1, 20_000, 0),
            (of(77), 1, 40_000, 0),
            (of(4000), 4, 5_000_060_000, 505_000)
        ]
    );
    let calls = index.lanes_of(|kind| matches!(kind, LaneKind::Calls { .. }));
    for (_, lane) in calls {
        assert_eq!(lane.info.kind, LaneKind::Calls { thread_id: 4000 });
    }
}

#[test]
fn the_readable_part_of_a_torn_trace_is_kept_and_the_rest_is_named() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let whole = fs::read(&files[1]).expect("a trace");
    // serde_json writes members in alphabetical order: the identity of the trace precedes the events.
    let cut = whole.len() * 2 / 3;
    let torn = work.path().join("torn.json.gz");
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(&torn).expect("a file"),
        flate2::Compression::fast(),
    );
    gzip.write_all(&whole[..cut]).expect("written");
    gzip.finish().expect("written");
    let run = work.path().join("run");
    let imported = rankscope_import::kineto(&options(vec![files[0].clone(), torn.clone()], &run), &|_| {})
        .expect("imported");
    assert_eq!(imported.problems.len(), 1);
    let problem = &imported.problems[0];
    assert!(
        problem
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with("torn.json.gz"))
    );
    let offset = problem.offset_bytes.expect("an offset") as usize;
    assert!(
        offset <= cut && whole[offset] == b'{',
        "where the event begins that is cut: {offset}"
    );
    let session = merge(&MergeOptions::of_run(&run), &mut |_| {}).expect("merged");
    assert!(
        session
            .problems
            .listed
            .iter()
            .any(|problem| problem.what.contains("events before it were kept"))
    );
    assert!(session.activity[1].kernels > 0 && session.activity[1].kernels < 6);
    // A gzip stream that ends early is also reported.
    let bytes = fs::read(&torn).expect("a file");
    fs::write(&torn, &bytes[..bytes.len() / 2]).expect("written");
    let imported =
        rankscope_import::kineto(&options(vec![torn], &work.path().join("half")), &|_| {}).expect("imported");
    assert!(!imported.problems.is_empty());
}

#[test]
fn files_that_cannot_be_imported_are_refused_with_the_reason() {
    let work = tempfile::tempdir().expect("a folder");
    let files = write(work.path(), Some("node"), 0);
    let run = work.path().join("run");
    let twice = work.path().join("again.json");
    fs::copy(&files[0], &twice).expect("copied");
    let error = rankscope_import::kineto(&options(vec![files[0].clone(), twice], &run), &|_| {})
        .expect_err("two of a rank");
    assert!(
        matches!(error, ImportError::TwoOfARank { rank: 0, .. }),
        "{error}"
    );
    let other = work.path().join("other.json");
    fs::write(&other, r#"{"a": [1, 2]}"#).expect("written");
    // Next to a valid trace the file is only reported.
    let mixed = vec![files[0].clone(), other.clone()];
    let mixed_session = session(&options(mixed, &work.path().join("beside")));
    assert_eq!(mixed_session.coverage.ranks_seen, 1);
    let is_reported = |problem: &ProblemSummary| problem.what.contains("other.json is not a trace");
    assert!(
        mixed_session.problems.listed.iter().any(is_reported),
        "{:?}",
        mixed_session.problems
    );
    let error = rankscope_import::kineto(&options(vec![other], &run), &|_| {}).expect_err("no trace");
    assert!(
        matches!(error, ImportError::NoTrace(_)) && error.to_string().contains("other.json"),
        "{error}"
    );
    let error = rankscope_import::kineto(&options(vec![work.path().join("none")], &run), &|_| {})
        .expect_err("no file");
    assert!(matches!(error, ImportError::Io { .. }), "{error}");
}

#[test]
fn a_report_of_nsight_systems_is_a_run_of_all_its_processes() {
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("node7.sqlite");
    report(&path);
    let run = work.path().join("run");
    let imported = rankscope_import::nsys(&options(vec![path], &run), &|_| {}).expect("imported");
    assert_eq!(imported.logs.len(), 2);
    let session = merge(&MergeOptions::of_run(&run), &mut |_| {}).expect("merged");
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (2, Some(2))
    );
    assert_eq!(session.hosts[0].name, "node7");
    assert_eq!(
        session.imported.as_ref().map(|imported| imported.source.as_str()),
        Some("nsys")
    );
    let models = session
        .surroundings
        .iter()
        .filter(|found| found.property == "device_model");
    let models: Vec<(&str, u32)> = models.map(|found| (found.value.as_str(), found.ranks)).collect();
    assert_eq!(
        models,
        [("NVIDIA A100-SXM4-80GB", 1), ("NVIDIA H100 80GB HBM3", 1)]
    );
    let class = &session.operations[0];
    assert_eq!((class.operation.as_str(), class.operations), ("all-reduce", 16));
    // Rank 0's kernel starts 100 µs into the step, rank 1's at 300, and both end at 400.
    assert_eq!(class.exposed_wait_rank_ns, 8 * 200_000);
    assert_eq!(
        class.transfer_ns.value.as_ref().map(|times| times.p50),
        Some(100_000.0)
    );
    assert!(class.bytes.value.is_none(), "ranges tell no sizes");
    let rank_1 = &session.activity[1];
    assert_eq!((rank_1.kernels, rank_1.communication_kernels), (8, 8));
    assert!(rank_1.adds_up);
}

#[test]
fn a_damaged_report_is_imported_and_names_what_was_kept() {
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("report.sqlite");
    report(&path);
    let database = rusqlite::Connection::open(&path).expect("a database");
    // A row of a wrong type in the middle of a table, as after damage.
    database
        .execute(
            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x' WHERE rowid = 20",
            [],
        )
        .expect("damaged");
    drop(database);
    let imported = rankscope_import::nsys(&options(vec![path.clone()], &work.path().join("run")), &|_| {})
        .expect("imported");
    assert_eq!(imported.problems.len(), 1);
    assert!(
        imported.problems[0].what.contains("CUPTI_ACTIVITY_KIND_KERNEL"),
        "{:?}",
        imported.problems
    );
    assert!(
        imported.problems[0].what.contains("19 earlier rows"),
        "{:?}",
        imported.problems
    );
    let session = merge(&MergeOptions::of_run(&work.path().join("run")), &mut |_| {}).expect("merged");
    let kernels: u64 = session
        .activity
        .iter()
        .map(|entry| entry.kernels + entry.communication_kernels)
        .sum();
    assert_eq!(kernels, 19, "what was kept is there");
    for (content, word) in [
        (
            &b"no database at all, but long enough to be looked at"[..],
            "nsys export",
        ),
        (b"", "StringIds"),
    ] {
        fs::write(&path, content).expect("written");
        let error = rankscope_import::nsys(&options(vec![path.clone()], &work.path().join("other")), &|_| {})
            .expect_err("no report");
        assert!(error.to_string().contains(word), "{error}");
    }
}

/// Writes a trace of any events.
fn trace_of(directory: &Path, rank: u32, world: u32, groups: Value, events: Vec<Value>) -> PathBuf {
    let path = directory.join(format!("trace{rank}.json"));
    let trace = json!({
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world, "pg_config": groups},
        "host_name": "node", "traceEvents": events,
    });
    fs::write(&path, trace.to_string()).expect("written");
    path
}

/// Makes an NCCL operation of a process group: metadata, range, launch and kernel.
fn nccl(rank: i64, number: i64, what: &str, metadata: Value, ts: f64) -> Vec<Value> {
    let at = (4000 + rank, 4000 + rank);
    vec![
        span("cpu_op", "record_param_comms", at, ts, 20.0, metadata),
        span(
            "user_annotation",
            &format!("nccl:{what}"),
            at,
            ts + 2.0,
            16.0,
            json!({}),
        ),
        span(
            "cuda_runtime",
            "cudaLaunchKernel",
            at,
            ts + 5.0,
            2.0,
            json!({"cbid": 211, "correlation": number}),
        ),
        span(
            "kernel",
            "ncclDevKernel_Generic(x)",
            (rank, 20),
            ts + 30.0,
            50.0,
            json!({"device": rank, "context": 1, "stream": 20, "correlation": number}),
        ),
    ]
}

fn classes(session: &Session) -> Vec<(String, u32, u64, Option<u64>)> {
    let mut classes: Vec<_> = session
        .operations
        .iter()
        .map(|class| {
            (
                class.operation.clone(),
                class.members,
                class.operations,
                class.bytes.value,
            )
        })
        .collect();
    classes.sort();
    classes
}

#[test]
fn sizes_are_known_only_if_the_trace_has_them() {
    let work = tempfile::tempdir().expect("a folder");
    let files: Vec<PathBuf> = (0..2)
        .map(|rank| {
            let sized = |more: Value| {
                let mut metadata = json!({"dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2,
                    "Process Group Name": "0"});
                for (key, value) in more.as_object().expect("an object") {
                    metadata[key] = value.clone();
                }
                metadata
            };
            let events = [
                ("all_to_all", sized(json!({"In split size": "[]"}))),
                ("all_to_allv", sized(json!({"In split size": "[1, 3]"}))),
                ("all_to_allv", sized(json!({"In split size": "[1, 2, ..., 3]"}))),
                ("all_to_all", sized(json!({}))),
                ("_reduce_scatter_base", sized(json!({"Out msg nelems": 500}))),
                ("_all_gather_base", sized(json!({"Out msg nelems": 2000}))),
            ];
            let events = (1i64..)
                .zip(events)
                .flat_map(|(number, (what, metadata))| nccl(i64::from(rank), number, what, metadata, 1000.0 * number as f64))
                .collect();
            trace_of(work.path(), rank, 2, json!([{"pg_name": "0", "ranks": []}]), events)
        })
        .collect();
    let session = session(&options(files, &work.path().join("run")));
    assert_eq!(session.matching.incomplete, 0, "no ranks listed: all of them");
    let bytes = |operation: &str| -> Vec<Option<u64>> {
        classes(&session)
            .into_iter()
            .filter(|class| class.0 == operation)
            .map(|class| class.3)
            .collect()
    };
    // Two ranks each. Equal parts are 500 elements of 4 bytes. Without a recorded split the payload is unknown.
    assert_eq!(bytes("all-to-all"), [None, Some(4000)]);
    assert_eq!(bytes("reduce-scatter"), [Some(4000)], "what is received");
    assert_eq!(bytes("all-gather"), [Some(8000)], "what is sent");
    assert!(
        bytes("all-to-all-v").contains(&None),
        "{:?}",
        bytes("all-to-all-v")
    );
}

#[test]
fn repeated_sequence_numbers_are_no_keys() {
    let work = tempfile::tempdir().expect("a folder");
    // Coalesced operations have the number of the operation after them.
    let files: Vec<PathBuf> = (0..2)
        .map(|rank| {
            let events = (1i64..)
                .zip([7, 8, 8, 9, 10])
                .flat_map(|(number, sequence)| {
                    let metadata = json!({"dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2,
                        "Process Group Name": "0", "Seq": sequence});
                    nccl(i64::from(rank), number, "all_reduce", metadata, 1000.0 * number as f64)
                })
                .collect();
            trace_of(work.path(), rank, 2, json!([{"pg_name": "0", "ranks": [0, 1]}]), events)
        })
        .collect();
    let session = session(&options(files, &work.path().join("run")));
    assert_eq!((session.totals.operations, session.totals.instances), (10, 5));
    assert_eq!(session.matching.incomplete + session.matching.mismatched, 0);
}

#[test]
fn groups_of_known_size_only_are_not_matched() {
    let work = tempfile::tempdir().expect("a folder");
    let files: Vec<PathBuf> = (0..4)
        .map(|rank| {
            let metadata =
                json!({"dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2});
            trace_of(
                work.path(),
                rank,
                4,
                json!([]),
                nccl(i64::from(rank), 1, "all_reduce", metadata, 1000.0),
            )
        })
        .collect();
    let session = session(&options(files, &work.path().join("run")));
    assert_eq!(classes(&session), [("all-reduce".to_owned(), 2, 4, Some(16_000))]);
    assert_eq!(
        session.totals.instances, 0,
        "ranks 0 and 1 may or may not be a pair"
    );
    // The trace does not show which rank waited. Unknown is not zero.
    let layout = rankscope_report::TextLayout {
        width: 200,
        colours: false,
    };
    let text = rankscope_report::summary_text(&session, &rankscope_report::Places::default(), &layout);
    assert!(text.contains("waiting is not known"), "{text}");
    assert!(rankscope_report::page(&session, &[]).contains("waiting is not known"));
    let scorecard = session.scorecard.as_ref().expect("a scorecard");
    let balance = scorecard
        .dimensions
        .iter()
        .find(|dimension| dimension.name == "balance")
        .expect("a dimension");
    assert!(balance.score.value.is_none(), "{balance:?}");
    assert!(
        session
            .problems
            .listed
            .iter()
            .any(|problem| problem.what.contains("not matched with other ranks"))
    );
}

#[test]
fn operators_of_nccl_are_not_joined_with_operations_of_gloo() {
    let work = tempfile::tempdir().expect("a folder");
    let at = (4000, 4000);
    let mut events: Vec<Value> = (1..6i64)
        .flat_map(|number| {
            let begin = 1000.0 * number as f64;
            let metadata = json!({"dtype": "Float", "In msg nelems": 10, "Out msg nelems": 10, "Group size": 1,
                "Process Group Name": "0"});
            let mut one = nccl(0, number, "all_reduce", metadata, begin);
            one.push(span("cpu_op", "c10d::allreduce_", at, begin - 5.0, 30.0, json!({})));
            one
        })
        .collect();
    events.push(span("cpu_op", "c10d::allreduce_", at, 9000.0, 30.0, json!({})));
    events.push(span(
        "user_annotation",
        "gloo:all_reduce",
        (4000, 4001),
        9100.0,
        50.0,
        json!({"Input Dims": [[100]], "Input type": ["float"]}),
    ));
    let file = trace_of(work.path(), 0, 1, json!([{"pg_name": "0", "ranks": [0]}]), events);
    let session = session(&options(vec![file], &work.path().join("run")));
    let gloo = session
        .operations
        .iter()
        .find(|class| class.library == "gloo")
        .expect("Gloo's");
    let queued = gloo.queue_ns.value.as_ref().expect("asked for").p50;
    assert_eq!(queued, 100_000.0, "asked for at 9.0 ms, begun at 9.1 ms");
}

#[test]
fn odd_times_and_numbers_do_no_harm() {
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("odd.json");
    let mut events = Vec::new();
    for (number, (ts, dur)) in [
        ("1e300", "1"),
        ("-1e300", "1"),
        ("5", "Infinity"),
        ("NaN", "3"),
        ("-100.5", "50"),
        ("9223372036854775807", "9223372036854775807"),
        ("20", "-7"),
    ]
    .into_iter()
    .enumerate()
    {
        let args = format!(
            r#"{{"device": 99999999999, "stream": {number}, "correlation": -9999999999, "grid": [1e40, -3]}}"#
        );
        events.push(format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k{number}", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}, "args": {args}}}"#
        ));
        let metadata = r#"{"In split size": "[18446744073709551615, 2]", "In msg nelems": 9223372036854775807, "dtype": "Double",
            "Seq": 99999999999, "Group size": 4294967295, "Process Group Ranks": "[4294967296]", "Process Group Name": "x"}"#;
        for name in ["record_param_comms", "nccl:all_to_all"] {
            let category = if name.contains(':') {
                "user_annotation"
            } else {
                "cpu_op"
            };
            events.push(format!(
                r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 1, "tid": 1, "ts": {ts}, "dur": {dur}, "args": {metadata}}}"#
            ));
        }
    }
    let text = format!(
        r#"{{"distributedInfo": {{"rank": 4294967295, "world_size": 4294967295, "pg_config": [{{"pg_name": "y", "ranks": []}}]}},
            "baseTimeNanoseconds": -5, "traceEvents": [{}]}}"#,
        events.join(",")
    );
    fs::write(&path, text).expect("written");
    let run = work.path().join("run");
    rankscope_import::kineto(&options(vec![path], &run), &|_| {}).expect("imported");
    let session = merge(&MergeOptions::of_run(&run), &mut |_| {}).expect("merged");
    assert!(session.problems.total > 0, "what was left out is reported");
}

#[test]
fn calls_of_an_unfinished_group_join_no_other_group() {
    let work = tempfile::tempdir().expect("a folder");
    let path = work.path().join("report.sqlite");
    report(&path);
    let database = rusqlite::Connection::open(&path).expect("a database");
    // A thread before all others starts a group and calls in it. The report ends there.
    let thread = (500i64 << 24) | 1;
    for (start, end, name) in [(10, 20, "ncclGroupStart"), (30, 40, "ncclAllGather")] {
        database
            .execute(
                "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, 59, ?3, ?4, NULL, 3)",
                rusqlite::params![start, end, name, thread],
            )
            .expect("a row");
    }
    drop(database);
    let run = work.path().join("run");
    rankscope_import::nsys(&options(vec![path], &run), &|_| {}).expect("imported");
    let session = merge(&MergeOptions::of_run(&run), &mut |_| {}).expect("merged");
    let gather = session
        .operations
        .iter()
        .find(|class| class.operation == "all-gather")
        .expect("it was called");
    assert!(gather.transfer_ns.value.is_none(), "nothing says that it ran");
    let reduce = session
        .operations
        .iter()
        .find(|class| class.operation == "all-reduce")
        .expect("groups that ended");
    assert_eq!(reduce.operations, 16);
}

#[test]
fn more_ranks_than_are_held_in_memory_are_imported_equally() {
    let work = tempfile::tempdir().expect("a folder");
    let ranks = 20;
    let files: Vec<PathBuf> = (0..ranks)
        .map(|rank| {
            let metadata = json!({"dtype": "Float", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": ranks,
                "Process Group Name": "0"});
            let groups = json!([{"pg_name": "0", "ranks": []}]);
            trace_of(work.path(), rank, ranks, groups, nccl(i64::from(rank), 1, "all_reduce", metadata, 1000.0))
        })
        .collect();
    let session = session(&options(files, &work.path().join("run")));
    assert_eq!(
        (session.coverage.ranks_seen, session.totals.instances),
        (ranks, 1)
    );
    let kernels: u64 = session
        .activity
        .iter()
        .map(|entry| entry.communication_kernels)
        .sum();
    assert_eq!(kernels, u64::from(ranks));
}
