//! Tests the library as NCCL's profiler plugin.
//!
//! Operations get the device's times, on the axis and within the stated error. Both sources are joined, and callers
//! that bypass a preload are recorded. The library that loads the plugin and the device are test doubles
//! (`tests/doubles/nccl/profiler.cc`), which know the truth.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rankscope_formats::session::{OperationRow, OperationState};
use rankscope_ranklog::Operation;
use rankscope_ranklog::record::{
    Algorithm, DeviceWork, Enqueued, FLAG_CAPTURED, FLAG_CLOCK, FLAG_EVENTS, FLAG_SEQUENCE_UNKNOWN,
    FLAG_TRAFFIC, Protocol, Record, RecordKind,
};
use rankscope_tests::engine::{count, engine};
use rankscope_tests::job::{Finished, Job};
use rankscope_tests::recorded::{self, Recorded};
use rankscope_tests::results::integer;
use rankscope_tests::turn::Turn;
use rankscope_tests::{artefacts, compile, process, results, skip, turn};
use serde_json::Value;
use tempfile::TempDir;

const RANKS: usize = 3;
const STEPS: u64 = 40;
/// Largest difference between timestamps of both sides. They are compared by the call, which the program's side stamps
/// slightly later.
const STAMPS_NS: i64 = 20_000;

/// Leaves out the all-to-all. After a copy of a rank to itself, NCCL reports times of other operations.
const WITHOUT_ALL_TO_ALL: (&str, &str) = ("NCCL_PROFILED_WITHOUT_ALLTOALL", "1");

/// A run of the profiled training, and the truth about it.
struct Run {
    directory: TempDir,
    truth: TempDir,
    finished: Finished,
}

struct Late {
    rank: usize,
    us: u64,
}

fn run(turn: &Turn, version: u32, late: Option<Late>, settings: &[(&str, &str)]) -> Option<Run> {
    let program = compile::nccl("nccl_profiled.cc")?;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let truth = tempfile::tempdir().expect("a temporary directory");
    let meet = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let (rank, us) = late.map_or((-1, 0), |late| (late.rank as i64, late.us));
    let mut job = Job::program(&program, RANKS)
        .arg(STEPS.to_string())
        .arg(rank.to_string())
        .arg(us.to_string())
        .env("NCCL_DOUBLE_PROFILER", version.to_string())
        .env("NCCL_DOUBLE_MEET", meet.path())
        .env("NCCL_DOUBLE_TRUTH", truth.path())
        // Like the timer of a real device: nanoseconds since 1970, from a separate crystal.
        .env("NCCL_DOUBLE_CLOCK", "1700000000000000000,37.5");
    for (name, value) in settings {
        job = job.env(name, value);
    }
    let finished = job.record_into(directory.path()).run(turn);
    finished.expect_status(0);
    Some(Run {
        directory,
        truth,
        finished,
    })
}

impl Run {
    fn logs(&self) -> Vec<Recorded> {
        let logs = recorded::read_ranks(self.directory.path(), &self.finished.pids);
        for log in &logs {
            log.expect_whole();
        }
        logs
    }

    fn session(&self) -> Value {
        results::session(self.directory.path())
    }

    fn rows(&self, rank: usize) -> Vec<OperationRow> {
        results::operations(self.directory.path(), rank)
    }

    /// Returns this rank's device operations in order.
    fn done(&self, rank: usize) -> Vec<Done> {
        let path = self
            .truth
            .path()
            .join(format!("{}.jsonl", self.finished.pids[rank]));
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines()
            .map(|line| {
                let line: Value = serde_json::from_str(line).expect("JSON");
                let number = |name: &str| line[name].as_i64().expect("a number");
                Done {
                    function: line["function"].as_str().expect("a name").to_owned(),
                    bytes: number("bytes") as u64,
                    launch: number("launch") as u64,
                    called_ns: number("called_ns"),
                    start_ns: number("start_ns"),
                    stop_ns: number("stop_ns"),
                }
            })
            .collect()
    }
}

#[derive(Clone, Debug)]
struct Done {
    function: String,
    bytes: u64,
    launch: u64,
    called_ns: i64,
    start_ns: i64,
    stop_ns: i64,
}

