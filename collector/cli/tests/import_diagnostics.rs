//! Tests the imports of PyTorch's Flight Recorder, NCCL's Inspector and NCCL RAS through the program itself.

mod findings_support;

use findings_support::{is_silent, of_kind, only};
use rankscope_fixtures::logs::{START, SyntheticLog, call};
use rankscope_formats::session::{
    Matching, ProgramSpanRow, Session, Severity, SpanKind, SpanRow, TableReader, rank_path,
};
use rankscope_ranklog::Operation;
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

fn rankscope(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rankscope"));
    command.args(arguments).output().expect("the program runs")
}

/// Runs an import and returns the session.
fn import(arguments: &[&str]) -> Session {
    let output = rankscope(&[&["import"], arguments, &["--json"]].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{error}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|problem| panic!("{problem}: {error}"))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn real_dumps_of_gloo_name_the_rank_that_never_called() {
    let work = tempfile::tempdir().expect("a folder");
    let dumps = fixture("flight_recorder/gloo");
    let session = import(&[
        "flight-recorder",
        text(&dumps),
        "--one-host",
        "-o",
        text(&work.path().join("run")),
    ]);
    assert_eq!(
        (session.coverage.ranks_seen, session.coverage.ranks_expected.value),
        (3, Some(3))
    );
    assert_eq!((session.totals.in_flight, session.hosts.len()), (2, 1));
    // 2 all-reduces and 1 broadcast of all ranks, 1 all-gather of a pair.
    assert_eq!((session.matching.enqueued, session.matching.incomplete), (4, 1));
    let hang = only(&session, "never-finished");
    assert_eq!(hang.evidence[0], "all-reduce 4 of default_pg: no call of rank 2");
    assert!(
        hang.evidence[1].contains("not seen to run, called in hang at flight_recorder_job.py:"),
        "{:?}",
        hang.evidence
    );
    let names: Vec<&str> = session
        .communicators
        .iter()
        .map(|known| known.name.as_str())
        .collect();
    assert_eq!(names, ["default_pg", "tensor"]);
    for name in ["default_pg", "tensor"] {
        let assumption = format!("process group {name}: they are assumed");
        let mut problems = session.problems.listed.iter();
        assert!(
            problems.any(|problem| problem.what.contains(&assumption)),
            "Gloo's dumps do not list members: {:?}",
            session.problems.listed
        );
    }
}

#[test]
fn dumps_of_nccl_have_collectives_that_start_together_and_their_state() {
    let work = tempfile::tempdir().expect("a folder");
    let dumps = fixture("flight_recorder/nccl");
    let session = import(&[
        "flight-recorder",
        text(&dumps),
        "--one-host",
        "-o",
        text(&work.path().join("run")),
    ]);
    // Collectives 1 to 6 of all ranks, and a message.
    assert_eq!((session.matching.enqueued, session.matching.incomplete), (7, 2));
    assert_eq!(session.problems.listed, []);
    let hang = only(&session, "never-finished");
    assert_eq!(hang.evidence[0], "all-reduce 7 of default_pg: no call of rank 3");
    assert!(
        hang.evidence[1].ends_with(
            "all-reduce 7 of default_pg, running, called in step at train.py:57; all-reduce 8 of default_pg, not seen to \
             run, called in step at train.py:57"
        ),
        "{:?}",
        hang.evidence
    );
    let gather = session
        .operations
        .iter()
        .find(|class| class.operation == "all-gather");
    assert_eq!(
        gather.map(|class| (class.operations, class.bytes.value)),
        Some((4, Some(4 * 2 * 512 * 2))),
        "two collectives of 512 elements are one operation"
    );
    assert!(
        session
            .operations
            .iter()
            .all(|class| class.transfer_ns.value.is_none()),
        "a dump has no times of operations"
    );
}

#[test]
fn a_rank_without_a_dump_may_have_called() {
    let work = tempfile::tempdir().expect("a folder");
    let dumps: Vec<PathBuf> = [0, 1, 3]
        .iter()
        .map(|rank| fixture(&format!("flight_recorder/nccl/nccl_trace_rank_{rank}")))
        .collect();
    let mut arguments = vec!["flight-recorder"];
    arguments.extend(dumps.iter().map(|dump| text(dump)));
    let run = work.path().join("run");
    arguments.extend(["-o", text(&run)]);
    let session = import(&arguments);
    assert_eq!(
        only(&session, "never-finished").evidence[0],
        "all-reduce 7 of default_pg: no call of rank 3; no log of member 2"
    );
    let advice = session.coverage.advice.expect("a rank is missing");
    assert_eq!(advice, "import the files of the other ranks together with these");
}

/// Writes the dumps of ranks 0, 1, …, imports them and returns the session.
fn import_dumps(dumps: &[Value]) -> Session {
    let work = tempfile::tempdir().expect("a folder");
    for (rank, dump) in dumps.iter().enumerate() {
        let path = work.path().join(format!("trace_{rank}.json"));
        fs::write(path, dump.to_string()).expect("written");
    }
    let run = work.path().join("run");
    import(&["flight-recorder", text(work.path()), "-o", text(&run)])
}

#[test]
fn members_that_call_different_operations_are_named_although_they_hang() {
    let session = import_dumps(&[dump("nccl:all_reduce", 0), dump("nccl:broadcast", 0)]);
    assert_eq!(session.matching.mismatched, 1);
    let found = only(&session, "mismatched");
    assert!(found.evidence[0].contains("the members called different operations"));
}

/// Returns a dump of one unfinished operation, after `overwritten` others.
fn dump(name: &str, overwritten: u64) -> Value {
    json!({
        "version": "2.4",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "entries": [{"record_id": overwritten, "process_group": ["0", "default_pg"], "collective_seq_id": 9, "p2p_seq_id": 1,
            "is_p2p": name.contains("send") || name.contains("recv"), "profiling_name": name, "input_sizes": [[8]],
            "input_dtypes": ["Float"], "output_sizes": [[8]], "output_dtypes": ["Float"], "state": "scheduled", "retired": false,
            "time_created_ns": 1_795_620_000_000_000_000_i64, "time_discovered_started_ns": 0, "time_discovered_completed_ns": 0}]
    })
}

#[test]
fn messages_are_not_matched_if_earlier_ones_were_overwritten() {
    let session = import_dumps(&[dump("nccl:send 0->1", 5), dump("nccl:recv 1<-0", 5)]);
    assert_eq!(session.matching.without_key, 2);
    assert!(
        session
            .problems
            .listed
            .iter()
            .any(|problem| problem.what.contains("5 earlier ones were overwritten"))
    );
}

#[test]
fn a_hang_is_named_although_many_messages_are_not_matched() {
    let mut dumps = ["nccl:send 0->1", "nccl:recv 1<-0"].map(|name| {
        let mut whole = dump(name, 5);
        let mut message = whole["entries"][0].take();
        message["state"] = "completed".into();
        let messages = (1..=250).map(|number| {
            let mut message = message.clone();
            message["p2p_seq_id"] = number.into();
            message
        });
        whole["entries"] = messages.collect();
        whole
    });
    let hang = dump("nccl:all_reduce", 255)["entries"][0].take();
    dumps[0]["entries"].as_array_mut().expect("a list").push(hang);
    let session = import_dumps(&dumps);
    assert_eq!(session.matching.without_key, 500);
    assert_eq!(session.matching.listed.len(), Matching::MAX_LISTED);
    assert_eq!(
        only(&session, "never-finished").evidence[0],
        "all-reduce 9 of default_pg: no call of rank 1"
    );
}

#[test]
fn operations_that_another_recorder_has_overwritten_are_left_out() {
    let dumps = [4, 2].map(|first| {
        let mut whole = dump("nccl:all_reduce", 9);
        let entry = whole["entries"][0].take();
        let entries = (first..=7).map(|number| {
            let mut entry = entry.clone();
            entry["collective_seq_id"] = number.into();
            if number < 7 {
                entry["state"] = "completed".into();
            }
            entry
        });
        whole["entries"] = entries.collect();
        whole
    });
    let session = import_dumps(&dumps);
    // Both are in the seventh; 4 to 6 are complete on both.
    assert_eq!((session.matching.enqueued, session.matching.incomplete), (3, 1));
    let mut problems = session.problems.listed.iter();
    assert!(problems.any(|problem| problem.what.contains("2 collectives are older")));
}

#[test]
fn a_damaged_dump_keeps_what_precedes_the_damage_and_says_so() {
    let work = tempfile::tempdir().expect("a folder");
    for rank in 0..3 {
        let name = format!("rank_{rank}");
        let bytes = fs::read(fixture("flight_recorder/gloo").join(&name)).expect("a dump");
        let kept = if rank == 0 { bytes.len() - 200 } else { bytes.len() };
        fs::write(work.path().join(name), &bytes[..kept]).expect("written");
    }
    let run = work.path().join("run");
    let session = import(&["flight-recorder", text(work.path()), "-o", text(&run)]);
    assert_eq!(session.coverage.ranks_seen, 3);
    let problem = session
        .problems
        .listed
        .iter()
        .find(|problem| problem.what.contains("the file ends here"))
        .expect("a problem");
    assert!(
        problem.what.contains("operations before were kept") && !problem.what.contains("; 0 operations"),
        "{problem:?}"
    );
}

#[test]
fn other_files_are_refused_with_a_reason() {
    let work = tempfile::tempdir().expect("a folder");
    let file = work.path().join("rank_0");
    fs::write(&file, "text").expect("written");
    let run = work.path().join("run");
    for (source, reason) in [
        ("flight-recorder", "is no dump of PyTorch's Flight Recorder"),
        ("inspector", "has no line of NCCL's Inspector"),
    ] {
        let output = rankscope(&["import", source, text(&file), "-o", text(&run)]);
        assert_eq!(output.status.code(), Some(2), "{source}");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains(reason), "{error}");
        assert!(!run.exists());
    }
    let output = rankscope(&["import", "ras", text(&file), "--into", text(work.path())]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no status of NCCL RAS"));
}

/// Start of the Inspector's files, in microseconds since 1970.
const START_US: u64 = 1_752_867_229_000_000;

/// Writes the files of two processes. Rank 1 starts each of 30 all-reduces and 30 all-gathers 300 µs late.
fn write_inspector(folder: &Path, is_verbose: bool) {
    for rank in 0..2u64 {
        let mut lines = String::new();
        for number in 0..60 {
            let (name, sn) = (["AllReduce", "AllGather"][number % 2], number / 2 + 1);
            let at = START_US + 5000 * number as u64;
            let (start, stop) = (at + 300 * rank, at + 1500);
            let mut line = json!({
                "header": {"id": "0xe62dedaa97644a", "comm_name": "DP Group 0", "rank": rank, "n_ranks": 2, "nnodes": 1},
                "metadata": {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                    "dump_timestamp_us": at + 2000, "hostname": "node0", "pid": 100 + rank},
                "coll_perf": {"coll": name, "coll_sn": sn, "coll_msg_size_bytes": 16_777_216, "coll_exec_time_us": stop - start,
                    "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.0}
            });
            if is_verbose {
                line["coll_perf"]["event_trace_ts"] = json!({"coll_start_ts": start - 40, "coll_stop_ts": start - 35, "kernel_events":
                    [{"channel_id": 0, "kernel_start_ts": start, "kernel_stop_ts": stop, "kernel_record_ts": stop}]});
            }
            writeln!(lines, "{line}").expect("memory");
        }
        fs::write(folder.join(format!("node0-pid{}.log", 100 + rank)), lines).expect("written");
    }
}

#[test]
fn a_verbose_inspector_gives_waits_transfers_and_the_late_rank() {
    let work = tempfile::tempdir().expect("a folder");
    write_inspector(work.path(), true);
    let run = work.path().join("run");
    let session = import(&["inspector", text(work.path()), "-o", text(&run)]);
    assert_eq!((session.matching.complete, session.hosts.len()), (60, 1));
    let class = &session.operations[0];
    assert_eq!(
        class.transfer_ns.value.as_ref().map(|times| times.p50),
        Some(1_200_000.0)
    );
    assert_eq!(class.exposed_wait_rank_ns, 30 * 300_000);
    assert_eq!(only(&session, "late-rank").ranks, [1]);
}

#[test]
fn real_files_of_the_inspector_are_matched() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    let session = import(&["inspector", text(&fixture("inspector")), "-o", text(&run)]);
    assert_eq!((session.coverage.ranks_seen, session.hosts.len()), (3, 1));
    assert_eq!((session.matching.complete, session.totals.operations), (4, 12));
    assert_eq!(session.communicators[0].name, "world");
    assert_eq!(session.problems.listed, []);
    // The first all-reduce, for which rank 2 was 1.36 s late.
    let class = &session.operations[0];
    assert!(class.exposed_wait_rank_ns > 2_000_000_000, "{class:?}");
}

#[test]
fn an_inspector_without_times_gives_operations_without_times() {
    let work = tempfile::tempdir().expect("a folder");
    write_inspector(work.path(), false);
    let run = work.path().join("run");
    let session = import(&["inspector", text(work.path()), "-o", text(&run)]);
    assert_eq!((session.matching.enqueued, session.matching.complete), (60, 0));
    let class = &session.operations[0];
    assert!(class.transfer_ns.value.is_none());
    assert!(
        session.problems.listed[0]
            .what
            .contains("NCCL_INSPECTOR_DUMP_VERBOSE=1")
    );
}

#[test]
fn impossible_times_and_durations_of_the_host_are_reported() {
    let work = tempfile::tempdir().expect("a folder");
    write_inspector(work.path(), true);
    let file = work.path().join("node0-pid100.log");
    let lines = fs::read_to_string(&file).expect("lines");
    // All durations are from the host's clock. The first one is longer than the time since 1970.
    let lines = lines.replace("kernel_gpu", "kernel_cpu").replacen(
        "\"coll_exec_time_us\":1500",
        "\"coll_exec_time_us\":18446744073709551615",
        1,
    );
    fs::write(&file, lines).expect("written");
    let run = work.path().join("run");
    let session = import(&["inspector", text(work.path()), "-o", text(&run)]);
    assert_eq!(session.totals.operations, 120);
    for what in [
        "60 of 60 operations have a duration from the host's clock",
        "1 of 60 operations have a duration and no time",
    ] {
        let mut problems = session.problems.listed.iter();
        assert!(
            problems.any(|problem| problem.what.contains(what)),
            "{what}: {:?}",
            session.problems.listed
        );
    }
}

#[test]
fn ranks_with_an_asynchronous_error_are_named_by_a_critical_finding() {
    let work = tempfile::tempdir().expect("a folder");
    write_inspector(work.path(), true);
    let run = work.path().join("run");
    import(&["inspector", text(work.path()), "-o", text(&run)]);
    let status = json!({"communicators": [{"hash": "0xe62dedaa97644a", "size": 2, "ranks": [
        {"rank": 0, "pid": 100, "status": {"init_state": 0, "async_error": 7}},
        {"rank": 1, "pid": 101, "status": {"init_state": 0, "async_error": 6}}
    ]}]});
    let file = work.path().join("ras.json");
    fs::write(&file, status.to_string()).expect("written");
    let session = import(&["ras", text(&file), "--into", text(&run)]);
    let found = only(&session, "ras-mismatch");
    assert_eq!(found.severity, Severity::Critical);
    assert_eq!(found.ranks, [1]);
    assert_eq!(found.evidence[0], "an error was reported by rank 1");
}

#[test]
fn a_status_of_ras_becomes_findings_of_the_run_that_it_was_added_to() {
    let work = tempfile::tempdir().expect("a folder");
    write_inspector(work.path(), true);
    let run = work.path().join("run");
    let before = import(&["inspector", text(work.path()), "-o", text(&run)]);
    assert!(
        before
            .findings
            .iter()
            .all(|finding| finding.kind != "ras-mismatch")
    );
    let session = import(&["ras", text(&fixture("ras/status.json")), "--into", text(&run)]);
    let of_ras = of_kind(&session, "ras-mismatch");
    assert_eq!(of_ras.len(), 2);
    let lag = of_ras
        .iter()
        .find(|finding| finding.ranks == [1])
        .expect("matched by process ids");
    assert_eq!(lag.evidence[0], "rank 1: 1 behind in AllReduce (30 of 31)");
    let missing = of_ras
        .iter()
        .find(|finding| finding.ranks.is_empty())
        .expect("not matched");
    assert!(missing.evidence[0].contains("its process does not answer"));
    // A second status replaces the first one.
    let session = import(&["ras", text(&fixture("ras/status.txt")), "--into", text(&run)]);
    let found = only(&session, "ras-mismatch");
    assert!(found.title.contains("MISMATCH"), "{}", found.title);
    assert!(!run.join("nccl-ras.json").exists());
    // No recorded communicator has three members. The ranks are matched by their process ids.
    let real = fs::read_to_string(fixture("ras/real.json")).expect("a status");
    let both = work.path().join("both.json");
    fs::write(&both, real.replace("18881", "100").replace("18882", "101")).expect("written");
    let session = import(&["ras", text(&both), "--into", text(&run)]);
    let found = only(&session, "ras-mismatch");
    assert_eq!(found.evidence[0], "rank 0: 1 behind in AllReduce (0 of 1)");
    assert_eq!(found.ranks, [0]);
    // Ranks that all answer with equal counts are no finding.
    let status = fs::read_to_string(fixture("ras/status.json")).expect("a status");
    let (first, _) = status
        .split_once("    },\n    {\n      \"hash\": \"0x5\"")
        .expect("two communicators");
    let equal = work.path().join("ras.json");
    fs::write(&equal, format!("{}    }}\n  ]\n}}\n", first.replace("31", "30"))).expect("written");
    let session = import(&["ras", text(&equal), "--into", text(&run)]);
    is_silent(&session, "ras-mismatch");
    assert_eq!(session.problems.listed, []);
}

/// Offset of the wall clock of synthetic logs from their counter, in nanoseconds.
const WALL_NS: u64 = 1_700_000_000_000_000_000;

/// Writes two ranks that ran in the Ray workers `ab0` and `ab1`, without a session.
fn write_workers(run: &Path) {
    for rank in 0..2u32 {
        let mut log = SyntheticLog::create(run, rank, 2, "node0").expect("create");
        log.property(
            "stdout_file",
            &format!("worker-ab{rank}-01000000-{}.out", 4000 + rank),
        )
        .expect("property");
        log.communicator(0, rank, 2, 1).expect("communicator");
        for number in 1..=5u64 {
            let at = START + number * 1_000_000;
            log.push(0, call(Operation::AllReduce, at, at + 1000, 0, 64, 0));
        }
        log.end().expect("end");
    }
}

/// Returns an event of Ray's timeline. Times are in nanoseconds after the start of the job.
fn task(worker: &str, category: &str, start_ns: u64, end_ns: u64) -> Value {
    let name = category.rsplit('.').next();
    json!({"cat": category, "name": name, "pid": "192.0.2.1", "tid": worker, "ph": "X", "cname": "generic_work",
        "ts": (WALL_NS + START + start_ns) / 1000, "dur": (end_ns - start_ns) as f64 / 1e3, "args": {"task_id": "c7", "name": name}})
}

#[test]
fn tasks_of_ray_are_ranges_of_the_ranks_that_ran_them() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    write_workers(&run);
    let timeline = work.path().join("timeline.json");
    let events = json!([
        task("worker:ab1", "task::Worker.step", 1_500_000, 4_500_000),
        task("worker:ab1", "task:execute", 1_600_000, 4_400_000),
        // The recording begins in the middle of the first two, and after the third one.
        json!({"cat": "task::Worker.begin", "name": "begin", "tid": "worker:ab1", "ph": "X",
            "ts": (WALL_NS + START) / 1000 - 2000, "dur": 3000, "args": {"task_id": "c6"}}),
        json!({"cat": "task:execute", "name": "task:execute", "tid": "worker:ab1", "ph": "X",
            "ts": (WALL_NS + START) / 1000 - 1000, "dur": 1500}),
        json!({"cat": "task::Worker.__init__", "name": "__init__", "tid": "worker:ab1", "ph": "X",
            "ts": (WALL_NS + START) / 1000 - 4000, "dur": 1000}),
        // Two calls of a threaded actor.
        task("worker:ab0", "task::Server.get", 1_000_000, 3_000_000),
        task("worker:ab0", "task::Server.get", 2_000_000, 4_000_000),
        task("worker:cd", "task::load", 1_000_000, 2_000_000),
        task("driver:01", "submit_task", 1_000_000, 1_100_000),
    ]);
    fs::write(&timeline, events.to_string()).expect("written");
    let session = import(&["ray", text(&timeline), "--into", text(&run)]);
    assert_eq!(session.problems.total, 0, "{:?}", session.problems.listed);
    let folder = run.join("session");
    let marks = |rank: u32| -> Vec<(String, i64, i64)> {
        let rows: Vec<SpanRow> = TableReader::read_all(&rank_path::<SpanRow>(&folder, rank)).expect("spans");
        rows.into_iter()
            .filter(|row| row.kind == SpanKind::Mark)
            .map(|row| (row.name.expect("a name").into_owned(), row.start_ns, row.end_ns))
            .collect()
    };
    assert_eq!(
        marks(1),
        [
            ("Worker.begin".to_owned(), -2_000_000, 1_000_000),
            ("task:execute".to_owned(), -1_000_000, 500_000),
            ("Worker.step".to_owned(), 1_500_000, 4_500_000),
            ("task:execute".to_owned(), 1_600_000, 4_400_000)
        ]
    );
    assert!(
        marks(0).is_empty(),
        "tasks that overlap are no time of one thread"
    );
    let spans: Vec<ProgramSpanRow> =
        TableReader::read_all(&rank_path::<ProgramSpanRow>(&folder, 0)).expect("program spans");
    assert_eq!(spans.len(), 2);
    assert!(
        spans
            .iter()
            .all(|span| span.name == "Server.get" && span.fields.as_deref() == Some(r#"{"task_id":"c7"}"#))
    );

    // A gzipped timeline replaces a plain one, and each task is there once.
    let packed = work.path().join("timeline.json.gz");
    let mut encoder = flate2::write::GzEncoder::new(
        fs::File::create(&packed).expect("created"),
        flate2::Compression::fast(),
    );
    std::io::Write::write_all(&mut encoder, events.to_string().as_bytes()).expect("packed");
    encoder.finish().expect("written");
    import(&["ray", text(&packed), "--into", text(&run)]);
    assert!(run.join("ray-timeline.json.gz").exists() && !run.join("ray-timeline.json").exists());
    assert_eq!(marks(1).len(), 4);

    // A second timeline, cut off, replaces the first one. What is readable is there, and the damage is a problem.
    let whole = events.to_string();
    fs::write(&timeline, &whole[..whole.len() - 150]).expect("written");
    let session = import(&["ray", text(&timeline), "--into", text(&run)]);
    assert_eq!(marks(1).len(), 4);
    let problem = &session.problems.listed[0];
    assert!(
        problem
            .file
            .as_deref()
            .is_some_and(|file| file.ends_with("run/ray-timeline.json"))
    );
    assert!(problem.offset_bytes > Some(500), "{problem:?}");
}

#[test]
fn a_timeline_of_another_job_is_refused() {
    let work = tempfile::tempdir().expect("a folder");
    let run = work.path().join("run");
    write_workers(&run);
    let timeline = work.path().join("timeline.json");
    let refusal = |content: &str| {
        fs::write(&timeline, content).expect("written");
        let output = rankscope(&["import", "ray", text(&timeline), "--into", text(&run)]);
        assert_eq!(output.status.code(), Some(2));
        assert!(!run.join("ray-timeline.json").exists());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let other = json!([task("worker:ef", "task::load", 0, 1000)]).to_string();
    let message = refusal(&other);
    assert!(
        message.contains("no worker of") && message.contains("workers in the file: 1"),
        "{message}"
    );
    // A dashboard writes the names of the workers at the end.
    let cut = r#"[{"cat": "task::load", "name": "load", "pid": 0, "tid": 3, "ts": 5.0, "dur": 1.0, "ph": "X"}, {"na"#;
    let message = refusal(cut);
    assert!(message.contains("workers in the file: 0"), "{message}");
    assert!(message.contains("The file has a problem at byte"), "{message}");
    assert!(refusal("Ray").contains("is no timeline of Ray"));
    let output = rankscope(&["import", "ray", text(&timeline), "--into", text(work.path())]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("is no timeline of Ray"));
    fs::write(&timeline, other).expect("written");
    let empty = work.path().join("empty");
    fs::create_dir(&empty).expect("created");
    let output = rankscope(&["import", "ray", text(&timeline), "--into", text(&empty)]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("has no recording"));
}