/// Returns the true times of the operations as the session has them: the messages of one all-to-all are one operation.
fn operations(done: &[Done]) -> BTreeMap<(Operation, u64), Vec<Done>> {
    let mut operations: BTreeMap<(Operation, u64), Vec<Done>> = BTreeMap::new();
    let mut parts: Vec<Done> = Vec::new();
    for one in done {
        let operation = match one.function.as_str() {
            "AllReduce" => Operation::AllReduce,
            "AllGather" => Operation::AllGather,
            "ReduceScatter" => Operation::ReduceScatter,
            "Broadcast" => Operation::Broadcast,
            "Reduce" => Operation::Reduce,
            "Send" | "Recv" if one.bytes == 160 => {
                parts.push(one.clone());
                // A message to the rank itself is a copy and uses no channel.
                if parts.len() == 2 * (RANKS - 1) {
                    let first = parts[0].clone();
                    let whole = Done {
                        start_ns: parts.iter().map(|part| part.start_ns).min().unwrap_or(0),
                        stop_ns: parts.iter().map(|part| part.stop_ns).max().unwrap_or(0),
                        ..first
                    };
                    operations
                        .entry((Operation::AllToAll, 160))
                        .or_default()
                        .push(whole);
                    parts.clear();
                }
                continue;
            }
            "Send" => Operation::Send,
            "Recv" => Operation::Receive,
            other => panic!("{other}"),
        };
        operations
            .entry((operation, one.bytes))
            .or_default()
            .push(one.clone());
    }
    assert!(parts.is_empty());
    operations
}

/// Compares the times of one rank's operations with the truth. Returns the number of compared operations.
fn compare(run: &Run, session: &Value, rank: usize) -> usize {
    let error = integer(session, &format!("/devices/{rank}/widest_error_ns/value"));
    let rows = run.rows(rank);
    let timed: Vec<&OperationRow> = rows
        .iter()
        .filter(|row| row.state == OperationState::Completed)
        .collect();
    let truth = operations(&run.done(rank));
    // Both sides know the time of each call. The double gets it slightly later than the wrapper.
    let mut pairs: Vec<(&OperationRow, &Done)> = Vec::new();
    for ((operation, bytes), done) in &truth {
        let mut of_kind: Vec<&&OperationRow> = timed
            .iter()
            .filter(|row| row.operation == *operation && row.bytes == Some(*bytes))
            .collect();
        of_kind.sort_by_key(|row| row.enter_ns);
        assert_eq!(of_kind.len(), done.len(), "{operation:?} of {bytes} bytes");
        pairs.extend(of_kind.into_iter().copied().zip(done));
    }
    let apart = pairs
        .iter()
        .filter_map(|(row, done)| Some(done.called_ns - row.called_ns?))
        .min()
        .expect("calls");
    for (row, done) in &pairs {
        let late = |found: i64, truth: i64| found + apart - truth;
        for off in [
            late(row.enter_ns, done.start_ns),
            late(row.leave_ns.expect("done"), done.stop_ns),
        ] {
            assert!(
                (-STAMPS_NS..error + STAMPS_NS).contains(&off),
                "off by {off} ns, at most {error} stated: {row:?} {done:?}"
            );
        }
        if let (Some(called), Some(returned)) = (row.called_ns, row.returned_ns) {
            assert!(
                called <= returned && called <= row.enter_ns + STAMPS_NS,
                "{row:?}"
            );
        }
    }
    pairs.len()
}

#[test]
fn operations_have_the_devices_times_within_the_stated_error() {
    let turn = turn::take();
    for version in [5, 6] {
        let Some(run) = run(&turn, version, None, &[WITHOUT_ALL_TO_ALL]) else {
            return;
        };
        let logs = run.logs();
        for log in &logs {
            assert_eq!(
                log.log.properties.get("source.nccl_plugin"),
                Some(&version.to_string())
            );
            // Every call gives its number of device records, and has that many.
            let mut records: BTreeMap<(u32, u8, u32, i32), u32> = BTreeMap::new();
            for record in log.of_kind(RecordKind::Device) {
                assert_eq!(
                    record.flags & (FLAG_SEQUENCE_UNKNOWN | FLAG_TRAFFIC),
                    0,
                    "{record:?}"
                );
                let work = DeviceWork::from_aux(record.aux);
                assert!(work.duration_ns > 100_000 && work.channels > 0, "{record:?}");
                let key = (
                    record.communicator,
                    record.operation,
                    record.sequence,
                    record.peer,
                );
                if record.flags & FLAG_CAPTURED == 0 {
                    *records.entry(key).or_insert(0) += 1;
                }
            }
            for record in log.of_kind(RecordKind::Enqueue) {
                let parts = u32::from(Enqueued::from_aux(record.aux).parts);
                assert!(parts > 0, "{record:?}");
                let key = (
                    record.communicator,
                    record.operation,
                    record.sequence,
                    record.peer,
                );
                if record.flags & FLAG_CAPTURED == 0 {
                    assert_eq!(records.remove(&key), Some(parts), "{record:?}");
                }
            }
            assert!(records.is_empty(), "device records of no call: {records:?}");
        }
        let session = run.session();
        // Per step and rank there are seven collectives, two messages, and the graph's three operations.
        let operations = RANKS as i64 * (STEPS as i64 * (7 + 2 + 3) + 3);
        assert_eq!(integer(&session, "/totals/operations"), operations);
        assert_eq!(integer(&session, "/totals/enqueued"), 0);
        assert_eq!(integer(&session, "/totals/captured"), RANKS as i64 * 3);
        for rank in 0..RANKS {
            let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
            assert_eq!(of("operations"), operations / RANKS as i64);
            assert_eq!(of("replays"), (STEPS as i64 + 1) * 3);
            assert_eq!([of("bypassed"), of("hooks_only"), of("without_call")], [0; 3]);
            assert_eq!(of("contradictions"), 0);
            assert!(of("median_error_ns/value") < 500_000);
            let compared = compare(&run, &session, rank);
            assert_eq!(compared as i64, operations / RANKS as i64);
        }
        let matching = &session["matching"];
        // A message is one instance of two members' operations.
        let in_graph = 1 + RANKS as i64;
        let instances = STEPS as i64 * (7 + RANKS as i64 + in_graph) + in_graph;
        assert_eq!(integer(matching, "/complete"), instances, "{matching}");
        for name in [
            "incomplete",
            "mismatched",
            "unmatched_messages",
            "without_key",
            "enqueued",
            "causality_violations",
        ] {
            assert_eq!(integer(matching, &format!("/{name}")), 0, "{name} {matching}");
        }
        expect_words(&run);
        expect_in_perfetto(&run, &session);
    }
    drop(turn);
}

/// Checks algorithm and protocol, which the double chooses by size.
fn expect_words(run: &Run) {
    for row in run.rows(0) {
        let (algorithm, protocol) = match row.bytes {
            _ if matches!(
                row.operation,
                Operation::Send | Operation::Receive | Operation::AllToAll
            ) =>
            {
                (Algorithm::Unknown, Protocol::Unknown)
            }
            _ if row.state == OperationState::Captured => (Algorithm::Unknown, Protocol::Unknown),
            Some(bytes) if bytes > 65536 => (Algorithm::Ring, Protocol::Simple),
            _ => (Algorithm::Tree, Protocol::Ll),
        };
        assert_eq!((row.algorithm, row.protocol), (algorithm, protocol), "{row:?}");
    }
}

/// Returns the run as a Perfetto trace, if there is an engine to query it.
fn traced(run: &Run) -> Option<String> {
    let directory = run.directory.path().to_str().expect("a plain name");
    let trace = format!("{directory}/nccl.pftrace");
    let ended = results::rankscope(["export", "--perfetto", "-o", &trace, directory]);
    assert_eq!(ended.code(), 0, "{}", ended.complaints());
    engine(&["check", &trace]).map(|_| trace)
}

fn expect_in_perfetto(run: &Run, session: &Value) {
    let Some(trace) = traced(run) else { return };
    let counted = |query: &str| count(&trace, query).unwrap_or_default() as i64;
    let operations = integer(session, "/totals/operations") + integer(session, "/totals/captured");
    assert_eq!(
        counted("select count(*) from slice where category = 'nccl'"),
        operations
    );
    // Every call whose operation has device times has a separate slice. Replays have no call.
    let replays = (RANKS as u64 * (STEPS + 1) * 3) as i64;
    let called = integer(session, "/totals/operations") - replays;
    assert_eq!(
        counted("select count(*) from slice where category = 'call'"),
        called
    );
    let by_argument = |key: &str, value: &str| {
        counted(&format!(
            "select count(*) from slice join args using (arg_set_id) \
             where key = 'debug.{key}' and string_value = '{value}'"
        ))
    };
    assert_eq!(
        by_argument("algorithm", "RING"),
        (RANKS as u64 * STEPS * 2) as i64
    );
    let on_device = "select count(distinct track_id) from slice where category = 'nccl'";
    assert!(counted(on_device) >= RANKS as i64);
}

#[test]
fn the_call_is_found_if_the_library_does_not_name_it() {
    let turn = turn::take();
    // A communicator that does not block is initialised on threads of the library, and launches from them.
    let nonblocking = ("NCCL_PROFILED_NONBLOCKING", "1");
    for settings in [&[WITHOUT_ALL_TO_ALL][..], &[WITHOUT_ALL_TO_ALL, nonblocking]] {
        let Some(run) = run(&turn, 4, None, settings) else {
            return;
        };
        expect_calls_to_be_found(&run);
    }
    drop(turn);
}

fn expect_calls_to_be_found(run: &Run) {
    run.logs();
    let session = run.session();
    for rank in 0..RANKS {
        // NCCL sorted groups by size. All calls are joined, and replays with their captured calls.
        let replays = (STEPS + 1) * 3;
        let compared = compare(run, &session, rank);
        assert_eq!(compared as u64, STEPS * 9 + replays);
        let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
        assert_eq!(of("operations") as u64, STEPS * 9 + replays);
        assert_eq!(of("without_call"), 0);
        assert_eq!(of("replays") as u64, replays);
    }
    assert_eq!(integer(&session, "/totals/enqueued"), 0);
    assert_eq!(integer(&session, "/matching/incomplete"), 0);
    assert_eq!(session["communicators"].as_array().expect("a list").len(), 1);
}

#[test]
fn times_after_a_copy_to_itself_are_left_out() {
    let turn = turn::share();
    for version in [4, 5, 6] {
        let Some(run) = run(&turn, version, None, &[]) else {
            return;
        };
        let session = run.session();
        let operations = integer(&session, "/totals/operations");
        let enqueued = integer(&session, "/totals/enqueued");
        // Only operations before the all-to-all of the first step have times.
        assert!(operations - enqueued < operations / STEPS as i64, "{enqueued}");
        for rank in 0..RANKS {
            let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
            assert_eq!(of("contradictions"), 0);
        }
        let explained = results::problems_with(&session, "after a copy of a rank to itself");
        assert_eq!(explained, RANKS, "{}", session["problems"]);
    }
    drop(turn);
}

#[test]
fn kernel_times_are_requested_until_an_event_could_wait_forever() {
    type Setting = (&'static str, &'static str);
    const WITHOUT_GRAPH: Setting = ("NCCL_PROFILED_WITHOUT_GRAPH", "1");
    const BROADCAST: Setting = ("NCCL_PROFILED_BROADCAST", "1");
    const AFTER_COPY: Setting = ("NCCL_PROFILED_BROADCAST", "copied");
    let turn = turn::share();
    // Version of NCCL, what the program does, and the reason for which the request ends.
    let cases: [(&str, &[Setting], Option<&str>); 6] = [
        ("22809", &[BROADCAST], None),
        ("22900", &[], Some("the capture of a call into a graph")),
        (
            "22900",
            &[WITHOUT_GRAPH, BROADCAST],
            Some("a broadcast in a group"),
        ),
        (
            "22900",
            &[WITHOUT_GRAPH, AFTER_COPY],
            Some("a broadcast after a copy to itself"),
        ),
        ("23100", &[WITHOUT_GRAPH, BROADCAST], Some("a broadcast")),
        ("23100", &[WITHOUT_GRAPH], Some("a broadcast in a group")),
    ];
    for (version, settings, reason) in cases {
        let mut settings = settings.to_vec();
        settings.extend([WITHOUT_ALL_TO_ALL, ("NCCL_DOUBLE_VERSION", version)]);
        let Some(run) = run(&turn, 6, None, &settings) else {
            return;
        };
        for log in run.logs() {
            let ended = log.log.properties.get("source.nccl_kernel_times_ended");
            assert_eq!(ended.map(String::as_str), reason, "{version} {settings:?}");
            let device: Vec<&Record> = log.of_kind(RecordKind::Device).collect();
            let timed = device.iter().filter(|record| record.object != 0).count();
            // The first group of the first step ends the request after one all-reduce.
            let most_timed = match reason {
                None => device.len(),
                Some("a broadcast in a group") => 4,
                // The messages to itself precede it.
                Some("a broadcast after a copy to itself") => 2,
                Some(_) => 0,
            };
            assert!(timed <= most_timed, "{version} {settings:?}: {timed}");
            assert_eq!(
                timed == device.len(),
                reason.is_none(),
                "{version} {settings:?}: {timed}"
            );
            assert!(device.len() as u64 >= STEPS * 9, "{}", device.len());
        }
    }
    drop(turn);
}

#[test]
fn the_first_versions_report_the_algorithm_and_no_times() {
    let turn = turn::share();
    for version in [1, 2, 3] {
        let Some(run) = run(&turn, version, None, &[]) else {
            return;
        };
        for log in run.logs() {
            let device: Vec<_> = log.of_kind(RecordKind::Device).collect();
            assert!(device.iter().all(|record| record.object == 0));
            let known = device
                .iter()
                .filter(|record| record.flags & FLAG_SEQUENCE_UNKNOWN == 0)
                .count() as u64;
            // Nine operations per step have one call each, and three are replays.
            assert_eq!(known, STEPS * 9 + (STEPS + 1) * 3, "version {version}");
        }
        let session = run.session();
        assert_eq!(
            integer(&session, "/totals/enqueued"),
            integer(&session, "/totals/operations")
        );
        let rows = run.rows(1);
        let rings = rows.iter().filter(|row| row.algorithm == Algorithm::Ring).count() as u64;
        assert_eq!(rings, STEPS * 2, "version {version}");
        assert!(
            rows.iter()
                .all(|row| row.called_ns.is_none() && row.leave_ns.is_none())
        );
    }
    drop(turn);
}

#[test]
fn a_late_rank_is_named_from_device_times() {
    let turn = turn::take();
    let late = Late { rank: 2, us: 3000 };
    let settings = [WITHOUT_ALL_TO_ALL];
    let with = run(&turn, 5, Some(late), &settings);
    let (Some(with), Some(without)) = (with, run(&turn, 5, None, &settings)) else {
        return;
    };
    assert_eq!(results::late_ranks(&with.session()), [2]);
    let without = without.session();
    assert!(!results::late_ranks(&without).contains(&2));
    // There, too, all operations have times.
    assert_eq!(integer(&without, "/totals/enqueued"), 0);
    assert!(integer(&without, "/matching/complete") > 0);
    drop(turn);
}

#[test]
fn traffic_between_ranks_is_measured_on_request() {
    let turn = turn::take();
    let Some(run) = run(&turn, 5, None, &[("RANKSCOPE_NCCL_TRAFFIC", "1")]) else {
        return;
    };
    run.logs();
    let session = run.session();
    let entries = session["traffic"].as_array().expect("a list");
    // The double moves all bytes of a collective to the next rank and as many from the previous one. Messages go to
    // their peer.
    let mut moved: BTreeMap<(i64, i64), (u64, u64)> = BTreeMap::new();
    for rank in 0..RANKS {
        let (next, before) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        let mut add = |peer: usize, sent: u64, received: u64| {
            let entry = moved.entry((rank as i64, peer as i64)).or_default();
            (entry.0, entry.1) = (entry.0 + sent, entry.1 + received);
        };
        for done in run.done(rank) {
            match done.function.as_str() {
                "Send" | "Recv" if done.bytes == 160 => {}
                "Send" => add(next, done.bytes, 0),
                "Recv" => add(before, 0, done.bytes),
                _ => {
                    add(next, done.bytes, 0);
                    add(before, 0, done.bytes);
                }
            }
        }
        for peer in (0..RANKS).filter(|&peer| peer != rank) {
            add(peer, 160 * STEPS, 160 * STEPS);
        }
    }
    for entry in entries {
        let of = |name: &str| entry[name].as_i64().unwrap_or_else(|| panic!("{name}: {entry}"));
        let (sent, received) = moved.remove(&(of("rank"), of("peer_rank"))).expect("a pair");
        assert_eq!(
            (of("sent_bytes") as u64, of("received_bytes") as u64),
            (sent, received),
            "{entry}"
        );
        assert!(of("network_wait_ns") > 0, "{entry}");
    }
    assert!(moved.is_empty(), "{moved:?}");
    drop(turn);
}

#[test]
fn a_plugin_that_the_user_chose_is_kept() {
    let turn = turn::share();
    for chosen in ["none", "/nowhere/libnccl-profiler-other.so"] {
        let Some(run) = run(&turn, 5, None, &[("NCCL_PROFILER_PLUGIN", chosen)]) else {
            return;
        };
        for log in run.logs() {
            assert_eq!(log.log.properties.get("source.nccl_plugin"), None);
            assert_eq!(log.of_kind(RecordKind::Device).count(), 0);
            assert_eq!(log.of_kind(RecordKind::Enqueue).count() as u64, 3 + STEPS * 10);
        }
    }
    let Some(run) = run(&turn, 5, None, &[("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN")]) else {
        return;
    };
    for log in run.logs() {
        assert_eq!(
            log.log.properties.get("source.nccl_plugin").map(String::as_str),
            Some("5"),
            "found by what is loaded"
        );
    }
    drop(turn);
}

/// Runs ranks of the ctypes program, with the library preloaded or loaded only by NCCL.
fn by_ctypes(turn: &Turn, version: u32, is_preloaded: bool) -> Option<(TempDir, Vec<Recorded>)> {
    let library = compile::nccl_double()?.join("libnccl.so.2");
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        skip("no python3");
        return None;
    }
    let directory = tempfile::tempdir().expect("a temporary directory");
    let scratch = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
    let commands: Vec<Command> = (0..2)
        .map(|rank: usize| {
            let mut command = Command::new(python);
            if is_preloaded {
                process::preload(&mut command, Some(directory.path()));
            } else {
                process::clean(&mut command);
                command.env("RANKSCOPE_DIR", directory.path());
                command.env("NCCL_PROFILER_PLUGIN", artefacts::library());
            }
            command
                .env("RANKSCOPE_LIVE_DIR", scratch.path())
                .env("NCCL_DOUBLE_PROFILER", version.to_string())
                .env("NCCL_DOUBLE_MEET", scratch.path())
                .arg(compile::programs().join("nccl_ctypes.py"))
                .args([rank.to_string(), "2".to_owned()])
                .arg(scratch.path())
                .arg(&library)
                .arg("30");
            command
        })
        .collect();
    let _ = turn;
    let ranks: Vec<_> = commands
        .into_iter()
        .map(|command| std::thread::spawn(|| process::run(command, Duration::from_secs(60))))
        .collect();
    for rank in ranks {
        let ended = rank.join().expect("a rank");
        assert_eq!(ended.code(), 0, "{}{}", ended.text(), ended.complaints());
    }
    let logs = recorded::read_all(directory.path());
    Some((directory, logs))
}

#[test]
fn callers_that_bypass_a_preload_are_seen_by_the_plugin() {
    let turn = turn::share();
    for (version, is_preloaded) in [(5, true), (5, false), (4, true), (6, false)] {
        let what = format!("version {version}, preloaded: {is_preloaded}");
        let Some((directory, logs)) = by_ctypes(&turn, version, is_preloaded) else {
            return;
        };
        assert_eq!(logs.len(), 2, "{what}");
        let mut identities = BTreeSet::new();
        for log in &logs {
            log.expect_whole();
            let calls: Vec<_> = log.of_kind(RecordKind::Enqueue).collect();
            assert_eq!(calls.len(), 90, "{what}");
            assert!(
                calls
                    .iter()
                    .all(|record| Enqueued::from_aux(record.aux).is_bypass)
            );
            let mut sizes: Vec<u64> = calls
                .iter()
                .filter(|record| record.operation == Operation::AllReduce as u8)
                .map(|record| record.bytes)
                .collect();
            sizes.sort_unstable();
            assert_eq!(sizes, (0..30).map(|call| 4 * (100 + call)).collect::<Vec<u64>>());
            let ended = log.log.properties.get("source.nccl_kernel_times_ended");
            let reason = (version >= 6).then_some("a call that bypassed the hooks");
            assert_eq!(ended.map(String::as_str), reason, "{what}");
            identities.extend(log.log.communicators.values().map(|known| known.identity));
        }
        assert_eq!(identities.len(), 1, "both ranks name it alike; {what}");
        let session = results::session(directory.path());
        assert_eq!(integer(&session, "/totals/operations"), 180, "{what}");
        // Version 6 belongs to releases whose events could wait forever. The first calls may still have times.
        let enqueued = integer(&session, "/totals/enqueued");
        if version >= 6 {
            assert!(enqueued > 170, "{what}: {enqueued}");
        } else {
            assert_eq!(enqueued, 0, "{what}");
        }
        // Thirty all-reduces, and thirty messages in each direction.
        let matched = ["complete", "enqueued"].map(|state| integer(&session, &format!("/matching/{state}")));
        assert_eq!(matched.iter().sum::<i64>(), 90, "{what}: {matched:?}");
        assert!(version >= 6 || matched[0] == 90, "{what}: {matched:?}");
        assert_eq!(integer(&session, "/devices/0/bypassed"), 90, "{what}");
    }
    drop(turn);
}

#[test]
fn events_give_times_if_the_library_reports_none() {
    let turn = turn::take();
    let settings = [
        ("RANKSCOPE_NCCL_EVENTS", "100000"),
        ("NCCL_PROFILED_WATCHDOG", "1"),
    ];
    let Some(run) = run(&turn, 0, None, &settings) else {
        return;
    };
    for log in run.logs() {
        let source = log.log.properties.get("source.nccl_events");
        assert_eq!(source.map(String::as_str), Some("1"));
        // A launch has one record, whatever its content. Captured calls are not timed.
        let reported = log
            .of_kind(RecordKind::Device)
            .filter(|record| record.flags & FLAG_EVENTS != 0);
        assert_eq!(reported.count() as u64, STEPS * 6);
        let readings = log
            .of_kind(RecordKind::Device)
            .filter(|record| record.flags & FLAG_CLOCK != 0);
        assert!(readings.count() > 2);
    }
    let session = run.session();
    assert_eq!(integer(&session, "/totals/enqueued"), 0);
    for rank in 0..RANKS {
        let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
        assert_eq!(session["devices"][rank]["source"], "events around launches");
        assert_eq!(of("operations") as u64, STEPS * 10);
        assert_eq!(of("timed_by_events") as u64, STEPS * 10);
        assert_eq!(
            [of("hooks_only"), of("without_call"), of("contradictions")],
            [0; 3]
        );
        assert!(of("median_error_ns/value") < 500_000);
        compare_launches(&run, &session, rank);
    }
    if let Some(trace) = traced(&run) {
        let counted = |query: &str| count(&trace, query).unwrap_or_default() as u64;
        let all = RANKS as u64 * (STEPS * 10 + 3 + STEPS / 10 * 3);
        assert_eq!(counted("select count(*) from slice where category = 'nccl'"), all);
        // Four collectives, and two messages, are one launch each.
        for (operations, launched) in [(4, 4), (2, 2)] {
            let query = format!(
                "select count(*) from slice join args using (arg_set_id) \
                 where key = 'debug.launch_operations' and int_value = {operations}"
            );
            let captured = if operations == 2 { 2 * (1 + STEPS / 10) } else { 0 };
            assert_eq!(counted(&query), RANKS as u64 * (STEPS * launched + captured));
        }
    }
    drop(turn);
}

/// Compares the times of one rank's operations with those of their launches. Graph replays are not recorded.
fn compare_launches(run: &Run, session: &Value, rank: usize) {
    let error = integer(session, &format!("/devices/{rank}/widest_error_ns/value"));
    let done = run.done(rank);
    let mut launches: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
    let mut calls: BTreeMap<(&str, i64), u64> = BTreeMap::new();
    for one in &done {
        let launch = launches.entry(one.launch).or_insert((i64::MAX, i64::MIN));
        *launch = (launch.0.min(one.start_ns), launch.1.max(one.stop_ns));
        *calls.entry((&one.function, one.called_ns)).or_default() += 1;
    }
    // Captured operations were called once and ran often.
    let called: Vec<Done> = done
        .iter()
        .filter(|one| calls[&(one.function.as_str(), one.called_ns)] == 1)
        .cloned()
        .collect();
    let rows = run.rows(rank);
    let mut pairs: Vec<(&OperationRow, &Done)> = Vec::new();
    let truth = operations(&called);
    for ((operation, bytes), done) in &truth {
        let of_kind: Vec<&OperationRow> = rows
            .iter()
            .filter(|row| row.operation == *operation && row.bytes == Some(*bytes))
            .filter(|row| row.state == OperationState::Completed)
            .collect();
        assert_eq!(of_kind.len(), done.len(), "{operation:?} of {bytes} bytes");
        pairs.extend(of_kind.into_iter().zip(done));
    }
    assert_eq!(pairs.len() as u64, STEPS * 10);
    let apart = pairs
        .iter()
        .filter_map(|(row, done)| Some(done.called_ns - row.called_ns?))
        .min()
        .expect("calls");
    for (row, done) in &pairs {
        let (start, stop) = launches[&done.launch];
        let (enter, leave) = (row.enter_ns + apart, row.leave_ns.expect("done") + apart);
        let what =
            format!("{enter} to {leave} for {start} to {stop}, at most {error} late: {row:?} {done:?}");
        assert!(
            (-STAMPS_NS..error + STAMPS_NS).contains(&(leave - stop)),
            "{what}"
        );
        // The first event completes before the host launches, but not before the call.
        assert!(enter < start + error + STAMPS_NS, "{what}");
        assert!(
            row.enter_ns > row.called_ns.expect("a call") - STAMPS_NS,
            "{what}"
        );
    }
}

#[test]
fn no_call_waits_for_a_device_with_slow_readings() {
    let turn = turn::take();
    // Readings are delayed by 20 ms of other work. Launches before the first reading are not timed, and the error is
    // equally wide.
    let settings = [
        ("RANKSCOPE_NCCL_EVENTS", "100000"),
        ("NCCL_DOUBLE_SLOW_US", "20000"),
    ];
    let Some(run) = run(&turn, 0, None, &settings) else {
        return;
    };
    run.logs();
    let session = run.session();
    for rank in 0..RANKS {
        let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}"));
        let timed = of("timed_by_events") as u64;
        assert!(timed > STEPS * 5 && timed < STEPS * 10, "{timed}");
        assert_eq!(of("contradictions"), 0);
        assert!(of("widest_error_ns/value") < 30_000_000);
    }
    drop(turn);
}

#[test]
fn every_device_of_one_process_is_timed_by_its_own_events() {
    let turn = turn::take();
    let Some(program) = compile::nccl("nccl_devices.cc") else {
        return;
    };
    // The null streams of several devices are one handle: within one group they cannot be distinguished.
    for (streams, timed) in [(Some("streams"), 120), (Some("first"), 10), (None, 0)] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut job = Job::program(&program, 1)
            .env("NCCL_DOUBLE_PROFILER", "0")
            .env("RANKSCOPE_NCCL_EVENTS", "100000");
        if let Some(streams) = streams {
            job = job.arg(streams);
        }
        let finished = job.record_into(directory.path()).run(&turn);
        finished.expect_status(0);
        let session = results::session(directory.path());
        let called = match streams {
            Some("streams") => 120,
            Some(_) => 10,
            None => 40,
        };
        assert_eq!(integer(&session, "/totals/operations"), called);
        // Properties of the whole process are reported once.
        let of = |name: &str| integer(&session, &format!("/devices/0/{name}"));
        assert_eq!(of("timed_by_events"), timed, "{streams:?}");
        assert_eq!([of("without_call"), of("contradictions")], [0; 2], "{streams:?}");
    }
    drop(turn);
}

#[test]
fn a_driver_that_fails_is_not_queried_again() {
    let turn = turn::share();
    // The program's own check counts further queries.
    let settings = [("RANKSCOPE_NCCL_EVENTS", "100000"), ("NCCL_DOUBLE_FAILS", "200")];
    let Some(run) = run(&turn, 0, None, &settings) else {
        return;
    };
    run.logs();
    let session = run.session();
    // Earlier readings are kept, and later operations are known as enqueued only.
    let enqueued = integer(&session, "/totals/enqueued") as u64;
    let all = RANKS as u64 * STEPS * 10;
    assert!(enqueued > all / 2 && enqueued < all, "{enqueued}");
    drop(turn);
}

#[test]
fn only_some_of_very_many_launches_are_timed() {
    let turn = turn::take();
    // One event a second: a mark of the device's progress.
    let settings = [("RANKSCOPE_NCCL_EVENTS", "1"), ("NCCL_DOUBLE_KERNEL_US", "6000")];
    let Some(run) = run(&turn, 0, None, &settings) else {
        return;
    };
    run.logs();
    let session = run.session();
    let operations = integer(&session, "/totals/operations");
    let enqueued = integer(&session, "/totals/enqueued");
    // The first second is recorded completely, because the rate of launches is not yet known.
    assert!(
        enqueued > operations / 4 && enqueued < operations,
        "{enqueued} of {operations}"
    );
    assert_eq!(
        integer(&session, "/matching/complete") + integer(&session, "/matching/enqueued"),
        integer(&session, "/totals/instances")
    );
    drop(turn);
}

#[test]
fn a_device_that_its_library_reports_is_not_timed_twice() {
    let turn = turn::take();
    // No event is put on a stream that is being captured, so without the plugin's times replays have none.
    let replays = RANKS as u64 * (STEPS + 1) * 3;
    let settings = [WITHOUT_ALL_TO_ALL, ("RANKSCOPE_NCCL_EVENTS", "100000")];
    for (version, by_events, without_times) in [(3, STEPS * 9, replays), (5, 0, 0)] {
        let Some(run) = run(&turn, version, None, &settings) else {
            return;
        };
        run.logs();
        let session = run.session();
        for rank in 0..RANKS {
            let of = |name: &str| integer(&session, &format!("/devices/{rank}/{name}")) as u64;
            assert_eq!(of("timed_by_events"), by_events, "version {version}");
        }
        let enqueued = integer(&session, "/totals/enqueued") as u64;
        assert_eq!(enqueued, without_times, "version {version}");
        // Each source reports its part: the plugin algorithm and protocol, the events the times.
        let rows = run.rows(0);
        let rings = rows
            .iter()
            .filter(|row| row.algorithm == Algorithm::Ring && row.leave_ns.is_some());
        assert_eq!(rings.count() as u64, STEPS * 2, "version {version}");
    }
    drop(turn);
}

#[test]
fn without_a_run_directory_the_plugin_requests_nothing() {
    let turn = turn::share();
    let Some(program) = compile::nccl("nccl_profiled.cc") else {
        return;
    };
    let truth = tempfile::tempdir().expect("a temporary directory");
    let finished = Job::program(&program, 2)
        .arg("5")
        .env("NCCL_DOUBLE_PROFILER", "6")
        .env("NCCL_PROFILER_PLUGIN", artefacts::library())
        .env("NCCL_DOUBLE_TRUTH", truth.path())
        .preload_idle()
        .run(&turn);
    finished.expect_status(0);
    let reported: Vec<PathBuf> = truth
        .path()
        .read_dir()
        .expect("a directory")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert_eq!(reported.len(), 2, "the device worked as it would without us");
    drop(turn);
}

#[test]
fn callbacks_make_no_allocation_take_no_lock_and_make_no_system_call() {
    let turn = turn::take();
    let arguments = ["-fno-builtin", "-rdynamic", "-ldl"];
    let Some(program) = compile::cc("nccl_plugin_hot.cc", &arguments) else {
        return;
    };
    for version in 1..=6 {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let live = tempfile::tempdir_in(process::memory()).expect("a temporary directory");
        let mut command = Command::new(&program);
        process::preload(&mut command, Some(directory.path()));
        command
            .env("RANKSCOPE_LIVE_DIR", live.path())
            .args(["hot", &version.to_string(), "200000"]);
        let ended = process::run(command, Duration::from_secs(60));
        if ended.code() == 87 {
            skip("no seccomp filter on this machine");
            return;
        }
        assert_eq!(ended.code(), 0, "version {version}: {}", ended.complaints());
        // Versions that report no communicator size give no key. Calls of all others are recorded from both sides, or
        // counted as lost. The process ends as if killed: the log's last frame may be cut, and is then in the live
        // area.
        let files = recorded::files(directory.path());
        let [file] = &files[..] else {
            panic!("{} logs", files.len())
        };
        let log = recorded::read(file);
        let others = |problem: &&String| !problem.contains("the last frame is cut short");
        assert_eq!(log.problems.iter().find(others), None, "version {version}");
        let reported = |kind| log.of_kind(kind).count() as u64 + log.lost(kind);
        assert_eq!(reported(RecordKind::Enqueue), 200_000, "version {version}");
        assert_eq!(reported(RecordKind::Device), 200_000, "version {version}");
    }
    drop(turn);
}
